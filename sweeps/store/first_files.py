"""Small files of a sweep's store about how it began, from which later verdicts and pages read.

These are the number of settings that earlier sweeps tried on its validation data, which corrects
its verdict; the samples that `on_bad_sample: skip` left out; and the sweep file as it was given,
without the values that defaults, data and machine decide.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sweeps.errors import UserError
from sweeps.search.record import TrialRecord
from sweeps.store.identity import read_identity
from sweeps.store.storage import read_json, tells_storage_faults, write_guarded
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import parse_sweep
from sweeps.sweep_file.schema import SweepFile
from sweeps.sweep_file.sections.search import SelectedFromSection
from sweeps.sweep_file.upgrading import with_present_keys
from trainables.files.storage import Folder

if TYPE_CHECKING:
    from trainables.data.core.base import Data

_CANDIDATES: Final = "earlier_candidates.json"
SKIPPED: Final = "skipped_samples.txt"
_GIVEN: Final = "given.json"


@tells_storage_faults
def earlier_candidates(
    origin: SelectedFromSection | None,
    data: str,
    storage: str,
    records: Mapping[str, Sequence[TrialRecord]],
) -> int:
    """The number of settings that were tried on the same data before a new sweep begins.

    A sweep that retrains a selected setting, or learns from earlier sweeps, continues their
    selection. `origin` is ``selection.selected_from``; `data` is the digest of its data; `records`
    are the trials of the sweeps that it learns from.
    """
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
    return {_CANDIDATES: json.dumps({"earlier_candidates": count}).encode()} if count else {}


def read_earlier_candidates(folder: Folder) -> int:
    """The number stored in a sweep's folder; 0 if there is none."""
    without = "earlier sweeps are not counted"
    return read_json(folder, _CANDIDATES, lambda kept: int(kept["earlier_candidates"]), 0, without)


def skipped_files(dataset: Data) -> dict[str, bytes]:
    """Name and content of the file that stores skipped samples, if there are any."""
    return {SKIPPED: "\n".join(dataset.notes).encode()} if dataset.notes else {}


def read_skipped(folder: Folder) -> str:
    """The number of skipped samples, then one sample per line; empty if there are none."""
    with suppress(OSError, ValueError):
        return (folder.read_if_exists(SKIPPED) or b"").decode()
    return ""


def given_files(sweep: SweepFile) -> dict[str, bytes]:
    """The file that stores the sweep file as it was given: name and content."""
    return {
        _GIVEN: json.dumps(sweep.model_dump(mode="json", exclude_unset=True), indent=1).encode()
    }


def keep_given(folder: Folder, sweep: SweepFile) -> None:
    """Replace the given sweep file in a sweep's folder."""
    for name, data in given_files(sweep).items():
        if folder.read_if_exists(name) != data:
            write_guarded(folder, name, data)


def read_given(folder: Folder) -> SweepFile | None:
    """The given sweep file, with this version's defaults; None if it is missing or damaged."""
    without = "changes of the sweep file are not noticed"
    tree = read_json(folder, _GIVEN, dict, None, without)
    try:
        return None if tree is None else parse_sweep(with_present_keys(tree))
    except UserError:  # a key that this version lacks
        return None
