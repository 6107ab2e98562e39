from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from quantattn.errors import StudyError, UsageError
from quantattn.study import Study, find_study, load_study, parse_study

Write = Callable[[str], Path]

GOOD = """\
name: mine
data:
  prices: {source: prices.csv, session: date}
"""


def _with(text: str) -> str:
    return GOOD + text


def _data(text: str) -> str:
    return f"name: mine\ndata:\n  prices: {{source: prices.csv, session: date}}\n  {text}\n"


def _prices(text: str) -> str:
    return f"name: mine\ndata: {{prices: {text}}}\n"


def test_a_small_file_is_enough(write: Write) -> None:
    study = load_study(write(GOOD))
    assert study.name == "mine"
    assert study.target.name == "realised_variance"
    assert study.target.log is True
    assert study.data.prices.entity == "entity"


def test_relative_paths_start_at_the_study_file(
    write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write(_data("events: [{path: ./events.csv, event_time: published_at}]"))
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    study = load_study(path)
    assert study.data.prices.source == str(folder / "prices.csv")
    assert study.data.events[0].path == str(folder / "events.csv")


def test_an_absolute_path_stays(write: Write, folder: Path) -> None:
    study = load_study(write(_prices(f"{{source: {folder}/prices.csv, session: date}}")))
    assert study.data.prices.source == str(folder / "prices.csv")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # unknown names, each with the nearest one that exists
        (
            _with("traning: {epochs: 3}\n"),
            "traning: there is no such key at the top level (did you mean 'training'?)",
        ),
        (
            _with("training: {epoch: 3}\n"),
            "training.epoch: there is no such key in training (did you mean 'epochs'?)",
        ),
        (
            _data("market_events: {kk: 3}"),
            "data.market_events.kk: there is no such key in data.market_events",
        ),
        (
            _data("events: [{path: events.csv, event_time: published_at, tex: headline}]"),
            "data.events[0].tex: there is no such key in data.events[0] (did you mean 'text'?)",
        ),
        (_with("3: x\n"), "3: there is no such key at the top level"),
        (
            _with("models: [linear, softmaxx]\n"),
            "models[1]: 'softmaxx' is unknown (did you mean 'softmax'?); known: ",
        ),
        (_with("models: [Linear]\n"), "models[0]: 'Linear' is unknown (did you mean 'linear'?)"),
        (
            _with("target: {name: realized_variance}\n"),
            "target.name: 'realized_variance' is unknown (did you mean 'realised_variance'?)",
        ),
        (_with("clock: {every: weekly}\n"), "clock.every: 'weekly' is unknown (did you mean 'week'?)"),
        (
            _with("network: {feature_map: elu}\n"),
            "network.feature_map: 'elu' is unknown (did you mean 'elu1'?)",
        ),
        (_prices("packaged:us_equity"), "data.prices.source: no packaged data is called 'us_equity'"),
        (_data("index: packaged:us_equities"), "data.index.source: no packaged data is called 'us_equities'"),
        (
            _data("calendar: XNYSS"),
            "data.calendar: no trading calendar is called 'XNYSS' (did you mean 'XNYS'?)",
        ),
        (
            _with("clock: {at: '15:45', time_zone: Europe/Londn}\n"),
            "clock.time_zone: 'Europe/Londn' is not a time zone (did you mean 'Europe/London'?)",
        ),
        # missing sections and keys
        ("name: mine\n", "data: is missing"),
        ("name: mine\ndata: {}\n", "data.prices: is missing"),
        ("data: {prices: packaged:us_equities}\n", "name: is missing"),
        (_data("events: [{path: events.csv}]"), "data.events[0].event_time: is missing"),
        # values of the wrong type
        (_with("training: {epochs: many}\n"), "training.epochs: 'many' came where a whole number is needed"),
        (_with("training: {epochs: '3'}\n"), "training.epochs: '3' came where a whole number is needed"),
        (_with("training: {epochs: 2.5}\n"), "training.epochs: 2.5 came where a whole number is needed"),
        (_with("training: {epochs: true}\n"), "training.epochs: True came where a whole number is needed"),
        (_with("training: {epochs: null}\n"), "training.epochs: None came where a whole number is needed"),
        (
            _with("training: {learning_rate: fast}\n"),
            "training.learning_rate: 'fast' came where a number is needed",
        ),
        (
            _with("training: {learning_rate: .nan}\n"),
            "training.learning_rate: '.nan' came where a number is needed",
        ),
        (_with("training: 3\n"), "training: 3 came where a section with keys of its own is needed"),
        (_with("models: linear\n"), "models: 'linear' came where a list, for example [a, b] is needed"),
        (_with("seeds: 3\n"), "seeds: 3 came where a list"),
        (
            _with("walk_forward: {expand_train: yes}\n"),
            "walk_forward.expand_train: 'yes' came where true or false",
        ),
        (_prices("[prices.csv]"), "data.prices: ['prices.csv'] came where a section"),
        (_data("market_events: maybe"), "data.market_events: 'maybe' came where a section"),
        (_data("start: yesterday"), "data.start: 'yesterday' is not a date; write YYYY-MM-DD"),
        (_data("start: 2000"), "data.start: 2000 is not a date"),
        (
            _data("entities: [AAA, true]"),
            "data.entities[1]: True is not the name of an entity; put it in quotes",
        ),
        (_data("entities: ['AAA ']"), "data.entities[0]: 'AAA ' is empty or has space at its ends"),
        # values out of range
        (_with("training: {epochs: 0}\n"), "training.epochs: 0 came where 1 or more is needed"),
        (_with("training: {learning_rate: 0}\n"), "training.learning_rate: 0 came where more than 0"),
        (_with("evaluation: {alpha: 1.0}\n"), "evaluation.alpha: 1.0 came where less than 1"),
        (_with("target: {horizon: 2521}\n"), "target.horizon: 2521 came where 2520 or less"),
        (_with("target: {horizon: 3000000000}\n"), "target.horizon: 3000000000 came where 2520 or less"),
        (_with(f"target: {{horizon: {10**24}}}\n"), "target.horizon: 1000000000000000000000000 came where"),
        (_with("target: {horizon: 1e23}\n"), "target.horizon: 1e+23 came where a whole number"),
        (_with("target: {horizon: 1.0e+23}\n"), "target.horizon: 1e+23 came where"),
        (_with("encoder: {text_width: 4097}\n"), "encoder.text_width: 4097 came where 4096 or less"),
        (_with("network: {width: 4100}\n"), "network.width: 4100 came where 4096 or less"),
        (_with("network: {heads: 4097}\n"), "network.heads: 4097 came where 4096 or less"),
        (_with("network: {layers: 65}\n"), "network.layers: 65 came where 64 or less"),
        (_with("network: {feed_forward: 16385}\n"), "network.feed_forward: 16385 came where 16384 or less"),
        (_with("training: {epochs: 100001}\n"), "training.epochs: 100001 came where 100000 or less"),
        (_with("training: {batch_entities: 3000000000}\n"), "training.batch_entities: 3000000000 came where"),
        (_with("training: {patience: 3000000000}\n"), "training.patience: 3000000000 came where"),
        (_with("audit: {truncation_instants: 3000000000}\n"), "audit.truncation_instants: 3000000000 came"),
        (
            _with("latency: {histories: [10000001]}\n"),
            "latency.histories[0]: 10000001 came where 10000000 or",
        ),
        (_with("latency: {repeats: 100001}\n"), "latency.repeats: 100001 came where 100000 or less"),
        (_with("quick_run: {epochs: 3000000000}\n"), "quick_run.epochs: 3000000000 came where"),
        (_with("walk_forward: {train_size: 10000001}\n"), "train_size: more than 10000000 forecast times"),
        (_with("walk_forward: {purged_size: 3000000000}\n"), "purged_size: 3000000000 is neither"),
        (_with(f"seeds: {list(range(1001))}\n"), "came where a list of at most 1000"),
        (_data("max_entities: 3000000000"), "data.max_entities: 3000000000 came where 10000000 or less"),
        (
            _data("market_events: {regime_window: 25201}"),
            "data.market_events.regime_window: 25201 came where 25200 or less",
        ),
        # texts that no file can hold
        (_with('description: "a\\ud800"\n'), "description: 'a\\ud800' has a lone surrogate"),
        (_data('entities: ["\\udc80"]'), "data.entities[0]: '\\udc80' has a lone surrogate"),
        (_prices('{source: prices.csv, close: "\\udfff"}'), "data.prices.close: '\\udfff' has a lone"),
        (
            'name: "\\ud800"\ndata: {prices: packaged:us_equities}\n',
            "name: '\\ud800' cannot name a run folder",
        ),
        (_with("evaluation: {confidence: 95}\n"), "evaluation.confidence: 95 came where less than 1"),
        (_with("seeds: [-1]\n"), "seeds[0]: -1 came where 0 or more"),
        (_with("seeds: [2147483648]\n"), "seeds[0]: 2147483648 came where 2147483647 or less"),
        (_with("seeds: []\n"), "seeds: [] came where a list of at least 1"),
        (_with("seeds: [1, 1]\n"), "seeds: 1 stands there more than once"),
        (_with("models: [mean, linear, mean]\n"), "models: mean stands there more than once"),
        (_with("latency: {histories: [100, 100]}\n"), "latency.histories: [100, 100] does not ascend"),
        (
            _data("market_events: {regime_quantiles: [0.8, 0.2]}"),
            "regime_quantiles: [0.8, 0.2] does not ascend",
        ),
        (_with("walk_forward: {train_size: 0}\n"), "walk_forward.train_size: 0 is less than 1"),
        (_with("walk_forward: {train_size: 0D}\n"), "walk_forward.train_size: '0D' is not a size above zero"),
        (_with("walk_forward: {test_size: 1.5}\n"), "walk_forward.test_size: 1.5 is not a size above zero"),
        (_with("walk_forward: {test_size: '52'}\n"), "walk_forward.test_size: '52' is not a size above zero"),
        (
            _with("walk_forward: {purged_size: rows}\n"),
            "walk_forward.purged_size: 'rows' is neither 'label' nor",
        ),
        (_with("walk_forward: {embargo_size: -1D}\n"), "walk_forward.embargo_size: '-1D' is negative"),
        (_with("clock: {offset: '15'}\n"), "clock.offset: '15' is not a duration (it has no unit)"),
        (_with("clock: {offset: soon}\n"), "clock.offset: 'soon' is not a duration"),
        (_with("clock: {at: 25:00}\n"), "clock.at: '25:00' is not a time of day"),
        (_with("clock: {at: 9:30}\n"), "clock.at: '9:30' is not a time of day"),
        (_data("latency: -1s"), "data.latency: '-1s' is negative"),
        (_data("latency: 5"), "data.latency: 5 came where a text"),
        (_data("max_entities: 0"), "data.max_entities: 0 came where 1 or more"),
        ("name: ../up\ndata: {prices: packaged:us_equities}\n", "name: '../up' cannot name a run folder"),
        ("name: ''\ndata: {prices: packaged:us_equities}\n", "name: '' cannot name a run folder"),
        # values that contradict each other
        (
            _with("walk_forward: {train_size: 52, val_size: 52}\n"),
            "walk_forward: val_size 52 leaves nothing of",
        ),
        (
            _with("quick_run: {train_size: 20}\n"),
            "study: quick_run: val_size 52 leaves nothing of train_size 20",
        ),
        (_with("network: {width: 30}\n"), "network: width 30 is not a multiple of heads 4"),
        (_with("network: {half_lives: [7D]}\n"), "network: half_lives has 1 entries for 4 heads"),
        (
            _with("network: {half_lives: [7D, 0D, 1D, null]}\n"),
            "network.half_lives[1]: '0D' is not longer than zero",
        ),
        (_with("target: {name: log_return, log: true}\n"), "target: log has no meaning for log_return"),
        (_with("target: {dead_band: 0.1}\n"), "target: dead_band has no meaning for realised_variance"),
        (_with("clock: {time_zone: UTC}\n"), "clock: time_zone has no meaning with at: close"),
        (_data("market_events: false"), "data: there are no events"),
        (
            _data("market_events: false\n  events: [{path: events.csv, event_time: published_at}]"),
            "study: models ['ewma', 'har'] read the volatility of the bar events",
        ),
        (
            _data("scope: market"),
            "study: models ['ewma', 'har'] read the bars of each instrument, which data.scope: market leaves",
        ),
        (
            _data(
                "market_events: false\n  index: packaged:sp500_index\n"
                "  events: [{path: events.csv, event_time: published_at}]"
            ),
            "data: index serves market events alone",
        ),
        (
            _data("start: 2001-01-01\n  end: 2001-01-01"),
            "data: start 2001-01-01 is not before end 2001-01-01",
        ),
        (
            _data("end: 2001-01-01\nquick_run: {start: 2002-01-01}"),
            "study: quick_run.start 2002-01-01 is not before",
        ),
        (_prices("{source: prices.csv, session: date, entity: null}"), "data.prices: give entity"),
        (_prices("{source: prices.csv, entity: entity, name: AAA}"), "both are given"),
        (
            _prices("{source: prices.csv, close: null, entity: entity}"),
            "data.prices: entity belongs to a long file; with close: null the file is wide, so make it null",
        ),
        (_prices("{source: prices.csv, close: null, name: AAA, low: l}"), "name, low belong to a long file"),
        (
            _prices("{source: prices.csv, separator: ';;'}"),
            "data.prices.separator: ';;' is not one ASCII character",
        ),
        (_data("index: {source: index.csv, close: null}"), "data.index.close: None came where a text"),
        # data files
        (_prices("price.csv"), "does not exist; relative paths start at the study file's folder"),
        (_prices("."), "data.prices.source: '.' is no data file; convert it to one of .csv"),
        (_prices("prices.xlsx"), "data.prices.source: 'prices.xlsx' is no data file; convert it to one of"),
        (_data("events: [{path: none.csv, event_time: t}]"), "data.events[0].path: "),
        (
            _prices("{source: prices.csv, close: Close}"),
            "prices.csv has no column 'Close' (did you mean 'close'?); it has date, entity, close",
        ),
        (
            _prices("{source: index.csv, session: date}"),
            "data.prices.entity: index.csv has no column 'entity'",
        ),
        (_prices("events.csv"), "data.prices.session: events.csv has no column 'date'"),
        (
            _data("events: [{path: events.csv, event_time: published_at, features: [score, sore]}]"),
            "data.events[0].features[1]: events.csv has no column 'sore' (did you mean 'score'?)",
        ),
    ],
)
def test_a_faulty_study_is_refused_in_one_line(write: Write, text: str, wanted: str) -> None:
    path = write(text)
    with pytest.raises(StudyError) as caught:
        load_study(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert wanted in message
    assert "\n" not in message
    assert len(message) < 600


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"", "is empty"),
        (b"# only a comment\n", "is empty"),
        (b"- a\n- b\n", "holds a list instead of named sections"),
        (b"just words\n", "holds a str instead of named sections"),
        (b"name: \xff\xfe\n", "byte 6 is not UTF-8"),
        (b"PAR1\x15\x04\x15\x10", "U+0015 is not allowed"),
        (b"name: [1\n", "line 2, column 1"),
        (b"name: a\nname: b\n", "line 2, column 1"),
        (b"a: &a [*a]\n", "there is no such key"),
        (b"name: m\ndata: &a {prices: packaged:us_equities, events: [*a]}\n", "data.events[0]"),
        (b"name: a\r\ndata: b\r\n", "data: 'b' came where a section"),
    ],
)
def test_what_is_not_a_study_file_is_refused(folder: Path, content: bytes, wanted: str) -> None:
    path = folder / "odd.yaml"
    path.write_bytes(content)
    with pytest.raises(StudyError) as caught:
        load_study(path)
    assert wanted in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_byte_order_mark_does_no_harm(folder: Path) -> None:
    path = folder / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert load_study(path).name == "mine"


