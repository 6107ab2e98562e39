"""``quantattn replay``: events stream through a run's model, forecasts come out as lines of JSON."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from quantattn.cli.failures import NOTHING_KEPT, Interrupted
from quantattn.cli.options import Debug, Run, require_run
from quantattn.errors import UsageError, printable

if TYPE_CHECKING:
    from quantattn.study.replay.pace import Alarm

READER_GONE: Final = 141
"""What a shell makes of a program that wrote to a pipe which nobody reads: 128 + SIGPIPE."""

_CHUNK: Final = 1 << 16


def replay(
    run: Run,
    log: Annotated[
        str | None,
        typer.Argument(
            help="Events: a Parquet file, a file of JSON lines, or - for standard input.",
            show_default="the run's own data",
            metavar="LOG",
        ),
    ] = None,
    model: Annotated[str, typer.Option(help="Which network: linear or softmax.")] = "linear",
    fold: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Its fold.",
            show_default="the first with a test forecast from --from on, else the last",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Its seed.", show_default="the least")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="First forecast: a time with its zone, or a date of UTC.",
            metavar="TIME",
            show_default="after the fit",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="Last forecast.", metavar="TIME", show_default="the last event")
    ] = None,
    speed: Annotated[
        str, typer.Option(help="max, real, or how many times faster than real.", metavar="SPEED")
    ] = "max",
    entities: Annotated[
        str | None,
        typer.Option(
            help="Forecast these alone, and leave out others' own events.",
            metavar="A,B",
            show_default="all of the run",
        ),
    ] = None,
    snapshot: Annotated[
        Path | None,
        typer.Option(help="Keep the state there at the end; go on behind it if it is there.", metavar="FILE"),
    ] = None,
    snapshot_every: Annotated[
        int | None, typer.Option(min=1, help="Keep it after every so many events, too.", metavar="N")
    ] = None,
    late: Annotated[
        str, typer.Option(help="What becomes of events that come too late: refuse or queue.")
    ] = "refuse",
    with_history: Annotated[
        bool,
        typer.Option(
            "--with-history",
            help="Write the run's own events first: all, or those from before LOG's first event if it is a "
            "file. Not needed behind a snapshot.",
        ),
    ] = False,
    debug: Debug = False,
) -> None:
    """Stream events through a run's model and print its forecasts as lines of JSON.

    Forecasts come at the study's own clock times; a line {"forecast": ENTITY, "at": TIME} among the events
    asks for one more, which is marked "asked". From standard input with --speed real they come when due by
    the clock on the wall.

    A replay that goes on behind a snapshot leaves no line out, but may repeat those after it, with the same
    values; one ended amid an instant repeats all of that instant. Keep one line of each entity and time.
    """
    require_run(run)
    if sys.stdout is None:
        raise UsageError("standard output is closed; the forecasts are written there")
    from quantattn.study.replay.pace import Alarm

    alarm = Alarm()
    kept = f"; {str(snapshot)!r} holds the state, and the same command goes on behind it" if snapshot else ""
    try:
        with _signals(alarm):
            from quantattn.study.replaying import ReplayRequest, replay_run

            _interrupt_writes()
            request = ReplayRequest(
                run=run,
                log=log,
                model=model,
                fold=fold,
                seed=seed,
                since=since,
                until=until,
                speed=speed,
                entities=entities,
                snapshot=snapshot,
                snapshot_every=snapshot_every,
                late=late,  # type: ignore[arg-type]  # checked there
                with_history=with_history,
            )
            summary = replay_run(
                request, write=_print, note=_note, standard_input=_standard_input(), alarm=alarm
            )
            _note(f"{_counted(summary.events, 'event')}, {_counted(summary.forecasts, 'forecast')}")
    except BrokenPipeError:
        _silence()
        raise typer.Exit(READER_GONE) from None
    except KeyboardInterrupt:
        _silence()  # whoever reads the output may have stopped long ago
        _forget_the_interrupt()
        when = "amid a step; a snapshot is of an instant before it" if alarm.heard else "before it began"
        raise Interrupted(f"interrupted {when}") from None
    except OSError as error:
        error.add_note(NOTHING_KEPT)
        raise
    if summary.stopped or alarm.rung:
        raise Interrupted(f"interrupted{kept}")


def _print(values: dict[str, Any]) -> None:
    from quantattn.forecasters.streaming.events.lines import values_line

    sys.stdout.write(values_line(values) + "\n")
    sys.stdout.flush()  # whoever reads a pipe waits for it


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _note(text: str) -> None:
    typer.echo(f"Note: {printable(text)}", err=True)


def _standard_input() -> Callable[[], bytes]:
    if sys.stdin is None:
        return _nothing_comes
    try:
        descriptor = sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):  # no file
        return lambda: sys.stdin.buffer.read(_CHUNK)
    # Past Python's own buffer, whose lock a waiting thread would hold when the process ends.
    return lambda: os.read(descriptor, _CHUNK)


def _nothing_comes() -> bytes:
    raise UsageError("standard input is closed; name a file, or pipe something in")


def _forget_the_interrupt() -> None:
    """Let the process end with our exit code.

    Python dies of SIGINT itself, whatever we say, where an interrupt came out of code that an extension ran
    from its source, as some do when they are loaded; the next such code clears that.
    """
    exec("")


def _silence() -> None:
    """Leave nothing to be written when the process ends."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        sys.stdout = None


def _interrupt_writes() -> None:
    """Let signals end a write to a reader that does not read; polars, once loaded, has it begun again."""
    if hasattr(signal, "siginterrupt") and threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.siginterrupt(number, True)


@contextmanager
def _signals(alarm: Alarm) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the replay after a whole step; a second one ends it at once."""

    def told(number: int, frame: FrameType | None) -> None:
        if alarm.rung or not alarm.heard:
            raise KeyboardInterrupt
        alarm.ring()

    if threading.current_thread() is not threading.main_thread():
        yield  # nobody else may set handlers
        return
    before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        atexit.register(_be_deaf)


def _be_deaf() -> None:
    """Ignore signals while Python winds itself up: all is done, and the exit code is settled."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
