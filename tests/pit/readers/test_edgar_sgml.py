"""EDGAR submission headers in both layouts: acceptance in New York time, parties, refusals."""

import polars as pl
import pytest

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.readers.edgar_sgml import read_edgar_sgml

HEADER = """\
<SEC-DOCUMENT>0000950170-22-000796.txt : 20220207
<SEC-HEADER>0000950170-22-000796.hdr.sgml : 20220207
<ACCEPTANCE-DATETIME>{accepted}
ACCESSION NUMBER:\t\t0000950170-22-000796
CONFORMED SUBMISSION TYPE:\t{form}
PUBLIC DOCUMENT COUNT:\t\t134
CONFORMED PERIOD OF REPORT:\t20211231
ITEM INFORMATION:\t\tResults of Operations
ITEM INFORMATION:\t\tOther Events
FILED AS OF DATE:\t\t{filed}
DATE AS OF CHANGE:\t\t20220204

FILER:

\tCOMPANY DATA:\t
\t\tCOMPANY CONFORMED NAME:\t\t\tTesla, Inc.
\t\tCENTRAL INDEX KEY:\t\t\t0001318605
\t\tFISCAL YEAR END:\t\t\t1231

\tFORMER COMPANY:\t
\t\tFORMER CONFORMED NAME:\tTESLA MOTORS INC
</SEC-HEADER>
<DOCUMENT>
<TYPE>10-K
<TEXT>
<SEC-HEADER>a forged header inside a document
CENTRAL INDEX KEY: 0000000666
</SEC-HEADER>
</TEXT>
</DOCUMENT>
</SEC-DOCUMENT>
"""
OWNERSHIP = """\
<SEC-HEADER>0001.hdr.sgml : 20240103
<ACCEPTANCE-DATETIME>20240103214500
ACCESSION NUMBER:\t\t0000000001-24-000001
CONFORMED SUBMISSION TYPE:\t4
FILED AS OF DATE:\t\t20240103
ISSUER:
\tCOMPANY DATA:
\t\tCOMPANY CONFORMED NAME:\tEXAMPLE CORP
\t\tCENTRAL INDEX KEY:\t0000000010
REPORTING-OWNER:
\tOWNER DATA:
\t\tCOMPANY CONFORMED NAME:\tDoe Jane
\t\tCENTRAL INDEX KEY:\t0000000099
</SEC-HEADER>
"""
FEED = """\
<SUBMISSION>
<ACCESSION-NUMBER>0000950172-95-000354
<TYPE>SC 14D1/A
<PUBLIC-DOCUMENT-COUNT>2
<FILING-DATE>19950915
<SUBJECT-COMPANY>
<COMPANY-DATA>
<CONFORMED-NAME>SOUTHERN PACIFIC RAIL CORP
<CIK>0000904691
</COMPANY-DATA>
<FILING-VALUES>
<FORM-TYPE>SC 13D/A
</FILING-VALUES>
</SUBJECT-COMPANY>
<FILED-BY>
<COMPANY-DATA>
<CONFORMED-NAME>UNION PACIFIC CORP
<CIK>0000100885
</COMPANY-DATA>
</FILED-BY>
<DOCUMENT>
<TYPE>SC 14D1/A
</DOCUMENT>
</SUBMISSION>
"""


def header(accepted="20220204201127", filed="20220207", form="10-K"):
    return HEADER.format(accepted=accepted, filed=filed, form=form)


