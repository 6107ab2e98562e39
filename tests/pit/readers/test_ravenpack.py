"""RavenPack: two editions, history from before the launch, names that change, and another encoding."""

import pytest

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.readers import find_reader, read_ravenpack
from tests.pit.readers.news import packed, refused, rows, write

RPA = (
    "TIMESTAMP_UTC,RP_STORY_ID,RP_ENTITY_ID,ENTITY_TYPE,ENTITY_NAME,RELEVANCE,EVENT_SENTIMENT_SCORE,"
    "EVENT_RELEVANCE,EVENT_SIMILARITY_DAYS,CATEGORY,CSS,NIP,RP_STORY_EVENT_INDEX,HEADLINE\n"
    "2015-03-02 14:30:00.123456,S1,D8442A,COMP,Apple Inc.,100,0.54,90,365,earnings-up,0.1,0.5,1,Apple rises\n"
    "2015-03-02 14:30:00.123456,S1,228D42,COMP,Microsoft Corp.,30,,,,,0.1,0.5,2,Apple rises\n"
    "2021-01-04 00:00:00,S2,D8442A,COMP,Apple Inc.,100,-0.5,100,1.5,earnings-down,-0.1,,1,Apple falls\n"
)
RPNA = (
    "TIMESTAMP_UTC,RP_ENTITY_ID,ENTITY_TYPE,ENTITY_NAME,RELEVANCE,CATEGORY,ESS,AES,AEV,ENS,ENS_KEY,G_ENS,NEWS_TYPE,"
    "SOURCE,RP_STORY_ID,RP_STORY_EVENT_INDEX,RP_STORY_EVENT_COUNT,CSS,NIP\n"
    "2011-01-03 14:05:00.123,D8442A,COMP,Apple Inc.,100,earnings-up,63,70,12,100,K,100,FULL,B,S1,1,1,51,50\n"
    "2011-01-03 14:05:00.123,D8442A,COMP,Apple Inc.,100,,,,,,,,FULL,B,S1,2,1,51,50\n"
)


def content(log):
    return rows(log, "event_id", "entity", "event_time", "available_at", "kind", "text")


def test_rpa_1(tmp_path):
    log = read_ravenpack(write(tmp_path, "rpa.csv", RPA), launch="trust_stamps")
    assert content(log) == [
        (
            "S1/228D42/2",
            "228D42",
            "2015-03-02T14:30:00.123456",
            "2015-03-02T14:30:00.123456",
            "event",
            "Apple rises",
        ),
        (
            "S1/D8442A/1",
            "D8442A",
            "2015-03-02T14:30:00.123456",
            "2015-03-02T14:30:00.123456",
            "earnings-up",
            "Apple rises",
        ),
        # Midnight is an instant here: the stamps have microseconds.
        (
            "S2/D8442A/1",
            "D8442A",
            "2021-01-04T00:00:00",
            "2021-01-04T00:00:00",
            "earnings-down",
            "Apple falls",
        ),
    ]
    assert log.features == (
        "relevance",
        "css",
        "nip",
        "event_sentiment_score",
        "event_relevance",
        "event_similarity_days",
    )
    assert rows(log, *log.features) == [
        (30.0, 0.1, 0.5, None, None, None),
        (100.0, 0.1, 0.5, 0.54, 90.0, 365.0),
        (100.0, -0.1, None, -0.5, 100.0, 1.5),
    ]


def test_rpna_4(tmp_path):
    log = read_ravenpack(write(tmp_path, "rpna.csv", RPNA), launch="trust_stamps", latency="1s")
    assert content(log) == [
        ("S1/D8442A/1", "D8442A", "2011-01-03T14:05:00.123", "2011-01-03T14:05:01.123", "earnings-up", None),
        ("S1/D8442A/2", "D8442A", "2011-01-03T14:05:00.123", "2011-01-03T14:05:01.123", "event", None),
    ]
    assert log.features == ("relevance", "css", "nip", "ess", "ens")


