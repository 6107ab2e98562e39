"""The name of the function that a state belongs to."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache

from quantattn.attention.denominator import Denominator
from quantattn.attention.features import FeatureMap
from quantattn.attention.options import map_options


def state_fingerprint(feature_map: FeatureMap, denominator: Denominator) -> str:
    """Return the name that a state under this map and this policy carries.

    It tells classes of one name apart, and maps of one class by their options.
    """
    kind = type(feature_map)
    map_ = json.dumps(
        {
            "class": f"{kind.__module__}.{kind.__qualname__}",
            "map": feature_map.fingerprint,
            "options": map_options(feature_map),
        },
        sort_keys=True,
    )
    return f"{feature_map.name}/{denominator.kind}/{_digest(map_, denominator)}"


@lru_cache(maxsize=256)
def _digest(feature_map: str, denominator: Denominator) -> str:
    content = json.dumps({"feature_map": feature_map, "denominator": denominator.to_dict()}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]
