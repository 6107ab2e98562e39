"""Feature maps by name."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, NamedTuple

from quantattn.attention.features.base import FeatureMap, check_size
from quantattn.attention.features.dpfp import Dpfp
from quantattn.attention.features.elementwise import Elu1, Identity, Relu, SquaredRelu
from quantattn.attention.features.favor import Favor
from quantattn.attention.features.hedgehog import Hedgehog
from quantattn.attention.features.taylor import Taylor2
from quantattn.errors import FeatureMapError

Factory = Callable[..., FeatureMap]


class _Entry(NamedTuple):
    factory: Factory
    stored: bool


_REGISTRY: dict[str, _Entry] = {}


def register_feature_map(
    name: str, factory: Factory, *, replace: bool = False, stored: bool = False
) -> Factory:
    """Make `factory` available as ``feature_map=name``.

    Parameters
    ----------
    name : str
        Name to register under.
    factory : callable
        Returns a :class:`FeatureMap`. A class will do. Called without arguments, or where `stored` as
        ``factory(d, heads=heads)``; :func:`build_feature_map` hands it further options by keyword.
    replace : bool, default False
        Whether a name already taken may be given a new meaning.
    stored : bool, default False
        Whether the map holds parameters or draws that are saved with a model. Such a map is built once with
        :func:`build_feature_map` and passed as an object; its name alone is refused in a call.

    Returns
    -------
    callable
        `factory`, unchanged.

    Raises
    ------
    FeatureMapError
        If the name is empty or taken, or `factory` cannot be called.
    """
    if not isinstance(name, str) or not name:
        raise FeatureMapError(f"name: expected a non-empty text, got {name!r}.")
    if not callable(factory):
        raise FeatureMapError(f"factory: expected a callable that returns a FeatureMap, got {factory!r}.")
    if name in _REGISTRY and not replace:
        raise FeatureMapError(f"name: {name!r} is already registered; pass replace=True to redefine it.")
    _REGISTRY[name] = _Entry(factory, bool(stored))
    return factory


def feature_map_names(*, stored: bool | None = None) -> tuple[str, ...]:
    """Return the names of the registered feature maps, sorted.

    Parameters
    ----------
    stored : bool, optional
        Give only maps that do, or do not, hold parameters or draws; all where not given.
    """
    return tuple(sorted(name for name, entry in _REGISTRY.items() if stored in (None, entry.stored)))


def build_feature_map(name: str, d: int, *, heads: int | None = None, **options: Any) -> FeatureMap:
    """Build a map by name, whether or not it holds parameters or draws.

    Parameters
    ----------
    name : str
        Name in the registry.
    d : int
        Width of queries and keys.
    heads : int, optional
        Number of heads, for parameters or draws of each head's own; shared by all heads where not given.
        Without effect on a map that holds none.
    **options
        Options of the map's constructor.

    Raises
    ------
    FeatureMapError
        For an unknown name, or options that the map does not take.

    Examples
    --------
    >>> from quantattn.attention import build_feature_map
    >>> build_feature_map("favor", 16, features=64, seed=7).width(16)
    64
    >>> build_feature_map("dpfp", 16, nu=3).width(16)
    96
    """
    entry = _find(name)
    check_size(d, "d")
    try:
        made = entry.factory(d, heads=heads, **options) if entry.stored else entry.factory(**options)
    except TypeError as error:
        raise FeatureMapError(f"feature_map: {name!r} cannot be built with {options}: {error}.") from error
    return _checked(made, name)


def resolve_feature_map(feature_map: str | FeatureMap) -> FeatureMap:
    """Return the map of that name, or the map itself.

    Raises
    ------
    FeatureMapError
        If no map has that name; the message suggests the nearest. Also for the name of a map that holds
        parameters or draws, which a call could neither train nor save.
    """
    if isinstance(feature_map, FeatureMap):
        return feature_map
    entry = _find(feature_map)
    if entry.stored:
        raise FeatureMapError(
            f"feature_map: {feature_map!r} holds numbers that must be saved with the model; build it "
            f"once with build_feature_map({feature_map!r}, d) and pass the object."
        )
    return _checked(entry.factory(), feature_map)


def _find(name: object) -> _Entry:
    entry = _REGISTRY.get(name) if isinstance(name, str) else None
    if entry is None:
        near = get_close_matches(str(name), _REGISTRY, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise FeatureMapError(
            f"feature_map: {name!r} is not registered; known: {', '.join(feature_map_names())}.{hint} "
            "Add your own with register_feature_map()."
        )
    return entry


def _checked(made: object, name: str) -> FeatureMap:
    if not isinstance(made, FeatureMap):
        raise FeatureMapError(
            f"feature_map: the factory of {name!r} returned {type(made).__name__}, not a FeatureMap."
        )
    return made


for _kind in (Identity, Relu, SquaredRelu, Elu1, Dpfp, Taylor2):
    register_feature_map(_kind.name, _kind)
for _stored in (Favor, Hedgehog):
    register_feature_map(_stored.name, _stored, stored=True)
