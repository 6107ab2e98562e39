"""The linear forecaster and its softmax twin with scikit-learn's conventions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import CheckpointError, UsageError
from quantattn.forecasters.config import Attention
from quantattn.forecasters.estimators.fitting import fit_forecaster
from quantattn.forecasters.estimators.forecasting import Route, forecast_frame, raw_forecasts
from quantattn.forecasters.estimators.inputs import Data, Moment, history_of, targets_of
from quantattn.forecasters.estimators.not_fitted import NotFittedForecasterError
from quantattn.forecasters.estimators.parameters import ForecasterParameters
from quantattn.forecasters.estimators.sides import FoldLike, check_sides, checked_rows, fold_of
from quantattn.forecasters.estimators.storage import LEARNED, read_estimator, write_estimator
from quantattn.forecasters.estimators.values import whole
from quantattn.forecasters.fitted import FittedForecaster
from quantattn.forecasters.history import History, encode, fit_encoders
from quantattn.forecasters.streaming import StreamingForecaster
from quantattn.forecasters.targets import Targets
from quantattn.forecasters.tokens import Integers
from quantattn.forecasters.training import TrainingLog
from quantattn.pit.timestamps import nanoseconds_of, to_nanoseconds


class AttentionForecaster(ForecasterParameters):
    """What both twins share; use :class:`LinearAttentionForecaster` or :class:`SoftmaxAttentionForecaster`.

    The constructor stores and nothing else: values are checked in :meth:`fit`, which learns encoders, scales,
    weights and the network from the training rows alone.


    Attributes
    ----------
    forecaster_ : FittedForecaster
        Network, encoders and readout.
    training_log_ : TrainingLog or None
        Losses by epoch; None after :meth:`load`.
    target_names_ : tuple of str
        What is forecast.
    fit_time_, cutoff_ : int
        Nanoseconds since the epoch, UTC: when it was fitted, and up to when encoders and targets saw.
    n_rows_ : int
        Training rows.
    n_masked_ : int
        Targets of training and validation rows that were left out: missing, or not known in time.
    """

    forecaster_: FittedForecaster
    training_log_: TrainingLog | None
    target_names_: tuple[str, ...]
    fit_time_: int
    cutoff_: int
    n_rows_: int
    n_masked_: int

    def fit(
        self,
        data: Data,
        rows: npt.ArrayLike | FoldLike,
        *,
        validation: npt.ArrayLike | None = None,
        fit_time: Moment | None = None,
        targets: Targets | None = None,
        on_epoch: Callable[[int], None] | None = None,
    ) -> Self:
        """Learn from training rows, and stop on validation rows.

        Parameters
        ----------
        data : PointInTimeDataset or History
            The dataset, or what :func:`~quantattn.forecasters.read_history` made of it with the same
            `text_width`, which saves hashing the text anew for every fold.
        rows : array-like of int, or Fold
            Rows of the samples to train on; a fold brings its validation rows and `fit_time` along.
        validation : array-like of int, optional
            Rows to stop on; without any, the weights of the last epoch are kept.
        fit_time : datetime, numpy.datetime64, pandas.Timestamp or int, optional
            Nothing that became known later is used; naive values are UTC, integers nanoseconds UTC.
            By default the instant at which the last target of the rows is known.
        targets : Targets, optional
            Several targets or horizons. Those that are not known in time count as missing. By default the
            samples' `y_true`, which must all be known in time.
        on_epoch : callable, optional
            Called with the epoch's number after each epoch.

        Returns
        -------
        AttentionForecaster
            Itself.

        Raises
        ------
        UsageError
            If an argument of the constructor is impossible.
        ForecasterError
            If rows are outside of the samples, repeated or on both sides, or teach nothing.
        TimestampError
            If `fit_time` is no instant.
        SplitError
            If the fold is one of a cross-validation, which has no `fit_time`.
        DataError
            If a target of the rows is infinite.
        LeakageError
            If a target is known only after the first validation forecast, or after `fit_time`.
        """
        for name in ("forecaster_", "training_log_"):  # a fit that fails leaves nothing fitted
            self.__dict__.pop(name, None)
        fold = fold_of(rows)
        if fold is not None:
            if validation is not None or fit_time is not None:
                raise UsageError("a fold brings its validation and fit_time along; do not give them as well")
            rows, validation, fit_time = fold.train, fold.validation, fold.fit_time
        known = targets_of(data, targets, self.log_target)
        network, training, aim = self.configurations(known.names)
        text_width = whole(self.get_params(), "text_width")
        history = history_of(data, text_width)
        sides = check_sides(
            history.samples,
            known,
            cast(npt.ArrayLike, rows),
            np.empty(0, np.int64) if validation is None else validation,
            None if fit_time is None else to_nanoseconds(fit_time),
            strict=targets is None,
        )
        encoders = fit_encoders(history, sides.cutoff + 1, text_width=text_width)
        self.forecaster_, self.training_log_ = fit_forecaster(
            history,
            list(encode(history, encoders).values()),
            encoders,
            known,
            sides,
            network=network,
            training=training,
            aim=aim,
            seed=int(self.seed),
            on_epoch=on_epoch,
        )
        self.target_names_ = known.names
        self.fit_time_, self.cutoff_ = sides.fit_time, sides.cutoff
        self.n_rows_ = len(sides.train)
        self.n_masked_ = int((~sides.train_known).sum() + (~sides.validation_known).sum())
        return self

    def predict(
        self, data: Data, rows: npt.ArrayLike | FoldLike | None = None, *, path: Route = "stream"
    ) -> pl.DataFrame:
        """Forecast rows, each from what was visible strictly before its forecast time.

        Parameters
        ----------
        data : PointInTimeDataset or History
            As for :meth:`fit`; it may be longer than what was fitted on.
        rows : array-like of int, or Fold, optional
            Rows of the samples in any order; the test rows of a fold. All later than the fit by default.
        path : {"stream", "batch"}, default "stream"
            Replay the events one by one, as live, or read whole sequences at once. They agree up to rounding.

        Returns
        -------
        polars.DataFrame
            One row for each row and target, in the order given: `row`, `entity`, `forecast_time`, `target`,
            `y_pred`, `y_lower`, `y_upper`; ``y_std`` (gaussian head), ``q_<level>`` (quantile head),
            ``probability_up`` (direction head), whose `y_pred` is the mean of the outcomes -1 and 1; and
            `fit_time`, by which rows that were trained on can be told.

        Raises
        ------
        NotFittedForecasterError
            If it is not fitted.
        ForecasterError
            If a row is outside of the samples.
        UsageError
            If `path` is unknown, or `set_params` left sizes that no batch can have.
        """
        forecaster = self._fitted()
        if path not in ("stream", "batch"):
            raise UsageError(f"path={path!r} is not known; use 'stream' or 'batch'")
        given = self.get_params()
        if path == "batch" and whole(given, "batch_entities") < 1:
            raise UsageError(f"batch_entities={self.batch_entities} must be at least 1")
        if path == "batch" and self.segment_tokens is not None and whole(given, "segment_tokens") < 1:
            raise UsageError(f"segment_tokens={self.segment_tokens} must be at least 1, or None")
        history = history_of(data, forecaster.encoders.events.text_width)
        chosen = self._rows(history, rows)
        raw = raw_forecasts(
            forecaster,
            list(encode(history, forecaster.encoders).values()),
            chosen,
            path=path,
            batch_entities=self.batch_entities,
            segment_tokens=self.segment_tokens,
        )
        return forecast_frame(forecaster, history, chosen, raw)

    def stream(self, **options: Any) -> StreamingForecaster:
        """Give the forecaster that runs live, with empty memories: raw events in, forecasts out.

        Parameters
        ----------
        **options
            Those of :class:`~quantattn.forecasters.StreamingForecaster`.

        Raises
        ------
        NotFittedForecasterError
            If it is not fitted.
        """
        return self._fitted().stream(**options)

    def save(self, folder: str | Path) -> None:
        """Write the estimator into a folder, whole or not at all: weights (safetensors) and JSON.

        Parameters
        ----------
        folder : str or Path
            Where; an estimator that is there already is replaced.

        Raises
        ------
        NotFittedForecasterError
            If it is not fitted.
        OutputDirectoryError
            If the folder holds anything but an estimator.
        UsageError
            If `set_params` made the arguments those of another network.
        """
        forecaster = self._fitted()
        self.check_against(forecaster)
        learned = {name: getattr(self, f"{name}_") for name in LEARNED}
        arguments = {**self.get_params(), "device": str(self.device)}
        write_estimator(Path(folder), type(self).__name__, arguments, learned, forecaster)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read what :meth:`save` wrote.

        Parameters
        ----------
        folder : str or Path
            Where.

        Returns
        -------
        AttentionForecaster
            Fitted; its training log is not kept.

        Raises
        ------
        CheckpointError
            If a file is missing, truncated or altered, or holds the other twin or another network.
        """
        parameters, learned, forecaster = read_estimator(Path(folder), cls.__name__, cls().get_params())
        loaded = cls(**parameters)
        try:
            loaded.check_against(forecaster)
        except UsageError as error:
            raise CheckpointError(f"{folder} does not fit together ({error}); save it again") from error
        loaded.forecaster_, loaded.training_log_ = forecaster, None
        loaded.target_names_ = forecaster.network.config.head.targets
        for name, value in learned.items():
            setattr(loaded, f"{name}_", value)
        return loaded

    def _fitted(self) -> FittedForecaster:
        if not hasattr(self, "forecaster_"):
            raise NotFittedForecasterError(f"{type(self).__name__} is not fitted; call fit(data, rows) first")
        return self.forecaster_

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether it is fitted."""
        return hasattr(self, "forecaster_")

    def _rows(self, history: History, rows: npt.ArrayLike | FoldLike | None) -> Integers:
        fold = fold_of(rows)
        if rows is None:
            times = nanoseconds_of(history.samples["forecast_time"])
            rows = np.flatnonzero(times > self.fit_time_)
        elif fold is not None:
            rows = fold.test
        checked_rows(cast(npt.ArrayLike, rows), history.samples.height, "rows")
        chosen: Integers = np.asarray(rows, np.int64)
        return chosen


class LinearAttentionForecaster(AttentionForecaster):
    """Forecasts by causal linear attention: the state has one size, however long the history.

    Parameters are those of :class:`~quantattn.forecasters.estimators.ForecasterParameters`, attributes and
    methods those of :class:`AttentionForecaster`.

    References
    ----------
    Katharopoulos et al. (2020), "Transformers are RNNs", equations 4 and 9.

    Examples
    --------
    >>> from sklearn.base import clone
    >>> from quantattn.forecasters.estimators import LinearAttentionForecaster
    >>> forecaster = LinearAttentionForecaster("quantile", levels=(0.1, 0.5, 0.9), hidden=64)
    >>> clone(forecaster).set_params(seed=1)
    LinearAttentionForecaster(head='quantile', hidden=64, levels=(0.1, 0.5, 0.9),
                              seed=1)
    """

    attention: ClassVar[Attention] = "linear"


class SoftmaxAttentionForecaster(AttentionForecaster):
    """Forecasts by causal softmax attention: the twin, which keeps every key and value.

    Parameters are those of :class:`~quantattn.forecasters.estimators.ForecasterParameters`, attributes and
    methods those of :class:`AttentionForecaster`.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", equation 1.
    """

    attention: ClassVar[Attention] = "softmax"
