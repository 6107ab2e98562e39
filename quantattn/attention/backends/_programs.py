"""The compiled programs of the fused backend: few entries, compiled once and kept on disk.

numba compiles an entry anew when its own file has changed, and does not look at the files that it calls. So
the entries close over a digest of all of them, which numba counts among what names a stored program.
"""

from __future__ import annotations

from typing import Any, cast

import numba

from quantattn.attention.backends._backward import backward_sweeps
from quantattn.attention.backends._elapsed import elapse, pull_elapsed
from quantattn.attention.backends._forward import forward_sweep
from quantattn.attention.backends._projections import project_rows
from quantattn.attention.backends._sources import digest_of
from quantattn.errors import BackendError


def _entries(digest: int) -> tuple[Any, Any, Any, Any, Any]:

    def compile_(function: Any) -> Any:
        return cast(Any, numba.njit(nogil=True, error_model="numpy", cache=True)(function))

    @compile_
    def forward(first: int, last: int, like: Any, sizes: Any, strides: Any, inputs: Any, outputs: Any) -> int:
        for task in range(first, last):
            forward_sweep(task, like, sizes, strides, inputs, outputs)
        return digest

    @compile_
    def backward(
        first: int,
        last: int,
        like: Any,
        sizes: Any,
        strides: Any,
        inputs: Any,
        outputs: Any,
        asked: Any,
        results: Any,
    ) -> int:
        for task in range(first, last):
            backward_sweeps(task, like, sizes, strides, inputs, outputs, asked, results)
        return digest

    @compile_
    def add_up(heads: int, steps: Any, mask: Any, pending: Any, gaps: Any, since: Any) -> int:
        elapse(heads, steps, mask, pending, gaps, since)
        return digest

    @compile_
    def pull_up(
        heads: int, mask: Any, grad_gaps: Any, grad_since: Any, grad_steps: Any, grad_pending: Any
    ) -> int:
        pull_elapsed(heads, mask, grad_gaps, grad_since, grad_steps, grad_pending)
        return digest

    @compile_
    def project(
        first: int,
        last: int,
        like: Any,
        width: int,
        columns: int,
        groups: int,
        rows: int,
        x: int,
        weight: int,
        out: int,
    ) -> int:
        project_rows(first, last, like, width, columns, groups, rows, x, weight, out)
        return digest

    return forward, backward, add_up, pull_up, project


if getattr(numba.config, "DISABLE_JIT", 0):
    raise BackendError(
        "backend: numba's compiler is switched off (NUMBA_DISABLE_JIT); unset it, or pass backend='chunked'."
    )
run_forward, run_backward, run_elapse, run_pull_elapsed, run_project = _entries(digest_of(_entries))