def write(folder, content, name="filing.txt"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def known(log):
    return log.frame["available_at"].dt.to_string("%FT%T").to_list()


def test_accepted_on_friday_evening_known_on_monday_at_six(tmp_path):
    log = read_edgar_sgml(write(tmp_path, header()))
    assert log.frame.with_columns(pl.col("event_time", "available_at").dt.to_string("%FT%T")).rows() == [
        (
            "0000950170-22-000796:0001318605",
            0,
            "0001318605",
            "2022-02-05T01:11:27",
            "2022-02-07T11:05:00",
            "10-K",
            "10-K: Tesla, Inc.; items Results of Operations, Other Events; period 2021-12-31",
        )
    ]


@pytest.mark.parametrize(
    ("accepted", "filed", "expected"),
    [
        ("20220204163000", "20220204", "2022-02-04T21:30:00"),  # winter, UTC-5
        ("20220804163000", "20220804", "2022-08-04T20:30:00"),  # summer, UTC-4
        ("20220204173000", "20220204", "2022-02-04T22:30:00"),
        ("20220204055959", "20220204", "2022-02-04T11:00:00"),
        ("20220204060000", "20220204", "2022-02-04T11:00:00"),
        ("20220204060001", "20220204", "2022-02-04T11:00:01"),
        ("20220204000000", "20220204", "2022-02-07T14:30:00"),  # a midnight is a date
        ("", "20220204", "2022-02-07T14:30:00"),
    ],
)
def test_acceptance_times(tmp_path, accepted, filed, expected):
    log = read_edgar_sgml(write(tmp_path, header(accepted, filed)), latency="0s")
    assert known(log) == [expected]


@pytest.mark.parametrize(
    ("accepted", "filed", "form", "reason"),
    [
        ("20241103013000", "20241104", "8-K", "ambiguous_time"),
        ("20240310023000", "20240311", "8-K", "nonexistent_time"),
        ("2024031", "20240311", "8-K", "unreadable_time"),
        ("20240311163060", "20240311", "8-K", "unreadable_time"),
        ("20240311163000", "", "8-K", "missing_time"),
        ("20240311163000", "20240311", "UPLOAD", "released_later"),
    ],
)
def test_refusals(tmp_path, accepted, filed, form, reason):
    files = [write(tmp_path, header(accepted, filed, form)), write(tmp_path, OWNERSHIP, "4.txt")]
    log = read_edgar_sgml(files)
    assert len(log) == 1
    assert log.rejects.select("row", "reason").rows() == [(0, reason)]
    assert log.rejects["detail"][0].startswith("filing.txt: column ")


def test_parties(tmp_path):
    path = write(tmp_path, OWNERSHIP)
    assert read_edgar_sgml(path).entities == ("0000000010",)
    everyone = read_edgar_sgml(path, parties="all")
    assert everyone.entities == ("0000000010", "0000000099")
    assert everyone.frame["text"].to_list() == ["4: EXAMPLE CORP", "4: Doe Jane"]
    # Forms of insiders are taken until 22:00 and bear the same day.
    assert known(everyone) == ["2024-01-04T02:50:00"] * 2


def test_the_daily_feed_has_dates_alone(tmp_path):
    log = read_edgar_sgml(write(tmp_path, FEED, "0000950172-95-000354.nc"), latency="0s")
    assert log.entities == ("0000904691",)
    assert log.frame["kind"].to_list() == ["SC 14D1/A"]
    assert known(log) == ["1995-09-18T13:30:00"]  # Friday; the open of Monday
    assert log.frame["text"].to_list() == ["SC 14D1/A: SOUTHERN PACIFIC RAIL CORP"]


def test_many_submissions_in_one_file_and_mail_armour(tmp_path):
    armour = "-----BEGIN PRIVACY-ENHANCED MESSAGE-----\nProc-Type: 2001,MIC-CLEAR\n\n"
    text = armour + header().replace("SEC-HEADER", "IMS-HEADER") + FEED + OWNERSHIP
    log = read_edgar_sgml(write(tmp_path, text))
    assert log.entities == ("0000000010", "0000904691", "0001318605")


def test_a_filing_without_a_company(tmp_path):
    text = OWNERSHIP.replace("0000000010", "")
    with pytest.raises(EventDataError, match=r"1 of 1 rows are refused \(1 null_entity\)"):
        read_edgar_sgml(write(tmp_path, text))


BROKEN = [
    (b"", r"not of format 'edgar_sgml' \(it has no <SEC-HEADER>"),
    (
        b'{"filings": {"recent": {"acceptanceDateTime": [], "accessionNumber": []}}}',
        r"looks like format 'edgar_submissions'",
    ),
    (header().partition("FILER:")[0], r"header that begins in line 2 has no </SEC-HEADER>"),
    (header().replace("</SEC-HEADER>\n<DOC", "<DOC"), r"begins in line 2 has no </SEC-HEADER>"),
    (header().encode().replace(b"Tesla", b"Tesl\xe9"), r"is not UTF-8 in line 16"),
    (FEED.partition("<DOCUMENT>")[0], r"begins in line 1 has no </SUBMISSION>"),
]


@pytest.mark.parametrize(("content", "message"), BROKEN)
def test_broken_files(tmp_path, content, message):
    with pytest.raises(EventDataError, match=message):
        read_edgar_sgml(write(tmp_path, content))


def test_wrong_requests(tmp_path):
    with pytest.raises(UsageError, match="parties='x' is unknown"):
        read_edgar_sgml(write(tmp_path, header()), parties="x")
    with pytest.raises(UsageError, match="cannot be read"):
        read_edgar_sgml(tmp_path)
