"""The plan of the house, kept by machine: lint, types, floors, import time, docstrings, packaging."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import quantattn
from quantattn.pit.packaged import PACKAGED_FILES

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "quantattn"
SOURCES = sorted(PACKAGE.rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

TOP_LEVEL = {
    *("README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml", "constraints.txt"),
    *("quantattn", "data", "tests", "notebooks"),
}

# What `import quantattn` and `quantattn --help` must not pay for.
HEAVY = {
    *("torch", "numba", "pandas", "polars", "pyarrow", "sklearn", "scipy", "arch", "skfolio"),
    *("exchange_calendars", "statsmodels", "matplotlib"),
}


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run Python with `arguments` in the checkout, without standard input."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=options.pop("cwd", ROOT),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        **options,
    )


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# --- tools ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("-m", "ruff", "check", "."),
        ("-m", "ruff", "format", "--check", "."),
        ("-m", "mypy"),
        ("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-logo"),
    ],
    ids=["ruff check", "ruff format", "mypy", "import floors"],
)
def test_a_tool_has_nothing_to_say(arguments):
    done = run(*arguments)
    if done.returncode:
        pytest.fail(f"{' '.join(arguments)}\n{done.stdout}{done.stderr}", pytrace=False)


# --- import time, by what is loaded -----------------------------------------------------------------


def loaded_by(program: str) -> set[str]:
    """Run `program` in a new interpreter and give the top-level modules that it loaded."""
    done = run("-c", f"{program}\nimport sys\nsys.stderr.write('\\n' + ' '.join(sys.modules))")
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stderr.splitlines()[-1].split()}


def test_importing_the_package_loads_nothing_heavy():
    loaded = loaded_by("import quantattn")
    assert "quantattn" in loaded
    assert loaded & HEAVY == set()


def test_help_loads_nothing_heavy():
    loaded = loaded_by(
        "import sys\n"
        "sys.argv = ['quantattn', '--help']\n"
        "from quantattn.cli import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as stop:\n"
        "    assert not stop.code, stop.code\n"
    )
    assert "typer" in loaded
    assert loaded & HEAVY == set()


def test_the_attention_package_loads_no_data_frames():
    # Torch itself may bring pandas or scipy along; the package must not ask for them.
    assert loaded_by("import quantattn.attention").isdisjoint({"polars", "pyarrow", "sklearn"})


# --- what a source file may hold --------------------------------------------------------------------


def imports(path: Path) -> Iterator[str]:
    """Give the absolute name of everything that a source file imports, wherever it does."""
    package = ".".join(path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            prefix = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(prefix, package) if node.level else prefix
            yield from (f"{base}.{alias.name}" for alias in node.names)


def test_attention_needs_torch_and_numba_alone():
    allowed = {"torch", "numba", "numpy", *sys.stdlib_module_names}
    ours = ("quantattn.attention", "quantattn.errors")
    strangers = {
        (relative(path), name)
        for path in sorted((PACKAGE / "attention").rglob("*.py"))
        for name in imports(path)
        if name.partition(".")[0] not in allowed and not name.startswith(ours)
    }
    assert strangers == set()


PICKLERS = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "shelve", "marshal", "joblib"}
UNSAFE_CALLS = re.compile(
    r"(torch|joblib|pickle|dill|marshal)\.loads?|yaml\.(unsafe_|full_)?load(_all)?|(pd|pandas)\.read_pickle"
)


def unsafe(source: str) -> list[str]:
    """List the pickle-reading imports and calls in a source text."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.partition(".")[0] in PICKLERS]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names]
            found += [module] if module.partition(".")[0] in PICKLERS else []
            found += [name for name in names if UNSAFE_CALLS.fullmatch(name)]
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            allowed = {ast.unparse(keyword) for keyword in node.keywords}
            if UNSAFE_CALLS.fullmatch(name) or "allow_pickle=True" in allowed:
                found.append(name)
    return found


def test_no_source_file_reads_a_pickle():
    found = {relative(path): unsafe(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "from torch import load",
        "torch.load(path)",
        "torch.load(path, weights_only=True)",
        "yaml.load(text)",
        "yaml.unsafe_load(text)",
        "np.load(path, allow_pickle=True)",
        "pd.read_pickle(path)",
    ],
)
def test_the_search_for_pickles_finds_them(source):
    assert unsafe(source)


@pytest.mark.parametrize("source", ["yaml.safe_load(text)", "np.load(path)", "'torch.load(x)'", "# pickle"])
def test_the_search_for_pickles_lets_safe_readers_be(source):
    assert unsafe(source) == []


