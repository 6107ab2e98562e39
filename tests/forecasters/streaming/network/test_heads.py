"""Every head through the streaming path: what is read live is what the batch path gives."""

from __future__ import annotations

import numpy as np
import pytest

from quantattn.forecasters import NetworkStream
from quantattn.forecasters.config import Attention
from quantattn.forecasters.heads import HeadConfig, HeadKind
from quantattn.forecasters.passes import forecast_outputs
from quantattn.forecasters.streaming import catch_up, replay, replay_panel
from tests.forecasters.sequences import panel, random_network, random_tokens, small_config

BOTH: list[Attention] = ["linear", "softmax"]
LEVELS = (0.1, 0.5, 0.9)
KINDS: list[HeadKind] = ["point", "gaussian", "quantile", "direction"]
NAMES = [("y_true",), ("a", "b", "c")]


def head_of(kind: HeadKind, names: tuple[str, ...]) -> HeadConfig:
    return HeadConfig(kind, names, LEVELS if kind == "quantile" else ())


@pytest.mark.parametrize("attention", BOTH)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", NAMES)
def test_streaming_is_the_batch_path(attention: Attention, kind: HeadKind, names: tuple[str, ...]) -> None:
    head = head_of(kind, names)
    network = random_network(small_config(attention, head=head))
    sequences = panel(2, events=120, queries=30)
    stream = NetworkStream(network)
    stream.warm_up()
    assert stream.n_outputs == head.outputs
    result = replay_panel(stream, sequences, [catch_up(stream, tokens) for tokens in sequences])
    order = np.argsort(result.rows)
    rows, expected = forecast_outputs(network, sequences, 2)
    assert np.array_equal(result.rows[order], rows)
    found = result.forecasts[order].reshape(len(rows), -1)
    assert found.shape == expected.shape == (61, head.outputs)
    assert found == pytest.approx(expected, abs=2e-5)
    assert (np.ptp(expected, axis=0) > 0.1).all()


@pytest.mark.parametrize("attention", BOTH)
def test_wider_heads_leave_each_number_its_bits(attention: Attention) -> None:
    """Targets side by side give the bits that a network of one of them gives."""
    wide = random_network(small_config(attention, head=HeadConfig("point", ("a", "b"))))
    tokens = random_tokens(60, 20)
    both = replay(NetworkStream(wide), tokens).forecasts
    for place in (0, 1):
        narrow = random_network(small_config(attention))
        weights = wide.state_dict()
        for name in ("head.weight", "head.bias", "direct.weight"):
            weights[name] = weights[name][place : place + 1]
        narrow.load_state_dict(weights)
        alone = replay(NetworkStream(narrow), tokens).forecasts
        assert alone.shape == (20,)
        assert np.array_equal(alone, both[:, place])


def test_what_was_read_is_not_overwritten_by_the_next_read() -> None:
    tokens = random_tokens(10, 3)
    stream = NetworkStream(random_network(small_config(head=HeadConfig("gaussian"))))
    stream.write_sequence("A", tokens.events, tokens.event_times)
    at = int(tokens.event_times[-1]) + 1
    one = stream.read("A", tokens.queries[0], at)
    kept = one.copy()
    assert not np.array_equal(stream.read("A", tokens.queries[1], at), one)
    assert np.array_equal(one, kept)
    assert one.shape == (2,)
    assert one.dtype == np.float32
