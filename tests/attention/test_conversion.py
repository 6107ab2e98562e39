"""The layer, its checkpoint, and the conversion of a softmax model."""

from __future__ import annotations

import copy
import json
import math

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from quantattn.attention import CausalAttention, Denominator, Favor, Hedgehog, build_feature_map, convert
from quantattn.errors import CheckpointError, DenominatorError, FeatureMapError, ShapeError, StateError

WIDTH, HEADS = 8, 2


def tokens(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Stack(nn.Module):
    """Two residual attention layers with dropout, and a head."""

    def __init__(self, attention: str = "softmax") -> None:
        super().__init__()
        torch.manual_seed(4)
        self.blocks = nn.ModuleList(CausalAttention(WIDTH, HEADS, attention=attention) for _ in range(2))
        with torch.no_grad():
            for block in self.blocks:
                # Attention as sharp as a trained one's.
                block.projection.weight *= 3
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        for block in self.blocks:
            hidden = hidden + self.dropout(block(hidden, key_mask=mask))
        return self.head(hidden)


def test_the_softmax_layer_is_torchs_with_a_causal_mask():
    torch.manual_seed(1)
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    nn.init.normal_(theirs.in_proj_bias)
    nn.init.normal_(theirs.out_proj.bias)
    ours = CausalAttention.from_multihead(theirs)
    x = tokens(2, 7, WIDTH)
    hidden = torch.ones(7, 7, dtype=torch.bool).triu(1)
    wanted, _ = theirs(x, x, x, attn_mask=hidden, need_weights=False)
    torch.testing.assert_close(ours(x), wanted, rtol=1e-5, atol=1e-6)
    without = CausalAttention.from_multihead(nn.MultiheadAttention(WIDTH, HEADS, bias=False).double())
    assert without.projection.bias is None
    assert without.projection.weight.dtype == torch.float64
    for other in ({"kdim": 4, "vdim": 4}, {"add_bias_kv": True}, {"add_zero_attn": True}):
        with pytest.raises(ShapeError, match="have no counterpart here"):
            CausalAttention.from_multihead(nn.MultiheadAttention(WIDTH, HEADS, **other))


@pytest.mark.parametrize("attention", ["softmax", "linear"])
def test_a_layer_reads_the_past_alone(attention):
    layer = CausalAttention(WIDTH, HEADS, attention=attention)
    x = tokens(2, 6, WIDTH)
    base = layer(x)
    assert base.shape == x.shape
    changed = x.clone()
    changed[:, 4:] += 1
    other = layer(changed)
    assert torch.equal(base[:, :4], other[:, :4])
    assert not torch.equal(base[:, 4], other[:, 4])
    mask = torch.ones(2, 6, dtype=torch.bool)
    mask[:, 2] = False
    masked = layer(x, key_mask=mask, log_decay=-torch.ones(1, HEADS, 1))
    changed = x.clone()
    changed[:, 2] += 1
    again = layer(changed, key_mask=mask, log_decay=-torch.ones(1, HEADS, 1))
    assert torch.equal(masked[:, 3:], again[:, 3:])


def test_a_linear_layer_goes_on_from_its_state():
    layer = CausalAttention(WIDTH, HEADS, feature_map="favor")
    x = tokens(2, 9, WIDTH)
    whole = layer.read(x, return_state=True)
    first = layer.read(x[:, :4], return_state=True)
    second = layer.read(x[:, 4:], initial_state=first.state, return_state=True)
    torch.testing.assert_close(torch.cat([first.output, second.output], 1), whole.output)
    torch.testing.assert_close(second.state.S, whole.state.S)
    assert whole.health.policy == Denominator.raise_()
    assert whole.health.feature_map == "favor"
    with pytest.raises(StateError, match=r"has no state of fixed size; convert\(\)"):
        CausalAttention(WIDTH, HEADS, attention="softmax").read(x)


LAYERS = {
    "softmax": {"attention": "softmax"},
    "elu1": {},
    "favor": {"feature_map": "favor", "denominator": Denominator.floor(1e-3)},
    "hedgehog": {"feature_map": "hedgehog", "denominator": Denominator.prior(2.0, 0.5)},
}


@pytest.mark.parametrize("one", LAYERS)
@pytest.mark.parametrize("other", LAYERS)
def test_the_checkpoint_says_what_the_layer_is(one, other):
    torch.manual_seed(2)
    trained, fresh = (CausalAttention(WIDTH, HEADS, **LAYERS[name]) for name in (one, other))
    stored = load(save(trained.state_dict()))
    if one == other:
        fresh.load_state_dict(stored)
        x = tokens(2, 5, WIDTH)
        assert torch.equal(fresh(x), trained(x))
        assert fresh.config() == trained.config() == json.loads(json.dumps(trained.config()))
        return
    # Weights of the maps may be missing or left over too; the layer is what is named first.
    with pytest.raises(CheckpointError, match=r"state_dict: \w+ is .*, this layer has .*; build the layer"):
        fresh.load_state_dict(stored, strict=False)


def test_the_denominator_policy_is_part_of_the_model():
    stored = CausalAttention(WIDTH, HEADS, denominator=Denominator.floor(0.5)).state_dict()
    other = CausalAttention(WIDTH, HEADS, denominator=Denominator.floor(0.25))
    with pytest.raises(
        CheckpointError, match=r"denominator is \{'eps': 0.5, 'kind': 'floor'\}, this layer has"
    ):
        other.load_state_dict(stored)
    assert "denominator=floor(0.25)" in repr(other)
    mass, value = nn.Parameter(torch.full((HEADS, 1), 2.0)), torch.full((HEADS, 1, 4), 0.25)
    learned = CausalAttention(WIDTH, HEADS, denominator=Denominator.prior(mass, value))
    assert {"prior_mass", "prior_value"} <= set(learned.state_dict())
    own = dict(learned.named_parameters())["prior_mass"]
    x = tokens(2, 5, WIDTH)
    learned(x).sum().backward()
    assert (own.grad != 0).all() and mass.grad is None
    with torch.no_grad():
        own += 1
    assert (mass == 2).all()
    loaded = CausalAttention(
        WIDTH,
        HEADS,
        denominator=Denominator.prior(nn.Parameter(torch.ones(HEADS, 1)), torch.zeros(HEADS, 1, 4)),
    )
    loaded.load_state_dict(load(save(learned.state_dict())))
    assert loaded.denominator == learned.denominator == Denominator.prior(mass + 1, value)
    assert torch.equal(loaded(x), learned(x))
    copied = copy.deepcopy(learned)
    with torch.no_grad():
        copied.prior_mass += 1
    assert copied.denominator != learned.denominator
    assert learned.double().denominator.mass.dtype == torch.float64
    with torch.no_grad():
        own.fill_(-1.0)
    with pytest.raises(DenominatorError, match="mass: expected positive finite numbers"):
        learned(x.double())


@pytest.mark.parametrize("kind", [nn.Parameter, torch.Tensor.clone])
def test_one_prior_does_not_tie_layers(kind):
    prior = Denominator.prior(kind(torch.tensor(1.0)), kind(torch.tensor(0.5)))
    one, two = (CausalAttention(WIDTH, HEADS, denominator=prior) for _ in range(2))
    x, before = tokens(2, 5, WIDTH), two(tokens(2, 5, WIDTH)).detach()
    other = CausalAttention(
        WIDTH, HEADS, denominator=Denominator.prior(kind(torch.tensor(7.0)), kind(torch.tensor(-3.0)))
    )
    one.load_state_dict(other.state_dict())
    assert float(one.denominator.mass.detach()) == 7.0 and float(one.denominator.value.detach()) == -3.0
    assert torch.equal(two(x), before) and (float(prior.mass), float(prior.value)) == (1.0, 0.5)
    blocks = convert(Stack(), "elu1", x, denominator=prior).model.blocks
    with torch.no_grad():
        blocks[0].prior_mass += 1
    assert [float(block.denominator.mass) for block in blocks] == [2.0, 1.0] and float(prior.mass) == 1.0
    assert isinstance(blocks[0].prior_mass, nn.Parameter) == (kind is nn.Parameter)


def test_a_prior_that_nobody_would_train_is_refused():
    raw = torch.zeros(HEADS, 1, requires_grad=True)
    for mass in (raw + 1, torch.ones(1, requires_grad=True)):
        with pytest.raises(DenominatorError, match=r"mass of the prior needs a gradient.*nn\.Parameter"):
            CausalAttention(WIDTH, HEADS, denominator=Denominator.prior(mass, 0.0))
    frozen = nn.Parameter(torch.ones(1), requires_grad=False)
    layer = CausalAttention(WIDTH, HEADS, denominator=Denominator.prior(frozen, 0.0))
    assert not layer.prior_mass.requires_grad


def test_damaged_descriptions_are_refused():
    layer = CausalAttention(WIDTH, HEADS)
    for said, message in ((torch.zeros(3, dtype=torch.uint8), "is damaged"), ("text", "is damaged")):
        stored = {**layer.state_dict(), "_extra_state": said}
        with pytest.raises(CheckpointError, match=message):
            layer.load_state_dict(stored)
    number = torch.tensor(list(b"12"), dtype=torch.uint8)
    with pytest.raises(CheckpointError, match="12 does not describe an attention layer"):
        layer.load_state_dict({**layer.state_dict(), "_extra_state": number})


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((8, 3), {}, "heads: 3 heads do not divide a width of 8"),
        ((8, 0), {}, "heads: 0 heads"),
        ((8, 2), {"attention": "full"}, "attention: expected 'linear' or 'softmax', got 'full'"),
    ],
)
def test_bad_layers(arguments, options, message):
    with pytest.raises(ShapeError, match=message):
        CausalAttention(*arguments, **options)
    with pytest.raises(ShapeError, match=r"hidden: expected shape \(B, T, 8\), got \(2, 3, 7\)"):
        CausalAttention(8, 2)(tokens(2, 3, 7))


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found - wanted).double().norm() / wanted.double().norm())


