"""Point-in-time backtesting of causal linear-attention forecasters against their softmax twins.

The names that a notebook needs are here: ``import quantattn as qa``, then ``qa.EventLog``,
``qa.linear_attention``. Each is loaded when it is first used, so the import itself costs next to nothing.
Everything else is in the packages that these names come from.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quantattn.attention import (
        AttentionState,
        Denominator,
        FeatureMap,
        linear_attention,
        register_feature_map,
        softmax_attention,
    )
    from quantattn.audit import CheckResult, audit_table
    from quantattn.encoders import EventEncoder, HashingTextEncoder, NumericScaler
    from quantattn.errors import QuantAttnError
    from quantattn.evaluation import (
        comparisons_table,
        diebold_mariano,
        metrics_table,
        model_confidence_set,
        non_inferiority,
        validate_forecasts,
    )
    from quantattn.forecasters import (
        Event,
        FittedForecaster,
        Forecast,
        HealthPolicy,
        NetworkConfig,
        NetworkStream,
        StreamingForecaster,
        Targets,
        TrainingConfig,
    )
    from quantattn.forecasters.baselines import (
        BaselineForecaster,
        SampleTable,
        register_baseline,
        register_estimator,
        register_torch_module,
    )
    from quantattn.forecasters.estimators import LinearAttentionForecaster, SoftmaxAttentionForecaster
    from quantattn.pit import (
        CorporateActions,
        Delistings,
        EventLog,
        EventScan,
        ForecastClock,
        Labels,
        PointInTimeDataset,
        PriceHistory,
        TradingCalendar,
        Universe,
        WhyReport,
        direction,
        load_sp500_index,
        load_sp500_ohlcv,
        load_us_equities,
        log_return,
        market_events,
        realised_variance,
        simple_return,
        survivorship,
    )
    from quantattn.pit.readers import read_events, read_price_file, read_prices
    from quantattn.report import plot_folds, write_report
    from quantattn.study import Study, load_study, run_events, run_study
    from quantattn.walkforward import CombinatorialPurged, Fold, WalkForward

__version__ = "0.1.0"

__all__ = [
    "AttentionState",
    "BaselineForecaster",
    "CheckResult",
    "CombinatorialPurged",
    "CorporateActions",
    "Delistings",
    "Denominator",
    "Event",
    "EventEncoder",
    "EventLog",
    "EventScan",
    "FeatureMap",
    "FittedForecaster",
    "Fold",
    "Forecast",
    "ForecastClock",
    "HashingTextEncoder",
    "HealthPolicy",
    "Labels",
    "LinearAttentionForecaster",
    "NetworkConfig",
    "NetworkStream",
    "NumericScaler",
    "PointInTimeDataset",
    "PriceHistory",
    "QuantAttnError",
    "SampleTable",
    "SoftmaxAttentionForecaster",
    "StreamingForecaster",
    "Study",
    "Targets",
    "TradingCalendar",
    "TrainingConfig",
    "Universe",
    "WalkForward",
    "WhyReport",
    "__version__",
    "audit_table",
    "comparisons_table",
    "diebold_mariano",
    "direction",
    "linear_attention",
    "load_sp500_index",
    "load_sp500_ohlcv",
    "load_study",
    "load_us_equities",
    "log_return",
    "market_events",
    "metrics_table",
    "model_confidence_set",
    "non_inferiority",
    "plot_folds",
    "read_events",
    "read_price_file",
    "read_prices",
    "realised_variance",
    "register_baseline",
    "register_estimator",
    "register_feature_map",
    "register_torch_module",
    "run_events",
    "run_study",
    "simple_return",
    "softmax_attention",
    "survivorship",
    "validate_forecasts",
    "write_report",
]

_MODULES = {
    "attention": (
        "AttentionState",
        "Denominator",
        "FeatureMap",
        "linear_attention",
        "register_feature_map",
        "softmax_attention",
    ),
    "audit": ("CheckResult", "audit_table"),
    "encoders": ("EventEncoder", "HashingTextEncoder", "NumericScaler"),
    "errors": ("QuantAttnError",),
    "evaluation": (
        "comparisons_table",
        "diebold_mariano",
        "metrics_table",
        "model_confidence_set",
        "non_inferiority",
        "validate_forecasts",
    ),
    "forecasters": (
        "Event",
        "FittedForecaster",
        "Forecast",
        "HealthPolicy",
        "NetworkConfig",
        "NetworkStream",
        "StreamingForecaster",
        "Targets",
        "TrainingConfig",
    ),
    "forecasters.baselines": (
        "BaselineForecaster",
        "SampleTable",
        "register_baseline",
        "register_estimator",
        "register_torch_module",
    ),
    "forecasters.estimators": ("LinearAttentionForecaster", "SoftmaxAttentionForecaster"),
    "pit": (
        "CorporateActions",
        "Delistings",
        "EventLog",
        "EventScan",
        "ForecastClock",
        "Labels",
        "PointInTimeDataset",
        "PriceHistory",
        "TradingCalendar",
        "Universe",
        "WhyReport",
        "direction",
        "load_sp500_index",
        "load_sp500_ohlcv",
        "load_us_equities",
        "log_return",
        "market_events",
        "realised_variance",
        "simple_return",
        "survivorship",
    ),
    "pit.readers": ("read_events", "read_price_file", "read_prices"),
    "report": ("plot_folds", "write_report"),
    "study": ("Study", "load_study", "run_events", "run_study"),
    "walkforward": ("CombinatorialPurged", "Fold", "WalkForward"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
# Without them `quantattn.pit` would be there or not, depending on what was used before.
_PACKAGES = {module.partition(".")[0] for module in _MODULES}


if not TYPE_CHECKING:  # a type checker that saw it would take any misspelt name for granted

    def __getattr__(name: str) -> Any:
        """Import a package, or the module of a public name, when it is first used."""
        if name in _PACKAGES:
            return import_module(f"{__name__}.{name}")
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """List the public names and the packages, loaded or not."""
    return sorted({*globals(), *__all__, *_PACKAGES})