@pytest.mark.parametrize(
    ("launch", "expected"),
    [
        ("2015-03-02T14:30:00.123455Z", "2015-03-02T14:30:00.123456"),
        ("2015-03-02T14:30:00.123456Z", "2015-03-02T14:30:00.123456"),
        ("2015-03-02T14:30:00.123456001Z", "2015-03-02T14:30:00.123456001"),
        ("2015-03-02T09:30:01-05:00", "2015-03-02T14:30:01"),
        ("2015-03-01", "2015-03-02T14:30:00.123456"),  # live from the open at 14:30:00
        ("2015-03-02", "2015-03-03T14:30:00"),  # live, as far as is certain, from the next one
        ("2020-01-01", "2020-01-02T14:30:00"),
    ],
)
def test_history_from_before_the_launch_is_known_at_the_launch(tmp_path, launch, expected):
    log = read_ravenpack(write(tmp_path, "rpa.csv", RPA), launch=launch)
    assert rows(log, "event_time", "available_at")[0] == ("2015-03-02T14:30:00.123456", expected)
    assert rows(log, "available_at")[2] == ("2021-01-04T00:00:00",)


def test_the_launch_has_to_be_given(tmp_path):
    path = write(tmp_path, "rpa.csv", RPA)
    with pytest.raises(TypeError, match="launch"):
        read_ravenpack(path)
    assert find_reader("ravenpack").options["launch"].required
    for launch in ("", "soon", "2015-03-02 14:30", "2015-13-01"):
        with pytest.raises(UsageError, match=rf"launch='{launch}' is neither a date nor an instant"):
            read_ravenpack(path, launch=launch)


MAPPING = (
    "RP_ENTITY_ID,ENTITY_TYPE,DATA_TYPE,DATA_VALUE,RANGE_START,RANGE_END\n"
    "D8442A,COMP,TICKER,AAPC,,2015-03-02\n"
    "D8442A,COMP,TICKER,AAPL,2015-03-02,\n"
    "D8442A,COMP,TICKER,AAPX,2021-01-05,\n"
    "D8442A,COMP,ISIN,US0378331005,,\n"
    "228D42,COMP,TICKER,MSFT,2016-01-01,2020-01-01\n"
)


def test_names_are_those_of_the_day(tmp_path):
    path, mapping = write(tmp_path, "rpa.csv", RPA), write(tmp_path, "map.csv", MAPPING)
    log = read_ravenpack(path, launch="trust_stamps", mapping=str(mapping))
    assert rows(log, "event_id", "entity") == [("S1/D8442A/1", "AAPL"), ("S2/D8442A/1", "AAPL")]
    assert refused(log) == [(1, "unmapped_entity")]
    assert "'228D42'" in log.rejects["detail"][0]
    isin = read_ravenpack(path, launch="trust_stamps", mapping=str(mapping), data_type="isin")
    assert set(isin.frame["entity"]) == {"US0378331005"}
    with pytest.raises(
        UsageError, match=r"data_type='CUSIP' does not occur in .*; use one of 'ISIN', 'TICKER'"
    ):
        read_ravenpack(path, launch="trust_stamps", mapping=str(mapping), data_type="CUSIP")


@pytest.mark.parametrize(
    ("start", "end", "named"),
    [
        ("2015-03-02", "2015-03-02", True),
        ("2015-03-03", "", False),
        ("", "2015-03-01", False),
        ("", "", True),
    ],
)
def test_the_first_and_the_last_day_of_a_name_count(tmp_path, start, end, named):
    text = MAPPING.splitlines()[0] + f"\n228D42,COMP,TICKER,MSFT,{start},{end}\nD8442A,COMP,TICKER,AAPL,,\n"
    log = read_ravenpack(
        write(tmp_path, "rpa.csv", RPA), launch="trust_stamps", mapping=str(write(tmp_path, "map.csv", text))
    )
    assert ("MSFT" in log.entities) == named
    assert log.reject_counts == ({} if named else {"unmapped_entity": 1})


