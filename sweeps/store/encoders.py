"""The stored encoders of two-stage sweeps.

Their name is a digest of everything that determines them: the data, the model, its loss, recipe and
seed, the number of workers, custom code and package versions. Sweeps that differ only in the heads
share them. A sweep that continues with other versions keeps its encoder.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sweeps.search.plan import Plan
from sweeps.store.environment import versions
from sweeps.store.identity import own_modules
from sweeps.store.sweep_store import SweepStore
from trainables.contract.config import EncoderSetup
from trainables.files.storage import Folder, digest_of

if TYPE_CHECKING:
    from trainables.data.core.base import Data

_NAME = "encoders"  # a file of the sweep that names its encoders
_OWN = "own_encoders"  # a folder of the sweep, in place of a shared one that it cannot use
_LASTING: Final = (PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError)


def encoder_setup(plan: Plan, store: SweepStore, dataset: Data) -> EncoderSetup | None:
    """Training and folder of the sweep's encoders; None without two-stage training."""
    if plan.sweep.encoder is None:
        return None
    own = store.folder / _OWN
    shared = Folder(store.storage) / "encoders" / _kept_name(plan, store.folder, dataset)
    uri = own.uri if own.exists() else shared.uri
    encoder = plan.sweep.encoder
    return EncoderSetup(
        training=encoder.training.config(),
        uri=uri,
        frozen=encoder.frozen,
        checkpoint=encoder.checkpoint,
        head=encoder.head.config(),
    )


def usable_encoders(
    plan: Plan, store: SweepStore, dataset: Data, notice: Callable[[str], object]
) -> EncoderSetup | None:
    """The same for a sweep that is run; `notice` is called if the shared folder cannot be used.

    It may be another user's, or damaged. Then the sweep has encoders of its own, for good.
    """
    setup = encoder_setup(plan, store, dataset)
    if setup is None or (fault := _lasting_fault(plan, setup)) is None:
        return setup
    notice(f"{setup.uri} cannot be used: {fault.strerror}; the sweep trains its own encoders")
    (store.folder / _OWN).create()
    return encoder_setup(plan, store, dataset)


def _lasting_fault(plan: Plan, setup: EncoderSetup) -> OSError | None:
    """Why encoders cannot be read or written there, if waiting does not help."""
    folder = Folder(setup.uri)
    try:
        if trained_encoders(plan, setup) != frozenset(map(setup.seed_of, plan.seeds)):
            folder.write(".calsweep-write-test", b"")
            folder.delete(".calsweep-write-test")
    except _LASTING as error:
        return error
    return None


def _kept_name(plan: Plan, folder: Folder, dataset: Data) -> str:
    """The name of the encoders that is stored with the sweep, or None."""
    kept = (folder.read_if_exists(_NAME) or b"").decode()
    name = kept or _name(plan, dataset)
    if not kept:
        folder.write(_NAME, name.encode())
    return name


def _name(plan: Plan, dataset: Data) -> str:
    assert plan.sweep.encoder is not None
    evaluation, checkpoint = plan.sweep.evaluation, plan.sweep.encoder.checkpoint
    made_of = {
        "versions": versions(),
        "modules": own_modules((plan.sweep.model.name, plan.sweep.encoder.loss.name)),
        "dataset": dataset.digest(),
        "model": plan.sweep.model.model_dump(),
        "encoder": plan.sweep.encoder.model_dump(mode="json", exclude={"head"}),
        "checkpoint": checkpoint and digest_of(Path(checkpoint).read_bytes()),
        "num_workers": plan.sweep.scaling.num_workers,
        **({"evaluation": evaluation.model_dump(mode="json")} if evaluation.sets else {}),
    }
    text = json.dumps(made_of, sort_keys=True, default=str)
    digest = digest_of(text.encode())
    return f"{plan.sweep.model_label.replace('/', '-')}-{digest}"


def trained_encoders(plan: Plan, setup: EncoderSetup | None) -> frozenset[int]:
    """The seeds of the sweep with a complete encoder."""
    if setup is None:
        return frozenset()
    from trainables.trials.two_stage import encoder_folder, is_trained

    needed = dict.fromkeys(map(setup.seed_of, plan.seeds))
    return frozenset(seed for seed in needed if is_trained(encoder_folder(setup.uri, seed)))
