"""What of a state goes into a file: plain tensors, and texts that say whose they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from quantattn.attention.instants import AsOf
from quantattn.errors import CheckpointError

_KIND = "quantattn.attention.AttentionState"
_SCHEMA = "1"
_FIELDS = ("kind", "schema", "fingerprint", "as_of", "entities", "digest")
_AXES = {"S": 4, "z": 3, "count": 1, "pending": 2}
REMEDY = "Save the state again with tensors() and metadata(), or rebuild it from its events."


def stored_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies that share memory with nothing: files of tensors take no views."""
    return {
        name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }


def stored_metadata(
    tensors: Mapping[str, Tensor],
    fingerprint: str,
    as_of: AsOf,
    entities: tuple[str | None, ...] | None,
) -> dict[str, str]:
    """Return all that is not a tensor as texts, with a digest that ties them to the tensors."""
    said = {
        "kind": _KIND,
        "schema": _SCHEMA,
        "fingerprint": fingerprint,
        "as_of": json.dumps(as_of),
        "entities": json.dumps(entities),
    }
    return {**said, "digest": _digest(said, tensors)}


def restored_fields(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None) -> dict[str, Any]:
    """Return the fields of a stored state; what a state may be is for the state to say.

    Raises
    ------
    CheckpointError
        If anything is missing, foreign, damaged, or belongs to another state.
    """
    said = _known(metadata)
    held = _checked(tensors)
    if said["digest"] != _digest(said, held):
        raise CheckpointError(
            "state: the tensors and their description do not belong together; one of them was altered or is "
            f"that of another state. {REMEDY}"
        )
    fields = {name: held.get(name) for name in _AXES}
    texts = {"as_of": _listed(said, "as_of"), "entities": _listed(said, "entities")}
    return {**fields, "fingerprint": said["fingerprint"], **texts}


def _known(metadata: Mapping[str, str] | None) -> dict[str, str]:
    given = dict(metadata) if isinstance(metadata, Mapping) else {}
    if given.get("kind") != _KIND:
        raise CheckpointError(
            f"state: the metadata are not those of an attention state (kind {given.get('kind')!r}); "
            "pass what metadata() returned."
        )
    if given.get("schema") != _SCHEMA:
        raise CheckpointError(
            f"state: schema {given.get('schema')!r}, this version reads {_SCHEMA!r}; rebuild the state."
        )
    missing = [name for name in _FIELDS if not isinstance(given.get(name), str)]
    if missing:
        raise CheckpointError(f"state: the metadata lack {', '.join(missing)}. {REMEDY}")
    return {name: given[name] for name in _FIELDS}


def _checked(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    held = dict(tensors) if isinstance(tensors, Mapping) else {}
    if not {"S", "z", "count"} <= held.keys() <= _AXES.keys():
        raise CheckpointError(
            f"state: expected tensors S, z, count and perhaps pending, got {sorted(map(str, held))}; "
            "pass what tensors() returned."
        )
    for name, tensor in held.items():
        if not isinstance(tensor, Tensor) or tensor.dim() != _AXES[name]:
            kind = tuple(tensor.shape) if isinstance(tensor, Tensor) else type(tensor).__name__
            raise CheckpointError(
                f"state: {name} is {kind}, expected a tensor of {_AXES[name]} axes. {REMEDY}"
            )
    return held


def _listed(said: Mapping[str, str], name: str) -> Any:
    try:
        return json.loads(said[name])
    except ValueError as error:
        raise CheckpointError(f"state: {name} is {said[name]!r}, which is not JSON. {REMEDY}") from error


def _digest(said: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    total = hashlib.sha256()
    for name in _FIELDS[:-1]:
        total.update(f"{name}={said[name]!r};".encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        total.update(tensor.numpy().tobytes())
    return total.hexdigest()
