"""The command ``quantattn ingest``: exit codes, what it prints, and that a study reads what it wrote."""

import subprocess
import sys

import polars as pl
import pytest
import yaml
from typer.testing import CliRunner

from quantattn.cli import app
from quantattn.errors import DataError, StudyError
from quantattn.pit import EventLog
from quantattn.pit.readers import read_price_file
from quantattn.study import load_study, provenance
from quantattn.study.history import load_sources
from tests.pit.build import price_table

NEWS = "when,who,what\n2019-02-01T13:00-05:00,A,up\n2019-02-01 10:00,A,down\n"
OPTIONS = ["--set", "event_time=when", "--set", "entity=who", "--set", "text=what"]


def run(*arguments):
    return CliRunner().invoke(app, ["ingest", *map(str, arguments)])


@pytest.fixture
def news(tmp_path):
    path = tmp_path / "news.csv"
    path.write_text(NEWS)
    return path


@pytest.fixture
def bars(tmp_path):
    path = tmp_path / "bars.parquet"
    price_table({"A": [float(n) for n in range(1, 60)], "B": [2.0] * 59}).write_parquet(path)
    return path


def test_it_writes_and_says_what(tmp_path, news):
    result = run("events", news, "--out", tmp_path / "e.parquet", *OPTIONS, "--rejects", tmp_path / "r.csv")
    assert result.exit_code == 0
    assert f"Wrote {tmp_path}/e.parquet" in result.stdout
    assert "1 naive_time" in result.stdout
    assert len(EventLog.read(tmp_path / "e.parquet")) == 1
    assert (tmp_path / "r.csv").is_file()


def test_formats_and_descriptions():
    listed = run("--formats")
    assert listed.exit_code == 0
    assert "edgar_submissions  SEC EDGAR" in listed.stdout
    described = run("--describe", "lobster")
    assert described.exit_code == 0
    assert "--set levels=WHOLE" in described.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "no format is given; `quantattn ingest --formats` lists them"),
        (("events", "{news}"), 2, "no --out is given"),
        (("evnts", "{news}", "--out", "{out}"), 2, "did you mean 'events'"),
        (("--describe", "lobstr"), 2, "did you mean 'lobster'"),
        (
            ("events", "{news}", "--out", "{out}", "--set", "event_time=wen"),
            1,
            "--set event_time=wen is not a column",
        ),
        (("events", "{news}", "--out", "{out}", "--strict", *OPTIONS), 1, "1 of 2 event rows are refused"),
        (("events", "{news}", "--out", "{news}", *OPTIONS), 2, "does not end in .parquet"),
        (("events", "none.csv", "--out", "{out}", *OPTIONS), 2, "none.csv cannot be read"),
    ],
)
def test_exit_codes(tmp_path, news, arguments, code, message):
    out = tmp_path / "e.parquet"
    result = run(*(word.format(news=news, out=out) if isinstance(word, str) else word for word in arguments))
    assert result.exit_code == code
    assert message in result.stderr
    assert result.stderr.startswith("Error: ")
    assert not out.exists()


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from quantattn.cli import app; from typer.testing import CliRunner; "
        "assert CliRunner().invoke(app, ['ingest', '--help']).exit_code == 0; "
        "print([name for name in ('polars', 'torch', 'numba', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def study_file(folder, **data):
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({"name": "mine", "data": {"market_events": True, **data}}))
    return path


def test_a_study_reads_what_was_ingested(tmp_path, news, bars):
    assert run("events", news, "--out", tmp_path / "e.parquet", *OPTIONS).exit_code == 0
    written = run(
        *(
            "prices",
            bars,
            "--out",
            tmp_path / "p.parquet",
            "--set",
            "session=session",
            "--set",
            "close=close",
        ),
        *("--set", "entity=entity", "--set", "latency=2h", "--set", "adjusted=true"),
    )
    assert written.exit_code == 0
    study = load_study(study_file(tmp_path, prices="p.parquet", events=[{"path": "e.parquet"}]))
    sources = load_sources(study)
    assert sources.own_events[0].fingerprint == EventLog.read(tmp_path / "e.parquet").fingerprint
    assert sources.prices.entities == ("A", "B")
    # The longer latency of the two counts, and what was declared of the prices stays.
    assert sources.prices.latency == 2 * 3600 * 10**9
    assert sources.prices.adjustment == "vendor"
    assert set(sources.hashes) == {str(tmp_path / "p.parquet"), str(tmp_path / "e.parquet")}


def test_a_resolved_study_reads_ingested_files_again(tmp_path, news, bars):
    run("events", news, "--out", tmp_path / "e.parquet", *OPTIONS)
    options = ["--set", "session=session", "--set", "close=close", "--set", "entity=entity"]
    run("prices", bars, "--out", tmp_path / "p.parquet", *options)
    study = load_study(study_file(tmp_path, prices="p.parquet", events=[{"path": "e.parquet"}]))
    resolved = tmp_path / "run.yaml"
    # As in a run directory: every key spelled out.
    resolved.write_text(yaml.safe_dump(study.model_dump(mode="json")))
    assert load_study(resolved) == study


