"""The folder of a run: a new one, one to be resumed, or a refusal that says what is in the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from quantattn.errors import OutputDirectoryError, StudyError
from quantattn.files import write_text
from quantattn.study.config import Study, resolved_yaml, results_settings, study_hash
from quantattn.study.loading import load_study

STUDY_FILE: Final = "study.yaml"
"""The resolved study in a run folder; its presence makes a folder a run."""

RUNS: Final = Path("runs")
"""Where runs go when no folder is named."""

_SHOWN: Final = 3


def new_directory(study: Study, *, runs: str | Path = RUNS, now: datetime | None = None) -> Path:
    """Name a folder that does not exist yet: ``runs/<study>-<UTC YYYYmmdd-HHMMSS>``.

    Parameters
    ----------
    study : Study
        Gives the name.
    runs : str or Path, optional
        The folder of all runs.
    now : datetime, optional
        An instant with zone; the present one by default.

    Returns
    -------
    Path
        With ``-2``, ``-3`` … behind it where that second is taken.
    """
    stamp = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y%m%d-%H%M%S")
    path = Path(runs) / f"{study.name}-{stamp}"
    number = 2
    while path.exists():
        path = Path(runs) / f"{study.name}-{stamp}-{number}"
        number += 1
    return path


def newest_run(study: Study, *, runs: str | Path = RUNS) -> Path:
    """Find the run of a study that was begun last.

    Parameters
    ----------
    study : Study
        As it is run: reduced, when it is a quick run.
    runs : str or Path, optional
        The folder of all runs.

    Returns
    -------
    Path

    Raises
    ------
    OutputDirectoryError
        If there is none; the message says how a run of the same name differs.
    """
    found = sorted(Path(runs).glob(f"*/{STUDY_FILE}"), key=lambda file: (file.stat().st_mtime_ns, str(file)))
    unlike = ""
    for file in reversed(found):
        with suppress(StudyError):
            other = load_study(file, check_files=False)
            if study_hash(other) == study_hash(study):
                return file.parent
            if other.name == study.name and not unlike:
                unlike = f"; {str(file.parent)!r} differs: {_differences(other, study)}"
    raise OutputDirectoryError(
        f"--resume: {str(runs)!r} holds no run of study {study.name!r} with these settings{unlike}; leave "
        "--resume out to begin one, or name its folder with --out"
    )


def refuse_nothing_to_resume(path: str | Path) -> None:
    """See that there is something in a folder that a user wants to go on with.

    Parameters
    ----------
    path : str or Path
        The folder.

    Raises
    ------
    OutputDirectoryError
        If it does not exist or is empty.
    """
    folder = Path(path).expanduser()
    if not folder.exists() or (folder.is_dir() and not _content(folder)):
        raise OutputDirectoryError(f"nothing to resume in {str(path)!r}; leave out --resume to begin")


@contextmanager
def run_directory(path: str | Path, study: Study, *, resume: bool) -> Iterator[Path]:
    """Claim a folder for a run by writing the resolved study into it.

    A folder in which the run then leaves nothing, because it fails at once, is put back as it was.

    Parameters
    ----------
    path : str or Path
        The folder; it need not exist.
    study : Study
        As it is run: reduced, when it is a quick run.
    resume : bool
        Whether the folder may hold an earlier part of this very run.

    Yields
    ------
    Path
        `path`, absolute.

    Raises
    ------
    OutputDirectoryError
        If the folder holds another study's run, something that is no run, or this study's run without
        `resume`. Nothing in it is touched.
    OSError
        If the folder cannot be written to.
    """
    path = Path(path).expanduser().absolute()
    _refuse_foreign(path, study, resume=resume)
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    begun = (path / STUDY_FILE).exists()
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not begun:
            write_text(path / STUDY_FILE, resolved_yaml(study))
        yield path
    except BaseException:
        if not begun:
            _put_back(path, missing)
        raise


def _refuse_foreign(path: Path, study: Study, *, resume: bool) -> None:
    if path.is_symlink() and not path.exists():
        raise OutputDirectoryError(f"{str(path)!r} is a link to nothing; name another folder with --out")
    for place in (path, *path.parents):
        if place.exists() and not place.is_dir():
            raise OutputDirectoryError(f"{str(place)!r} is a file, not a folder; name another with --out")
    held = _content(path)
    if not held:
        return
    if STUDY_FILE not in held:
        shown = ", ".join(held[:_SHOWN]) + (f" and {len(held) - _SHOWN} more" if len(held) > _SHOWN else "")
        raise OutputDirectoryError(
            f"{str(path)!r} is not a run folder; it holds {shown}. Name an empty or new folder with --out"
        )
    try:
        other = load_study(path / STUDY_FILE, check_files=False)
    except StudyError as error:
        raise OutputDirectoryError(
            f"{str(path)!r} holds a run whose study cannot be read ({str(error).splitlines()[0]}); name "
            "another folder with --out"
        ) from error
    if study_hash(other) != study_hash(study):
        if study_hash(other) == _hash_of_quick(study):
            raise OutputDirectoryError(
                f"{str(path)!r} holds a --quick run of this study; continue it with --quick --resume, or "
                "name another folder with --out"
            )
        raise OutputDirectoryError(
            f"{str(path)!r} holds a run of another study: {_differences(other, study)}; name another folder "
            "with --out"
        )
    if not resume:
        raise OutputDirectoryError(
            f"{str(path)!r} already holds a run of this study; continue it with --resume, or name another "
            "folder with --out"
        )


def _hash_of_quick(study: Study) -> str | None:
    try:
        return study_hash(study.quick())
    except ValueError:  # it has no reduced form
        return None


def _content(path: Path) -> list[str]:
    """List a folder, without the temporary files that a killed run leaves."""
    if not path.exists():
        return []
    names = sorted(file.name for file in path.iterdir())
    return [name for name in names if not (name.startswith(".") and name.endswith(".tmp"))]


def _put_back(path: Path, missing: list[Path]) -> None:
    if path.is_dir() and _content(path) in ([], [STUDY_FILE]):
        (path / STUDY_FILE).unlink(missing_ok=True)
        for folder in missing:
            with suppress(OSError):  # something else has come into it
                folder.rmdir()


def _differences(there: Study, here: Study) -> str:
    left, right = _flat(results_settings(there)), _flat(results_settings(here))
    keys = [key for key in dict.fromkeys([*left, *right]) if left.get(key) != right.get(key)]
    shown = [f"{key} is {left.get(key)!r} there, {right.get(key)!r} here" for key in keys[:_SHOWN]]
    return ", ".join(shown) + (f", and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else "")


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
