"""The sweep file as it was given, without the values that defaults, data and machine decide.

``run --or-resume`` compares it with the present one, so that a removed key is a change.
"""

from __future__ import annotations

import json
from typing import Final

from sweeps.errors import UserError
from sweeps.store.sweep_store import read_json
from sweeps.sweep_file.loading import parse_sweep
from sweeps.sweep_file.schema import SweepFile
from trainables.files.storage import Folder

_FILE: Final = "given.json"


def given_files(sweep: SweepFile) -> dict[str, bytes]:
    """The file that stores it: name and content."""
    return {_FILE: json.dumps(sweep.model_dump(mode="json", exclude_unset=True), indent=1).encode()}


def keep_given(folder: Folder, sweep: SweepFile) -> None:
    """Replace it in a sweep's folder."""
    for name, data in given_files(sweep).items():
        if folder.read_if_exists(name) != data:
            folder.write(name, data)


def read_given(folder: Folder) -> SweepFile | None:
    """It, with this version's defaults; None for sweeps of older versions, which lack it."""
    without = "keys that were removed from the sweep file are not noticed"
    tree = read_json(folder, _FILE, dict, None, without)
    try:
        return None if tree is None else parse_sweep(tree)
    except UserError:  # a key that this version lacks
        return None
