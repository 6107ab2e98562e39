"""The digest of one event and the chain of a sequence without a frame, for events that come one by one.

They are those of :mod:`.hashing`, which says what they are made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from struct import Struct
from typing import Final, Protocol

from quantattn.errors import EventDataError
from quantattn.pit.dataset.hashing import DIGEST_SIZE, feature_labels

BASE: Final = 0x243F6A8885A308D313198A2E03707344
PRIME: Final = 2**127 - 1
"""The chain's base and modulus."""

_HEAD: Final = Struct("<IIqqIIII")
_CHAIN: Final = Struct("<QQQ")
_NULL: Final = 2**32 - 1
_WORD: Final = 2**64 - 1
_FILLING: Final = tuple(bytes(-size % 8) for size in range(8))


class OneEvent(Protocol):
    """What a digest is taken of: one event version, its times in nanoseconds since the epoch, UTC."""

    @property
    def event_id(self) -> str:
        """Its id."""

    @property
    def revision(self) -> int:
        """Which version, from 0."""

    @property
    def entity(self) -> str | None:
        """Whose it is; None for a market-wide event."""

    @property
    def event_time(self) -> int:
        """When it happened."""

    @property
    def available_at(self) -> int:
        """When it could be known."""

    @property
    def kind(self) -> str:
        """Its kind."""

    @property
    def text(self) -> str | None:
        """Its text, if any."""

    @property
    def features(self) -> Mapping[str, float]:
        """Its features; one that it lacks is null."""


class EventHasher:
    """Digests of single events: those of :func:`event_digests`, without a frame.

    Parameters
    ----------
    features : sequence of str
        Names that the features of events may have.
    """

    def __init__(self, features: Sequence[str]) -> None:
        from quantattn.pit.dataset import _siphash_kernels as kernels

        names, labels = feature_labels(features)
        self._labels = dict(zip(names, labels.tolist(), strict=True))
        self._hash = kernels.digest_words

    def digest(self, event: OneEvent) -> bytes:
        """Give the 16 bytes of an event's digest; see :meth:`number`."""
        return self.number(event).to_bytes(DIGEST_SIZE, "little")

    def number(self, event: OneEvent) -> int:
        """Give an event's digest as a number below ``2**128``.

        Raises
        ------
        EventDataError
            If the event has a feature of an unknown name, or a text that UTF-8 cannot write.
        """
        present = event.features
        content: list[int | float] = []
        try:
            for name in sorted(present):
                content += (self._labels[name], present[name])
            event_id, kind = event.event_id.encode(), event.kind.encode()
            entity = None if event.entity is None else event.entity.encode()
            text = None if event.text is None else event.text.encode()
        except KeyError as error:
            raise EventDataError(
                f"event {event.event_id!r} has a feature {error.args[0]!r}, which is none of "
                f"{list(self._labels)}; give it one of these names, or leave it out"
            ) from error
        except UnicodeEncodeError as error:
            raise EventDataError(
                f"event {event.event_id!r} has a text that is not Unicode ({error.reason} at character "
                f"{error.start} of {error.object[:60]!r}); decode it anew, or drop the event"
            ) from error
        head = _HEAD.pack(
            event.revision,
            len(present),
            event.event_time,
            event.available_at,
            len(event_id),
            _NULL if entity is None else len(entity),
            len(kind),
            _NULL if text is None else len(text),
        )
        entity, text = entity or b"", text or b""
        low, high = self._hash(
            b"".join(
                (
                    head,
                    event_id,
                    _FILLING[len(event_id) & 7],
                    entity,
                    _FILLING[len(entity) & 7],
                    kind,
                    _FILLING[len(kind) & 7],
                    text,
                    _FILLING[len(text) & 7],
                    _pairs(len(present)).pack(*content),
                )
            )
        )
        return int(low | high << 64)


@cache
def _pairs(count: int) -> Struct:
    """Give the layout of so many features: a label and a value each."""
    return Struct("<" + count * "Qd")


def chained(chain: int, digest: int) -> int:
    """Append an event's digest to a chain; both are numbers."""
    return (chain * BASE + digest) % PRIME


def chain_name(chain: int, count: int) -> str:
    """Name a chain of so many events, as :class:`InformationHash` does: 32 hexadecimal digits."""
    from quantattn.pit.dataset import _siphash_kernels as kernels

    low, high = kernels.name_words(_CHAIN.pack(chain & _WORD, chain >> 64, count))
    return int(low | high << 64).to_bytes(DIGEST_SIZE, "little").hex()
