"""The training loop: plain PyTorch, one or several processes, reproducible by seed.

All random numbers come from generators seeded by (seed, epoch), so a trial that resumes from a
checkpoint takes the same steps as one that was never interrupted.
"""

import math
from contextlib import nullcontext
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from trainables.contract.config import TrainingConfig, check_shares
from trainables.data.core.base import Dataset, Split
from trainables.data.core.tasks import at_places
from trainables.engine.batch_norm import folded, synchronised
from trainables.engine.batches import TrainingBatches
from trainables.engine.captured import CapturedSteps
from trainables.engine.class_weights import Weights
from trainables.engine.feed import Batch, Feed
from trainables.engine.optimizers import (
    learning_rate_factor,
    make_optimizer,
    place_learning_rates,
    set_learning_rates,
)
from trainables.engine.precision import autocast, exact_arithmetic
from trainables.losses import CalibrationLoss
from trainables.models import Classifier
from trainables.runtime.devices import is_out_of_memory, release_memory
from trainables.runtime.distributed import all_gather, average_gradients, rank, world_size

# A batch of this size stays in the CPU cache: small_cnn evaluates 12,000 images of 28x28 pixels per
# second and core, but only 6,500 in batches of 1,024.
_CPU_EVAL_BATCH = 128


class DivergedError(RuntimeError):
    """The loss or the validation logits are not finite."""


