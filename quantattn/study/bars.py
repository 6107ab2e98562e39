"""Progress bars for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TaskID, TextColumn
from rich.progress import Progress as Bars
from rich.table import Column
from rich.text import Text

from quantattn.study.progress import Stage, Timed, one_line, spoken_seconds


class BarProgress(Timed):
    """Draws a bar for each stage, with the time left; inner stages vanish when they are done.

    Parameters
    ----------
    stream : text stream
        A terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._console = Console(file=stream, highlight=False)
        self._bars: Bars | None = None

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Stage]:
        """Draw the stage's bar."""
        bars = self._bars
        if bars is None:
            with self._drawing() as bars, self._bar(bars, name, total) as stage:
                yield stage
        else:
            with self._bar(bars, f"  {name}", total) as stage:
                yield stage
            bars.remove_task(stage.task)

    @contextmanager
    def _drawing(self) -> Iterator[Bars]:
        # Markup is off: a name or note may quote text that came from data.
        bars = Bars(
            TextColumn("{task.description}", markup=False, table_column=_column(min_width=24)),
            BarColumn(bar_width=18, table_column=_column(min_width=18)),
            MofNCompleteColumn(table_column=_column(min_width=5)),
            _TimeColumn(table_column=_column()),
            TextColumn("{task.fields[note]}", markup=False, style="dim", table_column=_column()),
            console=self._console,
            refresh_per_second=4,
        )
        self._bars = bars
        try:
            with bars:
                yield bars
        finally:
            self._bars = None

    @contextmanager
    def _bar(self, bars: Bars, name: str, total: int | None) -> Iterator[_BarStage]:
        stage = _BarStage(bars, bars.add_task(name, total=total, note=""))
        try:
            with self._timed(name.strip()):
                yield stage
            stage.finish(total)
        except BaseException:
            stage.note("stopped")
            raise
        finally:
            bars.stop_task(stage.task)


def _column(min_width: int | None = None) -> Column:
    return Column(min_width=min_width, no_wrap=True, overflow="ellipsis")


class _BarStage:
    def __init__(self, bars: Bars, task: TaskID) -> None:
        self._bars, self.task = bars, task
        self._done = 0

    def advance(self, n: int = 1) -> None:
        """Move the bar."""
        self._done += n
        self._bars.advance(self.task, n)

    def note(self, text: str) -> None:
        """Show the remark right of the bar."""
        self._bars.update(self.task, note=one_line(text))

    def finish(self, total: int | None) -> None:
        """Fill the bar, also where the number of steps was not known."""
        steps = total or self._done or 1
        self._bars.update(self.task, total=steps, completed=steps)


class _TimeColumn(ProgressColumn):
    """Time spent and, while there is a guess, time left."""

    def render(self, task: Task) -> Text:
        spent = task.finished_time if task.finished else task.elapsed
        text = spoken_seconds(spent or 0.0)
        if not task.finished and task.time_remaining is not None:
            text += f", about {spoken_seconds(task.time_remaining)} left"
        return Text(text, style="progress.elapsed")
