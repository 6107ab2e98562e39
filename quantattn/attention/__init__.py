"""Causal linear attention and its softmax twin: exact, provable, usable on their own.

Needs torch and numba alone. Layout is that of torch's SDPA: ``(batch, heads, length, width)``.

===============================================  ===========================================================
to                                               use
===============================================  ===========================================================
read a history, or a piece of one                :func:`linear_attention`; :func:`softmax_attention`, its
                                                 twin, with the same rules of visibility
have it as a layer with projections and heads    :class:`CausalAttention`
choose the similarity                            ``feature_map=``: a name of :func:`feature_map_names`, or a
                                                 :class:`FeatureMap`. ``elu1`` is the default and the fastest;
                                                 maps with draws or weights (``favor``, ``hedgehog``) are made
                                                 by :func:`build_feature_map`; your own goes through
                                                 :func:`register_feature_map`
say what an empty or tiny denominator means      ``denominator=``: :meth:`Denominator.raise_` refuses it,
                                                 :meth:`Denominator.prior` gives it a value,
                                                 :meth:`Denominator.floor` changes the formula
go on where a history ended                      ``return_state=True`` and ``initial_state=``: an
                                                 :class:`AttentionState`, of one size however long the history
read at other times than those of the keys       :func:`visible_before` for ``visible_counts=``,
                                                 :func:`elapsed_decay` for decay in real time
see how sound a read was                         ``.health`` of the result, an :class:`AttentionHealth`
know what is lost against softmax                :func:`kernel_report` (how far a map is from its kernel),
                                                 :func:`recall_report` (what a state of fixed width forgets)
make a trained softmax model linear              :func:`convert`, which reports the drift layer by layer
load a model's weights                           ``load_state_dict``: a layer that computes something else
                                                 refuses; :func:`check_state_dict` says so for a whole model
                                                 before it is touched, :func:`map_options` what is kept of a
                                                 feature map
===============================================  ===========================================================

Errors are those of :mod:`quantattn.errors`: children of :class:`~quantattn.errors.AttentionError`, and
``CheckpointError`` for stored layers that do not fit.

Notes
-----
**Backends.** ``backend="auto"`` picks ``quadratic`` for tiny calls into which no state goes and of which
none is asked for, ``fused`` for float32 on a CPU, and ``chunked`` elsewhere; ``health.backend`` says what
it picked. A backend that is named never falls back.

**The first call.** ``fused`` is compiled at its first call, which takes some ten seconds, and its gradient
at the first backward pass, which takes about as long. Once: numba keeps the programs on disk beside the
package, or in ``NUMBA_CACHE_DIR``, and later processes load them.

**Pieces.** Under ``fused`` and ``recurrent`` any cut of a history, the state carried, gives the same bits
as one pass. Under ``chunked`` and ``quadratic`` it gives the same up to rounding.

**Gradients** are first derivatives: ``create_graph=True`` is refused with a
:class:`~quantattn.errors.GradientError`, which names the one way around it, by the quadratic backend.

**torch.func** (grad, vmap, jvp) and forward-mode derivatives are refused with the same error: what attention
differentiates is a graph of ``torch.autograd``, and an axis of ``vmap`` goes into the batch.

**torch.compile** gives the same results and gains nothing. Checks look at numbers, so the graph breaks at
each, whichever backend is chosen, and ``fullgraph=True`` fails. ``auto`` picks ``chunked`` under
compilation, whose reads are torch operations in one graph between the checks; on a CPU leave the call
uncompiled, for ``fused``.

``quantattn bench attention`` times all this against softmax and other implementations.
"""

from __future__ import annotations

from quantattn.attention.backends import backend_names
from quantattn.attention.checkpoint import check_state_dict
from quantattn.attention.conversion import Conversion, LayerDrift, convert
from quantattn.attention.denominator import Denominator
from quantattn.attention.elapsed import elapsed_decay
from quantattn.attention.estimates import Estimate
from quantattn.attention.features import (
    Dpfp,
    Elu1,
    Favor,
    FeatureMap,
    Hedgehog,
    Identity,
    QueryFeatures,
    Relu,
    SquaredRelu,
    Taylor2,
    build_feature_map,
    feature_map_names,
    register_feature_map,
    resolve_feature_map,
)
from quantattn.attention.health import AttentionHealth
from quantattn.attention.kernels import KernelReport, KernelRow, kernel_report
from quantattn.attention.linear import LinearAttentionOutput, linear_attention
from quantattn.attention.module import CausalAttention
from quantattn.attention.options import map_options
from quantattn.attention.recall import RecallReport, RecallRow, recall_report
from quantattn.attention.softmax import softmax_attention
from quantattn.attention.state import AttentionState
from quantattn.attention.visible import visible_before

__all__ = [
    "AttentionHealth",
    "AttentionState",
    "CausalAttention",
    "Conversion",
    "Denominator",
    "Dpfp",
    "Elu1",
    "Estimate",
    "Favor",
    "FeatureMap",
    "Hedgehog",
    "Identity",
    "KernelReport",
    "KernelRow",
    "LayerDrift",
    "LinearAttentionOutput",
    "QueryFeatures",
    "RecallReport",
    "RecallRow",
    "Relu",
    "SquaredRelu",
    "Taylor2",
    "backend_names",
    "build_feature_map",
    "check_state_dict",
    "convert",
    "elapsed_decay",
    "feature_map_names",
    "kernel_report",
    "linear_attention",
    "map_options",
    "recall_report",
    "register_feature_map",
    "resolve_feature_map",
    "softmax_attention",
    "visible_before",
]
