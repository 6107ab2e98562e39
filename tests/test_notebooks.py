"""Every notebook runs from its first cell to its last, anywhere, without an error or a warning."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").rglob("*.ipynb"))
NAMES = [path.relative_to(ROOT / "notebooks").as_posix() for path in NOTEBOOKS]


def read(path: Path) -> nbformat.NotebookNode:
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    return notebook


def run(notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Run a notebook in a folder of its own, on one thread, against this checkout."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env=environment)


def test_there_is_a_first_look() -> None:
    assert "first_look.ipynb" in NAMES


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    notebook = read(path)
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[0].source.startswith("# ")
    assert notebook.metadata.kernelspec.name == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.id for cell in code if cell.outputs or cell.execution_count is not None] == []
    assert [cell.id for cell in notebook.cells if not cell.source.strip()] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    notebook = read(path)
    run(notebook, tmp_path)
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any(output.output_type == "stream" for output in outputs)
    complaints = [output.text for output in outputs if output.get("name") == "stderr"]
    assert complaints == []
    assert list(tmp_path.iterdir()) == [], "a notebook leaves nothing behind"


@pytest.mark.slow
def test_a_failing_cell_is_noticed(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell("1 + 1"), nbformat.v4.new_code_cell("assert False, 'on purpose'")]
    with pytest.raises(CellExecutionError, match="on purpose"):
        run(nbformat.v4.new_notebook(cells=cells), tmp_path)
