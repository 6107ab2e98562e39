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
        For an unknown name, options that the map does not take, or a factory that fails.

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
    arguments = {"heads": heads, **options} if entry.stored else options
    return _built(name, entry.factory, (d,) if entry.stored else (), arguments)


def resolve_feature_map(feature_map: str | FeatureMap) -> FeatureMap:
    """Return the map of that name, or the map itself.

    Raises
    ------
    FeatureMapError
        If no map has that name; the message suggests the nearest. Also for the name of a map that holds
        parameters or draws, which a call could neither train nor save, for a class instead of its object, and
        for a map without a name or under the name of one of this package.
    """
    if isinstance(feature_map, FeatureMap):
        return check_map(feature_map)
    entry = _find(feature_map)
    if entry.stored:
        raise FeatureMapError(
            f"feature_map: {feature_map!r} holds numbers that must be saved with the model; build it "
            f"once with build_feature_map({feature_map!r}, d) and pass the object."
        )
    return _built(feature_map, entry.factory, (), {})


def check_map(made: FeatureMap) -> FeatureMap:
    """Return a map that says what it is, under a name that is not another's.

    Raises
    ------
    FeatureMapError
        If it lacks ``name`` or ``positive``, or has the name of a map of this package.
    """
    kind = type(made)
    name = getattr(made, "name", None)
    if not isinstance(name, str) or not name:
        raise FeatureMapError(
            f"feature_map: {kind.__name__} has no name; set name = '...', a text, in the class."
        )
    if not isinstance(getattr(made, "positive", None), bool):
        raise FeatureMapError(
            f"feature_map: {name!r} does not say whether it is positive; set positive = True or False in the "
            f"class {kind.__name__}."
        )
    owner = _OWN.get(name)
    if owner is not None and kind is not owner:
        raise FeatureMapError(
            f"feature_map: {kind.__module__}.{kind.__qualname__} has the name {name!r} of another map, this "
            f"package's {owner.__name__}; give the class a name of its own."
        )
    return made


def _built(name: str, factory: Factory, arguments: tuple[Any, ...], options: dict[str, Any]) -> FeatureMap:
    """Return what a factory makes, whatever it does."""
    try:
        made: object = factory(*arguments, **options)
    except FeatureMapError:
        raise
    except Exception as error:
        raise FeatureMapError(
            f"feature_map: {name!r} cannot be built with {options or 'no options'}: "
            f"{type(error).__name__}: {error}; see register_feature_map() for how a factory is called."
        ) from error
    return _checked(made, name)


def _find(name: object) -> _Entry:
    entry = _REGISTRY.get(name) if isinstance(name, str) else None
    if isinstance(name, type) and issubclass(name, FeatureMap):
        raise FeatureMapError(
            f"feature_map: expected a map, got the class {name.__name__}; build one, such as "
            f"{name.__name__}()."
        )
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
    return check_map(made)


_OWN: dict[str, type[FeatureMap]] = {
    kind.name: kind for kind in (Identity, Relu, SquaredRelu, Elu1, Dpfp, Taylor2, Favor, Hedgehog)
}

for _kind in (Identity, Relu, SquaredRelu, Elu1, Dpfp, Taylor2):
    register_feature_map(_kind.name, _kind)
for _stored in (Favor, Hedgehog):
    register_feature_map(_stored.name, _stored, stored=True)
