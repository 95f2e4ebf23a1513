"""A user's folder with modules, in which sweeps run."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def workplace_of(folder: Path, **modules: str) -> Iterator[Path]:
    """Write these modules into the folder and go there; what was imported is forgotten after it.

    Another folder's module of the same name would be taken for this one's otherwise.
    """
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", list(sys.path))
        try:
            yield folder
        finally:
            for name in modules:
                sys.modules.pop(name, None)
