"""What `fit` and `predict` are given: a dataset or its history, and the targets."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pandas as pd

from quantattn.errors import UsageError
from quantattn.forecasters.estimators.values import switch
from quantattn.forecasters.history import History, read_history
from quantattn.forecasters.targets import Targets
from quantattn.pit import PointInTimeDataset

Data = PointInTimeDataset | History
Moment = datetime | np.datetime64 | pd.Timestamp | int


def history_of(data: Data, text_width: int) -> History:
    """Give the history of a dataset, or the one given if its text has the width asked for.

    Raises
    ------
    UsageError
        If it is neither, or of another width.
    """
    if isinstance(data, PointInTimeDataset):
        return read_history(data, text_width)
    if not isinstance(data, History):
        raise UsageError(f"data is a {type(data).__name__}; give a PointInTimeDataset or a History")
    widths = {own.text.shape[1] for own in data.entities.values()}
    if widths - {text_width}:
        raise UsageError(
            f"the history has text of width {sorted(widths)} and text_width={text_width}; read it with "
            f"read_history(dataset, {text_width})"
        )
    return data


def targets_of(data: Data, targets: Targets | None, log_target: bool | None) -> Targets:
    """Give the targets given, or else the samples' own, a logarithm of a variance if so said or labelled.

    Raises
    ------
    UsageError
        If what is given is something else, or `log_target` is not True, False or None.
    """
    if log_target is not None:
        log_target = switch({"log_target": log_target}, "log_target")
    if targets is not None and not isinstance(targets, Targets):
        raise UsageError(
            f"targets is a {type(targets).__name__}; give Targets, for example Targets.join(samples, labels)"
        )
    if targets is not None:
        return targets
    if not isinstance(data, PointInTimeDataset | History):
        raise UsageError(f"data is a {type(data).__name__}; give a PointInTimeDataset or a History")
    if log_target is None and isinstance(data, PointInTimeDataset) and data.labels.kind == "variance":
        log_target = data.labels.name.startswith("log_")
    return Targets.of_samples(data.samples, log=log_target)
