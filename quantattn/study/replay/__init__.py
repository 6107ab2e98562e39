"""The parts of a replay: clock, pace, logs and their feed, the loop, its snapshots.

:func:`quantattn.study.replaying.replay_run` puts them together. Nothing is loaded here.
"""

__all__: list[str] = []
