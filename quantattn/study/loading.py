"""Read and check study files; every fault is found here, before any work begins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from quantattn.errors import StudyError, UsageError
from quantattn.study._columns import check_columns
from quantattn.study._explain import explain
from quantattn.study._values import nearest
from quantattn.study._yaml import read_yaml
from quantattn.study.catalogue import packaged_file, packaged_studies
from quantattn.study.config import Study

_STUDY_SUFFIXES = (".yaml", ".yml")


def find_study(name: str) -> Study:
    """Load the study that a user named, by its file or by the name of a packaged one.

    Parameters
    ----------
    name : str
        A path, or one of :func:`packaged_studies`. A file of that name comes first.

    Returns
    -------
    Study

    Raises
    ------
    UsageError
        If there is no such file and no such packaged study; the message gives the nearest name.
    StudyError
        If the study is faulty.
    """
    path = Path(name).expanduser()
    known = packaged_studies()
    if path.is_file() or path.suffix.lower() in _STUDY_SUFFIXES or path.name != name:
        return load_study(path)
    if name in known:
        return parse_study(
            read_yaml(packaged_file(name).read_text(encoding="utf-8"), source=f"packaged study {name}"),
            source=f"packaged study {name}",
        )
    raise UsageError(
        f"no study file or packaged study is called {name!r}{nearest(name, known)}; packaged are "
        f"{', '.join(known)} (`quantattn studies` describes them)"
    )


def load_study(path: str | Path, *, check_files: bool = True) -> Study:
    """Load a study file.

    Parameters
    ----------
    path : str or Path
        A YAML file. Relative data paths in it start at its folder, and come back absolute.
    check_files : bool, optional
        Whether the data files must exist and have the columns named.

    Returns
    -------
    Study

    Raises
    ------
    UsageError
        If there is no such file, or `path` is no path.
    StudyError
        If it is not YAML, or holds an unknown key or an impossible value. The message names the file, then
        the dotted key, what came and the remedy; one line for each fault.
    """
    if not isinstance(path, str | Path):
        raise UsageError(f"path={path!r}: give the name of a study file, as a text or a Path")
    path = Path(path)
    if path.is_dir():
        raise UsageError(f"{str(path)!r} is a folder; give the study file in it")
    if not path.is_file():
        raise UsageError(f"study file {str(path)!r} does not exist{_neighbour(path)}")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StudyError(
            f"{path}: byte {error.start} is not UTF-8 text; a study file is YAML, saved as UTF-8"
        ) from error
    return parse_study(
        read_yaml(text, source=str(path)), source=str(path), folder=path.parent, check_files=check_files
    )


def parse_study(
    content: Any, *, source: str = "study", folder: str | Path | None = None, check_files: bool = True
) -> Study:
    """Check the content of a study file.

    Parameters
    ----------
    content : object
        What the YAML holds: a mapping with the keys of :class:`Study`.
    source : str, optional
        Where it came from, for the error message.
    folder : str or Path, optional
        Where relative data paths start; the current folder by default.
    check_files : bool, optional
        Whether the data files must exist and have the columns named.

    Returns
    -------
    Study

    Raises
    ------
    StudyError
        If the content is not a study.
    """
    if content is None:
        raise StudyError(f"{source}: the file is empty; `quantattn init` writes one to begin with")
    if not isinstance(content, Mapping):
        raise StudyError(
            f"{source}: holds a {type(content).__name__} instead of named sections; "
            "`quantattn init` writes a file to begin with"
        )
    context = {"folder": Path(folder or "").resolve(), "check_files": check_files}
    try:
        study = Study.model_validate(dict(content), context=context)
    except ValidationError as error:
        lines = explain(error, Study).splitlines()
        raise StudyError("\n".join(f"{source}: {line}" for line in lines)) from error
    except RecursionError as error:
        raise StudyError(f"{source}: a value contains itself; write it out") from error
    if check_files:
        check_columns(study, source=source)
    return study


def _neighbour(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"; there is no folder {str(folder)!r} either"
    files = [file.name for file in folder.iterdir() if file.suffix.lower() in _STUDY_SUFFIXES]
    hint = nearest(path.name, files)
    return hint or "; `quantattn init` writes one, `quantattn studies` lists the packaged ones"
