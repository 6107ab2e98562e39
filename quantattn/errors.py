"""Every exception that quantattn raises on purpose.

A message names the column or argument, quotes the first offending rows or the value that came, and
ends with the remedy. :class:`UsageError` and its children mean that the request itself is wrong (the
command line exits with 2); every other :class:`QuantAttnError` means that the request could not be
carried out (exit code 1).
"""

from __future__ import annotations

import re

# C0 but the line feed, DEL and C1, marks that turn the direction of text, halves of surrogate pairs.
_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Write the characters that command a terminal as escapes, such as ``\x1b``; line feeds stay.

    Messages quote what files hold, and a file may hold anything.
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


class QuantAttnError(Exception):
    """Base class of every exception of the package; its message is safe to print."""

    def __str__(self) -> str:
        """Give the message with control characters escaped."""
        return printable(super().__str__())


class UsageError(QuantAttnError):
    """The request itself is wrong: an unknown name, a missing file, a bad option."""


class StudyError(UsageError):
    """A study file cannot be read, or holds an unknown key or an impossible value."""


class OutputDirectoryError(UsageError):
    """The output directory holds something that this run must not touch."""


class DataError(QuantAttnError):
    """Input data breaks the data contract."""


class TimestampError(DataError):
    """A timestamp is naive, missing, out of range or otherwise not an instant."""


class EventDataError(DataError):
    """An event table breaks the data contract."""


class PriceDataError(DataError):
    """A price table breaks the data contract: gaps, non-positive prices, unknown sessions."""


class CalendarError(DataError):
    """A trading calendar is unknown or does not cover the dates asked for."""


class LabelError(DataError):
    """A target cannot be measured as asked."""


class SplitError(QuantAttnError):
    """There is too little history for the folds asked for, or label ends are missing."""


class LeakageError(QuantAttnError):
    """Something that was not available at the forecast time got in."""


class InformationSetError(QuantAttnError):
    """Models to be compared, or the live path and the dataset, did not see the same information set."""


class EvaluationError(QuantAttnError):
    """A metric or a test is not defined on the forecasts given."""


class EncoderError(QuantAttnError):
    """An encoder was used before it was fitted, or on columns that it was not fitted on."""


class ForecasterError(QuantAttnError):
    """A forecaster was used before it was fitted, or did not train."""


class CheckpointError(QuantAttnError):
    """A stored artefact is truncated, altered, foreign or of another schema version."""


class AttentionError(QuantAttnError):
    """Base class of the errors of :mod:`quantattn.attention`."""


class ShapeError(AttentionError, ValueError):
    """A tensor has the wrong rank, width, length, dtype or device."""


class FeatureMapError(AttentionError, ValueError):
    """A feature map gave negative features, or is not registered."""


class DenominatorError(AttentionError, ArithmeticError):
    """A read met a denominator that is empty, non-positive or non-finite."""


class BackendError(AttentionError, ValueError):
    """A named backend cannot compute what was asked; it never falls back to another."""


class StateError(AttentionError, ValueError):
    """A state belongs to another entity, map, policy or model."""


class ClockError(AttentionError, ValueError):
    """An event or a forecast is out of order against a state's clock."""


class GradientError(AttentionError, RuntimeError):
    """A derivative was asked for that the attention does not have."""