def test_several_faults_get_a_line_each_and_a_count(write: Write) -> None:
    path = write(_with("training: {a: 1, b: 2, c: 3, d: 4, e: 5, f: 6}\n"))
    with pytest.raises(StudyError) as caught:
        load_study(path)
    lines = str(caught.value).splitlines()
    assert len(lines) == 6
    assert all(line.startswith(f"{path}: ") for line in lines)
    assert lines[-1].endswith("and 1 more")


def test_a_file_that_is_not_what_its_name_says_is_refused(write: Write, folder: Path) -> None:
    (folder / "prices.parquet").write_bytes(b"not a parquet file at all")
    with pytest.raises(StudyError, match=r"data\.prices: .*prices\.parquet' cannot be read"):
        load_study(write(_prices("prices.parquet")))


def test_an_empty_csv_is_refused(write: Write, folder: Path) -> None:
    (folder / "prices.csv").write_bytes(b"")
    with pytest.raises(StudyError, match=r"data\.prices: .*prices\.csv"):
        load_study(write(GOOD))


def test_the_date_column_is_looked_for(write: Write, folder: Path) -> None:
    (folder / "prices.csv").write_text("day,entity,close\n2024-01-02,AAA,1.0\n")
    with pytest.raises(StudyError, match=r"data\.prices\.session: prices\.csv has no column 'date'"):
        load_study(write(_prices("prices.csv")))


