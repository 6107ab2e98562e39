"""Settings of the process that strangers' code may change, and that must not reach what runs after it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def kept_settings() -> Iterator[None]:
    """Put back, however it ends, what a library can set for the whole process.

    That is, of torch: threads, gradients, the default type and device, the precision of products,
    deterministic algorithms; of numpy what it does about floating-point errors; and scikit-learn's
    configuration.
    """
    threads, gradients = torch.get_num_threads(), torch.is_grad_enabled()
    dtype, device = torch.get_default_dtype(), torch.get_default_device()
    precision = torch.get_float32_matmul_precision()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    errors = np.geterr()
    sklearn = sys.modules.get("sklearn")
    configuration = {} if sklearn is None else sklearn.get_config()
    try:
        yield
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.set_grad_enabled(gradients)
        torch.set_default_dtype(dtype)
        if torch.get_default_device() != device:
            torch.set_default_device(device)
        torch.set_float32_matmul_precision(precision)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        np.seterr(**errors)
        if sklearn is not None:
            sklearn.set_config(**configuration)
