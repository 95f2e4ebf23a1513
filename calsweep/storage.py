"""Which sweep store is meant."""

from __future__ import annotations

import os


def default_storage(storage: str | os.PathLike[str] | None) -> str:
    """The storage that is given, else ``CALSWEEP_STORAGE``, else the command's own default."""
    from sweeps.formatting import DEFAULT_STORAGE

    return os.fspath(storage or os.environ.get("CALSWEEP_STORAGE") or DEFAULT_STORAGE)