def test_the_drift_is_reported_layer_by_layer():
    model = Stack().train()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    x = tokens(3, 12, WIDTH, seed=7)
    conversion = convert(model, "elu1", x)
    assert [layer.layer for layer in conversion.layers] == ["blocks.0", "blocks.1"]
    model.eval()
    linear = conversion.model
    assert linear.training
    linear.eval()
    with torch.no_grad():
        first = model.blocks[0](x)
        hidden = x + first
        other = x + linear.blocks[0](x)
        wanted = (
            relative(linear.blocks[0](x), first),
            relative(linear.blocks[1](hidden), model.blocks[1](hidden)),
        )
        compounded = relative(linear.blocks[1](other), model.blocks[1](hidden))
        whole = relative(linear(x), model(x))
        apart = (linear.blocks[0](x) - first).norm(dim=-1).max() / first.square().sum(-1).mean().sqrt()
    assert [layer.own for layer in conversion.layers] == pytest.approx(wanted, rel=1e-5)
    assert conversion.layers[0].compounded == pytest.approx(conversion.layers[0].own, rel=1e-6)
    assert conversion.layers[1].compounded == pytest.approx(compounded, rel=1e-5)
    assert conversion.layers[1].compounded != conversion.layers[1].own
    assert conversion.layers[0].worst == pytest.approx(float(apart), rel=1e-5)
    assert conversion.output == pytest.approx(whole, rel=1e-5)
    assert all(layer.own > 0.01 for layer in conversion.layers)
    # The original is untouched, and the copy has its weights.
    assert all(block.attention == "softmax" for block in model.blocks)
    for name, stored in model.state_dict().items():
        assert torch.equal(stored, before[name])
        if "extra" not in name:
            assert torch.equal(linear.state_dict()[name], stored)
    text = str(conversion)
    assert "blocks.1" in text and "another function" in text and "equal" not in text
    said = json.loads(json.dumps(conversion.to_dict()))
    assert said["feature_map"] == "elu1" and said["denominator"] == {"kind": "raise"}
    assert len(said["layers"]) == 2
    head = text.split("\n\n")[1].splitlines()[0].split()
    assert head == list(said["layers"][0]) == ["layer", "own", "compounded", "worst", "calls"]
    rows = conversion.to_rows()
    assert [row["own"] for row in rows] == [layer.own for layer in conversion.layers]
    assert rows[0]["model_output"] == conversion.output and rows[0]["denominator"] == "raise_()"
    assert all(isinstance(value, str | float | int) for row in rows for value in row.values())


