"""What README and package say about the attention library: the example runs, the claims hold."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest
import torch

import quantattn.attention as package
from quantattn import errors
from quantattn.attention import linear_attention

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
HEADING = "\n## The attention library on its own\n"


def section() -> str:
    assert HEADING in README
    return README.partition(HEADING)[2].partition("\n## ")[0]


def said() -> str:
    """Give the package's docstring in one line."""
    return " ".join((package.__doc__ or "").split())


def test_the_example_of_the_readme_prints_what_it_says():
    (code,) = re.findall(r"^```pycon\n(.*?)^```", section(), flags=re.DOTALL | re.MULTILINE)
    example = doctest.DocTestParser().get_doctest(code, {}, "README.md", "README.md", 0)
    assert len(example.examples) == 10
    told: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert result.failed == 0, "".join(told)


def test_names_of_the_readme_exist():
    named = re.findall(r"`(\w+)(?:\(\))?`", section())
    assert len(named) >= 6
    places = (package, package.Denominator)
    assert [name for name in named if not any(hasattr(place, name) for place in places)] == []


def test_names_of_the_package_docstring_exist():
    named = re.findall(r":(?:func|class|meth):`([\w.]+)`", package.__doc__ or "")
    assert len(named) > 12
    for name in named:
        value: object = package
        for part in name.split("."):
            value = getattr(value, part)
    inherited = re.findall(r":class:`~quantattn\.errors\.(\w+)`", package.__doc__ or "")
    assert {"AttentionError", "GradientError"} <= set(inherited)
    assert all(issubclass(getattr(errors, name), errors.AttentionError) for name in inherited)


def test_every_public_function_is_on_the_map():
    public = {name for name in package.__all__ if name.islower()}
    aside = {"backend_names", "resolve_feature_map"}
    assert {name for name in public - aside if f":func:`{name}`" not in said()} == set()


def test_what_auto_picks_is_what_is_said():
    assert "``quadratic`` for tiny calls into which no state goes" in said()
    assert "``fused`` for float32 on a CPU, and ``chunked`` elsewhere" in said()
    tiny, large = torch.rand(1, 1, 4, 2), torch.rand(1, 1, 40, 2)
    assert linear_attention(tiny, tiny, tiny).health.backend == "quadratic"
    assert linear_attention(tiny, tiny, tiny, return_state=True).health.backend == "fused"
    assert linear_attention(large, large, large).health.backend == "fused"
    assert linear_attention(*[large.double()] * 3).health.backend == "chunked"


def test_a_second_derivative_is_refused_as_is_said():
    assert "``create_graph=True`` is refused" in said()
    inputs = [torch.rand(1, 1, 40, 2).requires_grad_() for _ in range(3)]
    output = linear_attention(*inputs).output
    with pytest.raises(errors.GradientError):
        torch.autograd.grad(output.sum(), inputs, create_graph=True)
