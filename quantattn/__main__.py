"""Lets ``python -m quantattn`` do what ``quantattn`` does."""

from __future__ import annotations

from quantattn.cli import main

if __name__ == "__main__":
    main()
