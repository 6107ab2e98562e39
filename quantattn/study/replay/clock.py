"""A study's forecast times, year by year as far as they are asked for."""

from __future__ import annotations

from bisect import bisect_right
from datetime import date, timedelta

from quantattn.errors import CalendarError
from quantattn.pit import ForecastClock
from quantattn.pit.timestamps import duration_nanoseconds, nanoseconds_of
from quantattn.study.config import Study

_DAY = 86_400 * 10**9
_EPOCH = date(1970, 1, 1)
# A session's times may lie a day off its date in UTC, and a wall time of another zone one more.
_MARGIN = 3 * _DAY
_MOST_YEARS = 16


class StudyClock:
    """Tells when a study's next forecast is due, without prices and without an end.

    The times are those of the study's own clock, which the calendar gives: within the sessions of its prices
    they are the same, and they go on after these.

    Parameters
    ----------
    study : Study
        The study.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._shift = duration_nanoseconds(study.clock.offset, argument="clock.offset")
        self._times: list[int] = []
        self._years: range | None = None
        self._reached: int | None = None

    def after(self, moment: int, up_to: int | None = None) -> int | None:
        """Give the first forecast time after an instant.

        Parameters
        ----------
        moment : int
            Nanoseconds since the epoch, UTC; not earlier than that of the call before.
        up_to : int, optional
            How far to look; without it, to the first that there is.

        Returns
        -------
        int or None
            Nanoseconds since the epoch, UTC; None if there is none up to `up_to`.

        Raises
        ------
        CalendarError
            If the calendar does not reach there.
        """
        while True:
            place = bisect_right(self._times, moment)
            known = self._known_until(moment)
            if place < len(self._times) and self._times[place] < known:
                found = self._times[place]
                return found if up_to is None or found <= up_to else None
            if up_to is not None and up_to < known:
                return None
            self._extend(moment)

    def reach(self, up_to: int) -> None:
        """See that the calendar reaches an instant, before any forecast on the way there is made.

        Parameters
        ----------
        up_to : int
            Nanoseconds since the epoch, UTC.

        Raises
        ------
        CalendarError
            If it does not.
        """
        # The year that :meth:`after` would need to say that nothing more is due up to then.
        year = _year_of(up_to + _MARGIN - self._shift)
        known = self._years.stop - 1 if self._years is not None and len(self._years) else None
        furthest = max((one for one in (known, self._reached) if one is not None), default=None)
        if furthest is None or year > furthest:
            self._times_of(year, year + 1)
            self._reached = year

    def _known_until(self, moment: int) -> int:
        """Give the instant before which every time is known."""
        if self._years is None:
            return moment
        return _start_of(self._years.stop) - _MARGIN + self._shift

    def _extend(self, moment: int) -> None:
        if self._years is None:
            # The session may lie as far from its forecast as the offset says.
            first = _year_of(moment - self._shift - _MARGIN)
            self._years = range(first, first)
        begin = self._years.stop
        try:
            # Twice as many each time: each call of the calendar takes long.
            end = begin + max(1, min(len(self._years), _MOST_YEARS))
            more = self._times_of(begin, end)
        except CalendarError:
            end = begin + 1
            more = self._times_of(begin, end)
        self._times = sorted({*self._times, *more})
        self._years = range(self._years.start, end)

    def _times_of(self, begin: int, end: int) -> list[int]:
        """Give the forecast times of the sessions of some years, the last one excluded."""
        clock = self._study.clock
        made = ForecastClock.sessions(
            self._study.data.calendar,
            start=date(begin, 1, 1),
            end=date(end - 1, 12, 31),
            at=clock.at,
            offset=clock.offset,
            every=clock.every,
            time_zone=clock.time_zone,
        )
        times: list[int] = nanoseconds_of(made.times).tolist()
        return times


def _start_of(year: int) -> int:
    return (date(year, 1, 1) - _EPOCH).days * _DAY


def _year_of(moment: int) -> int:
    return (_EPOCH + timedelta(days=moment // _DAY)).year