def test_a_conversion_can_be_fine_tuned():
    model = Stack().eval()
    x = tokens(4, 12, WIDTH, seed=8)
    with torch.no_grad():
        wanted = model(x)
    conversion = convert(model, lambda layer: Hedgehog(WIDTH // HEADS, heads=layer.heads), x)
    linear = conversion.model
    start = relative(linear(x).detach(), wanted)
    assert start == pytest.approx(conversion.output, rel=1e-5)
    optimiser = torch.optim.Adam(linear.parameters(), lr=0.005)
    for _ in range(60):
        optimiser.zero_grad()
        (linear(x) - wanted).square().mean().backward()
        optimiser.step()
    assert relative(linear(x).detach(), wanted) < 0.5 * start
    moved = linear.blocks[0].feature_map.key_weight
    assert not torch.equal(moved, Hedgehog(4, heads=HEADS).key_weight)
    with torch.no_grad():
        assert torch.equal(model(x), wanted)


def test_every_layer_gets_a_map_of_its_own():
    x = tokens(2, 5, WIDTH)
    for chosen in ("favor", "hedgehog", Favor(4, 6), Hedgehog(4)):
        conversion = convert(Stack(), chosen, {"hidden": x, "mask": None}, denominator=Denominator.prior(1.0))
        one, two = (block.feature_map for block in conversion.model.blocks)
        assert one is not two and one is not chosen
        assert list(conversion.model.state_dict())  # maps are saved with the model
        assert conversion.denominator == Denominator.prior(1.0)
        assert conversion.model.blocks[0].denominator == Denominator.prior(1.0)
    assert convert(Stack(), "favor", (x,)).model.blocks[0].feature_map.heads == HEADS


def test_a_layer_by_itself_and_a_shared_one():
    layer = CausalAttention(WIDTH, HEADS, attention="softmax").double()
    x = tokens(2, 5, WIDTH).double()
    conversion = convert(layer, "taylor2", x)
    assert isinstance(conversion.model, CausalAttention)
    assert conversion.model.attention == "linear"
    assert conversion.model.projection.weight.dtype == torch.float64
    assert conversion.layers[0].layer == ""
    assert conversion.output == conversion.layers[0].own == conversion.layers[0].compounded
    assert "(model)" in str(conversion)
    shared = nn.Sequential(layer, layer)
    model = convert(shared, "elu1", x).model
    assert model[0] is model[1] and model[0].attention == "linear"


def test_what_cannot_be_converted():
    x = tokens(2, 5, WIDTH)
    with pytest.raises(ShapeError, match=r"holds no CausalAttention with attention='softmax'\.$"):
        convert(nn.Linear(8, 8), "elu1", x)
    with pytest.raises(ShapeError, match=r"MultiheadAttention at \['0'\] does not say whether it is causal"):
        convert(nn.Sequential(nn.MultiheadAttention(8, 2)), "elu1", x)
    with pytest.raises(ShapeError, match="holds no CausalAttention"):
        convert(Stack("linear"), "elu1", x)
    with pytest.raises(FeatureMapError, match="expected a name, a map or a function, got 3"):
        convert(Stack(), 3, x)
    with pytest.raises(FeatureMapError, match="the function returned int, not a FeatureMap"):
        convert(Stack(), lambda layer: 3, x)
    with pytest.raises(FeatureMapError, match="'elu' is not registered"):
        convert(Stack(), "elu", x)

    class Idle(Stack):
        def forward(self, hidden):
            return self.blocks[0](hidden)

    with pytest.raises(ShapeError, match=r"did not run its layers \['blocks\.1'\]"):
        convert(Idle(), "elu1", x)


def test_errors_of_a_conversion_name_the_layer():
    x = tokens(2, 5, WIDTH)
    model = Stack()
    # Nothing in common under relu: the first layer's, and the second's alone.
    remedy = r"layer 'blocks\.0': denominator: .* convert\(\.\.\., denominator=\.\.\.\)"
    with pytest.raises(DenominatorError, match=remedy):
        convert(model, "dpfp", x)
    converted = convert(model, "dpfp", x, denominator=Denominator.floor(1e-6))
    assert "floor(1e-06)" in str(converted) and "{" not in str(converted)

    def second(layer):
        return build_feature_map("dpfp" if layer.heads == 4 else "elu1", layer.width // layer.heads)

    mixed = nn.Sequential(*(CausalAttention(WIDTH, heads, attention="softmax") for heads in (2, 4)))
    with pytest.raises(DenominatorError, match=r"^layer '1': "):
        convert(mixed, second, x)
    with pytest.raises(FeatureMapError, match=r"^layer 'blocks\.0': feature_map: 'elu' .* Did you mean"):
        convert(model, "elu", x)
    with pytest.raises(ShapeError, match=r"^layer 'blocks\.0': hidden: expected"):
        convert(model, "elu1", x[..., :4])
    # An error of the softmax model is not put down to the policy.
    with pytest.raises(DenominatorError, match=r"^layer 'blocks\.0': ") as caught:
        convert(model, "elu1", (x, torch.zeros(2, 5, dtype=torch.bool)))
    assert "convert(" not in str(caught.value)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_model_without_one_output_has_no_drift_of_its_own():
    class Pair(Stack):
        def forward(self, hidden):
            return super().forward(hidden), math.pi

    conversion = convert(Pair(), "elu1", tokens(2, 5, WIDTH))
    assert conversion.output is None
    assert "Drift of the model" not in str(conversion)
