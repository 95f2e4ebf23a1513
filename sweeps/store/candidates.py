"""Number of settings that earlier sweeps tried on the validation data of a new sweep.

A sweep that retrains a selected setting, or learns from earlier sweeps, continues their selection,
for which its verdict is corrected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sweeps.search.record import TrialRecord
from sweeps.store.identity import read_identity
from sweeps.store.sweep_store import SweepStore, read_json, tells_storage_faults
from sweeps.sweep_file.schema import SweepFile
from trainables.files.storage import Folder

_NAME = "earlier_candidates.json"


@tells_storage_faults
def earlier_candidates(
    sweep: SweepFile, data: str, storage: str, records: Mapping[str, Sequence[TrialRecord]]
) -> int:
    """The number of settings that were tried on the same data before a new sweep begins.

    `data` is the digest of its data; `records` are the trials of the sweeps that it learns from.
    """
    origin = sweep.selection.selected_from
    count = origin.candidates if origin is not None and origin.data == data else 0
    for name, trials in records.items():
        folder = SweepStore(storage, name).folder
        identity = read_identity(folder)
        if identity is None or identity.digest == data:  # counted in case of doubt
            settings = {r.setting for r in trials if r.searched and r.state == "finished"}
            count += len(settings) + read_earlier_candidates(folder)
    return count


def candidate_files(count: int) -> dict[str, bytes]:
    """The files that store the number: names and contents."""
    return {_NAME: json.dumps({"earlier_candidates": count}).encode()} if count else {}


def read_earlier_candidates(folder: Folder) -> int:
    """The number stored in a sweep's folder; 0 if there is none."""
    without = "earlier sweeps are not counted"
    return read_json(folder, _NAME, lambda kept: int(kept["earlier_candidates"]), 0, without)
