"""The encoders of two-stage sweeps: which there are, and where they lie.

An encoder is kept in the storage under what it is made of: the data, the model, its loss, its
recipe and its seed. So sweeps that differ in the heads only share it.
"""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from typing import TYPE_CHECKING

from sweeps.sweep_file.schema import SweepFile
from trainables.config import EncoderSetup
from trainables.storage import Folder

if TYPE_CHECKING:
    from trainables.data.base import Dataset


def encoder_setup(sweep: SweepFile, storage: str, dataset: Dataset) -> EncoderSetup | None:
    """How the sweep's encoders are trained and where they are kept; None for a single stage."""
    if sweep.encoder is None:
        return None
    made_of = {
        "calsweep": version("calsweep"),
        "dataset": dataset.digest(),
        "model": sweep.model.model_dump(),
        "encoder": sweep.encoder.model_dump(mode="json"),
    }
    text = json.dumps(made_of, sort_keys=True, default=str)
    name = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    folder = Folder(storage) / "encoders" / f"{sweep.model_label.replace('/', '-')}-{name}"
    return EncoderSetup(training=sweep.encoder.training.config(), uri=folder.uri)


def trained_encoders(sweep: SweepFile, setup: EncoderSetup | None) -> frozenset[int]:
    """The seeds of the sweep for which an encoder lies there, complete."""
    if setup is None:
        return frozenset()
    from trainables.two_stage import encoder_folder, is_trained

    return frozenset(seed for seed in sweep.seeds if is_trained(encoder_folder(setup.uri, seed)))
