"""``quantattn bench``: this package against its peers, by the clock."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quantattn.cli.options import AsJson, Debug
from quantattn.errors import UsageError

Quick = Annotated[bool, typer.Option("--quick", help="Shorter lengths, fewer repetitions.")]
BenchThreads = Annotated[int | None, typer.Option(min=1, help="Threads for torch and the compiled backend.")]


def bench(context: typer.Context) -> None:
    """Time this package against its peers."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def attention(
    as_json: AsJson = False,
    quick: Quick = False,
    threads: BenchThreads = None,
    debug: Debug = False,
) -> None:
    """Time causal linear attention against softmax and other implementations.

    Medians with quartiles, in about a minute. One comparison is with recorded figures of a C++ kernel that
    does not run here.
    """
    import json

    from quantattn.bench import attention_text, bench_attention

    found = bench_attention(quick=quick, threads=threads)
    typer.echo(json.dumps(found.to_dict(), indent=2) if as_json else attention_text(found))


def data(
    as_json: AsJson = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer events, fewer runs.")] = False,
    events_on_disk: Annotated[
        int | None,
        typer.Option(min=1, help="Also write so many events to a temporary file and read them from it."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where that file is made.", show_default="the system's choice")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the events.")] = 0,
    debug: Debug = False,
) -> None:
    """Time what a dataset does against asof joins, on millions of events."""
    import json

    from quantattn.bench import bench_data, data_text

    if folder is not None and not folder.is_dir():
        raise UsageError(f"folder {str(folder)!r} does not exist; make it first")
    found = bench_data(quick=quick, events_on_disk=events_on_disk, seed=seed, folder=folder)
    typer.echo(json.dumps(found.to_dict(), indent=2) if as_json else data_text(found))


def training(
    as_json: AsJson = False,
    quick: Quick = False,
    threads: BenchThreads = None,
    debug: Debug = False,
) -> None:
    """Time training of the linear forecaster beside its softmax twin, and beside a window for each forecast.

    Medians with quartiles, growth with the length and peak memory, in about four minutes.
    """
    import json

    from quantattn.bench import bench_training, training_text

    found = bench_training(quick=quick, threads=threads)
    typer.echo(json.dumps(found.to_dict(), indent=2) if as_json else training_text(found))


def streaming(as_json: AsJson = False, quick: Quick = False, debug: Debug = False) -> None:
    """Time single events and forecasts beside eager torch, the softmax twin and the floor.

    One thread; p50, p95 and p99, rates, growth with the history and cold starts, in about two minutes.
    """
    import json

    from quantattn.bench import bench_streaming, streaming_text

    found = bench_streaming(quick=quick)
    typer.echo(json.dumps(found.to_dict(), indent=2) if as_json else streaming_text(found))
