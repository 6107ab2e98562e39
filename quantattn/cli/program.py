"""The program that all commands make up, and the way in which each of them ends."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from quantattn import __version__
from quantattn.cli import bench as benches
from quantattn.cli.failures import complain, verdict
from quantattn.cli.ingest import ingest
from quantattn.cli.plan import plan
from quantattn.cli.replay import replay
from quantattn.cli.report import report
from quantattn.cli.run import run
from quantattn.cli.studies import init, studies


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
            code, message = verdict(error)
            complain(message)
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Point-in-time backtests of causal linear attention against its softmax twin.",
    epilog="`quantattn run` needs nothing else: it runs a packaged study on packaged history.",
)


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


app.command("run")(run)
app.command("plan")(plan)
app.command("studies")(studies)
app.command("init")(init)
app.command("report")(report)
app.command("replay")(replay)
app.command("ingest")(ingest)

bench = typer.Typer(cls=TyperGroup, help="Time this package against its peers.", invoke_without_command=True)
app.add_typer(bench, name="bench")
bench.callback()(benches.bench)
bench.command("attention")(benches.attention)
bench.command("data")(benches.data)
bench.command("training")(benches.training)
bench.command("streaming")(benches.streaming)
