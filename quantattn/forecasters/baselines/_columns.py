"""As-of features as the columns of a foreign model: chosen, filled and scaled by the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from quantattn.errors import ForecasterError
from quantattn.forecasters.baselines.ridge import known_features
from quantattn.forecasters.baselines.table import FEATURE_PREFIX, Floats, Integers, SampleTable

Impute = Literal["mean", "median", "none"]
"""What stands in for a missing value: the training mean or median of its column, or nothing (NaN stays)."""


@dataclass(frozen=True, eq=False)
class FittedColumns:
    """Columns as the training rows decided them.

    Parameters
    ----------
    names : tuple of str
        Features with at least one known training value.
    unknown : tuple of str
        Features without any, which are left out.
    fills, centers, scales : ndarray of float64, shape (k,)
        What stands in for a missing value (NaN for nothing), and what is subtracted and divided by.
    """

    names: tuple[str, ...]
    unknown: tuple[str, ...]
    fills: Floats
    centers: Floats
    scales: Floats

    def transform(self, table: SampleTable, rows: Integers) -> Floats:
        """Give the columns of rows, shape (m, k), each row by itself."""
        values = table.features(self.names, rows)
        values = np.where(np.isnan(values), self.fills, values)
        with np.errstate(over="ignore"):
            scaled: Floats = (values - self.centers) / self.scales
        return scaled


def fit_columns(
    table: SampleTable,
    rows: Integers,
    *,
    features: Sequence[str] | None,
    impute: Impute,
    scale: bool,
    name: str,
) -> FittedColumns:
    """Choose, fill and scale columns by the training rows alone.

    Parameters
    ----------
    table : SampleTable
    rows : ndarray of int64, shape (m,)
        Training rows.
    features : sequence of str, optional
        With or without the prefix ``asof_``; all by default.
    impute : {"mean", "median", "none"}
        See :data:`Impute`.
    scale : bool
        Whether to standardise by the known training values; a constant column is only centred.
    name : str
        The model's name, for messages.

    Returns
    -------
    FittedColumns

    Raises
    ------
    ForecasterError
        If `impute` is unknown, or no training row has any of the features.
    DataError
        If the table lacks a feature.
    """
    if impute not in get_args(Impute):
        raise ForecasterError(f"{name}: impute={impute!r} is unknown; use one of {list(get_args(Impute))}")
    if isinstance(features, str):
        raise ForecasterError(f"{name}: features={features!r} is one text; write [{features!r}]")
    if features is None:
        chosen, inputs = table.feature_names, known_features(table, rows, name)
    else:
        prefixed = (
            feature if feature.startswith(FEATURE_PREFIX) else FEATURE_PREFIX + feature
            for feature in features
        )
        chosen = tuple(dict.fromkeys(prefixed))
        inputs = table.features(chosen, rows)
    known = np.asarray(np.isfinite(inputs).any(axis=0))
    if not known.any():
        raise ForecasterError(
            f"{name}: no training row has any of the features {list(chosen)}; choose others, or leave it out"
        )
    inputs = inputs[:, known]
    middle = np.nanmedian if impute == "median" else np.nanmean
    fills = np.full(inputs.shape[1], np.nan) if impute == "none" else middle(inputs, axis=0)
    centers, scales = np.zeros(inputs.shape[1]), np.ones(inputs.shape[1])
    if scale:
        centers, spread = np.nanmean(inputs, axis=0), np.nanstd(inputs, axis=0)
        scales = np.where(spread > 1e-12 * np.nanmax(np.abs(inputs), axis=0), spread, 1.0)
    return FittedColumns(
        tuple(column for column, keep in zip(chosen, known, strict=True) if keep),
        tuple(column for column, keep in zip(chosen, known, strict=True) if not keep),
        np.asarray(fills, np.float64),
        centers,
        scales,
    )
