"""One trial from start to end, resumable after each epoch. Does not depend on Ray."""

import io
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from trainables import metrics as M
from trainables.contract.config import TrialSetup, trial_folder, trial_setting
from trainables.contract.messages import (
    NEVER_STOPPED,
    Entry,
    Failed,
    OutOfMemory,
    Progressed,
    Report,
    TrialConfig,
    Waiting,
)
from trainables.contract.metric_names import RARE_CLASS, MetricName, groups_name
from trainables.data.core.base import Data, Dataset
from trainables.data.core.divisions import ByGroup
from trainables.data.core.stratified import HeldOutSplit, stratified_split
from trainables.engine.training import DivergedError, Trainer
from trainables.files.checkpoints import load_checkpoint, save_checkpoint
from trainables.files.rows import Rows, has_rare_class
from trainables.files.storage import Folder
from trainables.losses import CalibrationLoss, make_loss
from trainables.metrics.own_metric import own_metrics
from trainables.models import Classifier, model_for
from trainables.plugins.arguments import first_line
from trainables.posthoc import TemperatureScaling
from trainables.runtime.devices import (
    DeviceFailedError,
    has_failed,
    is_out_of_memory,
    limit_memory,
    memory_use,
    numbered,
)
from trainables.runtime.distributed import from_first_worker, rank
from trainables.trials.kept_epoch import LowestEpoch
from trainables.trials.outcome import (
    Extent,
    Predictions,
    evaluate,
    summarise,
    summarise_evaluation_sets,
)
from trainables.trials.scaling import fit_network_scaling

CPU = torch.device("cpu")


class StorageAwayError(OSError):
    """The storage of the sweep does not exist at its path, or does not respond."""