class Trainer:
    """Trains one classifier with one loss.

    Under ``torch.distributed``, every worker has a Trainer for the same dataset. A global batch is
    split over the workers, so the result does not depend on their number. The weights of ``model``
    are initialised; ``seed`` is that of shuffling, augmentation and dropout.
    """

    def __init__(
        self,
        model: Classifier,
        loss: CalibrationLoss,
        dataset: Dataset,
        config: TrainingConfig,
        seed: int,
        device: torch.device,
    ) -> None:
        self._memory_format = _memory_format(model)
        self.model: Classifier = model.to(  # type: ignore[call-overload]
            device, memory_format=self._memory_format
        )
        loss.on_features(model.head.in_features)
        self.loss = loss.to(device)
        self.model.head.requires_grad_(loss.trains_classifier)
        self.dataset = dataset
        self.config = config
        self.seed = seed
        self.device = device
        self.epoch = 0
        self._val_nll: list[float] = []  # after each epoch, if the schedule needs it
        self._eval_batch_size = config.eval_batch_size
        if device.type == "cpu":
            self._eval_batch_size = min(self._eval_batch_size, _CPU_EVAL_BATCH)
        self.loss.on_train_begin(len(dataset.train.labels))
        self._feeds: dict[int, Feed] = {}
        self._drawn: dict[int, Tensor | None] = {}
        self._weights = Weights(config.class_weights, dataset, device)
        self.optimizer = make_optimizer(self.model, self.loss, config)
        self._parallel = self._wrap_for_workers()
        self._steps_per_epoch = math.ceil(len(dataset.train.labels) / config.batch_size)
        check_shares(len(dataset.train.labels), config.batch_size, world_size())
        augmentation = config.augmentation or dataset.samples.augmentation
        self._batches = TrainingBatches(
            self._feed(dataset.train), dataset.samples, self.loss, augmentation
        )
        # Of augmentation and mixing: each worker draws for the whole batch and uses its share.
        self._generator = torch.Generator(device)
        self._captured: CapturedSteps | None = None
        if device.type == "cuda" and config.cuda_graphs and world_size() == 1:
            modules = (self.model, self.loss)
            self._captured = CapturedSteps(self._train_step, modules, self._generator, device)

    def train_epoch(self) -> dict[str, float]:
        """Trains for one epoch. The caller then evaluates and calls :meth:`adapt_loss`.

        ``train_loss`` is the mean over samples, ``lr`` the learning rate of the last step. Raises
        ``DivergedError`` if the loss is not finite.
        """
        self._parallel.train()
        self.loss.train()
        self._seed_epoch()
        total = torch.zeros((), device=self.device)
        factor = 1.0
        steps = nullcontext(self._train_step) if self._captured is None else self._captured.epoch()
        with steps as train:
            for step, (batch, size) in enumerate(self._batches.read(self._order())):
                done = self.epoch + step / self._steps_per_epoch
                factor = learning_rate_factor(self.config, done, self._val_nll)
                set_learning_rates(self.optimizer, factor)
                total += train(batch, size) * size
        self.loss.on_epoch_end()
        self.epoch += 1
        # Batch statistics: all workers evaluate the same network.
        for buffer in self.model.buffers() if world_size() > 1 else ():
            torch.distributed.broadcast(buffer, 0)
        train_loss = total.item() / len(self.dataset.train.labels)
        if not math.isfinite(train_loss):
            raise DivergedError(f"diverged: training loss is {train_loss} in epoch {self.epoch}")
        return {"train_loss": train_loss, "lr": self.config.lr * factor}

    def adapt_loss(self, val_logits: Tensor, val_labels: Tensor) -> None:
        """Pass logits (N, K) and labels (N,) of the validation split to loss and schedule.

        Call it after each epoch.
        """
        if self.config.schedule == "plateau":
            self._val_nll.append(nn.functional.cross_entropy(val_logits, val_labels).item())
        with torch.no_grad():
            self.loss.on_validation_end(val_logits.to(self.device), val_labels.to(self.device))

    def predict(self, split: Split) -> tuple[Tensor, Tensor]:
        """Logits (N, outputs) float32 and labels (N, ...) int64 of a split, in order, on the CPU.

        They are the same on every worker. For segmentation, they are those of the evaluated pixels,
        (N, K, P) and (N, P). Raises ``DivergedError`` if a logit is not finite.
        """
        places = self._places(split)
        logits = self._infer(split, "logits", places)
        labels = torch.from_numpy(np.array(split.labels))
        return logits, labels if places is None else labels.flatten(1).gather(1, places).long()

    def features(self, split: Split) -> Tensor:
        """Inputs (N, D) float32 of the head for a split; otherwise like :meth:`predict`."""
        return self._infer(split, "features")

    def state_dict(self) -> dict[str, object]:
        """The state after the completed epochs, from which training can resume."""
        return {
            "epoch": self.epoch,
            "seed": self.seed,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "loss": self.loss.state_dict(),
            "val_nll": list(self._val_nll),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that :meth:`state_dict` returned."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        place_learning_rates(self.optimizer)
        self.loss.load_state_dict(state["loss"])
        self.epoch = state["epoch"]
        self._val_nll = list(state.get("val_nll", []))  # absent from older checkpoints

    # Always in float32: bfloat16 rounds confidences, which changes calibration errors by as much as
    # good losses differ.
    @torch.no_grad()
    def _infer(
        self, split: Split, what: Literal["logits", "features"], places: Tensor | None = None
    ) -> Tensor:
        self.model.eval()
        mine = np.array_split(np.arange(len(split.labels)), world_size())[rank()]
        width = {"logits": self.model.head.out_features, "features": self.model.head.in_features}
        # One tensor, because many small ones would fragment the memory.
        shape = (width[what],) if places is None else (width[what], places.shape[1])
        places = None if places is None else places.to(self.device)
        found = torch.empty(len(mine), *shape, device=self.device)
        while not self._fills(found, split, mine, what, places):
            self._eval_batch_size = math.ceil(self._eval_batch_size / 2)
            release_memory(self.device)
        values = all_gather(found).cpu()
        if not torch.isfinite(values).all():
            raise DivergedError(f"diverged: {what} are not finite after epoch {self.epoch}")
        return values

    def _fills(
        self,
        found: Tensor,
        split: Split,
        mine: np.ndarray,
        what: Literal["logits", "features"],
        places: Tensor | None,
    ) -> bool:
        """Write the rows ``mine`` of a split into ``found``; False if memory does not suffice."""
        size = self._eval_batch_size
        rows = [mine[start : start + size] for start in range(0, len(mine), size)]
        parts = torch.split(found, [len(numbers) for numbers in rows])
        try:
            batches = zip(parts, self._feed(split).batches(rows), strict=True)
            with folded(self.model), exact_arithmetic():
                for part, (stored, _, numbers) in batches:
                    inputs = self._laid_out(self.dataset.samples.prepare(stored))
                    logits, features = self.model(inputs, return_features=True)
                    if places is not None:
                        logits = at_places(logits, places[numbers])
                    part.copy_(logits if what == "logits" else features)
        except Exception as error:
            if size > 1 and is_out_of_memory(error):
                return False
            raise
        return True

    def _wrap_for_workers(self) -> nn.Module:
        if world_size() == 1:
            return self.model
        from torch.nn.parallel import DistributedDataParallel

        unused = self._has_unused_parameters()
        if self.config.sync_batch_norm:
            synchronised(self.model, self.device)
        return DistributedDataParallel(self.model, find_unused_parameters=unused)

    def _has_unused_parameters(self) -> bool:
        """Whether a pass in evaluation mode gives some parameter no gradient.

        Encoders of Hugging Face often have such. ``DistributedDataParallel`` can look for them at
        each step, which takes time, and fails at the second step if it does not.
        """
        rows = torch.from_numpy(self.dataset.train.rows(slice(2))).to(self.device)
        trained = [each for each in self.model.parameters() if each.requires_grad]
        logits, features = self.model.eval()(
            self._laid_out(self.dataset.samples.prepare(rows)), return_features=True
        )
        found = torch.autograd.grad(logits.sum() + features.sum(), trained, allow_unused=True)
        return any(gradient is None for gradient in found)

    def _seed_epoch(self) -> None:
        """Seed all generators of training."""
        torch.manual_seed(_mix(self.seed, self.epoch, rank()))
        self._generator.manual_seed(_mix(self.seed, self.epoch))

    def _order(self) -> list[np.ndarray]:
        """The rows of each batch of an epoch, in an order determined by seed and epoch."""
        draw = np.random.default_rng([self.seed, self.epoch])
        rows = draw.permutation(len(self.dataset.train.labels))
        return np.array_split(rows, self._steps_per_epoch)

    def _train_step(self, given: Batch, size: int) -> Tensor:
        """Train on this worker's part of a batch; the mean loss of the whole batch."""
        inputs, targets, rows = self._batches.prepare(given, size, self._generator)
        with autocast(self.device, self.config.precision):
            logits, features = self._parallel(self._laid_out(inputs), return_features=True)
        task = self.dataset.task
        rows = task.samples_of(rows, targets)
        logits, targets = task.decisions_of(logits, targets)
        logits, targets = self._weights.applied(logits, targets, rows)
        features = features if self.loss.needs_features else None
        value: Tensor = self.loss(logits, targets, indices=rows, features=features)
        self.optimizer.zero_grad(set_to_none=True)
        value.backward()  # type: ignore[no-untyped-call]
        average_gradients(self.loss.parameters())
        if self.config.clip_grad_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_grad_norm)
        self.optimizer.step()
        self.loss.on_step_end()
        return value.detach()

    def _feed(self, split: Split) -> Feed:
        """The feed of a split; any other split than those of the dataset is predicted once."""
        if not self._is_ours(split):
            return Feed(split, self.device, resident=0)
        if id(split) not in self._feeds:
            self._feeds[id(split)] = Feed(split, self.device)
        return self._feeds[id(split)]

    def _is_ours(self, split: Split) -> bool:
        data = self.dataset
        return any(split is each for each in (data.train, data.validation, data.test))

    def _laid_out(self, inputs: Tensor) -> Tensor:
        if inputs.dim() != 4:
            return inputs
        return inputs.contiguous(memory_format=self._memory_format)

    def _places(self, split: Split) -> Tensor | None:
        """The evaluated decisions of each sample; drawn once for splits of the dataset."""
        if id(split) in self._drawn:
            return self._drawn[id(split)]
        drawn = self.dataset.task.drawn(split.labels)
        places = None if drawn is None else torch.from_numpy(drawn)
        if self._is_ours(split):
            self._drawn[id(split)] = places
        return places


def _memory_format(model: nn.Module) -> torch.memory_format:
    """The memory layout of images: channels last, the fastest, for models with convolutions."""
    dimensions = {p.dim() for p in model.parameters()}
    fits = 4 in dimensions and 5 not in dimensions  # volumes have a different layout
    return torch.channels_last if fits else torch.contiguous_format


def _mix(*numbers: int) -> int:
    """A 63-bit seed derived from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
