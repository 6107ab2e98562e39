"""An interrupted read leaves no thread behind that writes to memory of others."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import signal, torch
from quantattn.attention import linear_attention
torch.set_num_threads(3)
tensors = [torch.randn(8, 4, 2000, 32) for _ in range(3)]
linear_attention(*tensors, backend="fused")
signal.signal(signal.SIGALRM, signal.default_int_handler)
stopped = 0
for turn in range(40):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.004 + 0.0003 * turn)
        while True:
            linear_attention(*tensors, backend="fused")
    except KeyboardInterrupt:
        stopped += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
exact = linear_attention(*(x[:1, :1, :50] for x in tensors), backend="quadratic").output
again = linear_attention(*(x[:1, :1, :50] for x in tensors), backend="fused").output
print(stopped, torch.allclose(exact, again, atol=1e-5))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs interval timers")
def test_interrupted_again_and_again():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["40", "True"]
