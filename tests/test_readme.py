"""README and CONTRIBUTING say nothing that is not so: examples run, paths exist, commands exist."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import quantattn
import quantattn.audit
from quantattn.cli import app
from quantattn.pit.readers import read_events
from quantattn.pit.timestamps import iso, nanoseconds_of
from quantattn.study import DEFAULT_STUDY, load_study, packaged_studies

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGES = {"README.md": README, "CONTRIBUTING.md": CONTRIBUTING}

# Written by a run, or the user's own: no files of this repository.
NOT_OURS = {
    *("report.html", "forecasts.parquet", "manifest.json", "study.yaml", "my_study.yaml", "news.csv"),
    *("metrics.json", "comparisons.json", "latency.json", "audit.json", "findings.json"),
    *(".venv/bin/", ".venv\\Scripts\\", "folds/N/MODEL-SEED/", ".gz"),
}
SUFFIXES = (".py", ".md", ".toml", ".txt", ".yaml", ".ipynb", ".parquet", ".json", ".csv", ".html")


def section(text: str, heading: str) -> str:
    """Give the text under a heading of the second level."""
    _, found, rest = text.partition(f"\n## {heading}\n")
    assert found, f"there is no heading {heading!r}"
    return rest.partition("\n## ")[0]


def blocks(text: str, language: str) -> list[tuple[int, str]]:
    """Give the fenced blocks of a language, each with the number of its first line."""
    return [
        (text.count("\n", 0, found.start()) + 2, found[1])
        for found in re.finditer(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    ]


def prose(text: str) -> str:
    """Leave out fenced blocks and comments."""
    return re.sub(r"^```.*?^```|<!--.*?-->", "", text, flags=re.DOTALL | re.MULTILINE)


def table(text: str) -> list[list[str]]:
    """Give the cells of the first table, without its head."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert set(cells[1]) == {"---"}
    return cells[2:]


def python(program: str, folder: Path) -> str:
    """Run a program in a new interpreter, in a folder of its own, and give what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    environment = {name: value for name, value in environment.items() if not name.startswith("POLARS_")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment | {"PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- the example in Python --------------------------------------------------------------------------


def test_the_example_has_ten_lines_and_prints_what_it_says(tmp_path: Path) -> None:
    ((_, code),) = blocks(README, "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    ((_, said),) = blocks(README, "text")
    # The last bits of a logarithm differ between processors, and a hash with them.
    name = re.compile(r"\b[0-9a-f]{32}\b")
    assert name.search(said)
    printed = python(code, tmp_path)
    assert name.sub("", printed).splitlines() == name.sub("", said).splitlines()


def test_what_is_said_about_the_example() -> None:
    example = section(README, "In Python")
    assert "The Friday after Thanksgiving is a half day" in example
    assert "its close is at 18:00 UTC and the forecast at 17:45" in example
    assert "Forecast for AAPL at 2022-11-25T17:45:00Z" in example
    from exchange_calendars import get_calendar

    calendar = get_calendar("XNYS")
    assert calendar.session_close("2022-11-25").isoformat() == "2022-11-25T18:00:00+00:00"
    assert not calendar.is_session("2022-11-24")
    assert calendar.session_close("2022-11-23").isoformat() == "2022-11-23T21:00:00+00:00"


# --- commands ---------------------------------------------------------------------------------------


def test_two_commands_do_all_the_set_up() -> None:
    commands = [block.strip() for _, block in blocks(section(README, "Start"), "bash")]
    assert commands == [
        "python3 -m venv .venv && .venv/bin/pip install -c constraints.txt . && .venv/bin/quantattn run",
        'python3 -m venv .venv && .venv/bin/pip install -c constraints.txt -e ".[test]" '
        "&& .venv/bin/python -m pytest -n logical",
    ]
    # .ci/run runs the fence that follows the marker.
    assert f"\n<!-- test-command -->\n```bash\n{commands[1]}\n```\n" in README
    assert README.count("test-command") == 1


def named_commands(text: str) -> Iterator[str]:
    """Give every command line of quantattn that a page shows, in code or in a block."""
    for line in re.findall(r"`((?:\.venv/bin/)?quantattn [^`\n]+)`", prose(text)):
        yield line.removeprefix(".venv/bin/")
    for _, block in blocks(text, "bash"):
        for part in re.split(r"&&|\n", block):
            words = part.partition("#")[0].strip()
            if words.removeprefix(".venv/bin/").startswith("quantattn "):
                yield words.removeprefix(".venv/bin/")


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_option_exists(page: str) -> None:
    found = list(named_commands(PAGES[page]))
    assert found
    for line in found:
        words = line.split()[1:]
        if words == ["--help"]:
            continue
        shown = CliRunner().invoke(app, [words[0], "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
        assert shown.exit_code == 0, line
        for option in (word for word in words if word.startswith("-")):
            assert option in shown.output, line


def test_every_command_is_in_the_readme() -> None:
    listed = {row[0].strip("`").split()[1] for row in table(section(README, "Start"))}
    known = [*app.registered_commands, *app.registered_groups]
    assert listed == {command.name for command in known}


@pytest.mark.parametrize("page", PAGES)
def test_options_named_alone_exist(page: str) -> None:
    """They are of the commands that a reader uses most."""
    shown = "".join(
        CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
        for command in ("run", "ingest", "replay")
    )
    options = set(re.findall(r"`(--[a-z][a-z-]*)`", prose(PAGES[page])))
    assert [option for option in sorted(options) if option not in shown] == []


def test_the_packaged_studies_are_those_that_it_names() -> None:
    studies = packaged_studies()
    assert set(studies) == {"realised_variance", "returns"}
    assert "`realised_variance` (the default) and `returns`" in README
    assert DEFAULT_STUDY == "realised_variance"


# --- one's own data ---------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Give a folder with the README's study and the two files that it asks for."""
    text = section(README, "A study of your own")
    ((_, study),) = blocks(text, "yaml")
    (tmp_path / "my_study.yaml").write_text(study, encoding="utf-8")
    (tmp_path / "prices.csv").write_text("date,ticker,adj_close\n2019-11-29,AAPL,66.8\n", encoding="utf-8")
    stamps = ["" if row[0] == "(empty)" else row[0].strip("`") for row in table(text)]
    rows = [f"{stamp},AAPL,story {number},0.1" for number, stamp in enumerate(stamps)]
    (tmp_path / "news.csv").write_text(
        "\n".join(["published,ticker,headline,sentiment", *rows]) + "\n", encoding="utf-8"
    )
    return tmp_path


