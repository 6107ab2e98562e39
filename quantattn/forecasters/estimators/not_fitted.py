"""What an estimator raises that was not fitted, for those who catch scikit-learn's errors as well."""

from __future__ import annotations

from sklearn.exceptions import NotFittedError

from quantattn.errors import ForecasterError


class NotFittedForecasterError(ForecasterError, NotFittedError):  # type: ignore[misc]
    """A forecaster was used before it was fitted.

    It stands here and not beside the other errors, which are loaded without scikit-learn.
    """
