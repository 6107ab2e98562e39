"""Point-in-time backtesting of causal linear-attention forecasters against their softmax twins."""

from __future__ import annotations

__version__ = "0.1.0"