def events_of(folder: Path, **changes: object) -> quantattn.EventLog:
    """Read the event file as the study says."""
    (source,) = load_study(folder / "my_study.yaml").data.events
    options = source.model_dump() | changes
    return read_events(options.pop("path"), **options)  # type: ignore[arg-type]


def test_the_study_file_of_the_readme_loads(own: Path) -> None:
    study = load_study(own / "my_study.yaml")
    assert study.name == "my_study"
    assert study.data.prices.close == "adj_close"
    assert study.data.index is None
    (events,) = study.data.events
    assert (events.time_zone, events.latency, events.features) == (
        "America/New_York",
        "2s",
        ("sentiment",),
    )


def test_rows_come_out_as_the_table_says(own: Path) -> None:
    wanted = [row[1].strip("`") for row in table(section(README, "A study of your own"))]
    log = events_of(own)
    known = dict(
        zip(log.frame["text"].to_list(), map(iso, nanoseconds_of(log.frame["available_at"])), strict=True)
    )
    refused = dict(log.rejects.select("row", "reason").iter_rows())
    came = [known.get(f"story {row}") or refused[row] for row in range(len(wanted))]
    assert came == wanted
    assert len(known) == 3


def test_the_reasons_given_in_the_table(own: Path) -> None:
    text = section(README, "A study of your own")
    assert "refused as `naive_time` if none is declared" in text
    assert "refused as `date_only` if `date_only: reject`" in text
    naive = events_of(own, time_zone=None).rejects
    assert (1, "naive_time") in naive.select("row", "reason").rows()
    dated = events_of(own, date_only="reject").rejects
    assert (2, "date_only") in dated.select("row", "reason").rows()


