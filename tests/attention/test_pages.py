"""Large pages change where numbers lie and nothing else."""

from __future__ import annotations

import pytest
import torch

from quantattn.attention.backends import _pages


@pytest.mark.parametrize("size", [0, 1, 2**20, 2**22, 2**22 + 12345])
def test_a_tensor_comes_back_as_it_was(size):
    x = torch.arange(size, dtype=torch.float32)
    again = _pages.in_large_pages(x)
    assert again is x
    assert torch.equal(x, torch.arange(size, dtype=torch.float32))


def test_a_system_without_advice_is_left_alone(monkeypatch):
    monkeypatch.setattr(_pages, "_advise", lambda: None)
    x = torch.zeros(2**22)
    assert _pages.in_large_pages(x) is x


def test_only_whole_large_pages_inside_the_tensor_are_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(
        _pages, "_advise", lambda: lambda begin, length, advice: asked.append((begin, length))
    )
    x = torch.zeros(2**22)
    _pages.in_large_pages(x)
    _pages.in_large_pages(x[: 2**19])
    ((begin, length),) = asked
    assert begin % 2**21 == 0 and length % 2**21 == 0 and length > 0
    assert x.data_ptr() <= begin and begin + length <= x.data_ptr() + 2**24
