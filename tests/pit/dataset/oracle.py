"""The names of information sets in plain Python: slow, obvious, and written without the package."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

WORD = 2**64 - 1
PRIME = 2**127 - 1
BASE = 0x243F6A8885A308D313198A2E03707344
"""The first 128 bits of the fraction of pi."""


def turned(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (64 - bits))) & WORD


def siphash(message: bytes, key: bytes) -> bytes:
    """SipHash-2-4 with 128 bits."""
    k0, k1 = struct.unpack("<QQ", key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    v[1] ^= 0xEE

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = (v[0] + v[1]) & WORD
            v[2] = (v[2] + v[3]) & WORD
            v[1] = turned(v[1], 13) ^ v[0]
            v[3] = turned(v[3], 16) ^ v[2]
            v[0] = turned(v[0], 32)
            v[2] = (v[2] + v[1]) & WORD
            v[0] = (v[0] + v[3]) & WORD
            v[1] = turned(v[1], 17) ^ v[2]
            v[3] = turned(v[3], 21) ^ v[0]
            v[2] = turned(v[2], 32)

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) % 256])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(4)
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(4)
    return struct.pack("<QQ", low, v[0] ^ v[1] ^ v[2] ^ v[3])


def event_digest(event: dict[str, Any], features: Sequence[str]) -> bytes:
    """Hash one event, whose times are nanoseconds."""
    key = b"quantattn.events"
    present = [name for name in sorted(features) if event[name] is not None]
    content = struct.pack("<II", event["revision"], len(present))
    content += struct.pack("<qq", event["event_time"], event["available_at"])
    texts = [event[name] for name in ("event_id", "entity", "kind", "text")]
    encoded = [None if text is None else text.encode() for text in texts]
    for text in encoded:
        content += struct.pack("<I", 2**32 - 1 if text is None else len(text))
    for text in encoded:
        if text is not None:
            content += text + bytes(-len(text) % 8)
    for name in present:
        content += siphash(name.encode(), key)[:8] + struct.pack("<d", event[name])
    return siphash(content, key)


def set_name(digests: Iterable[bytes]) -> str:
    """Name a sequence of events by their digests."""
    chain = count = 0
    for digest in digests:
        chain = (chain * BASE + int.from_bytes(digest, "little")) % PRIME
        count += 1
    return siphash(chain.to_bytes(16, "little") + struct.pack("<Q", count), b"quantattn.sample").hex()
