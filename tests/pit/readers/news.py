"""What the tests of the news readers share: files by hand, and logs as rows of text."""

import gzip
import io
import zipfile

import polars as pl


def write(folder, name, content):
    """Write text or bytes to a file in a folder."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def zipped(**members):
    """Give the bytes of a zip archive; double underscores in names stand for dots, four for two of them."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in members.items():
            name = name.replace("____", "\0").replace("__", ".").replace("\0", "__")
            archive.writestr(zipfile.ZipInfo(name), content)  # dated 1980, not now
    return target.getvalue()


def packed(folder, name, content):
    """Write one text three times: plain, gzipped and zipped."""
    inner = zipped(**{name.replace(".", "__"): content})
    return [
        write(folder, name, content),
        write(folder, f"{name}.gz", gzip.compress(content.encode())),
        write(folder, f"{name}.zip", inner),
    ]


def rows(log, *columns):
    """Give columns of a log as tuples, times as ISO 8601 to the second, or finer where needed."""
    times = pl.col("event_time", "available_at").dt.to_string("%FT%T%.f")
    return log.frame.with_columns(times).select(*columns).rows()


def known(log):
    """Give ``entity, available_at, text`` of a log in canonical order."""
    return rows(log, "entity", "available_at", "text")


def refused(log):
    """Give ``row, reason`` of the rejects."""
    return log.rejects.select("row", "reason").rows()
