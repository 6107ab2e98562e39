"""GDELT 2: known with its update, not on the day that it speaks of; unquoted tabs; both tables."""

import gzip

import pytest

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.readers import read_gdelt
from tests.pit.readers.news import refused, rows, write, zipped

# Places (from 0) of what the tests set, counted in the codebook of 2015-02-19.
EVENT = {
    "id": 0,
    "SQLDATE": 1,
    "Actor1Code": 5,
    "Actor1Name": 6,
    "Actor1CountryCode": 7,
    "Actor2Code": 15,
    "Actor2Name": 16,
    "Actor2CountryCode": 17,
    "IsRootEvent": 25,
    "EventCode": 26,
    "EventRootCode": 28,
    "QuadClass": 29,
    "GoldsteinScale": 30,
    "NumMentions": 31,
    "NumSources": 32,
    "NumArticles": 33,
    "AvgTone": 34,
    "ActionGeo_FullName": 52,
    "ActionGeo_CountryCode": 53,
    "DATEADDED": 59,
    "SOURCEURL": 60,
}
MENTION = {
    "id": 0,
    "EventTimeDate": 1,
    "MentionTimeDate": 2,
    "MentionType": 3,
    "MentionSourceName": 4,
    "MentionIdentifier": 5,
    "SentenceID": 6,
    "Actor1CharOffset": 7,
    "Actor2CharOffset": 8,
    "ActionCharOffset": 9,
    "InRawText": 10,
    "Confidence": 11,
    "MentionDocLen": 12,
    "MentionDocTone": 13,
}


def line(places, width, **values):
    fields = [""] * width
    for name, value in values.items():
        fields[places[name]] = str(value)
    return "\t".join(fields) + "\n"


def event(**values):
    usual = {
        "id": 410000001,
        "SQLDATE": "20150218",
        "Actor1Code": "USAGOV",
        "Actor1Name": 'UNITED "STATES',
        "Actor1CountryCode": "USA",
        "Actor2Name": "PARIS",
        "IsRootEvent": 1,
        "EventCode": "190",
        "EventRootCode": "19",
        "QuadClass": 4,
        "GoldsteinScale": -10.0,
        "NumMentions": 6,
        "NumSources": 1,
        "NumArticles": 6,
        "AvgTone": -3.75,
        "ActionGeo_FullName": "Paris, France",
        "ActionGeo_CountryCode": "FR",
        "DATEADDED": "20150218230000",
        "SOURCEURL": "http://x",
    }
    return line(EVENT, 61, **{**usual, **values})


def mention(**values):
    usual = {
        "id": 410000001,
        "EventTimeDate": "20150218230000",
        "MentionTimeDate": "20150219001500",
        "MentionType": 1,
        "MentionSourceName": "x.com",
        "MentionIdentifier": "http://x.com/a",
        "SentenceID": 2,
        "Actor1CharOffset": -1,
        "Actor2CharOffset": 100,
        "ActionCharOffset": 120,
        "InRawText": 1,
        "Confidence": 60,
        "MentionDocLen": 2500,
        "MentionDocTone": -2.5,
    }
    return line(MENTION, 16, **{**usual, **values})


NAME = "20150218230000.export.CSV"
TEXT = event() + event(
    id=2, SQLDATE="20050218", EventRootCode="04", Actor1Name="", Actor1Code="", Actor2Name=""
)


def test_events_are_known_with_the_next_update_whatever_day_they_speak_of(tmp_path):
    log = read_gdelt(write(tmp_path, NAME, TEXT))
    assert rows(log, "event_id", "entity", "event_time", "available_at", "kind", "text") == [
        ("2", None, "2005-02-18T00:00:00", "2015-02-18T23:15:00", "cameo_04", "Paris, France"),
        (
            "410000001",
            None,
            "2015-02-18T00:00:00",
            "2015-02-18T23:15:00",
            "cameo_19",
            'UNITED "STATES; PARIS; Paris, France',
        ),
    ]
    assert rows(log, *log.features)[1] == (1.0, 4.0, -10.0, 6.0, 1.0, 6.0, -3.75)
    assert log.features == (
        "is_root_event",
        "quad_class",
        "goldstein_scale",
        "num_mentions",
        "num_sources",
        "num_articles",
        "avg_tone",
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("20150218230000.export.CSV.zip", zipped(**{"20150218230000__export__CSV": TEXT})),
        ("20150218230000.export.CSV.gz", gzip.compress(TEXT.encode(), mtime=0)),
        ("20150218230000.export.csv", TEXT),
        (NAME, TEXT.rstrip("\n")),
        (NAME, TEXT.replace("\n", "\r\n")),
    ],
)
def test_packed_files_and_line_ends(tmp_path, name, content):
    expected = read_gdelt(write(tmp_path / "plain", NAME, TEXT))
    assert read_gdelt(write(tmp_path, name, content)).fingerprint == expected.fingerprint


