"""The chunked backend under torch.compile."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from quantattn.attention import linear_attention
from quantattn.attention.backends.base import Problem
from quantattn.attention.backends.chunked import read_chunked

COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(COMPILER is None, reason="torch.compile needs a C++ compiler, and there is none"),
    # Said by torch's own tracer.
    pytest.mark.filterwarnings("ignore:Dynamo:UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def leaves() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = [(2, 2, 41, 4), (2, 2, 41, 4), (2, 2, 41, 3), (2, 2, 41)]
    query, key, value, decay = (
        torch.rand(*shape, generator=generator, dtype=torch.float64) for shape in shapes
    )
    return [x.requires_grad_() for x in (query, key, value, -decay)]


def both(function, compiled) -> None:
    """Demand equal outputs and gradients."""
    results = []
    for chosen in (function, compiled):
        inputs = leaves()
        output = chosen(*inputs)
        output.sin().sum().backward()
        results.append([output.detach(), *(x.grad for x in inputs if x.grad is not None)])
    assert len(results[0]) == len(results[1])
    for plain, fast in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("decays", [False, True])
def test_the_reads_are_one_graph(decays):
    def reads(query: Tensor, key: Tensor, value: Tensor, decay: Tensor) -> Tensor:
        columns = torch.cat([value, torch.ones_like(value[..., :1])], -1)
        time = decay.double() if decays else None
        problem = Problem(query, key, columns, "inclusive", None, None, time, None, None, 16, False)
        return read_chunked(problem).read

    both(reads, torch.compile(reads, fullgraph=True))


def test_the_public_function_compiles_around_its_checks():
    """Checks look at numbers, so the graph is broken at each; results are the same."""

    def attend(query: Tensor, key: Tensor, value: Tensor, decay: Tensor) -> Tensor:
        return linear_attention(query, key, value, log_decay=decay, backend="chunked", chunk_size=16).output

    both(attend, torch.compile(attend))
