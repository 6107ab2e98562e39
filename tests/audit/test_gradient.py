from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from quantattn.audit import check_gradient, later_gradient
from quantattn.forecasters import AttentionNetwork, EntityTokens, FittedForecaster, TokenBatch, merge
from quantattn.forecasters.network import Block
from tests.audit.pipeline import Ran, assert_sound

Forecasters = Mapping[tuple[int, str, int], FittedForecaster]


@pytest.fixture(scope="module")
def tokens(honest: Ran) -> dict[int, Any]:
    return honest.tokens()


def test_honest_networks_pass(honest: Ran, tokens: dict[int, Any]) -> None:
    check = check_gradient(honest.forecasters, tokens)
    assert (check.name, check.verdict) == ("gradient", "PASS")
    assert check.coverage == {"networks": 1.0}
    assert check.evidence["forecasts differentiated"] == 3 * len(honest.forecasters)
    assert check.evidence["largest gradient to a later token"] == 0.0
    assert check.evidence["smallest of the largest gradients to an earlier token"] > 0.0
    assert_sound(check)


def test_networks_without_test_sequences_lower_the_coverage(honest: Ran, tokens: dict[int, Any]) -> None:
    check = check_gradient(honest.forecasters, {0: tokens[0]})
    assert check.verdict == "PASS"
    assert check.coverage == {"networks": pytest.approx(1 / len(honest.folds))}


def test_nothing_to_differentiate_is_not_exercised(honest: Ran, tokens: dict[int, Any]) -> None:
    one = {
        index: {name: sequence.select(sequence.rows[:1]) for name, sequence in sequences.items()}
        for index, sequences in tokens.items()
    }
    for forecasters, given in (({}, tokens), (honest.forecasters, {}), (honest.forecasters, one)):
        check = check_gradient(forecasters, given)
        assert check.verdict == "NOT EXERCISED"
        assert_sound(check)


