"""Everything that a streaming forecaster remembers, as one file."""

from quantattn.forecasters.streaming.snapshots.file import read_snapshot, write_snapshot
from quantattn.forecasters.streaming.snapshots.snapshot import restore_into, snapshot_of

__all__ = ["read_snapshot", "restore_into", "snapshot_of", "write_snapshot"]
