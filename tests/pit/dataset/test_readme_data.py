"""What the README says of data in Python, run as it stands there."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path

import quantattn
from quantattn.study import Study

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTION = README.partition("\n## Bring your own data\n")[2].partition("\n## ")[0]


def test_the_examples_print_what_they_say() -> None:
    (code,) = re.findall(r"^```pycon\n(.*?)^```", SECTION, flags=re.DOTALL | re.MULTILINE)
    example = doctest.DocTestParser().get_doctest(code, {}, "README.md", "README.md", 0)
    assert len(example.examples) == 17
    told: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert result.failed == 0, "".join(told)


def test_arguments_that_are_named_exist() -> None:
    assert {"delistings", "actions"} <= set(inspect.signature(quantattn.realised_variance).parameters)
    assert "universe" in inspect.signature(quantattn.PointInTimeDataset).parameters
    assert "by" in inspect.signature(quantattn.PointInTimeDataset.as_of_features).parameters
    for name in ("delistings=", "actions=", "universe=", 'as_of_features(by="kind")', 'pip install ".[sql]"'):
        assert f"`{name}`" in SECTION


def test_a_study_file_takes_none_of_them() -> None:
    assert "a study file, which has no key for any of these yet" in " ".join(SECTION.split())
    keys = set(Study.model_fields["data"].annotation.model_fields)  # type: ignore[union-attr]
    assert "prices" in keys
    assert not keys & {"universe", "delistings", "actions", "halts", "vintages", "repeats"}
