"""A fitted forecaster: network, encoders, target scale and interval, as one thing to store and to run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import torch
from safetensors import SafetensorError
from safetensors.numpy import load, save

from quantattn.encoders import EventEncoder, NumericScaler
from quantattn.errors import CheckpointError, QuantAttnError
from quantattn.files import hash_bytes, hash_json, write_bytes, write_json
from quantattn.forecasters._finding import refuse_without_forecaster
from quantattn.forecasters.config import NetworkConfig
from quantattn.forecasters.history import FittedEncoders
from quantattn.forecasters.network import DENOMINATOR, AttentionNetwork
from quantattn.forecasters.readout import Readout, TargetScale
from quantattn.pit.dataset.point_in_time import Scope

if TYPE_CHECKING:
    from quantattn.forecasters.streaming import NetworkStream, StreamingForecaster

__all__ = ["FittedForecaster", "TargetScale"]

SCHEMA = 2
WEIGHTS = "weights.safetensors"
CONFIG = "forecaster.json"
_REMEDY = "run the study again with --resume, which does this fold anew"
# What a stored value of the wrong kind or size can raise while the parts are put together.
_UNFIT = (
    KeyError,
    TypeError,
    ValueError,
    OverflowError,
    RuntimeError,
    SafetensorError,
    QuantAttnError,
)


@dataclass(frozen=True)
class FittedForecaster:
    """All that a fold learned for one network; enough to forecast live.

    Parameters
    ----------
    network : AttentionNetwork
        In evaluation mode.
    encoders : FittedEncoders
        The fold's encoders.
    target : TargetScale
        Of the training rows.
    interval : tuple of float
        What to add to a forecast for its lower and upper bound, in units of the target.
    fit_time : int
        Nanoseconds since the epoch, UTC.
    seed : int
        Of the training run.
    readout : Readout, optional
        What turns the head's raw numbers into forecasts; by default a point forecast of one target, read with
        `target` and `interval`. Where it is given, these two are those of its first target.
    """

    network: AttentionNetwork
    encoders: FittedEncoders
    target: TargetScale
    interval: tuple[float, float]
    fit_time: int
    seed: int
    readout: Readout | None = None

    @property
    def reads(self) -> Readout:
        """What turns raw numbers into forecasts, spelled out."""
        if self.readout is not None:
            return self.readout
        return Readout(self.network.config.head, (self.target,), (self.interval,))

    @property
    def scope(self) -> Scope:
        """Which events the sequences hold: the entity's own, the market-wide ones, or both."""
        return self.encoders.scope

    def stream(self, **options: Any) -> StreamingForecaster:
        """Give the forecaster that runs live, with empty memories: raw events in, forecasts out.

        Parameters
        ----------
        **options
            Those of :class:`~quantattn.forecasters.streaming.StreamingForecaster`.
        """
        # The streaming forecaster knows this class.
        from quantattn.forecasters.streaming import StreamingForecaster

        return StreamingForecaster(self, **options)

    def network_stream(self) -> NetworkStream:
        """Give the network alone as a stream with empty memories: tokens in, raw numbers out."""
        from quantattn.forecasters.streaming import NetworkStream

        return NetworkStream(self.network)

    def save(self, folder: str | Path) -> None:
        """Write weights (safetensors) and everything else (JSON) into a folder.

        Parameters
        ----------
        folder : str or Path
            An existing folder.
        """
        folder = Path(folder)
        weights = save({name: value.numpy() for name, value in self.network.state_dict().items()})
        config = {**self._config(), "weights_sha256": hash_bytes(weights)}
        write_bytes(folder / WEIGHTS, weights)
        write_json(folder / CONFIG, {**config, "config_sha256": hash_json(config)})

    def _config(self) -> dict[str, Any]:
        more = {} if self.readout is None else {"readout": self.readout.to_dict()}
        return {
            "schema": SCHEMA,
            "network": self.network.config.to_dict(),
            "denominator": DENOMINATOR.to_dict(),
            "event_width": self.network.event_width,
            "query_width": self.network.query_width,
            "event_encoder": self.encoders.events.to_dict(),
            "event_encoder_card": self.encoders.events.card_.to_dict(),
            "query_scaler": self.encoders.queries.to_dict(),
            "encoder_cutoff": self.encoders.cutoff,
            "scope": self.scope,
            "target": {"center": self.target.center, "scale": self.target.scale},
            "interval": list(self.interval),
            "fit_time": self.fit_time,
            "seed": self.seed,
            **more,
        }

    @classmethod
    def load(cls, folder: str | Path) -> FittedForecaster:
        """Read what :meth:`save` wrote.

        Parameters
        ----------
        folder : str or Path
            The folder.

        Returns
        -------
        FittedForecaster

        Raises
        ------
        CheckpointError
            If a file is missing, truncated, altered, of another schema, denominator policy or size. Where
            the folder is in a run, the message lists those of the run that hold a forecaster.
        """
        folder = Path(folder)
        refuse_without_forecaster(folder, CONFIG, WEIGHTS)
        try:
            config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
            weights = (folder / WEIGHTS).read_bytes()
        except (OSError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{folder} holds no readable forecaster ({error}); {_REMEDY}") from error
        config = _checked(config, weights, folder)
        try:
            network = AttentionNetwork(
                NetworkConfig.from_dict(config["network"]),
                int(config["event_width"]),
                int(config["query_width"]),
            )
            network.load_state_dict(
                {name: torch.from_numpy(value.copy()) for name, value in load(weights).items()}
            )
            encoders = FittedEncoders(
                EventEncoder.from_dict(config["event_encoder"]),
                NumericScaler.from_dict(config["query_scaler"]),
                int(config["encoder_cutoff"]),
                _scope(config["scope"]),
            )
            lower, upper = config["interval"]
            stored = config.get("readout")
            return cls(
                network.eval(),
                encoders,
                TargetScale(**config["target"]),
                (float(lower), float(upper)),
                int(config["fit_time"]),
                int(config["seed"]),
                None if stored is None else Readout.from_dict(network.config.head, stored),
            )
        except _UNFIT as error:
            raise CheckpointError(
                f"{folder} does not hold a forecaster of this version ({error}); {_REMEDY}"
            ) from error


def _scope(stored: Any) -> Scope:
    if stored not in get_args(Scope):
        raise CheckpointError(f"scope={stored!r} is unknown")
    return cast(Scope, stored)


def _checked(config: Any, weights: bytes, folder: Path) -> dict[str, Any]:
    """Give the stored configuration if it is whole, of this schema and policy, and belongs to the weights."""
    if not isinstance(config, dict) or config.get("schema") != SCHEMA:
        found = config.get("schema") if isinstance(config, dict) else type(config).__name__
        raise CheckpointError(f"{folder / CONFIG} has schema {found}, this version reads {SCHEMA}; {_REMEDY}")
    if config.get("denominator") != DENOMINATOR.to_dict():
        raise CheckpointError(
            f"{folder / CONFIG} was trained under denominator policy {config.get('denominator')}, this "
            f"version reads under {DENOMINATOR.to_dict()}; {_REMEDY}"
        )
    content = {name: value for name, value in config.items() if name != "config_sha256"}
    try:
        whole = hash_json(content) == config.get("config_sha256")
    except ValueError:  # NaN, which is never written
        whole = False
    if not whole:
        raise CheckpointError(f"{folder / CONFIG} was altered after it was written; {_REMEDY}")
    if hash_bytes(weights) != config.get("weights_sha256"):
        raise CheckpointError(
            f"{folder / WEIGHTS} was altered or cut short after it was written, or belongs to another "
            f"forecaster; {_REMEDY}"
        )
    return content
