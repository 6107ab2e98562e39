"""Maps with matrices of their own, measured in float64: the right figures, and the map as it was."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from quantattn.attention import Denominator, Elu1, FeatureMap, kernel_report, linear_attention, recall_report
from quantattn.attention.features.precise import in_float64
from quantattn.errors import FeatureMapError

X = torch.rand(2, 2, 9, 4, generator=torch.Generator().manual_seed(1))


class Module(nn.Module, FeatureMap):
    """A map of a user that multiplies in the dtype of its weights."""

    name = "module"
    positive = True

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.inner = nn.Linear(4, 6)

    def width(self, d):
        return 6

    def forward(self, x):
        return self.inner(x).abs() + 0.1


class Holder(FeatureMap):
    """The same around a module and a tensor, without being a module."""

    name = "holder"
    positive = True

    def __init__(self):
        self.module, self.draw = Module(), torch.eye(6)

    def width(self, d):
        return 6

    def __call__(self, x):
        return self.module(x) @ self.draw


class ByHand(FeatureMap):
    """The same numbers in float64 from the start."""

    name = "by_hand"
    positive = True

    def __init__(self):
        self.module = Module().double()

    def width(self, d):
        return 6

    def __call__(self, x):
        return self.module(x.double())


@pytest.mark.parametrize("kind", [Module, Holder])
def test_figures_in_float64(kind):
    made = kind()
    row = kernel_report(made, X, X, X).rows[0]
    wanted = kernel_report(ByHand(), X, X, X).rows[0]
    assert row.weight_error == wanted.weight_error and row.output_error == wanted.output_error
    options = {"lengths": (4,), "widths": (4,), "seeds": 2, "values": 4}
    found = recall_report([made, ByHand()], **options).rows
    assert found[1].recall == found[2].recall and found[1].sharpness == found[2].sharpness
    module = getattr(made, "module", made)
    assert module.inner.weight.dtype == torch.float32


@pytest.mark.parametrize("kind", [Module, Holder])
def test_drift_against_float64(kind):
    made = kind()
    wide = X.double()
    found = linear_attention(X, X, X, feature_map=made, measure_drift=True)
    exact = linear_attention(wide, wide, wide, feature_map=ByHand()).output
    wanted = ((found.output.double() - exact).abs().max() / exact.abs().max()).item()
    assert found.health.drift == pytest.approx(wanted, rel=1e-9) and 0 < wanted < 1e-5
    # From a state too, which was made under the map itself.
    policy = {"feature_map": made, "denominator": Denominator.prior(1.0)}
    state = linear_attention(X, X, X, return_state=True, **policy).state
    later = linear_attention(X, X, X, initial_state=state, measure_drift=True, **policy)
    assert 0 < later.health.drift < 1e-5


def test_maps_that_need_no_copy():
    plain = Elu1()
    assert in_float64(plain) is plain
    module = Module()
    wide = in_float64(module)
    assert wide is not module and wide.inner.weight.dtype == torch.float64
    assert torch.equal(wide.inner.weight.float(), module.inner.weight)

    class Graph(Holder):
        def __deepcopy__(self, memo):
            raise RuntimeError("part of a graph")

    held = Graph()
    assert in_float64(held) is held
    with pytest.raises(FeatureMapError, match=r"'holder' failed on \(1, 2, 9, 4\) in float64"):
        kernel_report(held, X, X, X)
    assert copy.deepcopy(module).inner.weight.dtype == torch.float32
