"""The card of an encoder: what it was fitted on, and how late that was."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from quantattn.pit.timestamps import iso


@dataclass(frozen=True)
class EncoderCard:
    """What a reviewer must know of a fitted encoder.

    Parameters
    ----------
    name : str
        The parts of the encoding, for people.
    training_cutoff : int
        The latest ``available_at`` of anything the encoder was fitted on, nanoseconds since the epoch,
        UTC. It is always earlier than `cutoff`.
    cutoff : int
        The instant that the encoder was told to stop at (exclusive), nanoseconds since the epoch, UTC.
    n_events : int
        How many event versions it was fitted on.
    width : int
        Columns of the encoding.
    fingerprint : str
        SHA-256 (64 hexadecimal digits) of the canonical JSON of everything learned.
    """

    name: str
    training_cutoff: int
    cutoff: int
    n_events: int
    width: int
    fingerprint: str

    def to_dict(self) -> dict[str, str | int]:
        """Give the card as plain values, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """Say in one line what the encoder has seen."""
        return (
            f"{self.name}: {self.width} columns, fitted on {self.n_events} events up to "
            f"{iso(self.training_cutoff)} (cutoff {iso(self.cutoff)}), fingerprint {self.fingerprint[:12]}"
        )
