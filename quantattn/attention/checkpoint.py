"""Modules whose weights say what they are the weights of, and refuse those of another."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from quantattn.errors import CheckpointError

_EXTRA = "_extra_state"
"""The key under which torch keeps what a module says of itself."""


class DescribedModule(nn.Module, ABC):
    """A module whose :meth:`config` is written into its ``state_dict``, where another refuses to load it.

    What does not fit is refused before anything of this module is copied, with a
    :class:`~quantattn.errors.CheckpointError`. As a part of a model, keys that are missing or left over are
    torch's to refuse, which it does when all is copied, and modules that it loads earlier have their new
    weights by then: :func:`check_state_dict` looks at a whole model first.
    """

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return what the module is, as plain numbers and text; learned numbers are left to the weights."""

    def get_extra_state(self) -> Tensor:
        """Return :meth:`config` as bytes, so that files of tensors alone can hold it."""
        return torch.tensor(list(json.dumps(self.config(), sort_keys=True).encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Refuse weights of another kind of module.

        Raises
        ------
        CheckpointError
            Naming what differs.
        """
        _check_description(self, state, "state_dict")

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load as torch does, once it is known that everything fits.

        Raises
        ------
        CheckpointError
            Naming the first thing that does not; the module is unchanged then.
        """
        _check_mapping(state_dict)
        check_module(self, state_dict, "", strict=strict)
        return super().load_state_dict(state_dict, strict, assign)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: Any, strict: bool, *lists: Any
    ) -> None:
        """Load as torch does, once it is known that what is there fits; torch says ``strict`` in any case."""
        check_module(self, state_dict, prefix, strict=False)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, *lists)


def check_state_dict(model: nn.Module, state_dict: Mapping[str, Any], *, strict: bool = True) -> None:
    """Refuse weights that `model` could not load, before anything is changed.

    A refused ``load_state_dict`` leaves the attention layer that refuses as it was, but torch loads a model
    module by module: those before it have the new weights already. Call this first where a model must stay
    whole.

    Parameters
    ----------
    model : torch.nn.Module
        The model to load into; it is only looked at.
    state_dict : mapping
        What ``load_state_dict`` would get.
    strict : bool, default True
        Whether keys that are missing or left over are refused too.

    Raises
    ------
    CheckpointError
        Naming the first layer or key that does not fit, and why.

    Examples
    --------
    >>> from torch import nn
    >>> from quantattn.attention import CausalAttention
    >>> from quantattn.attention import check_state_dict
    >>> stored = nn.Sequential(nn.Linear(8, 8), CausalAttention(8, 2)).state_dict()
    >>> check_state_dict(nn.Sequential(nn.Linear(8, 8), CausalAttention(8, 2)), stored)
    >>> check_state_dict(nn.Sequential(nn.Linear(8, 8), CausalAttention(8, 4)), stored)
    Traceback (most recent call last):
    quantattn.errors.CheckpointError: state_dict, layer '1': heads is 2, this layer has 4; build the ...
    """
    if not isinstance(model, nn.Module):
        raise CheckpointError(
            f"model: expected a torch.nn.Module, got {type(model).__name__}; build it first."
        )
    _check_mapping(state_dict)
    for name, module in model.named_modules(remove_duplicate=False):
        if isinstance(module, DescribedModule):
            check_module(module, state_dict, f"{name}." if name else "", strict=strict)
    _check_tensors(model, state_dict, "", "state_dict", strict=strict)


def _check_mapping(state_dict: Any) -> None:
    if not isinstance(state_dict, Mapping):
        raise CheckpointError(
            f"state_dict: expected a dict of tensors, got {type(state_dict).__name__}; give what "
            "state_dict() of a model returned."
        )


def check_module(
    module: DescribedModule, state_dict: Mapping[str, Any], prefix: str, *, strict: bool
) -> None:
    """Refuse weights that one described module, whose keys begin with `prefix`, could not load.

    Raises
    ------
    CheckpointError
        Naming the layer and what differs: first what it is, then its tensors.
    """
    place = f"state_dict, layer {prefix[:-1]!r}" if prefix else "state_dict"
    if prefix + _EXTRA in state_dict:
        _check_description(module, state_dict[prefix + _EXTRA], place)
    _check_tensors(module, state_dict, prefix, place, strict=strict)


def _check_description(module: DescribedModule, state: Any, place: str) -> None:
    stored = _decoded(state, place)
    own = json.loads(json.dumps(module.config()))
    if stored.get("schema") != own["schema"]:
        raise CheckpointError(
            f"{place}: its description has schema {stored.get('schema')!r}, this version reads "
            f"{own['schema']}. If you know that the layer was built with the same options, drop the key "
            f"{_EXTRA!r} and load with strict=False."
        )
    for name in [*own, *sorted(stored.keys() - own.keys())]:
        if stored.get(name) == own.get(name):
            continue
        if name == "options" and isinstance(stored.get(name), Mapping):
            _refuse_options(stored[name], own[name], f"{place}: {own['feature_map']}")
        raise CheckpointError(
            f"{place}: {name} is {stored.get(name)!r}, this layer has {own.get(name)!r}; "
            "build the layer as it was trained."
        )


def _refuse_options(stored: Mapping[str, Any], own: Mapping[str, Any], place: str) -> None:
    """Name the options of a map that differ."""
    names = sorted(own.keys() | stored.keys())
    differing = [name for name in names if _said(stored, name) != _said(own, name)]
    saved = ", ".join(f"{name}={_said(stored, name)}" for name in differing)
    mine = ", ".join(f"{name}={_said(own, name)}" for name in differing)
    raise CheckpointError(
        f"{place} has options {saved}, this layer's has {mine}; build the map as it was trained."
    )


def _said(options: Mapping[str, Any], name: str) -> str:
    return repr(options[name]) if name in options else "(none)"


def _decoded(state: Any, place: str) -> Mapping[str, Any]:
    try:
        stored = json.loads(bytes(state.tolist()))
    except (AttributeError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{place}: the description of an attention layer is damaged; take the file from its source again."
        ) from error
    if not isinstance(stored, Mapping):
        raise CheckpointError(
            f"{place}: {stored!r} does not describe an attention layer; save the layer's state_dict() again."
        )
    return stored


def _check_tensors(
    module: nn.Module, state_dict: Mapping[str, Any], prefix: str, place: str, *, strict: bool
) -> None:
    """Refuse tensors that are missing, left over or of another shape."""
    own = module.state_dict(prefix=prefix, keep_vars=True)
    if strict:
        missing = sorted(own.keys() - state_dict.keys())
        if missing:
            raise CheckpointError(
                f"{place}: misses {_some(missing)}; build the model as it was trained, or load with "
                "strict=False."
            )
        extra = sorted(key for key in state_dict.keys() - own.keys() if key.startswith(prefix))
        if extra:
            raise CheckpointError(
                f"{place}: has {_some(extra)}, which this model lacks; build the model as it was trained, "
                "or load with strict=False."
            )
    for key in sorted(own.keys() & state_dict.keys()):
        if not isinstance(own[key], Tensor) or key.endswith(_EXTRA):
            continue
        had, need = getattr(state_dict[key], "shape", None), own[key].shape
        if had != need:
            said = type(state_dict[key]).__name__ if had is None else tuple(had)
            raise CheckpointError(
                f"{place}: {key} has shape {said}, this model's has {tuple(need)}; "
                "build the model as it was trained."
            )


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