def test_a_wide_file_needs_its_date_column_alone(write: Write, folder: Path) -> None:
    (folder / "wide.csv").write_text("date,AAA,BBB\n2024-01-02,1.0,2.0\n")
    prices = load_study(write(_prices("{source: wide.csv, close: null}"))).data.prices
    assert (prices.close, prices.entity, prices.name) == (None, None, None)


def test_a_file_of_one_instrument_needs_its_name(write: Write) -> None:
    prices = load_study(write(_prices("{source: index.csv, name: IDX}"))).data.prices
    assert (prices.entity, prices.name) == (None, "IDX")


def test_the_separator_is_followed_and_missed(write: Write, folder: Path) -> None:
    (folder / "prices.csv").write_text("date;entity;close\n2024-01-02;AAA;1,0\n")
    assert load_study(write(_prices("{source: prices.csv, separator: ;}"))).data.prices.separator == ";"
    with pytest.raises(StudyError, match="give separator if its fields are not parted by commas"):
        load_study(write(_prices("prices.csv")))


@pytest.mark.parametrize("name", ["p.tsv", "p.csv.gz", "p.tsv.gz", "P.CSV", "p.parquet", "p.pq"])
def test_every_kind_of_data_file_is_looked_into(write: Write, folder: Path, name: str) -> None:
    separator = "\t" if ".tsv" in name else ","
    path = folder / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(separator.join(["date", "entity", "close"]).encode()))
    elif name.endswith(("parquet", "pq")):
        pl.DataFrame({"date": ["x"], "entity": ["A"], "close": [1.0]}).write_parquet(path)
    else:
        path.write_text("\ufeff" + separator.join(["date", "entity", "close"]))
    assert load_study(write(_prices(name))).data.prices.source == str(path)
    with pytest.raises(StudyError, match=r"has no column 'Close' \(did you mean 'close'\?\)"):
        load_study(write(_prices(f"{{source: {name}, close: Close}}")))


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("p.csv", b"date,\xff\n", "it is not UTF-8 text"),
        ("p.csv.gz", b"date,entity,close\n", "Not a gzipped file"),
        ("p.csv.gz", gzip.compress(b"date,entity,close\n" * 1000, mtime=0)[:20], "ended before"),
        ("p.csv", b"x" * 200_000, "field larger than field limit"),
    ],
)
def test_a_damaged_data_file_is_refused(
    write: Write, folder: Path, name: str, content: bytes, wanted: str
) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(StudyError, match=r"data\.prices: '.*' cannot be read") as caught:
        load_study(write(_prices(name)))
    assert wanted in str(caught.value)


