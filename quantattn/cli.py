"""The command ``quantattn``: it finds what is meant, hands it to the job, and tells how it ended.

Nothing heavy is imported here, so that ``quantattn --help`` answers at once. Exit codes: 0 done, 1 failed,
2 the request itself is wrong, 130 interrupted. Without ``--debug`` a failure is one clear line.
"""

from __future__ import annotations

import errno
import os
import shlex
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from quantattn import __version__
from quantattn.errors import QuantAttnError, UsageError, printable

if TYPE_CHECKING:
    from quantattn.study import Study

FAILED: Final = 1
WRONG_REQUEST: Final = 2
INTERRUPTED: Final = 130

# Typer's own complaints about a command line; older versions take them from click, newer ones carry them.
_COMMAND_LINE_ERRORS = tuple(
    kind for kind in typer.BadParameter.__mro__ if issubclass(kind, Exception) and kind is not Exception
)
_NOTHING_KEPT: Final = "nothing of the run was kept"
_FULL_DISK = ("No space left on device", "StorageFull", "Disk quota exceeded")


class _Interrupted(Exception):
    """Ctrl-C in a run, with what the user can do next; typer would swallow a KeyboardInterrupt."""


class _Commands(TyperGroup):
    """Turns every way in which a command can end into an exit code and at most one line of error."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        arguments = list(sys.argv[1:] if args is None else args)
        options["standalone_mode"] = False
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a finding in Greek must not break an ASCII log
                stream.reconfigure(errors="replace")
        try:
            code = super().main(arguments, *rest, **options)
        except Exception as error:
            if "--debug" in arguments:
                traceback.print_exc()
            code, message = _verdict(error)
            _complain(message)
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Point-in-time backtests of causal linear attention against its softmax twin.",
    epilog="`quantattn run` needs nothing else: it runs a packaged study on packaged history.",
)

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


def main() -> None:
    """Run the command line of this process."""
    # GNU OpenMP reads this when torch is loaded. Threads that wait spin for microseconds, not for
    # milliseconds: as fast on an idle machine, and several times as fast beside other work.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    app()


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and stop.")] = False,
) -> None:
    if version:
        typer.echo(f"quantattn {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("run")
def _run(
    study: Annotated[
        str | None,
        typer.Argument(
            help="A study file, or the name of a packaged study.", show_default="realised_variance"
        ),
    ] = None,
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
    chosen = _chosen(study, quick=quick, seed=seed)
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
            error.add_note(_NOTHING_KEPT)
        raise
    except KeyboardInterrupt:
        if folder.exists():
            again = _command_line(study, out=out, quick=quick, seed=seed, resume=True, options=options)
            raise _Interrupted(f"interrupted; continue with `{again}`") from None
        raise _Interrupted("interrupted; nothing was written") from None
    for remark in summary.remarks:
        typer.echo(f"Note: {remark}")
    typer.echo(f"\nReport: {summary.report}")
    typer.echo(summary.headline)
    for number, finding in enumerate(summary.findings, 1):
        typer.echo(f"{number}. {finding}")


@app.command("plan")
def _plan(
    study: Annotated[
        str | None,
        typer.Argument(
            help="A study file, or the name of a packaged study.", show_default="realised_variance"
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Plan the reduced study.")] = False,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Plan this seed alone.")] = None,
    engine: Engine = "local",
    workers: Workers = 1,
    threads: Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    debug: Debug = False,
) -> None:
    """Say what a study will do, and about how long it will take, before anything is trained."""
    import json

    from quantattn.study.execution import Execution

    how = Execution(engine, workers, threads)
    chosen = _chosen(study, quick=quick, seed=seed)
    from quantattn.study.plan import plan_study
    from quantattn.study.plan_text import plan_text

    plan = plan_study(chosen, execution=how)
    typer.echo(json.dumps(plan.to_dict(), indent=2) if as_json else plan_text(plan))


def _chosen(study: str | None, *, quick: bool, seed: int | None) -> Study:
    """Find the study that is meant, as it is run."""
    from quantattn.study import find_study
    from quantattn.study.catalogue import DEFAULT_STUDY

    chosen: Study = find_study(DEFAULT_STUDY if study is None else study)
    if seed is not None:
        chosen = chosen.with_seeds(seed)
    return chosen.quick() if quick else chosen


@app.command("studies")
def _studies(debug: Debug = False) -> None:
    """List the packaged studies."""
    from quantattn.study import DEFAULT_STUDY, packaged_studies

    found = packaged_studies()
    width = max(len(name) for name in found)
    for name, description in found.items():
        mark = " (default)" if name == DEFAULT_STUDY else ""
        typer.echo(f"{name:<{width}}  {description}{mark}")
    typer.echo("\nRun one with `quantattn run NAME`; write your own with `quantattn init`.")


@app.command("init")
def _init(
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


@app.command("report")
def _report(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    debug: Debug = False,
) -> None:
    """Make the report of a finished run again from its tables."""
    if not run.is_dir():
        raise UsageError(f"run folder {str(run)!r} does not exist; `quantattn run` makes one under runs/")
    if not (run / "study.yaml").is_file():
        raise UsageError(
            f"{str(run)!r} is not a run folder: it has no study.yaml; give one that `quantattn run` made"
        )
    from quantattn.report import write_report

    typer.echo(f"Report: {write_report(run)}")


@app.command("ingest")
def _ingest(
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
    from quantattn.pit.ingest import ingest
    from quantattn.pit.ingest_text import describe_text, formats_text, ingested_text

    if formats or describe is not None:
        typer.echo(formats_text() if describe is None else describe_text(describe))
        return
    if format is None:
        raise UsageError("no format is given; `quantattn ingest --formats` lists them")
    if out is None:
        raise UsageError("no --out is given; name the Parquet file to write, such as --out events.parquet")
    done = ingest(
        format, paths or [], out=out, settings=settings or [], rejects=rejects, strict=strict, force=force
    )
    typer.echo(ingested_text(done))


bench = typer.Typer(cls=TyperGroup, help="Time this package against its peers.", invoke_without_command=True)
app.add_typer(bench, name="bench")


@bench.callback()
def _bench(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@bench.command("attention")
def _bench_attention(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter lengths, fewer repetitions.")] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads for torch and the compiled backend.")
    ] = None,
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


@bench.command("data")
def _bench_data(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
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


@bench.command("training")
def _bench_training(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter lengths, fewer repetitions.")] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads for torch and the compiled backend.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Time training of the linear forecaster beside its softmax twin, and beside a window for each forecast.

    Medians with quartiles, growth with the length and peak memory, in about four minutes.
    """
    import json

    from quantattn.bench import bench_training, training_text

    found = bench_training(quick=quick, threads=threads)
    typer.echo(json.dumps(found.to_dict(), indent=2) if as_json else training_text(found))


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


