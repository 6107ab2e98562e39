"""Encoders turn dated events into numbers, and know how far into the data they have looked."""

from quantattn.encoders.card import EncoderCard
from quantattn.encoders.events import EventEncoder
from quantattn.encoders.numeric import NumericScaler
from quantattn.encoders.text import HashingTextEncoder

__all__ = ["EncoderCard", "EventEncoder", "HashingTextEncoder", "NumericScaler"]
