"""The Dow Jones set: no label, no rank, no day that is not over, and bytes that became text."""

import random

import pytest

from quantattn.errors import EventDataError
from quantattn.pit.readers import read_djia
from tests.pit.readers.news import packed, refused, rows, write

HEADER = "Date,Label," + ",".join(f"Top{place}" for place in range(1, 26)) + "\n"


def day(date, label, titles):
    cells = ['"' + title.replace('"', '""') + '"' if title else "" for title in titles]
    return ",".join([date, label, *cells, *[""] * (25 - len(titles))]) + "\n"


FRIDAY = ["b'Georgia 'downs' planes'", 'b"It\'s war"', "Plain", ""]
TEXT = (
    HEADER
    + day("2008-08-08", "0", FRIDAY)
    + day("2008-08-11", "1", ["b'Olympics \\xe2\\x80\\x93 day 3'", "Plain"])
    + day("", "1", ["Undated"])
)


def test_every_title_is_known_at_the_next_open_and_market_wide(tmp_path):
    log = read_djia(write(tmp_path, "Combined_News_DJIA.csv", TEXT))
    assert sorted(rows(log, "available_at", "event_time", "entity", "kind", "text")) == [
        ("2008-08-11T13:30:00", "2008-08-08T04:00:00", None, "news", "Georgia 'downs' planes"),
        ("2008-08-11T13:30:00", "2008-08-08T04:00:00", None, "news", "It's war"),
        ("2008-08-11T13:30:00", "2008-08-08T04:00:00", None, "news", "Plain"),
        ("2008-08-12T13:30:00", "2008-08-11T04:00:00", None, "news", "Olympics – day 3"),
        ("2008-08-12T13:30:00", "2008-08-11T04:00:00", None, "news", "Plain"),
    ]
    assert refused(log) == [(2, "missing_time")]
    assert log.features == ()


@pytest.mark.parametrize("label", ["0", "1", "", "anything"])
def test_the_label_is_not_read(tmp_path, label):
    texts = [TEXT.replace("2008-08-08,0", f"2008-08-08,{value}") for value in (label, "0")]
    first, second = (read_djia(write(tmp_path, f"{n}.csv", text)) for n, text in enumerate(texts))
    assert first.fingerprint == second.fingerprint
    without = TEXT.replace(",Label", ",Other")
    assert read_djia(write(tmp_path, "3.csv", without)).fingerprint == second.fingerprint


def test_neither_content_nor_order_depend_on_the_rank(tmp_path):
    titles = [f"Title {number}" for number in range(25)]
    ranked = read_djia(write(tmp_path, "a.csv", HEADER + day("2008-08-08", "0", titles)))
    random.Random(0).shuffle(titles)
    shuffled = read_djia(write(tmp_path, "b.csv", HEADER + day("2008-08-08", "0", titles)))
    assert shuffled.fingerprint == ranked.fingerprint
    assert len(ranked) == 25
    assert ranked.frame["text"].to_list() != [f"Title {number}" for number in range(25)]


def test_the_long_file_gives_the_same_events(tmp_path):
    combined = write(tmp_path, "Combined_News_DJIA.csv", TEXT)
    long = "Date,News\n" + "".join(
        [
            "2008-08-11,\"b'Olympics \\xe2\\x80\\x93 day 3'\"\n2008-08-11,Plain\n2008-08-09,A Saturday\n",
            '2008-08-08,"b\'Georgia \'downs\' planes\'"\n2008-08-08,"b""It\'s war"""\n2008-08-08,Plain\n',
        ]
    )
    reddit = write(tmp_path, "RedditNews.csv", long)
    both = read_djia([combined, reddit])
    assert both.reject_counts == {"duplicate": 5, "missing_time": 1}
    assert ("2008-08-11T13:30:00", "A Saturday") in rows(both, "available_at", "text")
    assert read_djia([reddit, combined]).fingerprint == both.fingerprint


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("b'a'", "a"),
        ('b"a"', "a"),
        ("b''", ""),
        (" b'a' ", "a"),
        ("b'it\\'s'", "it's"),
        ("b'a\\nb\\tc'", "a\nb\tc"),
        ("b'back\\\\slash'", "back\\slash"),
        ("b'\\xc3\\xa9\\xff'", "é�"),
        ("b'odd \\q \\xg1'", "odd \\q \\xg1"),
        ("b'open", "b'open"),
        ("be 'quiet'", "be 'quiet'"),
        ("B'a'", "B'a'"),
    ],
)
def test_bytes_literals_become_text_without_being_run(tmp_path, written, meant):
    cell = written.replace('"', '""')
    log = read_djia(write(tmp_path, "a.csv", f'Date,News\n2008-08-08,"{cell}"\n'))
    assert log.frame["text"].to_list() == [meant]


def test_packed_files(tmp_path):
    plain, *others = packed(tmp_path, "Combined.csv", TEXT)
    expected = read_djia(plain).fingerprint
    assert [read_djia(other).fingerprint for other in others] == [expected] * 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "Date,Open,High,Low,Close,Volume,Adj Close\n2008-08-08,1,2,3,4,5,6\n",
            "looks like format 'yfinance'",
        ),
        ("Date,New\n2008-08-08,x\n", r"no column 'Top1'"),
        ("Dates,News\n2008-08-08,x\n", r"no column 'Date'; the nearest is 'Dates'"),
        (HEADER + "2008-08-08,0,a\n", r"Row #2: Expected 27 columns, got 3"),
        ("Date,News\n08/08/2008,x\n", r"1 unreadable_time"),
    ],
)
def test_what_is_no_such_file_is_refused_with_a_reason(tmp_path, content, message):
    with pytest.raises(EventDataError, match=message):
        read_djia(write(tmp_path, "a.csv", content))