class TrialRun:
    """Trains the classifier of one trial and writes its folder.

    Under ``torch.distributed``, every worker makes the same calls, and the first one writes.
    Visible GPUs other than ``device`` belong to other trials.
    """

    def __init__(
        self, dataset: Data, setup: TrialSetup, config: TrialConfig, device: torch.device = CPU
    ) -> None:
        self.data = dataset
        self.setup = setup
        self.config = config
        self.training = setup.training
        self.device = numbered(device)
        self.folder = Folder(setup.trials_uri) / trial_folder(config.number)
        self.history: list[Entry] = []
        self._setting = trial_setting(setup.model, setup.model_options, config)
        self._state: dict[str, Any] | None = None  # checkpoint content, on the first worker
        self._trainer: Trainer | None = None
        self._lowest = LowestEpoch(self.training) if self.training.keep != "last" else None
        self._multipliers: list[list[float]] = []  # of each epoch and class, if the loss has such
        self._begun = False
        self._unsaved: list[Callable[[], object]] = []
        self._made = time.monotonic()

    @property
    def dataset(self) -> Dataset:
        """The data; only trials with a custom loop may have none."""
        assert isinstance(self.data, Dataset)
        return self.data

    def advance(self) -> Report:
        """Trains one more epoch.

        The first call after an interruption reports the epochs of the checkpoint again instead,
        because reports may have been lost with the processes that forwarded them.

        Returns:
            The metrics of the epoch (``epoch``, ``timestamp``, ``run_seconds``, ``train_loss``,
                ``lr``, ``val_nll`` and so on). After an epoch at which the trial may be stopped,
                also those of :func:`~trainables.trials.outcome.summarise`; after the last epoch
                of a finalist, all of them. If the trial cannot access or write the storage, it
                waits, and the next call tries again.

        Raises:
            DeviceFailedError: The process can no longer use its accelerator.
        """
        try:
            if not self._begun:
                self._read_patiently()
                self._begin()
                self._begun = True
                if self.history:
                    return self._progressed(self.history)
            if not self._unsaved:
                self._train_epoch()
        except DivergedError as error:
            return Failed(str(error), diverged=True)
        except StorageAwayError as error:
            return Waiting(str(error))
        except Exception as error:
            if is_out_of_memory(error):
                said = f"out of memory: {first_line(error) or 'no more is available'}"
                # A trial that shares a GPU may be retried.
                return OutOfMemory(said) if 0 < self.setup.gpu_share < 1 else Failed(said)
            if has_failed(self.device, error):
                raise DeviceFailedError(f"{type(error).__name__}: {error}") from error
            raise
        try:
            self._save()
        except OSError as error:
            return Waiting(f"{self.folder.uri} cannot be written: {error}")
        return self._progressed(self.history[-1:])

    def close(self) -> None:
        """Release the trial's memory; it cannot advance afterwards."""
        self._trainer = None

    def _check_storage(self) -> None:
        """Raises :class:`StorageAwayError` if this machine does not have the sweep's storage."""
        if self.setup.marker is None:
            return
        uri, sweep_id = self.setup.marker
        try:
            found = Folder(uri).read("sweep_id").decode()
        except OSError as error:
            found = str(error)
        if found != sweep_id:
            raise StorageAwayError(
                f"{socket.gethostname()} does not see the sweep's storage, {uri} ({found}); is it "
                "mounted there?"
            )

    def _read_patiently(self) -> None:
        """Raises :class:`StorageAwayError` if the storage cannot be read now."""
        self._check_storage()
        try:
            self._read()
        except FileNotFoundError:  # the storage responds
            raise
        except OSError as error:
            raise StorageAwayError(f"{self.folder.uri} cannot be read: {error}") from None

    def _read(self) -> None:
        """Reads the checkpoint on one worker, so all workers continue from the same epoch.

        Workers do not communicate here, so a worker may repeat the call.
        """
        if rank() == 0:
            self._state = load_checkpoint(self.folder / "checkpoints", self._setting)

    def _progressed(self, entries: list[Entry]) -> Progressed:
        return Progressed(tuple(entries), done=entries[-1]["epoch"] >= self.training.epochs)

    def _begin(self) -> None:
        """Prepare the first epoch, and load the checkpoint."""
        self._prepare_process()
        trainer = Trainer(
            self._make_model(),
            self._make_loss(),
            self.dataset,
            self.training,
            seed=self.config.seed,
            device=self.device,
        )
        if (state := self._take_state()) is not None:
            trainer.load_state_dict(state["trainer"])
            if self._lowest is not None:
                self._lowest.load_state_dict(state["lowest"])
            self._multipliers = state.get("multipliers", [])  # absent from older checkpoints
        self._trainer = trainer

    def _prepare_process(self) -> None:
        torch.set_num_threads(self.setup.threads)
        shared = 0 < self.setup.gpu_share < 1 and not self.config.unlimited
        limit_memory(self.device, self.setup.gpu_share if shared else 1.0)
        torch.backends.cudnn.deterministic = True
        sys.path[:0] = [path for path in self.setup.user_paths if path not in sys.path]
        torch.manual_seed(self.config.seed)

    def _make_loss(self) -> CalibrationLoss:
        return make_loss(
            self.config.setting.loss,
            num_classes=self.data.num_classes,
            **self.config.setting.hyperparameters,
        )

    def _take_state(self) -> dict[str, Any] | None:
        """Set the history, and return the checkpoint's content on every worker."""
        state = from_first_worker(lambda: self._state, self.device)
        self._state = None
        if state is not None:
            self.history = state["history"]
        return state

    def _make_model(self) -> Classifier:
        return model_for(self.dataset, self.setup.model, self.setup.model_options)

    def _train_epoch(self) -> None:
        trainer = self._trainer
        assert trainer is not None
        began = time.monotonic()
        train_metrics = trainer.train_epoch()
        seconds = time.monotonic() - began
        entry = {**self._entry(trainer.epoch), "training_seconds": seconds, **train_metrics}
        entry |= self._evaluate(trainer)
        entry |= self._record_multipliers(trainer.loss.multipliers())
        lowest = {} if self._lowest is None else {"lowest": self._lowest.state_dict()}
        state = {"trainer": trainer.state_dict(), "multipliers": self._multipliers, **lowest}
        self._keep(entry, state)

    def _record_multipliers(self, values: torch.Tensor | None) -> dict[str, float]:
        """Least, mean and largest multiplier; ``multipliers.npy`` has all, (epochs, K)."""
        if values is None:
            return {}
        self._multipliers.append(values.tolist())
        buffer = io.BytesIO()
        np.save(buffer, np.array(self._multipliers, np.float32))
        self._unsaved.append(partial(self.folder.write, "multipliers.npy", buffer.getvalue()))
        return {
            f"multiplier_{name}": float(getattr(values, name)()) for name in ("min", "mean", "max")
        }

    def _entry(self, epoch: int) -> dict[str, float]:
        """The number and times of an epoch."""
        seconds = time.monotonic() - self._made
        return {"epoch": epoch, "timestamp": time.time(), "run_seconds": seconds}

    def _keep(self, entry: Entry, state: dict[str, Any]) -> None:
        """Adds an epoch to the history, and queues its checkpoint after all its files."""
        self.history.append(entry | memory_use(self.device))
        whole = {"setting": self._setting, "history": self.history, **state}
        epoch = int(entry["epoch"])
        self._unsaved.append(partial(save_checkpoint, self.folder / "checkpoints", epoch, whole))

    def _save(self) -> None:
        """Write the queued files; those that fail stay queued."""
        while self._unsaved:
            if rank() == 0:
                self._check_storage()  # it may have disappeared since
                self._unsaved[0]()
            del self._unsaved[0]

    def _may_end(self, epoch: int) -> bool:
        stoppable = self.config.role not in NEVER_STOPPED
        return epoch >= self.training.epochs or (stoppable and epoch in self.setup.outcome_epochs)

    def _evaluate(self, trainer: Trainer) -> dict[str, float]:
        """Metrics after an epoch, and the whole outcome if the trial may end here."""
        validation, adapting = self._parts(*trainer.predict(self.dataset.validation))
        trainer.adapt_loss(*adapting)
        last = trainer.epoch >= self.training.epochs
        kept: dict[str, float] = {}
        if self._lowest is not None:
            units = self._rows("validation", validation).units()
            self._lowest.offer(trainer, validation, self.data.task.decisions, units)
            if last:
                self._lowest.restore(trainer)
                validation, adapting = self._parts(*trainer.predict(self.dataset.validation))
                kept = {"kept_epoch": self._lowest.epoch}
        test = None
        if self._may_end(trainer.epoch):
            test = self.dataset.task.decisions_of(*trainer.predict(self.dataset.test))
        found = kept | self._judge(trainer.epoch, validation, adapting, test)
        if test is not None and last and self.config.role == "finalist":
            sets = [(each, trainer.predict(each.split)) for each in self.dataset.evaluation_sets]
            if sets:
                rows, setting = self._rows("validation", validation), self.config.setting
                scaling, _ = fit_network_scaling(rows, setting, self.setup.scaling)
                found |= summarise_evaluation_sets(sets, test, scaling)
            if self.setup.training_temperature:
                fitted = TemperatureScaling("ece_grid").fit(
                    *self.dataset.task.decisions_of(*trainer.predict(self.dataset.train))
                )
                found["training_temperature"] = fitted.temperature
        return found

    def _judge(
        self, epoch: int, validation: Predictions, adapting: Predictions, test: Predictions | None
    ) -> dict[str, float]:
        """Metrics after an epoch; ``test`` is None if the trial cannot end here."""
        task = self.data.task
        values = evaluate(*validation, M.EPOCH_METRICS, task.decisions)
        found = {str(MetricName(name, "val")): value for name, value in values.items()}
        if test is None:
            return found
        deciding, own = self.setup.deciding_metrics, own_metrics(self.setup.own_metrics)
        extent = Extent.of_search(deciding, own, ended=epoch >= self.training.epochs)
        if self.config.role == "finalist":
            extent = Extent.whole(deciding, own)
        of_splits = {"validation": validation, "test": test}
        rows = {split: self._rows(split, each) for split, each in of_splits.items()}
        apart = adapting if self.training.adapt_share else None
        found |= summarise(
            rows["validation"], rows["test"], apart, extent, self.setup.scaling.criterion
        )
        if task.decisions == 1 and has_rare_class(rows["validation"].labels):
            found[RARE_CLASS] = 1.0
        for split, each in rows.items():
            if each.num_groups is not None:
                found[groups_name(split)] = float(each.num_groups)
            self._unsaved.append(partial(each.write, self.folder, split))
        return found

    def _rows(self, split: str, predictions: Predictions) -> Rows:
        """The decisions of a split, with the group of each."""
        (logits, labels), task, data, groups = predictions, self.data.task, self.data, None
        if isinstance(data, Dataset) and (given := getattr(data, split).groups) is not None:
            if split == "validation":
                share = self.training.adapt_share
                given = given[validation_parts(data.validation.labels, data, share)[0]]
            groups = np.repeat(given, task.decisions)
        arrays = logits.float().numpy(), labels.numpy()
        return Rows(*arrays, task.decisions, task.cluster_size, groups)

    def _parts(self, logits: torch.Tensor, labels: torch.Tensor) -> tuple[Predictions, Predictions]:
        """Splits decisions into the validation samples for evaluation and for adaptation."""
        judging, adapting = validation_parts(labels.numpy(), self.data, self.training.adapt_share)
        first, second = (
            self.data.task.decisions_of(logits[rows], labels[rows]) for rows in (judging, adapting)
        )
        return first, second


def validation_parts(
    labels: np.ndarray, data: Data, adapt_share: float
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the validation split for evaluation and for adaptation, the same in all trials.

    ``labels`` are those of the split.

    Raises:
        ValueError: The split is too small to have each class in both parts.
    """
    if adapt_share == 0:
        return (everything := np.arange(len(labels))), everything
    groups = data.validation.groups if isinstance(data, Dataset) else None
    held = HeldOutSplit("adapt_share", adapt_share, seed=0)
    if groups is not None:
        rows = np.arange(len(labels))
        return ByGroup("of dataset.group", groups).hold_out(labels, rows, data.classes, held)
    kinds, names = data.task.strata(labels, data.classes)
    return stratified_split(kinds, held, names)
