"""Benchmarks: commands that time this package against its peers. Nothing here is needed to use it."""

from __future__ import annotations

from quantattn.bench.attention import AttentionBench, bench_attention
from quantattn.bench.data import DataBench, bench_data
from quantattn.bench.data_text import data_text
from quantattn.bench.text import attention_text

__all__ = [
    "AttentionBench",
    "DataBench",
    "attention_text",
    "bench_attention",
    "bench_data",
    "data_text",
]