def _verdict(error: Exception) -> tuple[int, str]:
    """Give the exit code and the message of a failure."""
    if isinstance(error, UsageError):
        return WRONG_REQUEST, str(error)
    if isinstance(error, QuantAttnError):
        return FAILED, str(error)
    if isinstance(error, _Interrupted):
        return INTERRUPTED, str(error)
    if isinstance(error, _COMMAND_LINE_ERRORS):
        return WRONG_REQUEST, _command_line_fault(error)
    if any(sign in str(error) for sign in _FULL_DISK) or getattr(error, "errno", None) == errno.ENOSPC:
        where = getattr(error, "filename", None)
        then = "run again" if _NOTHING_KEPT in getattr(error, "__notes__", ()) else "add --resume"
        return FAILED, f"the disk is full{f': {where}' if where else ''}; free some space, then {then}"
    if isinstance(error, MemoryError):
        return FAILED, "out of memory; use fewer instruments or a later data.start, or try --quick"
    if isinstance(error, OSError) and error.strerror:
        return FAILED, f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    text = " ".join(str(error).split())
    return FAILED, f"unexpected {type(error).__name__}{f': {text}' if text else ''}; run again with --debug"


def _command_line_fault(error: Exception) -> str:
    message: Any = getattr(error, "format_message", error.__str__)()
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "quantattn"
    return f"{' '.join(str(message).split()).rstrip('.')}; see `{command} --help`"


def _complain(message: str) -> None:
    # Last of all, for what is no error of ours: an argument or a file's name may hold anything.
    for line in printable(message).splitlines():
        typer.echo(f"Error: {line}", err=True)
