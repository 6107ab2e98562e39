"""Benchmarks: commands that time this package against its peers. Nothing here is needed to use it."""

from __future__ import annotations

from quantattn.bench.attention import AttentionBench, bench_attention
from quantattn.bench.text import attention_text

__all__ = ["AttentionBench", "attention_text", "bench_attention"]
