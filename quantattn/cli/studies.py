"""``quantattn studies`` and ``quantattn init``: what to run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from quantattn.cli.options import Debug
from quantattn.errors import UsageError


def studies(debug: Debug = False) -> None:
    """List the packaged studies."""
    from quantattn.study import DEFAULT_STUDY, packaged_studies

    found = packaged_studies()
    width = max(len(name) for name in found)
    for name, description in found.items():
        mark = " (default)" if name == DEFAULT_STUDY else ""
        typer.echo(f"{name:<{width}}  {description}{mark}")
    typer.echo("\nRun one with `quantattn run NAME`; write your own with `quantattn init`.")


def init(
    file: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("study.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
    debug: Debug = False,
) -> None:
    """Write an annotated study file for your own prices and events."""
    from quantattn.files import write_text
    from quantattn.study import study_template

    if str(file) == "-":
        raise UsageError("'-' is not the name of a file; give one, such as 'study.yaml'")
    if file.is_dir():
        raise UsageError(
            f"{str(file)!r} is a folder; give a file in it, such as {str(file / 'study.yaml')!r}"
        )
    if file.exists() and not force:
        raise UsageError(f"{str(file)!r} exists; choose another name, or overwrite it with --force")
    write_text(file, study_template(shlex.quote(str(file))))
    typer.echo(f"Wrote {file}. Point it at your data, then: quantattn run {shlex.quote(str(file))}")
