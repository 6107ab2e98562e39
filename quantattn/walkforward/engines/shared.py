"""The data of a study as files that every worker maps into memory, written once and never pickled."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt
import polars as pl
import pyarrow as pa

from quantattn.encoders import EventEncoder, NumericScaler
from quantattn.files import canonical_json, write_bytes
from quantattn.forecasters.baselines import EventSequences, SampleTable
from quantattn.forecasters.history import EntityHistory, FittedEncoders, History
from quantattn.forecasters.tokens import EntityTokens
from quantattn.walkforward.engines.arrays import map_arrays, pack_arrays, unpack_arrays
from quantattn.walkforward.fold import Fold
from quantattn.walkforward.networks import FoldTokens
from quantattn.walkforward.running import Work
from quantattn.walkforward.settings import FoldSettings

LAYOUT: Final = "layout.json"
ARRAYS: Final = "arrays.safetensors"
_ENTITY_ARRAYS: Final = ("event_times", "text", "rows", "query_times")
_TOKEN_ARRAYS: Final = ("events", "event_times", "queries", "query_times", "counts", "rows")


def pack_work(work: Work) -> dict[str, bytes]:
    """Give the data of a study as the contents of files: Arrow tables, safetensors arrays and one JSON.

    Parameters
    ----------
    work : Work
        The work; its folds and settings are not data and are left out.

    Returns
    -------
    dict of str to bytes
        Content by name.
    """
    history, table = work.history, work.table
    frames = {
        "samples": history.samples,
        "as_of": history.as_of,
        "events": history.events,
        "table_samples": table.samples,
        "table_as_of": table.as_of,
        "bars": table.bars,
    }
    entities = list(history.entities)
    for number, entity in enumerate(entities):
        frames[f"sequence{number}"] = history.entities[entity].events
    places: dict[int, str] = {}
    files: dict[str, bytes] = {}
    stored = {}
    for name, frame in frames.items():
        stored[name] = places.setdefault(id(frame), f"{name}.arrow")  # the table's frames are often the same
        if stored[name] not in files:
            files[stored[name]] = _arrow(frame)
    files[ARRAYS] = pack_arrays(
        {
            f"{name}{number}": getattr(history.entities[entity], name)
            for number, entity in enumerate(entities)
            for name in _ENTITY_ARRAYS
        }
    )
    layout = {
        "frames": stored,
        "entities": entities,
        "features": list(history.features),
        "scope": history.scope,
        "table": {"kind": table.kind, "horizon": table.horizon, "log": table.log},
        "sequences": table.sequences is not None,
    }
    files[LAYOUT] = canonical_json(layout).encode()
    return files


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files into a folder, each whole or not at all."""
    for name, content in files.items():
        write_bytes(folder / name, content)


def map_work(folder: Path, folds: Sequence[Fold], settings: FoldSettings) -> Work:
    """Open the files of :func:`pack_work` without reading them: what is not looked at is never loaded.

    Parameters
    ----------
    folder : Path
        Where they are.
    folds : sequence of Fold
        The folds as they are run.
    settings : FoldSettings
        Models and training.

    Returns
    -------
    Work
        Equal to the one that was packed.
    """
    layout = json.loads((folder / LAYOUT).read_text(encoding="utf-8"))

    def frame(name: str) -> pl.DataFrame:
        return _frame(pa.memory_map(str(folder / name)))

    return _work(layout, frame, map_arrays(folder / ARRAYS), folds, settings)


def unpack_work(files: Mapping[str, npt.NDArray[Any]], folds: Sequence[Fold], settings: FoldSettings) -> Work:
    """Open the contents of the files of :func:`pack_work`.

    Parameters
    ----------
    files : mapping of str to ndarray of uint8
        Content by name.
    folds : sequence of Fold
        The folds as they are run.
    settings : FoldSettings
        Models and training.

    Returns
    -------
    Work
    """
    layout = json.loads(files[LAYOUT].tobytes())

    def frame(name: str) -> pl.DataFrame:
        return _frame(pa.py_buffer(files[name]))

    # An object store gives memory that may not be written to, and torch takes none such.
    return _work(layout, frame, unpack_arrays(files[ARRAYS].copy()), folds, settings)


