"""Several targets side by side, each with the instant from which on it can be known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import DataError
from quantattn.forecasters.tokens import Integers
from quantattn.pit.labels import Labels
from quantattn.pit.timestamps import nanoseconds_of

Floats64 = npt.NDArray[np.float64]

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Targets:
    """Targets and horizons by row of the samples frame.

    Parameters
    ----------
    names : tuple of str, length K
        What is forecast.
    values : ndarray of float64, shape (n_samples, K)
        NaN where a target is missing; an infinite one is refused where it would be read.
    available_at : ndarray of int64, shape (n_samples, K)
        Nanoseconds since the epoch, UTC: first instant at which a target can be known; without meaning where
        it is missing.
    logs : tuple of bool or None, length K
        Whether a target is the logarithm of a variance (True), a variance (False), or neither (None).

    Raises
    ------
    DataError
        If the shapes do not fit each other, or an entry of `logs` is not True, False or None.
    """

    names: tuple[str, ...]
    values: Floats64
    available_at: Integers
    logs: tuple[bool | None, ...]

    def __post_init__(self) -> None:
        """Check the shapes, and what is said of logarithms."""
        wide = (len(self.values), len(self.names))
        if not self.values.shape == self.available_at.shape == wide or len(self.logs) != len(self.names):
            raise DataError(
                f"targets {list(self.names)}: values have shape {self.values.shape}, available_at "
                f"{self.available_at.shape} and logs {len(self.logs)} entries; give one column for each name"
            )
        odd = [log for log in self.logs if log is not None and not isinstance(log, bool | np.bool_)]
        if odd:
            raise DataError(
                f"logs={self.logs!r} holds {odd[0]!r}; give True for the logarithm of a variance, False for "
                "a variance, None for neither"
            )
        object.__setattr__(self, "logs", tuple(None if log is None else bool(log) for log in self.logs))

    @classmethod
    def of_samples(cls, samples: pl.DataFrame, *, log: bool | None = None) -> Targets:
        """Take the samples' own target, ``y_true``.

        Parameters
        ----------
        samples : polars.DataFrame
            With `y_true` and `label_available_at`.
        log : bool, optional
            As in `logs`.
        """
        return cls(
            ("y_true",),
            samples["y_true"].to_numpy().astype(np.float64)[:, None],
            nanoseconds_of(samples["label_available_at"])[:, None],
            (log,),
        )

    @classmethod
    def join(cls, samples: pl.DataFrame, labels: Mapping[str, Labels]) -> Targets:
        """Set labels of several kinds or horizons beside the samples.

        Parameters
        ----------
        samples : polars.DataFrame
            The dataset's samples: the rows, by `entity` and `forecast_time`.
        labels : mapping of str to Labels
            By the name under which each shall be forecast. A sample without such a label has NaN.

        Returns
        -------
        Targets

        Raises
        ------
        DataError
            If there is no label to join, or one of them meets no sample.
        """
        if not labels:
            raise DataError("labels is empty; give at least one, for example {'5 days': labels}")
        values, times, logs = [], [], []
        for name, given in labels.items():
            wanted = given.frame.select("entity", "forecast_time", "y_true", "label_available_at")
            keys = samples.select("entity", "forecast_time")
            found = keys.join(wanted, on=["entity", "forecast_time"], how="left", maintain_order="left")
            if found["y_true"].null_count() == found.height:
                raise DataError(
                    f"labels[{name!r}] has no label at the entities and forecast times of the samples; "
                    "measure it at the times of the dataset's clock"
                )
            values.append(found["y_true"].fill_null(float("nan")).to_numpy())
            times.append(found["label_available_at"].to_physical().fill_null(_NEVER).to_numpy())
            logs.append(given.name.startswith("log_") if given.kind == "variance" else None)
        return cls(tuple(labels), np.stack(values, axis=1), np.stack(times, axis=1), tuple(logs))

    def known(self, rows: Integers, cutoff: int) -> npt.NDArray[np.bool_]:
        """Tell which targets of some rows are there and can be known at an instant.

        Parameters
        ----------
        rows : ndarray of int64, shape (m,)
            Rows of the samples frame.
        cutoff : int
            Nanoseconds since the epoch, UTC; a target known in that very nanosecond is known.

        Returns
        -------
        ndarray of bool, shape (m, K)
        """
        there: npt.NDArray[np.bool_] = np.isfinite(self.values[rows]) & (self.available_at[rows] <= cutoff)
        return there