def test_what_a_study_says_against_ingested_files(tmp_path, news, bars):
    run("events", news, "--out", tmp_path / "e.parquet", *OPTIONS)
    options = ["--set", "session=session", "--set", "close=close", "--set", "entity=entity"]
    run("prices", bars, "--out", tmp_path / "p.parquet", *options)
    pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "other.parquet")

    def load(**data):
        return load_study(study_file(tmp_path, **data))

    with pytest.raises(
        StudyError, match=r"data.events\[0\].event_time: is missing; add it \(other.parquet was not"
    ):
        load(prices="p.parquet", events=[{"path": "other.parquet"}])
    with pytest.raises(StudyError, match=r"data.events\[0\].event_time: is missing; add it$"):
        load(prices="p.parquet", events=[{"path": "news.csv"}])
    with pytest.raises(
        StudyError, match=r"data.events\[0\].latency: belongs to files whose columns are named"
    ):
        load(prices="p.parquet", events=[{"path": "e.parquet", "latency": "5s"}])
    with pytest.raises(StudyError, match=r"data.prices.name: p.parquet was written by `quantattn ingest`"):
        load(prices={"source": "p.parquet", "name": "A"})
    london = load(prices="p.parquet", calendar="XLON")
    with pytest.raises(DataError, match=r"ingested with calendar XNYS.*set data.calendar: XNYS"):
        load_sources(london)


def test_intraday_bars_are_not_for_a_study(tmp_path):
    path = tmp_path / "bars.csv"
    path.write_text("t,c\n2024-11-29 14:30:00Z,1\n")
    options = ["event_time=t", "stamps=start", "bar_length=1min", "close=c", "name=A"]
    result = run(
        "prices",
        path,
        "--out",
        tmp_path / "p.parquet",
        *(word for option in options for word in ("--set", option)),
    )
    assert result.exit_code == 0
    with pytest.raises(DataError, match="holds intraday bars, and a study reads one bar for each session"):
        load_sources(load_study(study_file(tmp_path, prices="p.parquet")))


def test_a_study_tells_what_was_refused_and_that_prices_are_adjusted(tmp_path, news, bars):
    run("events", news, "--out", tmp_path / "e.parquet", *OPTIONS)
    options = ["--set", "session=session", "--set", "close=close", "--set", "entity=entity"]
    run("prices", bars, "--out", tmp_path / "p.parquet", *options, "--set", "adjusted=true")
    study = load_study(study_file(tmp_path, prices="p.parquet", events=[{"path": "e.parquet"}]))
    sources = load_sources(study)
    assert sources.rejected == {"naive_time": 1}
    assert sources.cut(0).rejected == {"naive_time": 1}
    records = provenance.ingested_records(sources.ingested)
    assert records[str(tmp_path / "e.parquet")] == {
        "format": "events",
        "options": {"entity": "who", "event_time": "when", "text": "what"},
        "rejected": {"naive_time": 1},
        "notes": [],
    }
    assert records[str(tmp_path / "p.parquet")]["options"]["adjusted"] is True
    (said,) = provenance.price_caveats(sources.prices, sources.index, list(sources.hashes))
    assert said.startswith("The prices of this study are adjusted by the vendor")


def test_files_of_the_other_kind_are_named(tmp_path, news, bars):
    run("events", news, "--out", tmp_path / "e.parquet", *OPTIONS)
    options = ["--set", "session=session", "--set", "close=close", "--set", "entity=entity"]
    run("prices", bars, "--out", tmp_path / "p.parquet", *options)
    with pytest.raises(
        StudyError, match=r"data.prices: e.parquet holds events, not prices; list it in data.events"
    ):
        load_study(study_file(tmp_path, prices="e.parquet"))
    with pytest.raises(StudyError, match=r"data.events\[0\].path: p.parquet holds prices, not events"):
        load_study(study_file(tmp_path, prices="p.parquet", events=[{"path": "p.parquet"}]))
    with pytest.raises(DataError, match=r"e.parquet holds events, not prices; read it with EventLog.read"):
        read_price_file(tmp_path / "e.parquet")


def test_errors_command_no_terminal(tmp_path, news):
    result = run("events", tmp_path / "\x1b[31mno.csv", "--out", tmp_path / "e.parquet", *OPTIONS)
    assert result.exit_code == 2
    assert "\x1b" not in result.stderr
    assert r"\x1b[31mno.csv cannot be read" in result.stderr
    # What the command line itself complains of passes no exception of the package.
    result = run("--\x9bno\u202e")
    assert result.exit_code == 2
    assert "\x9b" not in result.stderr
    assert "\u202e" not in result.stderr