def _work(
    layout: dict[str, Any],
    frame: Callable[[str], pl.DataFrame],
    arrays: Mapping[str, npt.NDArray[Any]],
    folds: Sequence[Fold],
    settings: FoldSettings,
) -> Work:
    opened: dict[str, pl.DataFrame] = {}
    frames = {
        name: opened[file] if file in opened else opened.setdefault(file, frame(file))
        for name, file in layout["frames"].items()
    }
    entities = {
        entity: EntityHistory(
            events=frames[f"sequence{number}"],
            **{name: arrays[f"{name}{number}"] for name in _ENTITY_ARRAYS},
        )
        for number, entity in enumerate(layout["entities"])
    }
    history = History(
        frames["samples"],
        frames["as_of"],
        frames["events"],
        tuple(layout["features"]),
        entities,
        layout["scope"],
    )
    table = SampleTable(
        frames["table_samples"],
        frames["table_as_of"],
        frames["bars"],
        **layout["table"],
        sequences=EventSequences.of(history) if layout["sequences"] else None,
    )
    return Work(history, table, folds, settings)


def _arrow(frame: pl.DataFrame) -> bytes:
    """Write a frame chunk for chunk: sums of floats may depend on where a chunk begins."""
    table = frame.to_arrow(compat_level=pl.CompatLevel.newest())
    buffer = io.BytesIO()
    with pa.ipc.new_file(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()


def _frame(source: Any) -> pl.DataFrame:
    """Open a frame without copying it out of the file or buffer that holds it."""
    frame = pl.from_arrow(pa.ipc.open_file(source).read_all(), rechunk=False)
    assert isinstance(frame, pl.DataFrame)  # a table has no other form
    return frame


class SharedTokens:
    """The tokens of each fold, made by the first worker that needs them and mapped by the others.

    Parameters
    ----------
    work : Work
        What they are made from.
    folder : Path
        Where they are kept.
    """

    def __init__(self, work: Work, folder: Path) -> None:
        self._work, self._folder = work, folder

    def __call__(self, fold: Fold) -> FoldTokens:
        """Give the tokens of a fold."""
        # Folds of one fit have one encoding.
        stem = f"tokens-{fold.validation_time}"
        arrays, encoders = self._folder / f"{stem}.safetensors", self._folder / f"{stem}.json"
        with _alone(self._folder / f"{stem}.lock"):
            if not encoders.exists():
                made = self._work.tokens(fold)
                write_bytes(arrays, pack_arrays(_token_arrays(made)))
                write_bytes(encoders, canonical_json(_encoder_states(made)).encode())
        return _opened_tokens(json.loads(encoders.read_text(encoding="utf-8")), map_arrays(arrays))


def _token_arrays(tokens: FoldTokens) -> dict[str, npt.NDArray[Any]]:
    return {
        f"{name}{number}": getattr(own, name)
        for number, own in enumerate(tokens.tokens.values())
        for name in _TOKEN_ARRAYS
    }


def _encoder_states(tokens: FoldTokens) -> dict[str, Any]:
    return {
        "entities": list(tokens.tokens),
        "events": tokens.encoders.events.to_dict(),
        "queries": tokens.encoders.queries.to_dict(),
        "cutoff": tokens.encoders.cutoff,
        "scope": tokens.encoders.scope,
    }


def _opened_tokens(state: dict[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> FoldTokens:
    tokens = {
        entity: EntityTokens(entity=entity, **{name: arrays[f"{name}{number}"] for name in _TOKEN_ARRAYS})
        for number, entity in enumerate(state["entities"])
    }
    encoders = FittedEncoders(
        EventEncoder.from_dict(state["events"]),
        NumericScaler.from_dict(state["queries"]),
        state["cutoff"],
        state["scope"],
    )
    return FoldTokens(tokens, encoders)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Let one process at a time in; a killed one lets go at once. Without ``flock``, all may come in."""
    try:
        import fcntl
    except ImportError:  # Windows: the same bytes are made twice
        yield
        return
    with lock.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
