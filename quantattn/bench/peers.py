"""What causal attention is timed against: the same reads by other means."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import torch
from torch import Tensor
from torch.nn.functional import elu, scaled_dot_product_attention

from quantattn.attention import linear_attention

Peer = Callable[[Tensor, Tensor, Tensor], Tensor]

SDPA = "torch SDPA causal"
AUTO = "quantattn auto"
PERFORMER = "performer-pytorch"


def peers() -> dict[str, Peer]:
    """Return every peer that is installed, by name; ours come first and softmax second."""
    found: dict[str, Peer] = {AUTO: _ours("auto"), SDPA: _sdpa, "quantattn chunked": _ours("chunked")}
    performer = _performer()
    if performer is not None:
        found[PERFORMER] = performer
    found["token cumsum"] = _cumsum
    return found


def missing_peers() -> dict[str, str]:
    """Return the peers that are not installed, each with the command that installs it."""
    return {} if _performer() is not None else {PERFORMER: "pip install quantattn[bench]"}


def _ours(backend: str) -> Peer:
    def read(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return linear_attention(query, key, value, backend=backend).output

    return read


def _sdpa(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return scaled_dot_product_attention(query, key, value, is_causal=True)


def _features(x: Tensor) -> Tensor:
    return elu(x) + 1


def _cumsum(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Every state of the history at once: the textbook form of causal linear attention."""
    query, key = _features(query), _features(key)
    states = (key[..., :, None] * value[..., None, :]).cumsum(-3)
    below = (query * key.cumsum(-2)).sum(-1, keepdim=True)
    return torch.einsum("bhtr,bhtrw->bhtw", query, states) / below


def _performer() -> Peer | None:
    """Return the CPU path of performer-pytorch (extra ``bench``), or None where it is not installed."""
    try:
        causal = import_module("performer_pytorch.performer_pytorch").causal_linear_attention_noncuda
    except (ImportError, AttributeError):
        return None

    def read(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        output: Tensor = causal(_features(query), _features(key), value)
        return output

    return read
