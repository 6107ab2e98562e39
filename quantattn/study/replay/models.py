"""The networks that a run folder holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quantattn.errors import UsageError
from quantattn.pit.timestamps import nanoseconds_of
from quantattn.study._values import nearest
from quantattn.study.replay.checking import refuse_other_rows, refuse_strange_unit
from quantattn.walkforward.settings import NETWORKS
from quantattn.walkforward.units import Unit, read_forecasts

_UNIT = re.compile(r"(?P<model>.+)-(?P<seed>[0-9]+)")


@dataclass(frozen=True)
class RunModel:
    """A model of a run that can be streamed through.

    Parameters
    ----------
    unit : Unit
        Fold, model and seed.
    folder : Path
        Where it is kept.
    first, last : int
        First and last test forecast of its fold, nanoseconds since the epoch, UTC.
    entities : tuple of str
        The run's entities, sorted.
    """

    unit: Unit
    folder: Path
    first: int
    last: int
    entities: tuple[str, ...]


def find_model(
    run: Path, *, model: str, fold: int | None = None, seed: int | None = None, since: int | None = None
) -> RunModel:
    """Find a network of a run.

    Parameters
    ----------
    run : Path
        The run folder.
    model : {"linear", "softmax"}
        Which network.
    fold : int, optional
        Its fold; by default the first whose test span holds a forecast at or after `since`: a later one was
        fitted on what it would forecast. Without `since`, and behind all spans, the last one that is there.
    seed : int, optional
        Its seed; by default the least.
    since : int, optional
        The first forecast that is asked for, nanoseconds since the epoch, UTC.

    Returns
    -------
    RunModel

    Raises
    ------
    UsageError
        If the run has no such network; the message says which it has.
    CheckpointError
        If forecasts of the run cannot be read, or the unit is not as the run wrote it.
    """
    units = sorted(_units(run), key=lambda unit: (unit.fold, unit.model, unit.seed))
    if not units:
        raise UsageError(
            f"{str(run)!r} holds no network; replay a run whose study has the model linear or softmax"
        )
    chosen = _narrowed(units, "model", model, run)
    chosen = _narrowed(chosen, "seed", min(unit.seed for unit in chosen) if seed is None else seed, run)
    if fold is not None:
        _narrowed(chosen, "fold", fold, run)
    names: set[str] = set()
    found: dict[int, RunModel] = {}
    for unit in chosen:
        made = read_forecasts(unit, run)
        refuse_other_rows(unit, made, run)
        times = nanoseconds_of(made["forecast_time"])
        names.update(made["entity"])
        found[unit.fold] = RunModel(unit, unit.folder(run), int(times.min()), int(times.max()), ())
    place = _fold_from(found, since) if fold is None else fold
    one = found[place]
    refuse_strange_unit(one.unit, run)
    return RunModel(one.unit, one.folder, one.first, one.last, tuple(sorted(names)))


def _fold_from(found: Mapping[int, RunModel], since: int | None) -> int:
    ahead = [key for key, one in found.items() if since is not None and one.last >= since]
    return min(ahead, key=lambda key: (found[key].last, key)) if ahead else max(found)


def _units(run: Path) -> Iterable[Unit]:
    for record in run.glob("folds/*/*/unit.json"):
        named = _UNIT.fullmatch(record.parent.name)
        if named is not None and named["model"] in NETWORKS and record.parent.parent.name.isdecimal():
            yield Unit(int(record.parent.parent.name), named["model"], int(named["seed"]))


def _narrowed(units: list[Unit], field: str, wanted: Any, run: Path) -> list[Unit]:
    found = [unit for unit in units if getattr(unit, field) == wanted]
    if not found:
        known = sorted({getattr(unit, field) for unit in units})
        raise UsageError(
            f"{str(run)!r} has no network of {field} {wanted!r}; use one of {', '.join(map(str, known))}"
        )
    return found


def chosen_entities(model: RunModel, names: str | None) -> tuple[str, ...]:
    """Read a list of entities.

    Parameters
    ----------
    model : RunModel
        Whose run has them.
    names : str or None
        Separated by commas; None for all.

    Returns
    -------
    tuple of str
        Sorted.

    Raises
    ------
    UsageError
        If one is not the run's; the message gives the nearest.
    """
    if names is None:
        return model.entities
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    strange = [name for name in wanted if name not in model.entities]
    if strange or not wanted:
        what = (
            f"{strange[0]!r} is no entity of the run{nearest(strange[0], model.entities)}" if strange else ""
        )
        raise UsageError(f"--entities: {what or 'no name is given'}; use some of {_listed(model.entities)}")
    return tuple(sorted(set(wanted)))


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:12]) + (" ..." if len(names) > 12 else "")