class TestLeaks:
    """Every one is planted in the network, which is otherwise the honest one."""

    @pytest.mark.parametrize("model", ["linear", "softmax"])
    @pytest.mark.parametrize("part", [0, 1, 2])
    def test_a_network_that_peeks_at_the_next_token_fails(
        self,
        honest: Ran,
        tokens: dict[int, Any],
        monkeypatch: pytest.MonkeyPatch,
        model: str,
        part: int,
    ) -> None:
        attend = Block.attend

        def peek(self: Block, *inputs: Tensor) -> Tensor:
            shifted = list(inputs)
            # Queries, keys or values of the token that comes next, merged in lightly.
            shifted[part] = inputs[part] + 1e-3 * torch.roll(inputs[part], -1, dims=2)
            return attend(self, *shifted)

        monkeypatch.setattr(Block, "attend", peek)
        chosen = {key: value for key, value in honest.forecasters.items() if key[1] == model}
        check = check_gradient(chosen, tokens)
        assert check.verdict == "FAIL"
        assert check.evidence["largest gradient to a later token"] > 0.0
        assert f"{model} seed 0" in check.evidence["where"]
        assert_sound(check)

    def test_a_normaliser_over_the_whole_sequence_fails(
        self, honest: Ran, tokens: dict[int, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        embed = AttentionNetwork.embed

        def normalised(self: AttentionNetwork, batch: TokenBatch) -> Tensor:
            hidden = embed(self, batch)
            return hidden - 1e-6 * hidden.mean(dim=1, keepdim=True)

        monkeypatch.setattr(AttentionNetwork, "embed", normalised)
        assert check_gradient(honest.forecasters, tokens).verdict == "FAIL"

    def test_one_leaking_network_among_many_is_named(
        self, honest: Ran, tokens: dict[int, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        leaking = honest.forecasters[1, "softmax", 0].network.head.weight
        forward = AttentionNetwork.forward

        def sometimes(self: AttentionNetwork, batch: TokenBatch) -> Tensor:
            output = forward(self, batch)
            if torch.equal(self.head.weight.float(), leaking):
                output = output + 1e-9 * batch.events.sum()
            return output

        monkeypatch.setattr(AttentionNetwork, "forward", sometimes)
        check = check_gradient(honest.forecasters, tokens)
        assert check.verdict == "FAIL"
        assert check.evidence["where"].startswith("fold 1 softmax seed 0 ")

    @pytest.mark.parametrize("to", ["events", "queries", "log_decay"])
    def test_a_gradient_that_is_not_a_number_fails(
        self, honest: Ran, tokens: dict[int, Any], monkeypatch: pytest.MonkeyPatch, to: str
    ) -> None:
        forward = AttentionNetwork.forward

        def undefined(self: AttentionNetwork, batch: TokenBatch) -> Tensor:
            leaf = getattr(batch, to)
            # Zero, but the slope of a root at zero times zero is no number.
            return forward(self, batch) + (leaf - leaf.detach()).abs().sqrt().sum() * 0.0

        monkeypatch.setattr(AttentionNetwork, "forward", undefined)
        check = check_gradient(honest.forecasters, tokens)
        assert check.verdict == "FAIL"
        assert check.evidence["largest gradient to a later token"] == "not finite"
        assert_sound(check)

    def test_a_forecast_that_stands_behind_one_event_too_many_fails(
        self, honest: Ran, tokens: dict[int, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def late(sequences: Sequence[EntityTokens], half_lives: Any) -> TokenBatch:
            return merge(
                [replace(one, counts=np.minimum(one.counts + 1, len(one.events))) for one in sequences],
                half_lives,
            )

        # The gradient itself is zero: the event one too many stands before the forecast.
        monkeypatch.setattr("quantattn.audit.gradient.merge", late)
        check = check_gradient(honest.forecasters, tokens)
        assert check.verdict == "FAIL"
        assert check.evidence["largest gradient to a later token"] == 0.0
        assert check.evidence["forecasts that stand behind a later event"] > 0
        assert_sound(check)


class TestPower:
    """Independence of the future shows nothing where there is no dependence on the past."""

    @pytest.mark.parametrize(
        "output",
        [
            lambda output, batch: output * 0.0,
            lambda output, batch: batch.queries.sum(dim=-1),
        ],
    )
    def test_a_network_that_reads_no_event_is_not_exercised(
        self,
        honest: Ran,
        tokens: dict[int, Any],
        monkeypatch: pytest.MonkeyPatch,
        output: Callable[[Tensor, TokenBatch], Tensor],
    ) -> None:
        forward = AttentionNetwork.forward
        monkeypatch.setattr(
            AttentionNetwork, "forward", lambda self, batch: output(forward(self, batch), batch)
        )
        check = check_gradient(honest.forecasters, tokens)
        assert check.verdict == "NOT EXERCISED"
        assert check.evidence["smallest of the largest gradients to an earlier token"] == 0.0
        assert_sound(check)

    def test_the_gradient_to_what_may_be_read_is_the_one_that_differences_show(
        self, honest: Ran, tokens: dict[int, Any]
    ) -> None:
        forecaster = honest.forecasters[0, "linear", 0]
        network = AttentionNetwork(
            forecaster.network.config, forecaster.network.event_width, forecaster.network.query_width
        )
        network.load_state_dict(forecaster.network.state_dict())
        network = network.double().eval()
        sequence = tokens[0]["AAA"]
        short = sequence.select(sequence.rows[:4])
        batch = merge([short], network.config.half_lives).to(torch.float64)
        later, earlier = later_gradient(network, batch, 2)
        assert later == 0.0
        at, step = int(batch.query_positions[0, 2]), 1e-6
        largest = 0.0
        with torch.no_grad():
            for position in range(at - 6, at):
                for column in range(batch.events.shape[2]):
                    moved = batch.events.clone()
                    moved[0, position, column] += step
                    change = network(replace(batch, events=moved)) - network(batch)
                    largest = max(largest, abs(float(change[0, 2])) / step)
        assert 0.0 < largest <= earlier * (1 + 1e-4)
