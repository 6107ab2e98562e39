"""Denominator policies: what a linear read means where the sum of similarities is small or empty.

A policy is part of the model: it is written with the weights and shown in every result's health.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from quantattn.errors import DenominatorError

PriorValue = float | tuple[float, ...] | Tensor


@dataclass(frozen=True, repr=False)
class Denominator:
    """A denominator policy; build one with :meth:`raise_`, :meth:`floor` or :meth:`prior`.

    With ``n`` the weighted sum of values and ``s`` the sum of similarities that a read sees:

    ======================= =================================== =============================
    policy                  output                              an empty history
    ======================= =================================== =============================
    ``raise_()``            ``n / s``                           is a :class:`DenominatorError`
    ``floor(eps)``          ``n / max(s, eps)``                 reads zero
    ``prior(mass, value)``  ``(n + mass * value) / (s + mass)`` reads the prior's value
    ======================= =================================== =============================
    """

    kind: ClassVar[str] = "denominator"

    def __repr__(self) -> str:
        """Return the call that builds the policy; tensors are shown by their shape."""
        return f"Denominator.{self}"

    def __str__(self) -> str:
        """Return the policy as in a report: ``floor(1e-06)``."""
        return f"{self.kind}()"

    @staticmethod
    def raise_() -> RaiseDenominator:
        """Divide by the sum as it is; an empty, non-positive or non-finite sum is an error."""
        return RaiseDenominator()

    @staticmethod
    def floor(eps: float) -> FloorDenominator:
        """Never divide by less than `eps`, which changes the formula wherever the sum is smaller.

        Parameters
        ----------
        eps : float
            Least denominator, in units of similarity; positive and finite.

        Raises
        ------
        DenominatorError
            For anything else.
        """
        return FloorDenominator(_number(eps, "eps", "try 1e-6"))

    @staticmethod
    def prior(mass: float | Tensor, value: float | Sequence[float] | Tensor = 0.0) -> PriorDenominator:
        """Add a pseudo-observation of weight `mass` and value `value` that never decays.

        Parameters
        ----------
        mass : float or Tensor
            Weight of the pseudo-observation in units of similarity, positive: one number, or a
            tensor that broadcasts to ``(B, H, Tq)``, such as ``(H, 1)``.
        value : float, sequence of floats or Tensor, default 0.0
            What it says: one number, one number for each value channel, or a tensor that broadcasts
            to ``(B, H, Tq, d_v)``, such as ``(H, 1, d_v)``.

        Raises
        ------
        DenominatorError
            If the mass is not positive, or either is not made of finite numbers.

        Notes
        -----
        A mass that is trained must stay positive. Train a number without bounds and pass its softplus, at
        every call; in a layer see :class:`~quantattn.attention.CausalAttention`.

        Examples
        --------
        >>> import torch
        >>> from quantattn.attention import Denominator
        >>> raw = torch.zeros(2, 1, requires_grad=True)  # trained
        >>> Denominator.prior(torch.nn.functional.softplus(raw), 0.5)
        Denominator.prior(mass=<tensor (2, 1), trained>, value=0.5)
        """
        return PriorDenominator(_mass(mass), _value(value))

    def to_dict(self) -> dict[str, Any]:
        """Return the policy as plain numbers and text, for a config or a checkpoint."""
        return {"kind": self.kind}

    @staticmethod
    def from_dict(stored: Mapping[str, Any]) -> Denominator:
        """Rebuild a policy from :meth:`to_dict`.

        Raises
        ------
        DenominatorError
            If the kind is unknown, or keys are missing, unknown or out of range.
        """
        if not isinstance(stored, Mapping):
            raise DenominatorError(
                f"stored: expected a dict, got {stored!r}; give what to_dict() returned, such as "
                "{'kind': 'raise'}."
            )
        fields = dict(stored)
        kind = fields.pop("kind", None)
        if not isinstance(kind, str) or kind not in _FIELDS:
            raise DenominatorError(
                f"kind: unknown policy {kind!r}; give one of {', '.join(sorted(_FIELDS))}."
            )
        if set(fields) != _FIELDS[kind]:
            raise DenominatorError(
                f"denominator: kind {kind!r} takes {sorted(_FIELDS[kind])}, got {sorted(map(str, fields))}; "
                "give what to_dict() returned."
            )
        if kind == "floor":
            return Denominator.floor(fields["eps"])
        if kind == "prior":
            return Denominator.prior(_tensor(fields["mass"], "mass"), _tensor(fields["value"], "value"))
        return Denominator.raise_()


_FIELDS: dict[str, set[str]] = {"raise": set(), "floor": {"eps"}, "prior": {"mass", "value"}}


@dataclass(frozen=True, repr=False)
class RaiseDenominator(Denominator):
    """``n / s``; see :meth:`Denominator.raise_`."""

    kind: ClassVar[str] = "raise"

    def __str__(self) -> str:
        """Return the policy as in a report."""
        return "raise_()"


@dataclass(frozen=True, repr=False)
class FloorDenominator(Denominator):
    """``n / max(s, eps)``; see :meth:`Denominator.floor`."""

    eps: float
    kind: ClassVar[str] = "floor"

    def __post_init__(self) -> None:
        """Refuse a floor that is not a positive finite number."""
        if not (math.isfinite(self.eps) and self.eps > 0):
            raise DenominatorError(f"eps: expected a positive finite number, got {self.eps}; try 1e-6.")

    def to_dict(self) -> dict[str, Any]:
        """Return the policy as plain numbers and text."""
        return {"kind": self.kind, "eps": self.eps}

    def __str__(self) -> str:
        """Return the policy as in a report."""
        return f"floor({self.eps!r})"


@dataclass(frozen=True, eq=False, repr=False)
class PriorDenominator(Denominator):
    """``(n + mass * value) / (s + mass)``; see :meth:`Denominator.prior`."""

    mass: float | Tensor
    value: PriorValue = 0.0
    kind: ClassVar[str] = "prior"

    def __post_init__(self) -> None:
        """Refuse a mass that is not positive or anything that is not finite."""
        mass = torch.as_tensor(self.mass).detach()
        if not mass.numel() or not bool(((mass > 0) & torch.isfinite(mass)).all()):
            raise DenominatorError(f"mass: expected positive finite numbers, got {self.mass}; try 1.0.")
        value = torch.as_tensor(self.value).detach()
        if not value.numel() or not bool(torch.isfinite(value).all()):
            raise DenominatorError(f"value: expected finite numbers, got {self.value}; try 0.0.")

    def to_dict(self) -> dict[str, Any]:
        """Return the policy as plain numbers and text."""
        return {"kind": self.kind, "mass": _plain(self.mass), "value": _plain(self.value)}

    def __str__(self) -> str:
        """Return the policy as in a report, tensors by their shape."""
        return f"prior(mass={_short(self.mass)}, value={_short(self.value)})"

    def __eq__(self, other: object) -> bool:
        """Compare by the numbers."""
        return isinstance(other, PriorDenominator) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        """Hash by the numbers."""
        return hash(repr(self.to_dict()))


def _plain(number: PriorValue) -> Any:
    if isinstance(number, Tensor):
        return number.detach().tolist()
    return list(number) if isinstance(number, tuple) else number


def _short(number: PriorValue) -> str:
    """Return a number, the first few of several, or the shape of a tensor."""
    if isinstance(number, Tensor):
        return f"<tensor {tuple(number.shape)}{', trained' if number.requires_grad else ''}>"
    if isinstance(number, tuple):
        more = f", ... {len(number)} in all" if len(number) > 4 else ""
        return f"[{', '.join(f'{x!r}' for x in number[:4])}{more}]"
    return repr(number)


def check_policy(denominator: Any) -> Denominator:
    """Return `denominator`, one of the policies.

    Raises
    ------
    DenominatorError
        For anything else.
    """
    if not isinstance(denominator, Denominator) or denominator.kind not in _FIELDS:
        said = f"expected a Denominator, got {denominator!r}"
        if isinstance(denominator, Denominator):
            said = f"{type(denominator).__name__} is not a policy"
        raise DenominatorError(
            f"denominator: {said}; use Denominator.raise_(), .floor(eps) or .prior(mass, value)."
        )
    return denominator


def _mass(mass: Any) -> float | Tensor:
    more = "try 1.0, or a tensor for several"
    return _real(mass, "mass") if isinstance(mass, Tensor) else _number(mass, "mass", more)


def _value(value: Any) -> PriorValue:
    if isinstance(value, Tensor):
        return _real(value, "value")
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return tuple(_number(one, "value", "give a tensor where there are more axes") for one in value)
    return _number(value, "value", "try 0.0, or one number for each value channel")


def _real(tensor: Tensor, name: str) -> Tensor:
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise DenominatorError(f"{name}: expected real numbers, got {tensor.dtype}; give a floating tensor.")
    return tensor


def _number(number: Any, name: str, remedy: str) -> float:
    """Return one number, of Python or numpy; texts and flags are none."""
    try:
        if isinstance(number, numbers.Real) and not isinstance(number, bool):
            return float(number)
    except OverflowError:
        pass
    raise DenominatorError(f"{name}: expected one number, got {number!r}; {remedy}.")


def _tensor(stored: Any, name: str) -> Any:
    """Turn stored numbers back: lists into a tensor; one number, or one for each channel, as they are."""
    if not isinstance(stored, list):
        return stored
    if name == "value" and not any(isinstance(item, list) for item in stored):
        return stored
    try:
        return torch.tensor(stored, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DenominatorError(
            f"{name}: {stored!r} is not an array of numbers; give what to_dict() returned."
        ) from error
