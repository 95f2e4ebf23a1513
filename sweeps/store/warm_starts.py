"""The sweeps in ``search.warm_start``, from which a new sweep learns."""

from __future__ import annotations

from collections.abc import Sequence

from sweeps.errors import UserError
from sweeps.search.record import TrialRecord
from sweeps.store.identity import read_identity
from sweeps.store.sweep_store import SweepStore, tells_storage_faults
from sweeps.sweep_file.schema import SweepFile


@tells_storage_faults
def sweeps_to_learn_from(sweep: SweepFile, storage: str) -> dict[str, list[TrialRecord]]:
    """Their trials by name; UserError if there is no such sweep."""
    found = {}
    for name in sweep.search.warm_start:
        store = SweepStore(storage, name)
        try:
            store.load_sweep()
        except UserError as error:
            raise UserError(f"search.warm_start: {error}") from None
        found[name] = store.load_records()
    return found


@tells_storage_faults
def on_other_data(names: Sequence[str], data: str, storage: str) -> list[str]:
    """A sentence for each of these sweeps that was run on other data than those of this digest."""
    lines = []
    for name in names:
        store = SweepStore(storage, name)
        identity = read_identity(store.folder)
        if identity is not None and identity.digest != data:
            label = store.load_sweep().dataset.label
            lines.append(
                f"search.warm_start = {name} was run on other data ({label}, digest "
                f"{identity.digest}; here {data}): what was good there may not be good here"
            )
    return lines
