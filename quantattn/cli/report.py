"""``quantattn report``: the page of a finished run, made again."""

from __future__ import annotations

import typer

from quantattn.cli.options import Debug, Run, require_run


def report(
    run: Run,
    debug: Debug = False,
) -> None:
    """Make the report of a finished run again from its tables."""
    require_run(run)
    from quantattn.report import write_report

    typer.echo(f"Report: {write_report(run)}")
