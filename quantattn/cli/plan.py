"""``quantattn plan``: what a study will do, and about how long it will take."""

from __future__ import annotations

from typing import Annotated

import typer

from quantattn.cli.options import AsJson, Debug, Engine, StudyName, Threads, Workers, chosen_study


def plan(
    study: StudyName = None,
    quick: Annotated[bool, typer.Option("--quick", help="Plan the reduced study.")] = False,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Plan this seed alone.")] = None,
    engine: Engine = "local",
    workers: Workers = 1,
    threads: Threads = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say what a study will do, and about how long it will take, before anything is trained."""
    import json

    from quantattn.study.execution import Execution

    how = Execution(engine, workers, threads)
    chosen = chosen_study(study, quick=quick, seed=seed)
    from quantattn.study.plan import plan_study
    from quantattn.study.plan_text import plan_text

    planned = plan_study(chosen, execution=how)
    typer.echo(json.dumps(planned.to_dict(), indent=2) if as_json else plan_text(planned))