@pytest.mark.parametrize(
    ("entity", "expected"),
    [
        ("actor1", ["USAGOV"]),
        ("actor1_country", ["USA", "USA"]),
        ("action_country", ["FR", "FR"]),
    ],
)
def test_entities_are_actors_or_countries_where_that_is_asked(tmp_path, entity, expected):
    path = write(tmp_path, NAME, TEXT)
    log = read_gdelt(path, entity=entity)
    assert log.frame["entity"].to_list() == expected
    assert log.reject_counts == ({"null_entity": 1} if len(expected) == 1 else {})
    both = read_gdelt(path, entity=entity, untagged="market")
    assert sorted(both.frame["entity"].to_list(), key=str) == sorted([*expected, None][:2], key=str)


def test_mentions(tmp_path):
    text = mention() + mention(SentenceID=3) + mention() + mention(MentionTimeDate="")
    log = read_gdelt(write(tmp_path, "20150219001500.mentions.CSV", text))
    assert (
        rows(log, "entity", "event_time", "available_at", "kind", "text")
        == [(None, "2015-02-19T00:15:00", "2015-02-19T00:30:00", "mention", None)] * 2
    )
    assert rows(log, *log.features) == [(60.0, 2500.0, -2.5, 1.0, 2.0), (60.0, 2500.0, -2.5, 1.0, 3.0)]
    assert refused(log) == [(2, "duplicate"), (3, "missing_time")]
    with pytest.raises(UsageError, match="entity='actor1' is a column of events"):
        read_gdelt(tmp_path / "20150219001500.mentions.CSV", entity="actor1")


def test_rejects(tmp_path):
    text = (
        event()
        + event(id=2, SQLDATE="20150219", DATEADDED="20150219000000")
        + event(id=3, SQLDATE="20150219", DATEADDED="20150218234500")
        + event(id=4, SQLDATE="")
        + event(id=5, SQLDATE="2015")
        + event(id=6, DATEADDED="20150218")
        + event(id=7, DATEADDED="20150218996000")
        + event(id="")
        + event(id=9, AvgTone="x")
        + event()
    )
    log = read_gdelt(write(tmp_path, NAME, text))
    assert log.frame["event_id"].to_list() == ["410000001", "2"]
    assert refused(log) == [
        (2, "available_before_event"),
        (3, "missing_time"),
        (4, "unreadable_time"),
        (5, "unreadable_time"),
        (6, "unreadable_time"),
        (7, "null_event_id"),
        (8, "bad_feature"),
        (9, "duplicate"),
    ]


def test_several_files(tmp_path):
    first = write(tmp_path, NAME, TEXT)
    second = write(
        tmp_path, "20150218231500.export.CSV", event(id=3, DATEADDED="20150218231500") + event(DATEADDED="")
    )
    log = read_gdelt([first, second], latency="0s")
    assert rows(log, "event_id", "available_at")[-1] == ("3", "2015-02-18T23:15:00")
    assert refused(log) == [(1, "missing_time")]
    assert log.rejects["detail"][0].startswith(f"{second}: ")
    with pytest.raises(EventDataError, match=r"holds events and .* mentions; read them apart"):
        read_gdelt([first, write(tmp_path, "x.mentions.CSV", mention())])


def test_a_header_line_as_databases_export_it(tmp_path):
    names = [f"c{place}" for place in range(61)]
    for name, place in EVENT.items():
        names[place] = "GLOBALEVENTID" if name == "id" else name
    text = (
        ",".join(names)
        + "\n"
        + TEXT.replace('UNITED "STATES', "UNITED STATES")
        .replace("Paris, France", '"Paris, France"')
        .replace("\t", ",")
    )
    log = read_gdelt(write(tmp_path, "bq.csv", text))
    assert rows(log, "event_id", "available_at", "avg_tone") == [
        ("2", "2015-02-18T23:15:00", -3.75),
        ("410000001", "2015-02-18T23:15:00", -3.75),
    ]
    with pytest.raises(EventDataError, match="has no column 'DATEADDED'; the nearest is 'DATE_ADDED'"):
        read_gdelt(write(tmp_path, "b.csv", text.replace("DATEADDED", "DATE_ADDED")))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\n", "is empty"),
        ("\t" * 57 + "x\n", r"its first line has 58 columns, .*GDELT 1 files tell no time of day"),
        ("a\tb\tc\n", "has 3 columns, and events have 61 and mentions 16"),
        ("headline,date,stock\nx,y,z\n", "looks like format 'benzinga'"),
        (TEXT + "a\tb\n", r"Row #3: Expected 61 columns, got 2.*give every row 61 fields"),
        (TEXT.encode() + b"\xff" + event().encode(), "is not UTF-8 in line 3"),
        (event(DATEADDED="x"), "1 unreadable_time"),
    ],
)
def test_what_is_no_such_file_is_refused_with_a_reason(tmp_path, content, message):
    with pytest.raises(EventDataError, match=message):
        read_gdelt(write(tmp_path, NAME, content))


def test_unknown_options(tmp_path):
    path = write(tmp_path, NAME, TEXT)
    with pytest.raises(UsageError, match="entity='actor3' is unknown; use one of 'market', 'actor1'"):
        read_gdelt(path, entity="actor3")
    with pytest.raises(UsageError, match="untagged='x' is unknown"):
        read_gdelt(path, untagged="x")
    with pytest.raises(EventDataError, match="rows are refused"):
        read_gdelt(path, entity="actor1", strict=True)