def test_a_file_may_be_named_by_a_text(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(GOOD)
    assert load_study(str(path)) == load_study(path)
    monkeypatch.chdir(path.parent)
    assert load_study(path.name) == load_study(path)
    content = {"name": "a", "data": {"prices": "gone.csv"}}
    told = [
        parse_study(content, folder=at, check_files=False) for at in (str(path.parent), path.parent, None)
    ]
    assert told[0] == told[1] == told[2]


@pytest.mark.parametrize("path", [None, 3, b"my.yaml", {"name": "mine"}])
def test_what_is_no_path_is_a_usage_error(path: Any) -> None:
    with pytest.raises(UsageError, match=r"path=.*: give the name of a study file"):
        load_study(path)


def test_a_missing_file_is_a_usage_error_that_names_it(folder: Path) -> None:
    path = folder / "nothing.yaml"
    with pytest.raises(UsageError, match="does not exist") as caught:
        load_study(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_gets_the_nearest_one_beside_it(write: Write, folder: Path) -> None:
    write(GOOD)
    with pytest.raises(UsageError, match=r"did you mean 'my\.yaml'"):
        load_study(folder / "myy.yaml")


def test_a_folder_is_not_a_study_file(folder: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        load_study(folder)


def test_without_checking_files_a_study_loads_from_anywhere(folder: Path) -> None:
    study = parse_study({"name": "a", "data": {"prices": "gone.csv"}}, folder=folder, check_files=False)
    assert study.data.prices.source == str(folder / "gone.csv")


class TestFindStudy:
    def test_a_packaged_name(self) -> None:
        assert find_study("returns").target.name == "log_return"

    def test_a_file_comes_before_a_packaged_name(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write(GOOD)
        path.rename(path.parent / "returns")
        monkeypatch.chdir(path.parent)
        assert find_study("returns").name == "mine"

    def test_a_folder_does_not_hide_a_packaged_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "returns").mkdir()
        monkeypatch.chdir(tmp_path)
        assert find_study("returns").name == "returns"

    @pytest.mark.parametrize(
        ("name", "wanted"),
        [
            ("retuns", "'retuns' (did you mean 'returns'?)"),
            ("realized_variance", "(did you mean 'realised_variance'?)"),
            ("zzz", "packaged are realised_variance, returns"),
            ("", "packaged are"),
            ("nothing.yaml", "study file 'nothing.yaml' does not exist"),
            ("nothing.YML", "study file 'nothing.YML' does not exist"),
            ("some/where", "there is no folder 'some' either"),
        ],
    )
    def test_an_unknown_name(
        self, name: str, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(UsageError) as caught:
            find_study(name)
        assert wanted in str(caught.value)


def test_numbers_as_names_of_instruments(write: Write) -> None:
    study = load_study(write(_data("entities: [7203, 0700, ON, NO]")))
    assert study.data.entities == ("7203", "0700", "ON", "NO")


def test_a_study_cannot_be_altered(write: Write) -> None:
    study: Study = load_study(write(GOOD))
    with pytest.raises(ValueError, match="frozen"):
        study.training.epochs = 3  # type: ignore[misc]
