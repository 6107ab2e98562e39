"""Benchmarks: commands that time this package against its peers. Nothing here is needed to use it."""

from __future__ import annotations

from quantattn.bench.attention import AttentionBench, bench_attention
from quantattn.bench.data import DataBench, bench_data
from quantattn.bench.data_text import data_text
from quantattn.bench.streaming import StreamingBench, bench_streaming
from quantattn.bench.streaming_text import streaming_text
from quantattn.bench.text import attention_text
from quantattn.bench.training import TrainingBench, bench_training
from quantattn.bench.training_text import training_text

__all__ = [
    "AttentionBench",
    "DataBench",
    "StreamingBench",
    "TrainingBench",
    "attention_text",
    "bench_attention",
    "bench_data",
    "bench_streaming",
    "bench_training",
    "data_text",
    "streaming_text",
    "training_text",
]
