"""The model that a custom training loop has trained, rebuilt by the user's own function."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainables.contract.config import own_folder, trial_setting
from trainables.contract.messages import TrialConfig
from trainables.data.core.base import Data, Dataset, OwnData, Split
from trainables.data.core.types import Inputs, Labels
from trainables.data.kinds.arrays import Arrays
from trainables.files.storage import Folder
from trainables.losses import make_loss
from trainables.trials.loop_run import fetch_own_files
from trainables.trials.own_loop import Host, Reported, Trial, trainable_function


def load_of_loop(
    data: Data,
    trained: tuple[str, Mapping[str, Any]],
    load: str,
    config: TrialConfig,
    folder: Folder,
) -> tuple[nn.Module, Inputs]:
    """The module that a custom loop (name and options) trained in a trial, and test samples.

    ``load`` is the function that returns the module, given the trial and the same options. If the
    loop reads its own data, it also returns the inputs of the first test samples, which are rows
    as they are.

    Raises:
        FileNotFoundError: The loop's files are gone.
        ValueError: The function does not return a module of logits (N, K), or no inputs.
    """
    name, options = trained
    kept = folder / "checkpoints" / own_folder(trial_setting(name, dict(options), config))
    if not kept.names():
        raise FileNotFoundError(f"the loop has left no file in {kept.uri}")
    with tempfile.TemporaryDirectory(prefix="calsweep-own-") as scratch:
        own = fetch_own_files(kept, Path(scratch))
        with torch.random.fork_rng(devices=[]):
            built = trainable_function(load)(trial=_trial(data, config, own), **options)
    if isinstance(data, Dataset):
        rows = data.test.rows(slice(2))
        return _checked(built, load, data.samples.prepare(torch.from_numpy(rows)), data), rows
    network, inputs = built if isinstance(built, tuple) and len(built) == 2 else (built, None)
    inputs = torch.as_tensor(inputs) if isinstance(inputs, Tensor | np.ndarray) else None
    if inputs is None or inputs.dtype != torch.float32 or len(inputs) < 2 or inputs.dim() < 2:
        raise ValueError(
            f"{load} returned no inputs; for data that the loop reads allowed: a torch module and "
            "the inputs of the first samples of the test split in order, two or more, float32"
        )
    inputs = inputs.detach().cpu()
    return _checked(network, load, inputs[:2], data), inputs.contiguous().numpy()


def dataset_of_loop(data: OwnData, inputs: Inputs, labels: Labels) -> Dataset:
    """The first test samples as a dataset, which describes the inputs of an exported model."""
    split = Split(inputs, np.array(labels[: len(inputs)]))
    samples = Arrays.unscaled(inputs.shape[1:])
    return Dataset(data.name, split, split, split, data.classes, samples)


def _trial(dataset: Data, config: TrialConfig, own: Path) -> Trial:
    def report(_: Reported) -> None:
        raise ValueError("the trial has ended; a function that loads its model reports nothing")

    setting = config.setting
    loss = make_loss(setting.loss, num_classes=dataset.num_classes, **setting.hyperparameters)
    host = Host(
        report,
        needs_test=lambda _: False,
        adapts=lambda logits, labels: (logits, labels),
        epochs=0,
        epochs_known=0,
        folder=own,
        device=torch.device("cpu"),
    )
    return Trial(config, dataset, loss, host)


def _checked(network: object, load: str, inputs: Tensor, data: Data) -> nn.Module:
    """The module on the CPU, once it has given logits for two samples."""
    if not isinstance(network, nn.Module):
        raise ValueError(f"{load} returned a {type(network).__name__}; allowed: a torch module")
    network = network.cpu().eval()
    with torch.no_grad():
        logits = network(inputs)
    expected = (2, data.num_classes)
    found = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
    if found != expected:
        raise ValueError(
            f"the module that {load} returned gives {found} for two samples; allowed: logits of "
            f"shape {expected}"
        )
    return network
