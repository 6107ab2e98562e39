"""Causal attention as a layer: projections, heads, and either kind of read between them."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from quantattn.attention.checkpoint import DescribedModule
from quantattn.attention.denominator import Denominator, PriorDenominator, check_policy
from quantattn.attention.features import FeatureMap, resolve_feature_map
from quantattn.attention.features.registry import build_feature_map, feature_map_names
from quantattn.attention.linear import LinearAttentionOutput, linear_attention
from quantattn.attention.options import describe_map, map_options
from quantattn.attention.softmax import softmax_attention
from quantattn.attention.state import AttentionState
from quantattn.errors import DenominatorError, ShapeError, StateError

_RAISE = Denominator.raise_()
_SCHEMA = 2


class CausalAttention(DescribedModule):
    """Multi-head causal self-attention, with a softmax or a linear read.

    Both kinds have the same projections, so the weights of one fit the other; what they compute differs.
    Width, heads, bias, attention, feature map with all its options, and denominator policy are written into
    the ``state_dict``, and a layer with others refuses to load it, before it copies anything. Options of a
    map are its attributes, or what its own ``options`` say; see
    :func:`~quantattn.attention.map_options`. In a model, the modules that torch loads before the one
    that refuses have their new weights by then; :func:`~quantattn.attention.check_state_dict`
    looks at the whole model first.

    Parameters
    ----------
    width : int
        Width of the tokens; a multiple of `heads`.
    heads : int
        Number of heads, each of width ``width / heads``.
    attention : {"linear", "softmax"}, default "linear"
        How histories are read.
    feature_map : str or FeatureMap, default "elu1"
        Map of a linear read. One that holds parameters or draws becomes part of the layer; given by name, it
        is built with numbers of its own for each head.
    denominator : Denominator, default ``Denominator.raise_()``
        Policy of a linear read. The tensors of a prior are copied into the layer, as parameters where they
        are :class:`torch.nn.Parameter`: each layer trains its own, ``layer.prior_mass`` and
        ``layer.prior_value``, and the caller's stay as they are.
    bias : bool, default True
        Whether the projections have a bias.

    Raises
    ------
    ShapeError
        If the heads do not divide the width, either is not a whole number, or `attention` is unknown.
    FeatureMapError
        For an unknown map.
    DenominatorError
        If `denominator` is not a policy, or a tensor of its prior needs a gradient and is not a parameter.

    Notes
    -----
    ``raise_()``, the default, needs a sum of similarities above zero. ``elu1`` and ``hedgehog`` always give
    one, ``taylor2`` and ``favor`` do for queries and keys of moderate size. Under ``relu``, ``squared_relu``
    and ``dpfp`` a query and a key may have no feature in common, so that a read, the first above all, adds up
    to exactly zero and is a :class:`~quantattn.errors.DenominatorError`: give them
    ``Denominator.floor(eps)`` or ``Denominator.prior(mass, value)``. ``identity`` takes nonnegative queries
    and keys alone, which projections do not give.

    The mass of a prior must stay positive while it is trained. A parametrisation of torch sees to that::

        class Positive(torch.nn.Module):
            def forward(self, raw):
                return torch.nn.functional.softplus(raw)

            def right_inverse(self, mass):
                return mass.expm1().log()

        mass = torch.nn.Parameter(torch.ones(heads, 1))
        layer = CausalAttention(width, heads, denominator=Denominator.prior(mass, 0.0))
        torch.nn.utils.parametrize.register_parametrization(layer, "prior_mass", Positive())

    Examples
    --------
    >>> from quantattn.attention import CausalAttention, Denominator
    >>> layer = CausalAttention(8, 2, feature_map="dpfp", denominator=Denominator.floor(1e-6))
    >>> layer.config()["feature_map"], layer.config()["options"], layer.config()["denominator"]
    ('dpfp', {'nu': 1}, {'kind': 'floor', 'eps': 1e-06})
    """

    feature_map: FeatureMap

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        attention: Literal["linear", "softmax"] = "linear",
        feature_map: str | FeatureMap = "elu1",
        denominator: Denominator = _RAISE,
        bias: bool = True,
    ) -> None:
        super().__init__()
        for name, number in (("width", width), ("heads", heads)):
            if not isinstance(number, int) or isinstance(number, bool):
                raise ShapeError(f"{name}: expected a whole number, got {number!r}; give an int.")
        if heads < 1 or width < 1 or width % heads:
            raise ShapeError(f"heads: {heads} heads do not divide a width of {width}.")
        if attention not in ("linear", "softmax"):
            raise ShapeError(f"attention: expected 'linear' or 'softmax', got {attention!r}.")
        if not isinstance(bias, bool):
            raise ShapeError(f"bias: expected True or False, got {bias!r}.")
        self.width, self.heads = width, heads
        self.projection = nn.Linear(width, 3 * width, bias=bias)
        self.mix = nn.Linear(width, width, bias=bias)
        self._read_as(attention, feature_map, denominator)

    def become_linear(self, feature_map: str | FeatureMap, denominator: Denominator = _RAISE) -> None:
        """Turn a softmax layer into a linear one, in place; projections, hooks and attributes stay.

        Parameters
        ----------
        feature_map : str or FeatureMap
            Map of the linear read, as in the constructor.
        denominator : Denominator, default ``Denominator.raise_()``
            Its policy.

        Raises
        ------
        ShapeError
            If the layer is linear already.
        FeatureMapError
            For an unknown map.
        DenominatorError
            If `denominator` is not a policy.
        """
        if self.attention != "softmax":
            raise ShapeError("attention: the layer is linear already; build another for another map.")
        weight = self.projection.weight
        self._read_as("linear", feature_map, denominator)
        for name, number in (*self.named_parameters(recurse=False), *self.named_buffers(recurse=False)):
            if name.startswith("prior_"):
                number.data = number.data.to(weight.device, weight.dtype)
        if isinstance(self.feature_map, nn.Module):
            self.feature_map.to(weight.device, weight.dtype).train(self.training)

    def _read_as(
        self,
        attention: Literal["linear", "softmax"],
        feature_map: str | FeatureMap,
        denominator: Denominator,
    ) -> None:
        check_policy(denominator)
        if isinstance(feature_map, str) and feature_map in feature_map_names(stored=True):
            feature_map = build_feature_map(feature_map, self.width // self.heads, heads=self.heads)
        feature_map = resolve_feature_map(feature_map)
        for name in ("prior_mass", "prior_value", "feature_map"):
            if hasattr(self, name):
                delattr(self, name)
        if isinstance(denominator, PriorDenominator):
            self._policy: Denominator = Denominator.prior(
                self._kept("prior_mass", denominator.mass), self._kept("prior_value", denominator.value)
            )
        else:
            self._policy = denominator
        self.attention: Literal["linear", "softmax"] = attention
        self.feature_map = feature_map

    def _kept(self, name: str, number: Any) -> Any:
        """Take a copy of a prior's tensor into the layer, and return it."""
        if not isinstance(number, Tensor):
            return number
        copied = number.detach().clone()
        if isinstance(number, nn.Parameter):
            copied = nn.Parameter(copied, requires_grad=number.requires_grad)
            self.register_parameter(name, copied)
        elif number.requires_grad:
            raise DenominatorError(
                f"denominator: {name.replace('prior_', '')} of the prior needs a gradient, but the layer "
                "keeps a copy; give a torch.nn.Parameter, which the layer then trains as its own."
            )
        else:
            self.register_buffer(name, copied)
        return copied

    @property
    def denominator(self) -> Denominator:
        """The policy in force, with a prior's numbers as they are now."""
        policy = self._policy
        if not isinstance(policy, PriorDenominator):
            return policy
        return Denominator.prior(
            getattr(self, "prior_mass", policy.mass), getattr(self, "prior_value", policy.value)
        )

    def forward(
        self,
        hidden: Tensor,
        *,
        key_mask: Tensor | None = None,
        log_decay: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> Tensor:
        """Return what every token reads of itself and the tokens before it.

        Parameters
        ----------
        hidden : Tensor
            ``(B, T, width)``.
        key_mask : Tensor, optional
            ``(B, T)`` bool, True where a token is to be seen.
        log_decay : Tensor, optional
            ``(B, H, T)``, see :func:`~quantattn.attention.linear_attention`.
        cu_seqlens : Tensor, optional
            ``(N + 1,)``: N sequences lie end to end in a batch of one, and each is read by itself; see
            :func:`~quantattn.attention.linear_attention`.

        Returns
        -------
        Tensor
            ``(B, T, width)``.
        """
        if self.attention == "linear":
            result = self.read(hidden, key_mask=key_mask, log_decay=log_decay, cu_seqlens=cu_seqlens)
            return result.output
        query, key, value = self.split(hidden)
        read = softmax_attention(
            query, key, value, key_mask=key_mask, log_decay=log_decay, cu_seqlens=cu_seqlens
        )
        return self.join(read)

    def read(
        self,
        hidden: Tensor,
        *,
        initial_state: AttentionState | None = None,
        return_state: bool = False,
        **options: Any,
    ) -> LinearAttentionOutput:
        """Return the tokens' linear read with state and health.

        Parameters
        ----------
        hidden : Tensor
            ``(B, T, width)``.
        initial_state : AttentionState, optional
            State before the first token.
        return_state : bool, default False
            Whether to return the state after the last token.
        **options
            Further options of :func:`~quantattn.attention.linear_attention`.

        Raises
        ------
        StateError
            From a softmax layer, which has no state of fixed size.
        """
        if self.attention != "linear":
            raise StateError(
                "attention: a softmax layer has no state of fixed size; convert() makes a linear one."
            )
        query, key, value = self.split(hidden)
        result = linear_attention(
            query,
            key,
            value,
            feature_map=self.feature_map,
            denominator=self.denominator,
            initial_state=initial_state,
            return_state=return_state,
            **options,
        )
        return result._replace(output=self.join(result.output))

    def split(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of tokens ``(B, T, width)``, each ``(B, H, T, width / H)``.

        Raises
        ------
        ShapeError
            If the tokens are not a tensor of that shape in the dtype and on the device of the layer.
        """
        if not isinstance(hidden, Tensor):
            raise ShapeError(
                f"hidden: expected a torch.Tensor, got {type(hidden).__name__}; convert it with "
                "torch.as_tensor()."
            )
        if hidden.dim() != 3 or hidden.shape[-1] != self.width:
            raise ShapeError(f"hidden: expected shape (B, T, {self.width}), got {tuple(hidden.shape)}.")
        try:
            parts = self.projection(hidden).unflatten(-1, (3, self.heads, -1))
        except RuntimeError as error:
            self._refuse_kind(hidden, error)
            raise
        query, key, value = (part.transpose(1, 2) for part in parts.unbind(-3))
        return query, key, value

    def _refuse_kind(self, hidden: Tensor, error: RuntimeError) -> None:
        """Name the argument where its dtype or device is what the projection stumbled over."""
        weight = getattr(self.projection, "weight", None)
        if isinstance(weight, Tensor) and (hidden.dtype, hidden.device) != (weight.dtype, weight.device):
            raise ShapeError(
                f"hidden: is {hidden.dtype} on {hidden.device}, the layer is {weight.dtype} on "
                f"{weight.device}; convert either with .to(device, dtype)."
            ) from error

    def join(self, read: Tensor) -> Tensor:
        """Return the mixed heads, ``(B, T, width)``."""
        mixed: Tensor = self.mix(read.transpose(1, 2).flatten(2))
        return mixed

    @classmethod
    def from_multihead(cls, module: nn.MultiheadAttention) -> CausalAttention:
        """Return a causal softmax layer with the weights of torch's module.

        It takes tokens batch first and is always causal, whichever mask the module was called with; its
        attention dropout is left out.

        Raises
        ------
        ShapeError
            If it is another module, keys and values have widths of their own, or extra biases or zeros are
            attended to.
        """
        if not isinstance(module, nn.MultiheadAttention):
            raise ShapeError(
                f"module: expected a torch.nn.MultiheadAttention, got {type(module).__name__}; "
                "build a CausalAttention and copy the weights."
            )
        weight = module.in_proj_weight
        if weight is None or module.bias_k is not None or module.add_zero_attn:
            raise ShapeError(
                "module: keys and values of other widths, bias_k and add_zero_attn have no counterpart here."
            )
        bias = module.in_proj_bias is not None
        layer = cls(module.embed_dim, module.num_heads, attention="softmax", bias=bias)
        layer = layer.to(weight.device, weight.dtype)
        with torch.no_grad():
            layer.projection.weight.copy_(weight)
            layer.mix.weight.copy_(module.out_proj.weight)
            if bias:
                layer.projection.bias.copy_(module.in_proj_bias)
                layer.mix.bias.copy_(module.out_proj.bias)
        return layer.train(module.training)

    def config(self) -> dict[str, Any]:
        """Return what the layer is, as plain numbers and text; learned numbers are left to the weights."""
        said: dict[str, Any] = {
            "schema": _SCHEMA,
            "attention": self.attention,
            "width": self.width,
            "heads": self.heads,
            "bias": self.projection.bias is not None,
        }
        if self.attention == "linear":
            said["feature_map"] = self.feature_map.name
            said["options"] = map_options(self.feature_map)
            said["features"] = self.feature_map.width(self.width // self.heads)
            said["denominator"] = self._policy.to_dict()
            for name in ("mass", "value"):
                if hasattr(self, f"prior_{name}"):
                    said["denominator"][name] = "stored"
        return said

    def extra_repr(self) -> str:
        """Return the options as text."""
        said = f"width={self.width}, heads={self.heads}, attention={self.attention!r}"
        if self.attention == "linear":
            said += f", feature_map={describe_map(self.feature_map)}, denominator={self._policy}"
        return said
