"""Settings that must be there before torch is loaded."""

from __future__ import annotations

import os

# As the command line does: waiting threads must not spin while other tests want the cores.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
