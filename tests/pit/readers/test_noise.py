"""Damaged files of every format read here: a log, a price history or one clear line, never anything else."""

import json
import warnings

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import QuantAttnError
from quantattn.pit.readers import find_reader, read_edgar_submissions
from tests.pit.readers import (
    test_alfred,
    test_edgar_sgml,
    test_edgar_submissions,
    test_lobster,
    test_yfinance,
)

SEEDS = {
    "edgar_submissions": (
        "CIK0000320193.json",
        json.dumps(test_edgar_submissions.document(test_edgar_submissions.ROWS)),
        {},
    ),
    "edgar_sgml": ("filing.txt", test_edgar_sgml.header() + test_edgar_sgml.FEED, {}),
    "lobster": (test_lobster.NAME, test_lobster.LINES, {}),
    "alfred": ("PAYEMS.json", test_alfred.answer(test_alfred.OBSERVATIONS), {"growth": "1"}),
    "alfred ": ("PAYEMS.csv", test_alfred.SIDES, {"frequency": "M"}),
    "yfinance": ("A.csv", test_yfinance.MULTI, {"adjusted": True}),
    "yfinance ": ("A.csv", test_yfinance.FLAT, {"adjusted": False, "ticker": "A"}),
}
INSERTED = [
    b'"',
    b",",
    b"\n",
    b"\t",
    b"\x00",
    b"\xff",
    b"9" * 30,
    b"-",
    b"null",
    b"{}",
    b"[]",
    b"NaN",
    b"1e400",
    b"<",
]


@pytest.mark.parametrize("name", SEEDS)
@settings(max_examples=80, deadline=None)
@given(
    edits=st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from(["insert", "delete", "cut"]), st.sampled_from(INSERTED)),
        min_size=1,
        max_size=5,
    )
)
def test_damage_is_a_reject_or_one_clear_line(tmp_path_factory, name, edits):
    file, text, options = SEEDS[name]
    content = text.encode()
    for place, edit, piece in edits:
        at = int(place * len(content))
        if edit == "insert":
            content = content[:at] + piece + content[at:]
        else:
            content = content[:at] + (content[at + len(piece) :] if edit == "delete" else b"")
    path = tmp_path_factory.mktemp("noise") / file
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            find_reader(name.strip()).read(path, **options)
        except QuantAttnError as error:
            assert "\n" not in str(error)


def test_years_that_nanoseconds_do_not_hold(tmp_path):
    row = ("a", "8022-02-07", "", "2024-02-02T18:01:30.000Z", "8-K", "", "")
    late = ("b", "2024-02-02", "", "9022-02-02T18:01:30.000Z", "8-K", "", "")
    rows = [test_edgar_submissions.ROWS[1], row, late]
    path = tmp_path / "CIK0000320193.json"
    path.write_text(json.dumps(test_edgar_submissions.document(rows)))
    log = read_edgar_submissions(path)
    assert log.rejects.select("row", "reason").rows() == [(1, "missing_time"), (2, "unreadable_time")]


def test_a_frame_with_a_missing_stamp():
    frame = pd.DataFrame({"Close": [1.0, 2.0]}, index=pd.DatetimeIndex(["2024-11-27", None]))
    with pytest.raises(QuantAttnError, match="stamps outside the years 1900 to 2200, or none"):
        find_reader("yfinance").read(frame, adjusted=True, ticker="A")
