"""``quantattn ingest``: files of a known format into Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quantattn.cli.options import Debug
from quantattn.errors import UsageError


def ingest(
    format: Annotated[
        str | None, typer.Argument(help="The format of the files, such as edgar_submissions.")
    ] = None,
    paths: Annotated[list[Path] | None, typer.Argument(help="The files.", metavar="PATH...")] = None,
    out: Annotated[Path | None, typer.Option(help="Parquet file to write.", metavar="FILE")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="An option of the format.", metavar="NAME=VALUE")
    ] = None,
    rejects: Annotated[
        Path | None, typer.Option(help="Write the refused rows there (.csv, .parquet).", metavar="FILE")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop when a row is refused.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
    formats: Annotated[bool, typer.Option("--formats", help="List the formats and stop.")] = False,
    describe: Annotated[
        str | None, typer.Option(help="Explain a format and its options, and stop.", metavar="FORMAT")
    ] = None,
    debug: Debug = False,
) -> None:
    """Bring files of a known format into Parquet, dated by when each row could be known."""
    from quantattn.pit.ingest import ingest as bring_in
    from quantattn.pit.ingest_text import describe_text, formats_text, ingested_text

    if formats or describe is not None:
        typer.echo(formats_text() if describe is None else describe_text(describe))
        return
    if format is None:
        raise UsageError("no format is given; `quantattn ingest --formats` lists them")
    if out is None:
        raise UsageError("no --out is given; name the Parquet file to write, such as --out events.parquet")
    done = bring_in(
        format, paths or [], out=out, settings=settings or [], rejects=rejects, strict=strict, force=force
    )
    typer.echo(ingested_text(done))
