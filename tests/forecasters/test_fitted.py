"""A stored forecaster is the one that was fitted, bit for bit, or an error that says what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save

from quantattn.errors import CheckpointError
from quantattn.files import hash_bytes, hash_json, write_json
from quantattn.forecasters import FittedForecaster, History, TargetScale, encode, fit_encoders, replay
from quantattn.forecasters.config import Attention
from quantattn.forecasters.fitted import CONFIG, WEIGHTS
from quantattn.forecasters.network import AttentionNetwork

from ..pit.build import at
from .sequences import random_network, small_config
from .test_history import history

REMEDY = "run the study again"


def forecaster_of(attention: Attention = "linear", **sizes: Any) -> tuple[FittedForecaster, History]:
    read = history()
    encoders = fit_encoders(read, at(40), text_width=4)
    tokens = encode(read, encoders)["A"]
    config = small_config(attention, **sizes)
    fresh = AttentionNetwork(config, tokens.events.shape[1], tokens.queries.shape[1]).eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in fresh.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return (
        FittedForecaster(fresh, encoders, TargetScale(-8.123456789, 1.3), (-0.7, 0.1 + 0.2), at(40) - 1, 11),
        read,
    )


def stored(folder: Path, attention: Attention = "linear", **sizes: Any) -> tuple[FittedForecaster, History]:
    forecaster, read = forecaster_of(attention, **sizes)
    folder.mkdir(exist_ok=True)
    forecaster.save(folder)
    return forecaster, read


# --- round trip -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_a_loaded_forecaster_streams_equal_bits(tmp_path: Path, attention: Attention) -> None:
    forecaster, read = stored(tmp_path, attention)
    loaded = FittedForecaster.load(tmp_path)
    for entity, tokens in encode(read, forecaster.encoders).items():
        again = encode(read, loaded.encoders)[entity]
        assert again.events.tobytes() == tokens.events.tobytes()
        assert again.queries.tobytes() == tokens.queries.tobytes()
        before = replay(forecaster.network_stream(), tokens).forecasts
        after = replay(loaded.network_stream(), again).forecasts
        assert np.abs(before).max() > 0
        assert after.tobytes() == before.tobytes()
        assert loaded.target.invert(after).tobytes() == forecaster.target.invert(before).tobytes()


def test_everything_else_comes_back(tmp_path: Path) -> None:
    forecaster, _ = stored(tmp_path)
    loaded = FittedForecaster.load(tmp_path)
    assert loaded.target == forecaster.target
    assert loaded.interval == forecaster.interval
    assert loaded.fit_time == forecaster.fit_time
    assert loaded.seed == forecaster.seed
    assert loaded.network.config == forecaster.network.config
    assert not loaded.network.training
    assert loaded.encoders.cutoff == forecaster.encoders.cutoff
    assert loaded.encoders.events.fingerprint == forecaster.encoders.events.fingerprint
    assert loaded.encoders.events.card_ == forecaster.encoders.events.card_
    assert loaded.encoders.queries.fingerprint == forecaster.encoders.queries.fingerprint


@pytest.mark.parametrize("scope", ["entity+market", "entity", "market"])
def test_the_scope_comes_back(tmp_path: Path, scope: Any) -> None:
    forecaster, _ = forecaster_of()
    scoped = replace(forecaster, encoders=replace(forecaster.encoders, scope=scope))
    scoped.save(tmp_path)
    loaded = FittedForecaster.load(tmp_path)
    assert loaded.scope == loaded.encoders.scope == loaded.stream().scope == scope
    assert loaded.network_stream().entities == ()


def test_bytes_are_the_same_each_time(tmp_path: Path) -> None:
    stored(tmp_path / "a")
    stored(tmp_path / "b")
    (tmp_path / "c").mkdir()
    FittedForecaster.load(tmp_path / "a").save(tmp_path / "c")
    for name in (WEIGHTS, CONFIG):
        assert len({(tmp_path / folder / name).read_bytes() for folder in "abc"}) == 1


def test_no_pickle(tmp_path: Path) -> None:
    stored(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [CONFIG, WEIGHTS]
    json.loads((tmp_path / CONFIG).read_text(encoding="utf-8"))
    assert set(load((tmp_path / WEIGHTS).read_bytes()))


# --- corruption -------------------------------------------------------------------------------------------


def refused(folder: Path, said: str = "") -> None:
    with pytest.raises(CheckpointError, match=rf"(?s){said}.*{REMEDY}") as caught:
        FittedForecaster.load(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG])
def test_missing(tmp_path: Path, name: str) -> None:
    stored(tmp_path)
    (tmp_path / name).unlink()
    refused(tmp_path, "no readable forecaster")


def test_no_folder_at_all(tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"nowhere does not exist; give folds/.* of a run, or what save"
    ):
        FittedForecaster.load(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"there is no forecaster\.json in it; give folds/.* of a run"):
        FittedForecaster.load(tmp_path)


def test_a_folder_may_be_named_by_a_text(tmp_path: Path) -> None:
    forecaster, _ = stored(tmp_path)
    (tmp_path / "b").mkdir()
    forecaster.save(str(tmp_path / "b"))
    assert FittedForecaster.load(str(tmp_path / "b")).fit_time == forecaster.fit_time


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG])
def test_a_folder_instead_of_a_file(tmp_path: Path, name: str) -> None:
    stored(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    refused(tmp_path, "no readable forecaster")


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG])
def test_truncated_anywhere(tmp_path: Path, name: str) -> None:
    stored(tmp_path)
    whole = (tmp_path / name).read_bytes()
    for length in sorted({*range(0, len(whole), 97), 1, 7, 8, 9, len(whole) - 1}):
        (tmp_path / name).write_bytes(whole[:length])
        if name == CONFIG and whole[:length] == whole.rstrip():
            continue  # only the line end is gone
        refused(tmp_path)


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG])
def test_a_flipped_bit_anywhere(tmp_path: Path, name: str) -> None:
    stored(tmp_path)
    whole = (tmp_path / name).read_bytes()
    places = range(len(whole)) if name == CONFIG else range(0, len(whole), 13)
    generator = np.random.default_rng(0)
    kept = 0
    for place in places:
        altered = bytearray(whole)
        altered[place] ^= 1 << int(generator.integers(8))
        (tmp_path / name).write_bytes(altered)
        if name == CONFIG and same_values(bytes(altered), whole):
            kept += 1  # a space turned into another, for example
            continue
        refused(tmp_path)
    assert kept < len(places) / 5


def same_values(left: bytes, right: bytes) -> bool:
    try:
        return bool(json.loads(left) == json.loads(right))
    except ValueError:
        return False


def test_longer_than_it_was(tmp_path: Path) -> None:
    for name in (WEIGHTS, CONFIG):
        stored(tmp_path)
        with (tmp_path / name).open("ab") as file:
            file.write(b"0")
        refused(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"null", b"[]", b"3", b'"text"', b"{}", b"\xff\xfe", b"{" * 100_000, b"[" * 100_000, b"NaN", b"{]"],
)
def test_a_configuration_that_is_none(tmp_path: Path, content: bytes) -> None:
    stored(tmp_path)
    (tmp_path / CONFIG).write_bytes(content)
    refused(tmp_path)


def test_weights_of_another_forecaster(tmp_path: Path) -> None:
    stored(tmp_path / "one")
    forecaster, _ = forecaster_of()
    with torch.no_grad():
        forecaster.network.start += 1
    (tmp_path / "two").mkdir()
    forecaster.save(tmp_path / "two")
    (tmp_path / "one" / WEIGHTS).write_bytes((tmp_path / "two" / WEIGHTS).read_bytes())
    refused(tmp_path / "one", "belongs to another forecaster")


def test_weights_of_another_size(tmp_path: Path) -> None:
    stored(tmp_path / "one")
    stored(tmp_path / "two", width=12)
    (tmp_path / "one" / WEIGHTS).write_bytes((tmp_path / "two" / WEIGHTS).read_bytes())
    refused(tmp_path / "one", "belongs to another forecaster")


# --- corruption whose checksums are right -----------------------------------------------------------------

Change = Callable[[dict[str, Any]], None]


def forged(folder: Path, change: Change) -> None:
    """Alter the configuration and put its checksum right."""
    stored(folder)
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    del config["config_sha256"]
    change(config)
    write_json(folder / CONFIG, {**config, "config_sha256": hash_json(config)})


def with_weights(folder: Path, weights: bytes) -> None:
    stored(folder)
    (folder / WEIGHTS).write_bytes(weights)
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    del config["config_sha256"]
    config["weights_sha256"] = hash_bytes(weights)
    write_json(folder / CONFIG, {**config, "config_sha256": hash_json(config)})


def setting(name: str, value: Any) -> Change:
    *path, last = name.split(".")

    def change(config: dict[str, Any]) -> None:
        for part in path:
            config = config[part]
        config[last] = value

    return change


def deleting(name: str) -> Change:
    def change(config: dict[str, Any]) -> None:
        del config[name]

    return change


KEYS = [
    "denominator",
    "encoder_cutoff",
    "event_encoder",
    "event_width",
    "fit_time",
    "interval",
    "network",
    "query_scaler",
    "query_width",
    "schema",
    "scope",
    "seed",
    "target",
    "weights_sha256",
]


def test_the_keys_below_are_all_that_loading_needs(tmp_path: Path) -> None:
    stored(tmp_path)
    config = json.loads((tmp_path / CONFIG).read_text(encoding="utf-8"))
    assert sorted(config) == sorted([*KEYS, "config_sha256", "event_encoder_card"])


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_missing(tmp_path: Path, key: str) -> None:
    forged(tmp_path, deleting(key))
    refused(tmp_path)


@pytest.mark.parametrize("schema", [0, 1, 3, "2", None, 2.5])
def test_another_schema(tmp_path: Path, schema: Any) -> None:
    forged(tmp_path, setting("schema", schema))
    refused(tmp_path, rf"has schema {schema}, this version reads 2")


@pytest.mark.parametrize(
    "policy", [{"kind": "floor", "eps": 1e-6}, {"kind": "raise", "eps": 1}, None, "raise"]
)
def test_another_denominator_policy(tmp_path: Path, policy: Any) -> None:
    forged(tmp_path, setting("denominator", policy))
    refused(tmp_path, "denominator policy")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("network", []),
        ("network", None),
        ("network.width", 12),
        ("network.width", "8"),
        ("network.width", 8.5),
        ("network.width", None),
        ("network.heads", 3),
        ("network.layers", 1),
        ("network.layers", 3),
        ("network.attention", "cosine"),
        ("network.feature_map", "relu"),
        ("network.half_lives", 5),
        ("network.half_lives", ["a", "b"]),
        ("network.half_lives", [1.0]),
        ("network.dropout", 0.1),
        ("event_width", 9),
        ("event_width", -1),
        ("event_width", "many"),
        ("event_width", None),
        ("query_width", 6),
        ("event_encoder", None),
        ("event_encoder", {}),
        ("event_encoder.schema", 9),
        ("event_encoder.text_width", -4),
        ("event_encoder.kinds", "news"),
        ("query_scaler", []),
        ("query_scaler.scale", [1.0]),
        ("query_scaler.mean", ["a", "b"]),
        ("scope", None),
        ("scope", "all"),
        ("scope", ["entity"]),
        ("encoder_cutoff", None),
        ("encoder_cutoff", "tomorrow"),
        ("interval", [1.0]),
        ("interval", None),
        ("interval", [0, 10**400]),
        ("interval", ["low", "high"]),
        ("target", {}),
        ("target", {"center": 0.0}),
        ("target", {"center": 0.0, "scale": 1.0, "shift": 2.0}),
        ("target", 3),
        ("fit_time", None),
        ("fit_time", []),
        ("seed", "x"),
        ("seed", None),
    ],
)
def test_an_impossible_value(tmp_path: Path, name: str, value: Any) -> None:
    forged(tmp_path, setting(name, value))
    refused(tmp_path)


def test_weights_under_a_true_checksum(tmp_path: Path) -> None:
    stored(tmp_path / "good")
    whole = (tmp_path / "good" / WEIGHTS).read_bytes()
    weights = load(whole)
    less = {name: value for name, value in weights.items() if name != "start"}
    narrow = random_network(small_config(width=4)).state_dict()
    kinds = {
        "empty": b"",
        "no format": b"not safetensors at all",
        "cut short": whole[:-4],
        "a tensor less": save(less),
        "a tensor more": save({**weights, "extra": np.zeros(3, np.float32)}),
        "of another size": save({name: value.numpy() for name, value in narrow.items()}),
        "of another shape": save({**weights, "start": np.zeros((2, 4), np.float32)}),
    }
    for kind, content in kinds.items():
        with_weights(tmp_path / kind, content)
        refused(tmp_path / kind)


# --- target scale -----------------------------------------------------------------------------------------


def test_target_scale() -> None:
    scale = TargetScale.fit(np.array([1.0, 3.0, 5.0, 7.0]))
    assert scale == TargetScale(4.0, 5.0**0.5)
    assert scale.apply(np.array([4.0, 4.0 + 5.0**0.5])).tolist() == [0.0, 1.0]
    assert scale.invert(np.array([0.0, 2.0])).tolist() == [4.0, 2 * 5.0**0.5 + 4.0]


@pytest.mark.parametrize("value", [0.0, 0.1, -9.3, 1e-300, 1e9, 123456.789])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000])
def test_a_constant_target_has_scale_one(value: float, n: int) -> None:
    scale = TargetScale.fit(np.full(n, value))
    assert scale.scale == 1.0
    assert scale.apply(np.array([value]))[0] == pytest.approx(0.0, abs=1e-6)


def test_a_small_spread_is_kept() -> None:
    assert TargetScale.fit(np.array([1.0, 1.0 + 1e-9])).scale == pytest.approx(5e-10, rel=1e-6)
    assert TargetScale.fit(np.array([0.0, 1e-100])).scale * 1e100 == pytest.approx(0.5)
