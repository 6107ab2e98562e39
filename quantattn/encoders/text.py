"""Text as a short vector, without anything learned."""

from __future__ import annotations

import re
import unicodedata
from collections import OrderedDict
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from sklearn.feature_extraction.text import HashingVectorizer

from quantattn.errors import EncoderError

# Runs of letters; a run that touches a digit is left out. Possessive, so hostile text costs no more.
_WORD = r"(?<!\w)[^\W\d_]++(?!\w)"
_WORDS = re.compile(_WORD)
_BATCH = 65_536
_LONGEST_KEPT = 1_000
"""Characters; longer texts are hashed anew each time."""


def _normalise(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


class HashingTextEncoder:
    """Hash words and word pairs into a few signed buckets (the hashing trick).

    It learns nothing, so it has no cutoff and can never have seen the future: no vocabulary, no
    document frequencies. Figures are left out, because the numeric features carry them. Each text is
    encoded by itself, and equal texts are encoded once.

    Parameters
    ----------
    width : int, default 32
        Number of buckets; more buckets mean fewer words that share one.
    ngram_range : tuple of int, default (1, 2)
        Shortest and longest run of words that is hashed.

    References
    ----------
    Weinberger, Dasgupta, Langford, Smola and Attenberg (2009), "Feature Hashing for Large Scale
    Multitask Learning", ICML.

    Examples
    --------
    >>> import polars as pl
    >>> from quantattn.encoders import HashingTextEncoder
    >>> HashingTextEncoder(width=8).transform(pl.Series(["closed down 2.31 %", None])).shape
    (2, 8)
    """

    def __init__(self, width: int = 32, ngram_range: tuple[int, int] = (1, 2)) -> None:
        self.width = width
        self.ngram_range = ngram_range

    def transform(self, texts: pl.Series) -> npt.NDArray[np.float32]:
        """Encode texts.

        Parameters
        ----------
        texts : polars.Series
            String; null where an event has no text.

        Returns
        -------
        ndarray of float32, shape (n, width)
            Rows of unit Euclidean length; zeros where a text is null or holds no word. The values
            depend on the text alone: not on the other rows, the process or the platform.

        Raises
        ------
        EncoderError
            If `texts` is not a column of text, or an argument of the constructor is impossible.
        """
        vectorizer = self._vectorizer()
        if not isinstance(texts, pl.Series) or texts.dtype not in (
            pl.String,
            pl.Categorical,
            pl.Enum,
            pl.Null,
        ):
            kind = texts.dtype if isinstance(texts, pl.Series) else type(texts).__name__
            raise EncoderError(f"texts is {kind}, not a polars Series of String; cast it to pl.String")
        column = texts.cast(pl.String)
        unique = column.drop_nulls().unique(maintain_order=True)
        # The last row stays zero and serves the nulls.
        table = np.zeros((unique.len() + 1, self.width), dtype=np.float32)
        for start in range(0, unique.len(), _BATCH):
            batch = unique.slice(start, _BATCH).to_list()
            table[start : start + len(batch)] = vectorizer.transform(batch).toarray()
        position = pl.int_range(unique.len(), eager=True)
        index = column.replace_strict(unique, position, default=unique.len(), return_dtype=pl.Int64)
        encoded: npt.NDArray[np.float32] = table[index.fill_null(unique.len()).to_numpy()]
        return encoded

    def _vectorizer(self) -> Any:
        shortest, longest = self._checked()
        return HashingVectorizer(
            n_features=self.width,
            preprocessor=_normalise,
            token_pattern=_WORD,
            ngram_range=(shortest, longest),
            norm="l2",
            alternate_sign=True,
            dtype=np.float64,
        )

    def _checked(self) -> tuple[int, int]:
        if isinstance(self.width, bool) or not isinstance(self.width, int) or self.width < 1:
            raise EncoderError(f"width={self.width!r} is not a positive integer; use for example width=32")
        try:
            shortest, longest = (int(bound) for bound in self.ngram_range)
        except (TypeError, ValueError) as error:
            raise EncoderError(f"ngram_range={self.ngram_range!r} is not a pair; use (1, 2)") from error
        if not 1 <= shortest <= longest:
            raise EncoderError(
                f"ngram_range={self.ngram_range!r} must hold 1 <= shortest <= longest; use for example (1, 2)"
            )
        return shortest, longest


class TextHasher:
    """Hash one text at a time, as events come in live.

    Parameters
    ----------
    encoder : HashingTextEncoder
        Whose encoding to give, bit for bit.
    remember : int, default 256
        So many of the texts last seen are not hashed again.

    Raises
    ------
    EncoderError
        If an argument of the encoder is impossible.
    """

    def __init__(self, encoder: HashingTextEncoder, remember: int = 256) -> None:
        from quantattn.encoders import _text_kernels

        self._shortest, self._longest = encoder._checked()
        self._width = encoder.width
        self._hash = _text_kernels.hash_words
        self._remember = remember
        self._none = np.zeros(self._width, np.float32)
        self._none.flags.writeable = False
        self._known: OrderedDict[str, npt.NDArray[np.float32]] = OrderedDict()

    def __call__(self, text: str | None) -> npt.NDArray[np.float32]:
        """Encode a text.

        Parameters
        ----------
        text : str or None
            The text.

        Returns
        -------
        ndarray of float32, shape (width,)
            The row that :meth:`HashingTextEncoder.transform` gives; not to be written to.
        """
        if text is None:
            return self._none
        known = self._known.get(text)
        if known is not None:
            self._known.move_to_end(text)
            return known
        # What has no UTF-8, half of a surrogate pair, is no letter.
        words = text if text.isascii() else " ".join(_WORDS.findall(_normalise(text)))
        data = words.encode()
        encoded = np.empty(self._width, np.float32)
        self._hash(np.frombuffer(data, np.uint8), self._shortest, self._longest, encoded)
        encoded.flags.writeable = False
        if len(text) <= _LONGEST_KEPT:
            self._known[text] = encoded
            if len(self._known) > self._remember:
                self._known.popitem(last=False)
        return encoded
