"""Tables beside the prices: whether they speak of the entities that have some."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from quantattn.errors import DataError

_SHOWN = 5


def check_names(
    asked: Iterable[str], known: Iterable[str], what: str, error: type[DataError], stacklevel: int = 1
) -> None:
    """Refuse names that miss an entity by their spelling, and warn of those that have no prices.

    Parameters
    ----------
    asked : iterable of str
        Entities of a table.
    known : iterable of str
        Entities with prices.
    what : str
        The table, in the plural.
    error : type of DataError
        What to raise.
    stacklevel : int
        As for ``warnings.warn``, from the caller.

    Warns
    -----
    UserWarning
        If any name has no prices: what the table says of it changes nothing.
    """
    names, priced = {*asked}, {*known}
    strangers = sorted(names - priced)
    if not strangers or not priced:
        return
    folded = {name.strip().casefold(): name for name in sorted(priced)}
    for name in strangers:
        twin = folded.get(name.strip().casefold())
        if twin is not None:
            raise error(
                f"{what} name an entity {name!r}, and the prices have {twin!r}; give one entity one spelling"
            )
    told = ", ".join(map(repr, strangers[:_SHOWN])) + (", ..." if len(strangers) > _SHOWN else "")
    warnings.warn(
        f"{what} name {len(strangers)} of {len(names)} entities without prices, which change nothing: {told}"
        "; check their spelling, or leave them out",
        UserWarning,
        stacklevel=stacklevel + 2,
    )
