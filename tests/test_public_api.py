"""`import quantattn`: cheap, complete, and the same for people, editors and type checkers."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import quantattn

SOURCE = Path(quantattn.__file__)
HEAVY = ("torch", "numba", "numpy", "pandas", "polars", "pyarrow", "sklearn", "scipy", "exchange_calendars")

# What README, notebook and CONTRIBUTING use from the package itself; taking one away breaks users.
PROMISED = (
    *("EventLog", "PriceHistory", "ForecastClock", "Labels", "PointInTimeDataset", "Universe", "WhyReport"),
    *("market_events", "load_us_equities", "load_sp500_index", "load_sp500_ohlcv"),
    *("realised_variance", "simple_return", "log_return", "direction", "read_events", "read_prices"),
    *("linear_attention", "softmax_attention", "Denominator", "FeatureMap", "register_feature_map"),
    *("WalkForward", "Fold", "FittedForecaster", "NetworkConfig", "TrainingConfig"),
    *("StreamingForecaster", "Event", "Forecast", "HealthPolicy", "NetworkStream"),
    *("BaselineForecaster", "register_baseline", "EventEncoder", "NumericScaler"),
    *("metrics_table", "comparisons_table", "diebold_mariano", "non_inferiority", "model_confidence_set"),
    *("CheckResult", "write_report", "Study", "load_study", "run_events", "QuantAttnError", "__version__"),
)


def fresh(program: str) -> str:
    """Run `program` in a new interpreter and give what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def typed_imports() -> dict[str, str]:
    """Read from the source what a type checker sees: public name to the module it is imported from."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    (guarded,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    ]
    found: dict[str, str] = {}
    for node in guarded.body:
        assert isinstance(node, ast.ImportFrom)
        assert node.level == 0
        for alias in node.names:
            assert alias.asname is None
            assert alias.name not in found, f"{alias.name} is imported twice"
            found[alias.name] = str(node.module)
    return found


@pytest.mark.parametrize(
    "program",
    [
        "import quantattn",
        "import quantattn; dir(quantattn); quantattn.__version__; quantattn.QuantAttnError",
        "import quantattn\ntry: quantattn.nothing\nexcept AttributeError: pass",
    ],
    ids=["import", "look around", "ask for nothing"],
)
def test_nothing_heavy_is_loaded(program: str) -> None:
    loaded = fresh(f"{program}\nimport sys\nprint(*sys.modules)").split()
    assert "quantattn" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_a_name_brings_what_it_needs_and_no_more() -> None:
    loaded = fresh("import quantattn\nquantattn.EventLog\nimport sys\nprint(*sys.modules)").split()
    assert "polars" in loaded
    assert "torch" not in loaded
    assert "numba" not in loaded


def test_the_three_lists_agree() -> None:
    names = set(typed_imports())
    assert {*quantattn.__all__} == names | {"__version__"}
    assert set(quantattn._HOME) == names
    assert {f"quantattn.{module}" for module in quantattn._HOME.values()} == set(typed_imports().values())
    assert [*quantattn.__all__] == sorted(set(quantattn.__all__))


@pytest.mark.parametrize(("name", "module"), sorted(typed_imports().items()))
def test_every_name_is_the_one_of_its_package(name: str, module: str) -> None:
    home = importlib.import_module(module)
    assert getattr(quantattn, name) is getattr(home, name)
    assert module == "quantattn.errors" or name in home.__all__


def test_what_users_were_promised_is_there() -> None:
    assert [name for name in PROMISED if name not in quantattn.__all__] == []


def test_dir_lists_names_and_packages_before_they_are_loaded() -> None:
    shown = fresh("import quantattn\nprint(*dir(quantattn))").split()
    assert [
        name for name in (*quantattn.__all__, "pit", "attention", "walkforward") if name not in shown
    ] == []


def test_a_package_is_there_whatever_was_used_before() -> None:
    assert fresh("import quantattn\nprint(quantattn.pit.EventLog is quantattn.EventLog)").strip() == "True"


def test_a_star_import_gives_the_public_names() -> None:
    said = fresh("from quantattn import *\nprint(EventLog.__name__, linear_attention.__name__, __version__)")
    assert said.split() == ["EventLog", "linear_attention", quantattn.__version__]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'quantattn' has no attribute 'EventLogs'"):
        quantattn.EventLogs  # noqa: B018
    with pytest.raises(ImportError):
        from quantattn import EventLogs  # type: ignore[attr-defined]  # noqa: F401
    # Tools that look for protocols ask for names such as these.
    assert not hasattr(quantattn, "__wrapped__")


def test_no_public_name_hides_a_package() -> None:
    packages = {path.parent.name for path in SOURCE.parent.glob("*/__init__.py")}
    modules = {path.stem for path in SOURCE.parent.glob("*.py")}
    assert set(quantattn.__all__) & (packages | modules) == set()
