"""How a study is carried out, as opposed to what it is: engine, workers, threads, tracking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quantattn.errors import UsageError

ENGINES: Final = ("local", "ray")
"""Names of the engines."""


def tracking_uri(track: str) -> str | None:
    """Read ``mlflow`` or ``mlflow:<URI>``.

    Returns
    -------
    str or None
        The URI; None for MLflow's own choice.

    Raises
    ------
    UsageError
        If it is neither.
    """
    name, colon, uri = track.partition(":")
    if name != "mlflow" or (colon and not uri):
        raise UsageError(f"track={track!r} is unknown; write mlflow, or mlflow: and a tracking URI or folder")
    return uri or None


@dataclass(frozen=True)
class Execution:
    """How the units of a study are done. None of it but `threads` touches a byte of the forecasts.

    Parameters
    ----------
    engine : {"local", "ray"}, default "local"
        What does the units.
    workers : int, default 1
        Units at once on one machine of this size.
    threads : int, optional
        Threads of the numerical libraries for each unit; by default the machine's cores shared out among
        the workers. The last bits of trained weights depend on it.
    address : str, optional
        Of a Ray cluster.
    track : str, optional
        ``"mlflow"`` or ``"mlflow:<tracking URI>"``.

    Raises
    ------
    UsageError
        If a number is less than 1, or a name is unknown.
    """

    engine: str = "local"
    workers: int = 1
    threads: int | None = None
    address: str | None = None
    track: str | None = None

    def __post_init__(self) -> None:
        """Check the numbers and the names."""
        if self.engine not in ENGINES:
            raise UsageError(f"engine {self.engine!r} is unknown; use one of {', '.join(ENGINES)}")
        if self.address is not None and self.engine != "ray":
            raise UsageError(f"address {self.address!r} has no meaning for engine local; add --engine ray")
        for name in ("workers", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name}={value} must be at least 1")
        if self.track is not None:
            tracking_uri(self.track)

    def threads_of(self, cores: int) -> int:
        """Give the threads of each unit on a machine with so many cores."""
        return self.threads or max(1, cores // self.workers)

    def words(self) -> list[str]:
        """Give the options of the command line that say this; none for the defaults."""
        words = [] if self.engine == "local" else ["--engine", self.engine]
        words += [] if self.workers == 1 else ["--workers", str(self.workers)]
        words += [] if self.threads is None else ["--threads", str(self.threads)]
        words += [] if self.address is None else ["--address", self.address]
        return words + ([] if self.track is None else ["--track", self.track])
