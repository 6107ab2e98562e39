"""Compiled code and numba's store on disk: what is stored is named by all that it was made from."""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from quantattn.attention.backends._sources import digest_of

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "quantattn"


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def trees() -> dict[str, ast.Module]:
    """Parse the files that import numba, or what another of them marks as compiled."""
    read = {name_of(path): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    found = {name: text for name, text in read.items() if "numba" in text or "_vectors import" in text}
    return {name: ast.parse(text) for name, text in found.items()}


@cache
def compiled() -> tuple[Any, ...]:
    """Give the package's compiled functions, wherever they hang."""
    for name in trees():
        importlib.import_module(name)
    gc.collect()
    found = [thing for thing in gc.get_objects() if isinstance(thing, Dispatcher)]
    ours = [thing for thing in found if thing.py_func.__module__.startswith("quantattn.")]
    return tuple(sorted(ours, key=lambda thing: label(thing.py_func)))


def label(function: FunctionType) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def is_stored(dispatcher: Any) -> bool:
    return dispatcher._cache.cache_path is not None


# --- names --------------------------------------------------------------------------------------------------


def namesakes(dispatchers: Iterable[Any]) -> list[str]:
    """List the names under which stored programs could be linked to another function than they called."""
    functions = defaultdict(set)
    for dispatcher in dispatchers:
        functions[label(dispatcher.py_func)].add(id(dispatcher.py_func))
    return sorted(name for name, those in functions.items() if len(those) > 1)


def test_compiled_functions_of_one_name_are_one_function():
    assert len(compiled()) > 50
    assert namesakes(compiled()) == []


def test_the_search_for_namesakes_finds_them():
    def made(number: int) -> Any:
        return numba.njit(lambda: number)

    first, second = made(1), made(2)
    assert namesakes([first, first]) == []
    assert namesakes([first, second]) == [label(first.py_func)]


# --- what an entry is made from -----------------------------------------------------------------------------


@cache
def module_tree(module: str) -> tuple[dict[str, list[ast.stmt]], dict[str, tuple[str, str | None]]]:
    """Read a file: the statements that give a name its meaning, and what names were imported as."""
    made: dict[str, list[ast.stmt]] = defaultdict(list)
    imported: dict[str, tuple[str, str | None]] = {}
    path = Path(str(importlib.import_module(module).__file__))
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            made[node.name].append(node)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                target = (full, None) if is_module(full) else (str(node.module), alias.name)
                imported[alias.asname or alias.name] = target
        else:
            for part in ast.walk(node):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    made[part.id].append(node)
    return made, imported


def is_module(name: str) -> bool:
    if not name.startswith("quantattn."):
        return False
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def made_from(module: str, name: str) -> tuple[set[str], set[tuple[str, str]]]:
    """Follow names through the source: the files of all that is used, and the constants read, by reader.

    More than what is compiled, as it takes in decorators and all that a factory does.
    """
    files: set[str] = set()
    constants: set[tuple[str, str]] = set()
    waiting, met = [(module, name)], set()
    while waiting:
        at, name = waiting.pop()
        if (at, name) in met:
            continue
        met.add((at, name))
        made, imported = module_tree(at)
        if name in made:
            files.add(at)
            for statement in made[name]:
                waiting += [(at, part.id) for part in ast.walk(statement) if isinstance(part, ast.Name)]
        elif name in imported:
            home, inside = imported[name]
            if not home.startswith("quantattn") or inside == "digest_of":
                continue
            assert inside is not None, f"{at} uses the module {home}: name what it uses of it"
            value = getattr(importlib.import_module(home), inside)
            if isinstance(value, int | float | str | tuple | np.generic):
                constants.add((at, name))
            else:
                waiting.append((home, inside))
    return files, constants


def stored_entries() -> list[Any]:
    return [thing for thing in compiled() if is_stored(thing)]


def factory_of(entry: Any) -> tuple[ModuleType, str]:
    """Return the module and the function at its top level that an entry stands in."""
    function = entry.py_func
    return sys.modules[function.__module__], function.__qualname__.partition(".")[0]


def changed(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Let a module's file seem to hold a line more."""
    read, path = Path.read_bytes, Path(str(sys.modules[module].__file__))
    monkeypatch.setattr(Path, "read_bytes", lambda self: read(self) + b"\n#" * (self == path))


def another(value: Any) -> Any:
    return (*value, 1) if isinstance(value, tuple) else f"{value}1" if isinstance(value, str) else value + 1


def test_every_stored_entry_is_found():
    asking = {
        name
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "cache"
    }
    assert asking == {entry.py_func.__module__ for entry in stored_entries()}
    assert len(asking) > 5


def test_every_stored_entry_depends_on_all_that_it_is_made_from(monkeypatch):
    """One whose calls or constants lie outside of its file closes over a digest that they change."""
    outside = set()
    for module, name in {factory_of(entry) for entry in stored_entries()}:
        files, constants = made_from(module.__name__, name)
        entries = [entry for entry in stored_entries() if factory_of(entry) == (module, name)]
        if files == {module.__name__} and not constants:
            continue  # numba itself looks at an entry's own file
        outside.add(module.__name__)
        factory = getattr(module, name)
        digest = digest_of(factory)
        for entry in entries:
            held = dict(zip(entry.py_func.__code__.co_freevars, entry.py_func.__closure__ or (), strict=True))
            assert "digest" in held, f"{label(entry.py_func)} is made from {sorted(files)}, {constants}"
            assert held["digest"].cell_contents == digest
        for file in files:
            with monkeypatch.context() as patch:
                changed(patch, file)
                assert digest_of(factory) != digest, f"{module.__name__} does not notice a change of {file}"
        for reader, constant in constants:
            with monkeypatch.context() as patch:
                patch.setattr(f"{reader}.{constant}", another(getattr(sys.modules[reader], constant)))
                assert digest_of(factory) != digest, f"{module.__name__} does not notice {reader}.{constant}"
        assert digest_of(factory) == digest
    assert outside == {
        "quantattn.attention.backends._programs",
        "quantattn.forecasters.streaming.network.kernels.steps",
    }


# --- the digest ---------------------------------------------------------------------------------------------

HELPERS = """
import numba
import numpy as np
from toy import other
def made(number):
    return numba.njit(lambda: number)
WEIGHTS = np.array([1.0, 2.0])
one, two = made(other.ONE), made(other.TWO)
"""
ENTRIES = """
from toy import helpers
from toy.other import PAIR
def used(x=PAIR):
    return x
def entries():
    def entry():
        return helpers.one() + helpers.two() + helpers.WEIGHTS[0] + used()
    return entry
"""
OTHER = "ONE = 1\nTWO = 2\nPAIR = (3, (4, 5))\n"


def digest_in(folder: Path, **changes: tuple[str, str]) -> int:
    """Write a package of three modules, one perhaps with other text, and digest its entries."""
    shutil.rmtree(folder, ignore_errors=True)
    package = folder / "toy"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    for name, text in (("helpers", HELPERS), ("entries", ENTRIES), ("other", OTHER)):
        for old, new in (changes[name],) if name in changes else ():
            assert old in text
            text = text.replace(old, new)
        (package / f"{name}.py").write_text(text)
    sys.path.insert(0, str(folder))
    # Files of one size and second would share what Python keeps of them.
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    importlib.invalidate_caches()
    try:
        return digest_of(importlib.import_module("toy.entries").entries)
    finally:
        sys.dont_write_bytecode = kept
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == "toy"]:
            del sys.modules[name]


@pytest.mark.parametrize(
    "changes",
    [
        {"helpers": ("lambda: number", "lambda: -number")},
        {"helpers": ("[1.0, 2.0]", "[1.0, 2.5]")},
        {"other": ("ONE = 1", "ONE = 7")},
        {"other": ("ONE = 1\nTWO = 2", "ONE = 2\nTWO = 1")},
        {"other": ("(4, 5)", "(4, 6)")},
        {"entries": ("+ used()", "- used()")},
    ],
    ids=["code", "array", "constant", "constants exchanged", "default", "entry"],
)
def test_the_digest_sees_a_change(tmp_path, changes):
    assert digest_in(tmp_path / "site") != digest_in(tmp_path / "site", **changes)


def test_the_digest_sees_nothing_else(tmp_path):
    digest = digest_in(tmp_path / "site")
    assert digest == digest_in(tmp_path / "site")
    assert digest == digest_in(tmp_path / "elsewhere", other=("ONE = 1", "UNUSED = 1\nONE = 1"))


def test_the_digest_sees_an_option_of_the_compiler():
    def helper() -> float:
        return 1.0

    def using(helper: Any) -> Any:
        return lambda: helper()

    options = (
        {},
        {"nogil": True},
        {"fastmath": True},
        {"fastmath": {"nsz"}},
        {"fastmath": {"nsz", "reassoc"}},
    )
    assert len({digest_of(using(numba.njit(**option)(helper))) for option in options}) == len(options)


# --- from process to process --------------------------------------------------------------------------------


def run(program: str, site: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=site,
        env={**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


TWO_PROGRAMS = """
import numpy as np
from quantattn.attention.backends._programs import run_elapse
from quantattn.forecasters.streaming.network.kernels import first_late
from quantattn.forecasters.streaming.network.kernels.plan import COUNT, HEADER_SIZE

since = np.zeros((1, 2))
run_elapse(1, np.ones((1, 1)), np.zeros((0, 1), bool), np.ones(1), np.zeros((1, 1)), since)
header = np.zeros(HEADER_SIZE, np.int64)
header[:] = np.arange(HEADER_SIZE) * 10
header[COUNT] = 5
headers, times = np.array([header.ctypes.data]), np.array([45])
late = first_late(headers.ctypes.data, times.ctypes.data, 1, 0)
print(since[0, 0], late, *(sum(x.stats.cache_hits.values()) for x in (run_elapse, first_late)))
"""


def test_a_helper_that_changed_leaves_no_stale_program(tmp_path):
    """A warm cache is used as long as nothing changes, and not when a file changes that an entry calls."""
    site = tmp_path / "site"
    shutil.copytree(PACKAGE, site / "quantattn", ignore=shutil.ignore_patterns("__pycache__"))
    cache_folder = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    # Names are hashed otherwise in every process, and the digest is the same.
    for seed, hits in (("1", "0"), ("2", "1")):
        told = run(TWO_PROGRAMS, site, {**cache_folder, "PYTHONHASHSEED": seed})
        assert told.split() == ["1.0", "-1", hits, hits]
    for name, old, new in (
        ("attention/backends/_elapsed.py", "waiting = pending[pair]", "waiting = pending[pair] + 1.5"),
        ("forecasters/streaming/network/kernels/plan.py", "LAST_EVENT = 0\n", "LAST_EVENT = 5\n"),
    ):
        path = site / "quantattn" / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
    assert run(TWO_PROGRAMS, site, cache_folder).split() == ["2.5", "0", "0", "0"]


BOTH_SWEEPS = """
import sys
import torch
from quantattn.attention import Denominator, linear_attention
from quantattn.attention.backends import _programs

if "backward first" in sys.argv:
    program = _programs.run_backward
    for kinds, *_ in program._cache._cache_file._load_index():
        program.compile(kinds)
random = torch.Generator().manual_seed(1)
draw = lambda *shape: torch.randn(*shape, generator=random, dtype=torch.float64)
leaves = [draw(2, 2, 37, 20) for _ in range(3)]
decay, counts = -draw(2, 2, 37).abs(), torch.randint(0, 38, (2, 37), generator=random)
worst = 0.0
for options in (
    {},
    {"visibility": "strict"},
    {"log_decay": decay},
    {"log_decay": decay, "visibility": "strict"},
    {"visible_counts": counts},
    {"visible_counts": counts, "log_decay": decay},
):
    found = []
    for backend in ("quadratic", "fused"):
        own = [x.clone().requires_grad_("gradients" in sys.argv) for x in leaves]
        result = linear_attention(
            *own, backend=backend, return_state=True, denominator=Denominator.prior(0.5, 0.25), **options
        )
        both = [result.output, result.state.S]
        if "gradients" in sys.argv:
            both += torch.autograd.grad(sum(x.sin().sum() for x in both), own)
        found.append(both)
    worst = max(worst, *(float((a - b).detach().abs().max()) for a, b in zip(*found, strict=True)))
hits = [sum(x.stats.cache_hits.values()) for x in (_programs.run_forward, _programs.run_backward)]
print(worst < 1e-9, *hits)
"""


@pytest.mark.slow
def test_programs_of_several_processes_do_not_mix(tmp_path):
    """numba counts helpers anew in each process: under one name, stored programs took each other's."""

    def told(*arguments: str) -> list[str]:
        program = f"import sys; sys.argv += {list(arguments)}\n{BOTH_SWEEPS}"
        return run(program, ROOT, {"NUMBA_CACHE_DIR": str(tmp_path)}).split()

    assert told() == ["True", "0", "0"]
    assert told("gradients") == ["True", "1", "0"]
    assert told("gradients") == ["True", "1", "1"]
    assert told("gradients", "backward first") == ["True", "1", "1"]
