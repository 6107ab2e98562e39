"""The exception hierarchy: what a caller may rely on when catching."""

from __future__ import annotations

import inspect

import pytest

from quantattn import errors

EVERY = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, Exception) and cls.__module__ == errors.__name__
]


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_every_exception_is_a_quantattn_error_with_a_docstring(cls):
    assert issubclass(cls, errors.QuantAttnError)
    assert cls.__doc__


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_every_exception_carries_its_message(cls):
    assert str(cls("column 'x' is wrong; mend it")) == "column 'x' is wrong; mend it"


def test_usage_errors_are_the_ones_that_exit_with_2():
    usage = {cls.__name__ for cls in EVERY if issubclass(cls, errors.UsageError)}
    assert {"UsageError", "StudyError", "OutputDirectoryError"} <= usage
    assert usage.isdisjoint({"DataError", "PriceDataError", "SplitError", "LeakageError", "AttentionError"})


def test_data_errors_share_one_base():
    data = {cls.__name__ for cls in EVERY if issubclass(cls, errors.DataError)}
    assert {"TimestampError", "EventDataError", "PriceDataError", "CalendarError", "LabelError"} <= data


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [
        (errors.ShapeError, ValueError),
        (errors.FeatureMapError, ValueError),
        (errors.DenominatorError, ArithmeticError),
        (errors.BackendError, ValueError),
        (errors.StateError, ValueError),
        (errors.ClockError, ValueError),
    ],
)
def test_attention_errors_are_also_the_builtin_that_torch_users_catch(cls, builtin):
    assert issubclass(cls, errors.AttentionError)
    assert issubclass(cls, builtin)
