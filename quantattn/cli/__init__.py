"""The command ``quantattn``: it finds what is meant, hands it to the job, and tells how it ended.

Nothing heavy is imported here, so that ``quantattn --help`` answers at once. Exit codes: 0 done, 1 failed,
2 the request itself is wrong, 130 interrupted. Without ``--debug`` a failure is one clear line.
"""

from quantattn.cli.program import app, main

__all__ = ["app", "main"]
