"""``quantattn run``: from prices and events to a report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from quantattn.cli.failures import NOTHING_KEPT, Interrupted
from quantattn.cli.options import Address, Debug, Engine, StudyName, Threads, Workers, chosen_study


def run(
    study: StudyName = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run.", show_default="runs/<study>-<time>"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run a reduced study, for a first look.")] = False,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Use this seed alone.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an earlier run: that in --out, or else the newest.")
    ] = False,
    engine: Engine = "local",
    workers: Workers = 1,
    threads: Threads = None,
    address: Address = None,
    track: Annotated[
        str | None, typer.Option(help="Track with MLflow: mlflow, or mlflow: and a tracking URI.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Run a study from prices and events to its report."""
    from quantattn.study import new_directory, newest_run, progress_for, run_directory
    from quantattn.study.execution import Execution
    from quantattn.study.output import refuse_nothing_to_resume

    how = Execution(engine, workers, threads, address, track)
    chosen = chosen_study(study, quick=quick, seed=seed)
    if out is None:
        out = newest_run(chosen) if resume else new_directory(chosen)
    elif resume:
        refuse_nothing_to_resume(out)
    options = how.words()
    command = _command_line(study, out=out, quick=quick, seed=seed, resume=resume, options=options)
    folder = out
    try:
        with run_directory(out, chosen, resume=resume) as folder:
            from quantattn.study.job import run_study

            summary = run_study(
                chosen,
                out=folder,
                quick=quick,
                resume=resume,
                progress=progress_for(sys.stdout),
                command=command,
                execution=how,
            )
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None:  # a full disk names no file
            error.filename = str(folder)
        if not (folder / "study.yaml").exists():
            error.add_note(NOTHING_KEPT)
        raise
    except KeyboardInterrupt:
        if folder.exists():
            again = _command_line(study, out=out, quick=quick, seed=seed, resume=True, options=options)
            raise Interrupted(f"interrupted; continue with `{again}`") from None
        raise Interrupted("interrupted; nothing was written") from None
    for remark in summary.remarks:
        typer.echo(f"Note: {remark}")
    typer.echo(f"\nReport: {summary.report}")
    typer.echo(summary.headline)
    for number, finding in enumerate(summary.findings, 1):
        typer.echo(f"{number}. {finding}")


def _command_line(
    study: str | None, *, out: Path, quick: bool, seed: int | None, resume: bool, options: Sequence[str] = ()
) -> str:
    """Spell out a run's command, its folder included, so that it can be given again."""
    words = ["quantattn", "run", *([study] if study else []), "--out", str(out)]
    words += ["--quick"] if quick else []
    words += [] if seed is None else ["--seed", str(seed)]
    words += options
    words += ["--resume"] if resume else []
    return shlex.join(words)
