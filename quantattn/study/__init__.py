"""The study file and the main job.

Names are loaded when first used: a study file can be checked without importing what runs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quantattn.study.catalogue import DEFAULT_STUDY, packaged_studies
    from quantattn.study.config import Study, resolved_yaml, results_settings, study_hash
    from quantattn.study.execution import Execution
    from quantattn.study.loading import find_study, load_study, parse_study
    from quantattn.study.output import new_directory, newest_run, run_directory
    from quantattn.study.plan import StudyPlan, plan_study
    from quantattn.study.progress import (
        PlainProgress,
        Progress,
        SilentProgress,
        Stage,
        StageTiming,
        progress_for,
    )
    from quantattn.study.replay.own_events import run_events
    from quantattn.study.running import run_study
    from quantattn.study.template import annotated_yaml, study_template

__all__ = [
    "DEFAULT_STUDY",
    "Execution",
    "PlainProgress",
    "Progress",
    "SilentProgress",
    "Stage",
    "StageTiming",
    "Study",
    "StudyPlan",
    "annotated_yaml",
    "find_study",
    "load_study",
    "new_directory",
    "newest_run",
    "packaged_studies",
    "parse_study",
    "plan_study",
    "progress_for",
    "resolved_yaml",
    "results_settings",
    "run_directory",
    "run_events",
    "run_study",
    "study_hash",
    "study_template",
]

_MODULES = {
    "catalogue": ("DEFAULT_STUDY", "packaged_studies"),
    "execution": ("Execution",),
    "plan": ("StudyPlan", "plan_study"),
    "config": ("Study", "resolved_yaml", "results_settings", "study_hash"),
    "loading": ("find_study", "load_study", "parse_study"),
    "output": ("new_directory", "newest_run", "run_directory"),
    "progress": ("PlainProgress", "Progress", "SilentProgress", "Stage", "StageTiming", "progress_for"),
    "replay.own_events": ("run_events",),
    "running": ("run_study",),
    "template": ("annotated_yaml", "study_template"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import the module of a public name when the name is first used."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