def test_two_names_that_began_on_one_day_are_ambiguous(tmp_path):
    text = MAPPING + "D8442A,COMP,TICKER,APPL,2015-03-02,2015-12-31\n"
    log = read_ravenpack(
        write(tmp_path, "rpa.csv", RPA), launch="trust_stamps", mapping=str(write(tmp_path, "map.csv", text))
    )
    assert refused(log) == [(0, "ambiguous_entity"), (1, "unmapped_entity")]


def test_lower_case_subsets_and_packed_files(tmp_path):
    text = RPA.replace("RP_STORY_EVENT_INDEX", "X")
    lower = text.split("\n", 1)[0].lower() + "\n" + text.split("\n", 1)[1]
    files = packed(tmp_path, "rpa.csv", lower)
    logs = [read_ravenpack(file, launch="trust_stamps") for file in files]
    assert len({log.fingerprint for log in logs}) == 1
    # Without the index an id is a hash of the content.
    assert all(len(name) == 32 for name in logs[0].frame["event_id"])


def test_latin_1_is_read_where_that_is_said(tmp_path):
    path = write(tmp_path, "rpa.csv", RPA.replace("Apple rises", "Société rises").encode("latin-1"))
    with pytest.raises(EventDataError, match="is not UTF-8 in line 2"):
        read_ravenpack(path, launch="trust_stamps")
    log = read_ravenpack(path, launch="trust_stamps", encoding="latin-1")
    assert log.frame["text"][0] == "Société rises"
    with pytest.raises(UsageError, match="encoding='utf16' is unknown"):
        read_ravenpack(path, launch="trust_stamps", encoding="utf16")


def test_rejects(tmp_path):
    lines = RPA.splitlines()
    text = "\n".join(
        [
            lines[0],
            lines[1].replace("2015-03-02 14:30:00.123456", ""),
            lines[1].replace("2015-03-02 14:30:00.123456", "02MAR2015"),
            lines[1].replace("D8442A", ""),
            lines[1].replace("100,0.54", "high,0.54"),
            lines[1].replace("0.54", "inf"),
            lines[1],
            lines[1],
            lines[2].replace("2015-03-02 14:30:00.123456", "2015-03-02"),
        ]
    )
    log = read_ravenpack(write(tmp_path, "rpa.csv", text + "\n"), launch="2014-01-01")
    assert refused(log) == [
        (0, "missing_time"),
        (1, "unreadable_time"),
        (2, "null_entity"),
        (3, "bad_feature"),
        (4, "infinite_feature"),
        (6, "duplicate"),
    ]
    # A bare date is no instant: known at the next open.
    assert rows(log, "available_at") == [("2015-03-02T14:30:00.123456",), ("2015-03-03T14:30:00",)]


def test_editions_are_not_mixed(tmp_path):
    files = [write(tmp_path, "a.csv", RPA), write(tmp_path, "b.csv", RPNA)]
    with pytest.raises(EventDataError, match="are of two editions"):
        read_ravenpack(files, launch="trust_stamps")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RPA.replace("TIMESTAMP_UTC", "TIMESTAMP"), "no column 'TIMESTAMP_UTC'; the nearest is 'TIMESTAMP'"),
        ("headline,url,publisher,date,stock\nx,u,p,d,s\n", "looks like format 'benzinga'"),
        (RPA + "x,y\n", r"Row #5: Expected 14 columns, got 2"),
        ("", "is empty"),
    ],
)
def test_what_is_no_such_file_is_refused_with_a_reason(tmp_path, text, message):
    with pytest.raises(EventDataError, match=message):
        read_ravenpack(write(tmp_path, "a.csv", text), launch="trust_stamps")


def test_a_mapping_that_is_none_is_refused(tmp_path):
    path = write(tmp_path, "rpa.csv", RPA)
    with pytest.raises(EventDataError, match=r"map.csv is not of format .* no column 'DATA_TYPE'"):
        read_ravenpack(
            path, launch="trust_stamps", mapping=str(write(tmp_path, "map.csv", "RP_ENTITY_ID,T\nx,y\n"))
        )
    with pytest.raises(UsageError, match=r"none.csv cannot be read"):
        read_ravenpack(path, launch="trust_stamps", mapping=str(tmp_path / "none.csv"))