def test_nothing_is_left_unfinished():
    left_over = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError|TO BE WRITTEN)\b")
    found = {relative(path): left_over.findall(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {path: words for path, words in found.items() if words} == {}


# --- public names -----------------------------------------------------------------------------------


def modules() -> list[str]:
    """Give the dotted name of every module, from the files and without importing any."""
    parts = [path.relative_to(ROOT).with_suffix("").parts for path in SOURCES]
    names = [".".join(part[:-1] if part[-1] == "__init__" else part) for part in parts]
    return [name for name in names if name != "quantattn.__main__"]


def is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


def test_every_module_imports_and_says_what_it_is():
    silent = [name for name in modules() if not (importlib.import_module(name).__doc__ or "").strip()]
    assert silent == []


def test_every_package_says_what_it_exports():
    packages = [relative(path.parent).replace("/", ".") for path in SOURCES if path.name == "__init__.py"]
    public = [name for name in packages if is_public(name) and name != "quantattn"]
    assert [name for name in public if not hasattr(importlib.import_module(name), "__all__")] == []


def test_every_exported_name_exists_once_and_has_a_docstring():
    faults = []
    for name in modules():
        module = importlib.import_module(name)
        exported = getattr(module, "__all__", ())
        faults += [f"{name}.{public} is exported twice" for public in exported if exported.count(public) > 1]
        for public in exported:
            value = getattr(module, public, None)
            if value is None:
                faults.append(f"{name}.{public} does not exist")
            elif (inspect.isclass(value) or inspect.isfunction(value)) and not inspect.getdoc(value):
                faults.append(f"{name}.{public} has no docstring")
    assert faults == []


# --- the project's files ----------------------------------------------------------------------------


def tracked() -> list[str]:
    """List the files that git tracks, or skip where there is no git checkout."""
    try:
        done = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False
        )
    except FileNotFoundError:
        pytest.skip("git is not installed")
    if done.returncode:
        pytest.skip("this is no git checkout")
    return [name for name in done.stdout.split("\0") if name]


def test_the_top_level_holds_the_house_and_nothing_else():
    top = {name.partition("/")[0] for name in tracked()}
    assert {name for name in top if not name.startswith(".")} - TOP_LEVEL == set()


def test_no_tracked_file_is_large():
    large = [name for name in tracked() if (ROOT / name).is_file() and (ROOT / name).stat().st_size > 2**21]
    assert large == []


def test_every_test_folder_is_a_package():
    # Without it, two test files of one name would hide each other.
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert [relative(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_the_version_is_said_once():
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", quantattn.__version__)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{quantattn.__version__}]" in changelog


def test_the_readme_has_the_test_command_that_ci_runs():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- test-command -->\s*```\w*\n(.*?)```", readme, flags=re.DOTALL)
    assert len(blocks) == 1
    assert "python3 -m venv .venv" in blocks[0]
    assert '-c constraints.txt -e ".[test]"' in blocks[0]
    assert blocks[0].rstrip().endswith("-m pytest -n logical")


@pytest.mark.skipif(os.name != "posix", reason="the executable bit is POSIX's")
def test_ci_can_be_run():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


# --- dependencies -----------------------------------------------------------------------------------


def constraints() -> dict[str, Requirement]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]
    assert len({canonicalize_name(pin.name) for pin in pins}) == len(pins), "a package is pinned twice"
    return {canonicalize_name(pin.name): pin for pin in pins}


def wanted() -> list[Requirement]:
    """What ``.[test]`` asks for."""
    project = PROJECT["project"]
    return [Requirement(text) for text in project["dependencies"] + project["optional-dependencies"]["test"]]


def version_of(pin: Requirement) -> str:
    (specifier,) = pin.specifier
    assert specifier.operator == "==", f"{pin} is no exact version"
    return specifier.version


def test_every_pin_is_exact_and_portable():
    for pin in constraints().values():
        assert "+" not in version_of(pin), f"{pin} names a local build, which an index does not hold"
        assert pin.url is None


def test_every_dependency_is_pinned_within_its_range():
    pins = constraints()
    for requirement in wanted():
        pin = pins.get(canonicalize_name(requirement.name))
        assert pin is not None, f"constraints.txt has no version of {requirement.name}"
        assert requirement.specifier.contains(version_of(pin)), f"{pin} is not within {requirement}"
    assert version_of(pins["torch"]) == "2.13.0"


def test_what_the_dependencies_need_is_pinned_too():
    """Walk the installed dependencies' own requirements, as pip would."""
    pins = constraints()
    waiting = wanted()
    seen, missing = set(), set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in pins:
            missing.add(name)
        key = (name, frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # not on this platform, or an extra that this environment lacks
        for text in needs:
            need = Requirement(text)
            extras = requirement.extras or {""}
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(need)
    assert missing == set()


# --- the wheel --------------------------------------------------------------------------------------


def test_the_wheel_takes_the_packaged_data():
    forced = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    expected = {f"data/{name}": f"quantattn/_data/{name}" for name in ("README.md", *PACKAGED_FILES)}
    assert forced == expected


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_works_from_any_folder(tmp_path):
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    built = run("-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist"))
    assert built.returncode == 0, built.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        archive.extractall(tmp_path / "site")
    on_disk = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert set(names) == on_disk | {f"quantattn/_data/{name}" for name in ("README.md", *PACKAGED_FILES)}

    # A folder of that name beside the installed package belongs to somebody else.
    (tmp_path / "site" / "data").mkdir()
    for name in PACKAGED_FILES:
        (tmp_path / "site" / "data" / name).write_text("not ours")
    program = (
        "import quantattn, quantattn.pit.packaged as packaged\n"
        "print(quantattn.__file__)\n"
        "print([packaged.packaged_path(name).parent.name for name in packaged.PACKAGED_FILES])\n"
        "print(packaged.load_us_equities().height)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    used = run("-P", "-c", program, cwd=tmp_path, env=environment)
    assert used.returncode == 0, used.stderr
    where, folders, height = used.stdout.splitlines()
    assert Path(where).is_relative_to(tmp_path / "site")
    assert folders == str(["_data"] * len(PACKAGED_FILES))
    assert height == "166260"
