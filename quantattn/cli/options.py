"""Options that several commands take, and the study that they mean."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quantattn.errors import UsageError

if TYPE_CHECKING:
    from quantattn.study import Study

Engine = Annotated[
    str, typer.Option(help="What does the work: local (processes of this machine) or ray (a cluster).")
]
Workers = Annotated[
    int, typer.Option(min=1, help="Pieces of work at once on one machine; they share its cores.")
]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Threads of each piece of work; results are equal bytes for equal threads.",
        show_default="cores / workers",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(help="Of a Ray cluster, or auto for this machine's.", show_default="a Ray of its own"),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")]
StudyName = Annotated[
    str | None,
    typer.Argument(help="A study file, or the name of a packaged study.", show_default="realised_variance"),
]
Run = Annotated[Path, typer.Argument(help="Folder of a finished run.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def chosen_study(study: str | None, *, quick: bool, seed: int | None) -> Study:
    """Find the study that is meant, as it is run."""
    from quantattn.study import find_study
    from quantattn.study.catalogue import DEFAULT_STUDY

    chosen: Study = find_study(DEFAULT_STUDY if study is None else study)
    if seed is not None:
        chosen = chosen.with_seeds(seed)
    return chosen.quick() if quick else chosen


def require_run(run: Path) -> None:
    """See that a folder is one that ``quantattn run`` made.

    Raises
    ------
    UsageError
        If it does not exist, or has no ``study.yaml``.
    """
    if not run.is_dir():
        raise UsageError(f"run folder {str(run)!r} does not exist; `quantattn run` makes one under runs/")
    if not (run / "study.yaml").is_file():
        raise UsageError(
            f"{str(run)!r} is not a run folder: it has no study.yaml; give one that `quantattn run` made"
        )
