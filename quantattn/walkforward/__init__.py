"""Walk-forward training: folds that split forecast times and purge by the time at which labels are known."""

from quantattn.walkforward._stretches import Stretch
from quantattn.walkforward.combinatorial import CombinatorialPurged
from quantattn.walkforward.combinatorial_fold import CombinatorialFold
from quantattn.walkforward.fold import Fold, require_walk_forward
from quantattn.walkforward.forecast_schema import FORECAST_SCHEMA
from quantattn.walkforward.sklearn_splitter import SklearnSplitter
from quantattn.walkforward.splits import WalkForward

__all__ = [
    "FORECAST_SCHEMA",
    "CombinatorialFold",
    "CombinatorialPurged",
    "Fold",
    "SklearnSplitter",
    "Stretch",
    "WalkForward",
    "require_walk_forward",
]
