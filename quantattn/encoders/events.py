"""Events as tokens: hashed text, scaled figures and the kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.encoders._checks import (
    column_names,
    require_columns,
    state_fields,
    stored_int,
    stored_names,
    visible_before,
)
from quantattn.encoders.card import EncoderCard
from quantattn.encoders.numeric import NumericScaler
from quantattn.encoders.text import HashingTextEncoder
from quantattn.errors import CheckpointError, EncoderError
from quantattn.files import hash_json
from quantattn.pit.timestamps import to_nanoseconds

_FIELDS = ("kinds", "ngram_range", "scaler", "schema", "text_width")
_SCHEMA = 1

Matrix = npt.NDArray[np.float32]


class EventEncoder:
    """Encode each event as ``[hashed text | scaled numeric features | one-hot kind]``.

    Fit it inside the fold, with the start of the fold's validation (or, without validation, of its
    test span) as the cutoff. What it learns is independent, bit for bit, of anything at or after the
    cutoff, and the encoding of an event is independent of all other rows.

    Parameters
    ----------
    text_width : int, default 32
        Columns of hashed text (see :class:`HashingTextEncoder`); 0 leaves the text out.
    clip : float, default 8.0
        Scaled features are clipped to plus and minus this many standard deviations.
    ngram_range : tuple of int, default (1, 2)
        Shortest and longest run of words that is hashed.

    Attributes
    ----------
    features_ : tuple of str
        The numeric features that it encodes.
    kinds_ : tuple of str
        Kinds seen before the cutoff, sorted.
    scaler_ : NumericScaler
        The scaler of the features.
    width_ : int
        Columns of the encoding.
    column_names_ : tuple of str
        What each column means: ``text:0``, ..., the features, ``kind:bar``, ...
    card_ : EncoderCard
        What it was fitted on.
    """

    kinds_: tuple[str, ...]
    scaler_: NumericScaler

    def __init__(
        self, text_width: int = 32, clip: float = 8.0, ngram_range: tuple[int, int] = (1, 2)
    ) -> None:
        self.text_width = text_width
        self.clip = clip
        self.ngram_range = ngram_range

    def fit(self, events: pl.DataFrame, features: Sequence[str], cutoff: int) -> Self:
        """Learn the scales and the kinds from the events visible at `cutoff`.

        Parameters
        ----------
        events : polars.DataFrame
            An event log's frame: ``available_at``, ``kind`` and the features. Later events may be
            there; they are not looked at.
        features : sequence of str
            Numeric feature columns; null means that an event has no such feature.
        cutoff : int
            Nanoseconds since the epoch, UTC. Only events with ``available_at`` strictly before it count.

        Returns
        -------
        EventEncoder
            Itself.

        Raises
        ------
        EncoderError
            If a column is missing, not numeric or not finite before the cutoff, or no event is visible.
        TimestampError
            If ``available_at`` is not a column of UTC instants.
        """
        self._check_width()
        names = column_names(features, "features")
        require_columns(events, ("available_at", "kind", *names), where="the event frame")
        limit = to_nanoseconds(cutoff)
        visible = visible_before(events, limit, "available_at")
        scaler = NumericScaler(self.clip).fit(events, names, limit)
        self.kinds_ = tuple(sorted(visible["kind"].cast(pl.String).drop_nulls().unique().to_list()))
        self.scaler_ = scaler
        return self

    def encode_text(self, events: pl.DataFrame) -> Matrix:
        """Encode the texts alone: the stateless part, the same in every fold.

        Parameters
        ----------
        events : polars.DataFrame
            With column ``text``.

        Returns
        -------
        ndarray of float32, shape (n, text_width)
            To hand to :meth:`transform` of every fold as `text`.

        Raises
        ------
        EncoderError
            If there is no column ``text``, or it does not hold text.
        """
        self._check_width()
        if self.text_width == 0:
            return np.zeros((events.height, 0), dtype=np.float32)
        require_columns(events, ("text",), where="the event frame")
        return HashingTextEncoder(self.text_width, self.ngram_range).transform(events["text"])

    def transform(self, events: pl.DataFrame, *, text: Matrix | None = None) -> Matrix:
        """Encode events, each by itself.

        Parameters
        ----------
        events : polars.DataFrame
            With ``kind``, the features, and ``text`` unless `text` is given.
        text : ndarray of float32, shape (n, text_width), optional
            What :meth:`encode_text` gave for the same rows.

        Returns
        -------
        ndarray of float32, shape (n, width_)
            A kind not seen before the cutoff has no column: its one-hot part is all zeros.

        Raises
        ------
        EncoderError
            If it is not fitted, a column is missing, or `text` does not fit the events.
        """
        self._check_fitted()
        require_columns(events, ("kind", *self.features_), where="the event frame")
        hashed = self.encode_text(events) if text is None else self._checked_text(text, events.height)
        kinds = events["kind"].cast(pl.String)
        one_hot = np.zeros((events.height, len(self.kinds_)), dtype=np.float32)
        for position, kind in enumerate(self.kinds_):
            one_hot[:, position] = (kinds == kind).fill_null(value=False).to_numpy()
        return np.concatenate([hashed, self.scaler_.transform(events), one_hot], axis=1)

    @property
    def features_(self) -> tuple[str, ...]:
        """The numeric features that it encodes."""
        self._check_fitted()
        return self.scaler_.columns_

    @property
    def width_(self) -> int:
        """Columns of the encoding."""
        self._check_fitted()
        return self.text_width + len(self.features_) + len(self.kinds_)

    @property
    def column_names_(self) -> tuple[str, ...]:
        """What each column of the encoding means."""
        texts = (f"text:{bucket}" for bucket in range(self.text_width))
        return (*texts, *self.features_, *(f"kind:{kind}" for kind in self.kinds_))

    @property
    def card_(self) -> EncoderCard:
        """What it was fitted on."""
        self._check_fitted()
        return EncoderCard(
            name=f"hashed text {self.text_width} + {len(self.features_)} features + {len(self.kinds_)} kinds",
            training_cutoff=self.scaler_.training_cutoff_,
            cutoff=self.scaler_.cutoff_,
            n_events=self.scaler_.n_rows_,
            width=self.width_,
            fingerprint=self.fingerprint,
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 (64 hexadecimal digits) of the canonical JSON of :meth:`to_dict`."""
        return hash_json(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Give everything learned as plain values; floats survive JSON bit for bit.

        Raises
        ------
        EncoderError
            If it is not fitted.
        """
        self._check_fitted()
        return {
            "kinds": list(self.kinds_),
            "ngram_range": [int(bound) for bound in self.ngram_range],
            "scaler": self.scaler_.to_dict(),
            "schema": _SCHEMA,
            "text_width": self.text_width,
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any], *, fingerprint: str | None = None) -> Self:
        """Rebuild a fitted encoder from :meth:`to_dict`.

        Parameters
        ----------
        state : mapping
            What :meth:`to_dict` gave.
        fingerprint : str, optional
            The fingerprint that the state must have, for example from the card stored beside it.

        Returns
        -------
        EventEncoder
            Encodes exactly as the one that was stored.

        Raises
        ------
        CheckpointError
            If a field is missing, superfluous or impossible, or the fingerprint differs.
        """
        fields = state_fields(state, _FIELDS, "an EventEncoder")
        if fields["schema"] != _SCHEMA:
            raise CheckpointError(
                f"the stored encoder has schema {fields['schema']!r}, this version reads {_SCHEMA}; fit again"
            )
        scaler = NumericScaler.from_dict(fields["scaler"])
        bounds = fields["ngram_range"]
        if not isinstance(bounds, list | tuple) or len(bounds) != 2:
            raise CheckpointError(f"stored ngram_range={bounds!r} is not a pair; fit the encoder again")
        shortest = stored_int(bounds[0], "ngram_range", minimum=1)
        longest = stored_int(bounds[1], "ngram_range", minimum=shortest)
        encoder = cls(
            text_width=stored_int(fields["text_width"], "text_width", minimum=0),
            clip=scaler.clip,
            ngram_range=(shortest, longest),
        )
        encoder.kinds_ = stored_names(fields["kinds"], "kinds")
        encoder.scaler_ = scaler
        if fingerprint is not None and encoder.fingerprint != fingerprint:
            raise CheckpointError(
                f"the stored encoder has fingerprint {encoder.fingerprint}, not {fingerprint}: it was "
                "altered or belongs to another run; fit it again"
            )
        return encoder

    def _check_width(self) -> None:
        width = self.text_width
        if isinstance(width, bool) or not isinstance(width, int) or width < 0:
            raise EncoderError(
                f"text_width={width!r} is not an integer from 0; use for example 32, or 0 for no text"
            )

    def _check_fitted(self) -> None:
        if not hasattr(self, "scaler_"):
            raise EncoderError("this EventEncoder is not fitted; call fit(events, features, cutoff) first")

    def _checked_text(self, text: Matrix, rows: int) -> Matrix:
        expected = (rows, self.text_width)
        if not isinstance(text, np.ndarray) or text.shape != expected or text.dtype != np.float32:
            found = f"{text.dtype} {text.shape}" if isinstance(text, np.ndarray) else type(text).__name__
            raise EncoderError(
                f"text is {found}, but these events need float32 {expected}; "
                "give encode_text(events) of the same rows"
            )
        if not bool(np.isfinite(text).all()):
            row = int(np.argmin(np.isfinite(text).all(axis=1)))
            raise EncoderError(f"text is not finite, first in row {row}; give encode_text(events)")
        return text
