"""A conversion keeps what a model does around its reads, converts every read, and measures every call."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from quantattn.attention import (
    CausalAttention,
    Elu1,
    FeatureMap,
    build_feature_map,
    convert,
    softmax_attention,
)
from quantattn.errors import DenominatorError, FeatureMapError, ShapeError

WIDTH, HEADS = 8, 2
X = torch.randn(2, 5, WIDTH, generator=torch.Generator().manual_seed(3))


class Tenfold(CausalAttention):
    """What it reads, ten times."""

    def forward(self, hidden, **options):
        return 10 * super().forward(hidden, **options)


class Own(CausalAttention):
    """A layer that reads by itself, whatever it says that it is."""

    def forward(self, hidden):
        return self.join(softmax_attention(*self.split(hidden)))


class Loop(nn.Module):
    """One layer, called several times, at another place each time."""

    def __init__(self, times: int = 3) -> None:
        super().__init__()
        self.attention = soft()
        self.times = times

    def forward(self, hidden):
        for _ in range(self.times):
            hidden = hidden + self.attention(hidden)
        return hidden


def soft(kind: type[CausalAttention] = CausalAttention) -> CausalAttention:
    torch.manual_seed(5)
    layer = kind(WIDTH, HEADS, attention="softmax")
    with torch.no_grad():
        layer.projection.weight *= 3
    return layer


def linear(layer: CausalAttention) -> CausalAttention:
    """Return the linear layer of the same weights, made by hand."""
    made = CausalAttention(WIDTH, HEADS)
    with torch.no_grad():
        for name in ("projection", "mix"):
            getattr(made, name).load_state_dict(getattr(layer, name).state_dict())
    return made


def relative(found, wanted):
    return float((found - wanted).double().norm() / wanted.double().norm())


def test_a_subclass_stays_what_it_is():
    conversion = convert(nn.Sequential(soft(Tenfold)), "elu1", X)
    layer = conversion.model[0]
    assert type(layer) is Tenfold and layer.attention == "linear"
    with torch.no_grad():
        torch.testing.assert_close(layer(X), 10 * linear(layer)(X))
        drift = relative(linear(layer)(X), soft()(X))
    assert conversion.layers[0].own == pytest.approx(drift, rel=1e-5)


def test_a_layer_that_reads_by_itself_is_not_called_converted():
    with pytest.raises(
        ShapeError, match=r"layer '0' is a Own, whose forward does not use the read of Causal"
    ):
        convert(nn.Sequential(soft(Own)), "elu1", X)


def test_hooks_and_attributes_stay():
    layer = soft()
    layer.label = "mine"
    layer.register_forward_hook(lambda module, arguments, output: -output)
    layer.register_forward_pre_hook(lambda module, arguments: (arguments[0] + 1,))
    conversion = convert(nn.Sequential(layer), "elu1", X)
    made = conversion.model[0]
    assert made is not layer and made.label == "mine" and layer.attention == "softmax"
    with torch.no_grad():
        wanted = -linear(layer)(X + 1)
        torch.testing.assert_close(made(X), wanted)
        assert conversion.layers[0].own == pytest.approx(relative(wanted, layer(X)), rel=1e-5)
    assert len(made._forward_hooks) == len(layer._forward_hooks) == 1
    assert len(made._forward_pre_hooks) == 1 and "read" not in vars(made)


def test_whoever_holds_a_layer_holds_the_linear_one():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = soft()
            self.also = [self.layer]

        def forward(self, hidden):
            return self.also[0](hidden)

    model = Both()
    made = convert(model, "elu1", X).model
    assert made.also[0] is made.layer and made.layer.attention == "linear"
    assert model.also[0] is model.layer and model.layer.attention == "softmax"

    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.also = soft(), [soft()]

        def forward(self, hidden):
            return self.also[0](self.layer(hidden))

    with pytest.raises(
        ShapeError, match="runs a CausalAttention with attention='softmax' that is not among its"
    ):
        convert(Hidden(), "elu1", X)
    with torch.no_grad():  # the global hook is gone
        soft()(X)


def test_every_call_is_measured():
    model = Loop()
    conversion = convert(model, "elu1", X)
    (drift,) = conversion.layers
    assert drift.calls == 3 and "calls" in str(conversion)
    layer = linear(model.attention)
    with torch.no_grad():
        fed, given, other, rest = X, [], X, []
        for _ in range(3):
            given.append((model.attention(fed), layer(fed)))
            rest.append(layer(other))
            fed, other = fed + given[-1][0], other + rest[-1]
    softmax, own = (torch.stack(each) for each in zip(*given, strict=True))
    assert drift.own == pytest.approx(relative(own, softmax), rel=1e-5)
    assert drift.compounded == pytest.approx(relative(torch.stack(rest), softmax), rel=1e-5)
    token = softmax.square().sum(-1).mean().sqrt()
    assert drift.worst == pytest.approx(float((own - softmax).norm(dim=-1).max() / token), rel=1e-5)
    assert drift.own != pytest.approx(relative(own[-1], softmax[-1]), rel=1e-3)
    shared = soft()
    twice = convert(nn.Sequential(shared, shared), "elu1", X)
    assert [(one.layer, one.calls) for one in twice.layers] == [("0", 2)]


def test_a_model_whose_course_depends_on_its_numbers_is_refused():
    class Changing(Loop):
        def forward(self, hidden):
            self.times = 2 if self.attention.attention == "softmax" else 3
            return super().forward(hidden)

    with pytest.raises(ShapeError, match=r"layer 'attention' ran 2 times before and 3 times after"):
        convert(Changing(), "elu1", X)


def test_what_the_model_edits_is_measured_as_it_was():
    class Edits(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = soft()

        def forward(self, hidden):
            output = self.layer(hidden)
            hidden += 1
            return output

    x = X.clone()
    conversion = convert(Edits(), "elu1", x)
    with torch.no_grad():
        wanted = relative(linear(soft())(X), soft()(X))
    drift = conversion.layers[0]
    assert torch.equal(x, X)
    assert drift.own == pytest.approx(wanted, rel=1e-5) == drift.compounded == conversion.output


def test_a_drift_of_nothing_is_none():
    layer = soft()
    with torch.no_grad():
        for parameter in layer.mix.parameters():
            parameter.zero_()
    drift = convert(layer, "elu1", X).layers[0]
    assert (drift.own, drift.compounded, drift.worst) == (0.0, 0.0, 0.0)


class Weighted(nn.Module, FeatureMap):
    name = "weighted"
    positive = True

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(4))

    def width(self, d):
        return 4

    def forward(self, x):
        return (x @ self.weight.to(x.dtype)).exp()


def test_in_place_from_softmax_to_linear():
    layer = soft().double().eval()
    layer.become_linear(Weighted())
    assert layer.feature_map.weight.dtype == torch.float64 and not layer.feature_map.training
    assert layer(X.double()).dtype == torch.float64
    with pytest.raises(ShapeError, match="the layer is linear already"):
        layer.become_linear("elu1")
    other = CausalAttention(WIDTH, HEADS, attention="softmax", feature_map=build_feature_map("favor", 4))
    other.become_linear("elu1")
    assert "feature_map.projection" not in other.state_dict()
    torch.testing.assert_close(other(X), linear(other)(X))


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((None, "elu1", X), {}, ShapeError, "softmax_model: expected a torch.nn.Module, got NoneType"),
        ((soft, "elu1", X), {}, ShapeError, "softmax_model: expected a torch.nn.Module, got function"),
        ((soft(), "elu1", X[:, :0]), {}, ShapeError, r"the layer gave \(2, 0, 8\); a drift is measured on"),
        ((soft(), "elu1", X[:0]), {}, ShapeError, r"the layer gave \(0, 5, 8\)"),
        ((soft(), "elu1", None), {}, ShapeError, "hidden: expected a torch.Tensor, got NoneType"),
        ((soft(), Elu1, X), {}, FeatureMapError, r"got the class Elu1; build one, such as Elu1\(\)"),
        ((soft(), lambda layer: 1 / 0, X), {}, FeatureMapError, "the function failed with ZeroDivisionError"),
        ((soft(), "elu1", X), {"denominator": "x"}, DenominatorError, "expected a Denominator, got 'x'"),
        ((torch.compile(nn.Sequential(soft())), "elu1", X), {}, ShapeError, r"'\(model\)' is compiled"),
        ((nn.Sequential(torch.compile(soft())), "elu1", X), {}, ShapeError, "'0' is compiled"),
    ],
)
def test_bad_conversions(arguments, options, error, message):
    with pytest.raises(error, match=message):
        convert(*arguments, **options)


def test_a_module_that_compiles_itself_is_refused():
    model = nn.Sequential(soft())
    model[0].compile()
    with pytest.raises(ShapeError, match="softmax_model: '0' is compiled"):
        convert(model, "elu1", X)
