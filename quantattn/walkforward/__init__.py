"""Walk-forward training: folds that split forecast times and purge by the time at which labels are known."""

from quantattn.walkforward.fold import Fold
from quantattn.walkforward.forecast_schema import FORECAST_SCHEMA
from quantattn.walkforward.splits import WalkForward

__all__ = ["FORECAST_SCHEMA", "Fold", "WalkForward"]
