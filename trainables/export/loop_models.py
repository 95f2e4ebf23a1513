"""The model that a custom training loop has trained, rebuilt by the user's own function."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trainables.contract.config import own_folder, trial_setting
from trainables.contract.report import TrialConfig
from trainables.data.core.base import Dataset
from trainables.export.calibrated import CalibratedClassifier
from trainables.files.storage import Folder
from trainables.losses import make_loss
from trainables.posthoc.scaling import Scaling
from trainables.trials.loop_run import fetch_own_files
from trainables.trials.own_loop import Host, Reported, Trial, trainable_function


def load_of_loop(
    dataset: Dataset,
    trained: tuple[str, Mapping[str, Any]],
    load: str,
    config: TrialConfig,
    folder: Folder,
    scaling: Scaling,
) -> CalibratedClassifier:
    """The classifier that a custom loop (name and options) trained in a trial.

    ``load`` is the function that returns the model, given the trial and the same options.

    Raises:
        FileNotFoundError: The loop's files are gone.
        ValueError: The function does not return a module of logits (N, K).
    """
    name, options = trained
    kept = folder / "checkpoints" / own_folder(trial_setting(name, dict(options), config))
    if not kept.names():
        raise FileNotFoundError(f"the loop has left no file in {kept.uri}")
    with tempfile.TemporaryDirectory(prefix="calsweep-own-") as scratch:
        own = fetch_own_files(kept, Path(scratch))
        with torch.random.fork_rng(devices=[]):
            built = trainable_function(load)(trial=_trial(dataset, config, own), **options)
    network = _checked(built, load, dataset)
    return CalibratedClassifier(network, dataset.samples, scaling, dataset.classes, dataset.task)


def _trial(dataset: Dataset, config: TrialConfig, own: Path) -> Trial:
    def report(_: Reported) -> None:
        raise ValueError("the trial has ended; a function that loads its model reports nothing")

    setting = config.setting
    loss = make_loss(setting.loss, num_classes=dataset.num_classes, **setting.hyperparameters)
    host = Host(report, lambda _: False, lambda logits, labels: (logits, labels), 0)
    return Trial(config, dataset, loss, 0, own, torch.device("cpu"), host)


def _checked(network: object, load: str, dataset: Dataset) -> nn.Module:
    """The module on the CPU, once it has given logits for two samples."""
    if not isinstance(network, nn.Module):
        raise ValueError(f"{load} returned a {type(network).__name__}; allowed: a torch module")
    network = network.cpu().eval()
    rows = torch.from_numpy(dataset.test.rows(slice(2)))
    with torch.no_grad():
        logits = network(dataset.samples.prepare(rows))
    expected = (2, dataset.num_classes)
    found = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
    if found != expected:
        raise ValueError(
            f"the module that {load} returned gives {found} for two samples; allowed: logits of "
            f"shape {expected}"
        )
    return network
