"""What a folder without a fitted forecaster is, and which folders near it have one."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, get_args

from quantattn.errors import CheckpointError
from quantattn.forecasters.config import Attention

_FOLDS: Final = "folds"
_UNIT: Final = "unit.json"
_STUDY: Final = "study.yaml"
_SHOWN: Final = 6


def refuse_without_forecaster(folder: Path, file: str, weights: str) -> None:
    """Refuse a folder in which no forecaster was ever stored, and say what is there instead.

    Parameters
    ----------
    folder : Path
        The folder.
    file : str
        The file that every forecaster has.
    weights : str
        The other one: a folder with one of them holds a damaged forecaster, which reading it says.

    Raises
    ------
    CheckpointError
        Saying whether it is missing, a run, a part of one, or the folder of a model that has no network, with
        the folders of the run that hold a forecaster.
    """
    if any(os.path.lexists(folder / name) for name in (file, weights)):
        return
    model = re.sub(r"-[0-9]+$", "", folder.name)
    unit = (folder / _UNIT).is_file()
    if unit and model in get_args(Attention):
        return  # one was there, and reading it says what is missing
    run = next((place for place in (folder, *list(folder.parents)[:3]) if _is_run(place)), None)
    if not folder.exists():
        what = f"{folder} does not exist"
    elif not folder.is_dir():
        what = f"{folder} is a file, and a forecaster is a folder"
    elif run == folder:
        what = f"{folder} is a run, and a forecaster is one of the folders in it"
    elif unit:
        what = f"{folder} holds no readable forecaster: {model!r} has no network"
    else:
        what = f"{folder} holds no readable forecaster: there is no {file} in it"
    raise CheckpointError(f"{what}; {_remedy(run, file)}")


def _is_run(place: Path) -> bool:
    return (place / _FOLDS).is_dir() or (
        (place / _STUDY).is_file() and (place / "forecasts.parquet").exists()
    )


def _remedy(run: Path | None, file: str) -> str:
    networks = " or ".join(get_args(Attention))
    if run is None:
        return f"give folds/<fold>/<{networks}>-<seed> of a run, or what save() wrote"
    found = sorted((path.parent for path in run.glob(f"{_FOLDS}/*/*/{file}")), key=_in_order)
    if not found:
        return f"the run {run} has none; run a study with the model {networks}"
    more = f" … ({len(found)} in all)" if len(found) > _SHOWN else ""
    return f"give one of {', '.join(map(str, found[:_SHOWN]))}{more}"


def _in_order(path: Path) -> tuple[int, str, str]:
    fold = path.parent.name
    return (int(fold) if fold.isdecimal() else 0, fold, path.name)