def test_shorter_folds_are_written_as_the_readme_says(own: Path) -> None:
    (line,) = re.findall(r"`(walk_forward: \{[^`]*\})`", section(README, "A study of your own"))
    file = own / "my_study.yaml"
    assert "The default\nfolds train on 416 forecasts" in README
    assert load_study(file).walk_forward.train_size == 416
    file.write_text(file.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    folds = load_study(file).walk_forward
    assert (folds.train_size, folds.val_size, folds.test_size) == (104, 26, 52)


def test_what_else_refuses_a_row(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text(
        "at,known,who,id,version,figure\n"
        "2024-01-02T10:00:00Z,2024-01-02T10:00:00Z,,a,0,1\n"
        "2024-01-02T10:00:00Z,2024-01-02T10:00:00Z,*,b,0,1\n"
        "2024-01-02T10:00:00Z,2024-01-02T10:00:00Z,A,c,0,inf\n"
        "2024-01-02T10:00:00Z,2024-01-02T10:00:00Z,A,d,0,about 3\n"
        "2024-01-02T10:00:00Z,2024-01-02T09:59:59Z,A,e,0,1\n"
        "2024-01-02T10:00:00Z,2024-01-02T10:00:00Z,A,f,0,1\n"
        "2024-01-02T10:00:00Z,2024-01-02T10:00:00Z,A,f,0,1\n"
        "2024-01-02T10:00:00Z,2024-01-02T10:00:00Z,A,f,1,2\n"
        "2024-01-02T10:00:00Z,2024-01-02T10:00:00Z,A,g,0,\n",
        encoding="utf-8",
    )
    options = {"event_time": "at", "available_at": "known", "entity": "who", "event_id": "id"}
    options |= {"revision": "version", "features": ["figure"]}
    log = read_events(tmp_path / "events.csv", **options)  # type: ignore[arg-type]
    assert log.reject_counts == {
        "available_before_event": 1,
        "bad_feature": 1,
        "duplicate": 1,
        "infinite_feature": 1,
        "null_entity": 1,
    }
    assert log.frame["event_id"].sort().to_list() == ["b", "f", "f", "g"]
    assert log.frame.filter(pl.col("event_id") == "b")["entity"].to_list() == [None]
    scheduled = read_events(tmp_path / "events.csv", **options, scheduled=True)  # type: ignore[arg-type]
    assert "available_before_event" not in scheduled.reject_counts


# --- the audit and a run's folder -------------------------------------------------------------------


def test_every_check_of_the_audit_is_explained() -> None:
    modules = [module.name for module in pkgutil.iter_modules(quantattn.audit.__path__)]
    loaded = [importlib.import_module(f"quantattn.audit.{name}") for name in modules]
    names = {module.NAME for module in loaded if hasattr(module, "NAME")}
    listed = [row[0] for row in table(section(README, "How leakage is prevented, and how to read the audit"))]
    assert sorted(listed) == sorted(f"`{name}`" for name in names)


def test_every_file_of_a_run_is_one_that_the_code_writes() -> None:
    named = {
        name
        for row in table(section(README, "A run's folder"))
        for name in re.findall(r"`([\w]+\.\w+)`", row[0])
    }
    assert len(named) == 9
    words = {
        node.value
        for path in sorted((ROOT / "quantattn").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert named - words == set()


# --- links, pictures, paths -------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """Give the anchors that GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", prose(text), flags=re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_and_picture_leads_somewhere(page: str) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(PAGES[page]))
    if page == "README.md":
        assert ".github/report.png" in targets
        assert len(targets) > 10
    dead = []
    for target in targets:
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        file = ROOT / path if path else ROOT / page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            dead.append(target)
    assert dead == []


@pytest.mark.parametrize("page", PAGES)
def test_every_path_in_code_exists(page: str) -> None:
    words = re.findall(r"`([^`\s]+)`|\[([\w./-]+)\]\(", prose(PAGES[page]))
    named = {(code or link).rstrip(",.:;") for code, link in words}
    paths = {
        word
        for word in named
        if (word.endswith(SUFFIXES) or word.endswith("/") or word.startswith(("quantattn/", "tests/")))
        and word not in NOT_OURS
    }
    assert paths
    # A path may start at the package, and a file whose folder was just named goes by its name.
    tops = [ROOT, ROOT / "quantattn"]
    bare = {path.name for path in (ROOT / "quantattn").rglob("*.py")}
    missing = {path for path in paths if not any((top / path).exists() for top in tops)}
    assert sorted(missing - bare) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_name_given_with_its_module_exists(page: str) -> None:
    missing = []
    for name in sorted(set(re.findall(r"`(?:qa|quantattn)\.(\w+(?:\.\w+)*)", PAGES[page]))):
        if name.endswith((".py", ".yaml")):
            continue
        value: object = quantattn
        for part in name.split("."):
            value = getattr(value, part, None)
        if value is None:
            missing.append(name)
    assert missing == []


def test_the_picture_is_a_picture_and_small() -> None:
    picture = (ROOT / ".github" / "report.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(picture[at : at + 4], "big") for at in (16, 20))
    assert 800 <= width <= 2560
    assert 400 <= height <= 3000
    assert len(picture) < 300 * 1024


def test_the_python_versions_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    prefix = "Programming Language :: Python :: 3."
    minors = [int(line.removeprefix(prefix)) for line in project["classifiers"] if line.startswith(prefix)]
    said = re.search(r"Python (3\.\d+), (3\.\d+) or (3\.\d+) and pip", README)
    assert said is not None
    assert list(said.groups()) == [f"3.{minor}" for minor in minors]
    assert project["requires-python"] == f">=3.{min(minors)}"
    assert project["license"] == "BSD-3-Clause"
    assert "BSD-3-Clause" in section(README, "Licence")


# --- the recipes of CONTRIBUTING --------------------------------------------------------------------


def test_the_recipes_of_contributing_work(tmp_path: Path) -> None:
    recipes = section(CONTRIBUTING, "How to add …")
    headings = re.findall(r"^### … (.+)$", recipes, flags=re.MULTILINE)
    examples = [part for part in recipes.split("\n### ")[1:] if blocks(part, "python")]
    assert len(examples) == len(headings) == 6
    first = CONTRIBUTING.count("\n", 0, CONTRIBUTING.index(recipes))
    # Each example in a namespace of its own; a traceback names the line of the page.
    program = "\n".join(
        f"exec(compile({chr(10) * (first + line - 2) + code!r}, 'CONTRIBUTING.md', 'exec'), {{}})"
        for line, code in blocks(recipes, "python")
    )
    assert python(program + "\nprint('done')", tmp_path) == "done\n"
