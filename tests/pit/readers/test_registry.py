"""The registry of readers: what may be registered, and what is found by which name."""

from dataclasses import FrozenInstanceError
from typing import Literal

import pytest

from quantattn.errors import UsageError
from quantattn.pit import EventLog
from quantattn.pit.readers import registry
from quantattn.pit.readers.registry import ReaderOption, find_reader, reader, readers


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_READERS", {})


def read_wire(
    paths: str,
    *,
    zone: str,
    launch: str | None = None,
    strict: bool = False,
    share: float = 0.5,
    rows: int = 3,
    table: Literal["a", "b"] = "a",
) -> EventLog:
    """Read a wire."""
    raise AssertionError


def register(name="wire", function=read_wire, gives="events"):
    return reader(name, title="The wire", gives=gives, files="wire.csv")(function)


def test_a_reader_is_found_by_name_and_the_function_stays_itself():
    assert register() is read_wire
    found = find_reader(" Wire ")
    assert (found.name, found.title, found.gives, found.files) == ("wire", "The wire", "events", "wire.csv")
    assert found.read is read_wire
    assert found.documentation == __doc__
    with pytest.raises(FrozenInstanceError):
        found.name = "other"


def test_options_tell_type_default_need_and_choices():
    register()
    assert list(find_reader("wire").options.values()) == [
        ReaderOption("zone", str, None, True),
        ReaderOption("launch", str, None, False),
        ReaderOption("strict", bool, False, False),
        ReaderOption("share", float, 0.5, False),
        ReaderOption("rows", int, 3, False),
        ReaderOption("table", str, "a", False, ("a", "b")),
    ]


def test_the_list_is_sorted_and_read_only():
    register("wire")
    register("gazette")
    assert list(readers()) == ["gazette", "wire"]
    with pytest.raises(TypeError):
        readers()["wire"] = None


@pytest.mark.parametrize("asked", ["wier", "WIRES"])
def test_an_unknown_name_gets_the_nearest(asked):
    register("wire")
    register("gazette")
    with pytest.raises(UsageError, match=rf"'{asked}' is unknown \(did you mean 'wire'\?\); .*gazette, wire"):
        find_reader(asked)


def test_registering_the_same_function_twice_is_harmless_and_another_one_is_refused():
    register()
    register()

    def read_other(paths: str) -> EventLog:
        raise AssertionError

    with pytest.raises(UsageError, match="'wire' is registered already"):
        register(function=read_other)
    assert find_reader("wire").read is read_wire


@pytest.mark.parametrize("name", ["", " wire", "Wire"])
def test_names_are_lower_case(name):
    with pytest.raises(UsageError, match="not a reader's name"):
        register(name)


def read_nothing() -> EventLog:
    raise AssertionError


def read_by_place(paths: str, zone: str) -> EventLog:
    raise AssertionError


def read_list(paths: str, *, zones: list[str]) -> EventLog:
    raise AssertionError


def read_either(paths: str, *, zone: str | float) -> EventLog:
    raise AssertionError


def read_bare(paths: str, *, zone="UTC") -> EventLog:
    raise AssertionError


def read_figures(paths: str, *, level: Literal[1, 2] = 1) -> EventLog:
    raise AssertionError


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (read_nothing, "does not take paths first"),
        (read_by_place, "'zone' .* is not a keyword of a plain type"),
        (read_list, "'zones' .* is not a keyword"),
        (read_either, "'zone' .* is not a keyword"),
        (read_bare, "'zone' .* is not a keyword"),
        (read_figures, "'level' .* is not a keyword"),
    ],
)
def test_what_the_command_line_cannot_offer_is_refused(function, message):
    with pytest.raises(UsageError, match=message):
        register(function=function)
    assert not readers()


def test_gives_is_events_or_prices():
    with pytest.raises(UsageError, match="gives='frames' is unknown"):
        register(gives="frames")
