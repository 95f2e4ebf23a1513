"""A custom training loop: its argument, and how it reports epochs.

The loop is a function that trains to the end and reports each epoch with a call. A trial has to
advance one epoch at a time, so the function runs in a thread and blocks in that call.
"""

import math
import posixpath
import queue
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import torch
from torch import Tensor

from trainables.contract.messages import COSTS, TrialConfig
from trainables.data.core.base import Data, Dataset, OwnData, Split
from trainables.engine.training import DivergedError
from trainables.losses import CalibrationLoss
from trainables.metrics._inputs import check_logits, look_like_probabilities
from trainables.models.vectors import Vectors
from trainables.plugins.arguments import check_integer
from trainables.plugins.components import Catalogue, check_options
from trainables.plugins.saved_objects import is_kept
from trainables.runtime.distributed import rank, world_size

CATALOGUE: Final = Catalogue(kind="trainable", group="calsweep.trainables", ours={})
_GIVEN: Final = ("trial",)
_SECONDS_TO_END: Final = 60.0
_OUR_PREFIXES: Final = ("val_", "test_", "shift_", "ood_")
_METRIC_NAME: Final = re.compile(r"[\w: -][\w: ./-]{0,249}")  # what MLflow takes

Predicted: TypeAlias = tuple[Any, Any]
"""Logits (N, K) and labels (N,), tensors or arrays."""


def trainable_function(name: str) -> Callable[..., object]:
    """The function at ``package.module:function``; ``ValueError`` if there is none."""
    if ":" not in name and not is_kept(name) and name not in CATALOGUE.names():
        raise ValueError(
            f"trainable {name!r} is not a path; allowed: package.module:function, of a function "
            "that trains one trial"
        )
    return CATALOGUE.find(name)  # type: ignore[no-any-return]


def check_trainable(name: str, **options: Any) -> None:
    """Raises ``ValueError`` unless the function exists and accepts a trial and these options."""
    check_options(f"trainable {name!r}", trainable_function(name), options, _GIVEN)


class TrialStopped(BaseException):
    """Raised by :meth:`Trial.report` when a trial is stopped early.

    It is not an ``Exception``, so ``except Exception`` does not catch it. As after Ctrl-C, ``with``
    blocks and ``finally`` clauses run.
    """


@dataclass(frozen=True)
class Reported:
    """An epoch as reported by the loop, with its number from 1.

    ``validation`` and ``test`` are logits (N, K) float32 and labels (N,) int64, on the CPU;
    ``test`` is None if the trial does not need it. ``metrics`` are the other numbers.
    """

    epoch: int
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor] | None
    metrics: dict[str, float]


@dataclass(frozen=True)
class Host:
    """What a :class:`Trial` needs of the process that runs it.

    ``needs_test`` says whether an epoch needs predictions of the test split; ``adapts`` selects the
    part of logits and labels that a loss adapts to; ``epochs_known`` of the ``epochs`` were
    reported before.
    """

    report: Callable[[Reported], None]
    needs_test: Callable[[int], bool]
    adapts: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
    epochs: int
    epochs_known: int
    folder: Path
    device: torch.device


class Trial:
    """One trial; the argument of a custom training loop.

    Attributes:
        loss: The loss to train with, on :attr:`device`: ``loss(logits, targets)`` is the mean over
            the batch. Save its ``state_dict()`` in your checkpoints: it contains learned parameters
            and counters.
        loss_name: Name of the loss.
        hyperparameters: Hyperparameters of the loss.
        seed: Seed of the trial; ``torch.manual_seed`` has been called with it.
        epochs: Number of epochs to train and report.
        data: The dataset of the sweep, three splits of arrays; None if the loop loads its own data
            (``dataset: {name: own, num_classes: 10, title: birds}``).
        num_classes: Number K of classes.
        folder: A folder for this trial only, shared by its workers. Its files are still there when
            the trial resumes, also after a crash.
        device: The device to train on.
        rank: Rank of this worker, from 0.
        num_workers: Number of workers that train this trial together, in a ``torch.distributed``
            process group if there are several.
    """

    def __init__(self, config: TrialConfig, data: Data, loss: CalibrationLoss, host: Host) -> None:
        self.loss, self.loss_name = loss, config.setting.loss
        self.hyperparameters = dict(config.setting.hyperparameters)
        self.seed, self.epochs = config.seed, host.epochs
        self.data = None if isinstance(data, OwnData) else data
        self.num_classes = data.num_classes
        self.folder, self.device = host.folder, host.device
        self.rank, self.num_workers = rank(), world_size()
        self._host = host
        self._last: int | None = None
        self._uncalled = _watched_hooks(self.loss)
        self._parameters_before = [each.detach().clone() for each in self.loss.parameters()]

    def tensors(self, split: Literal["train", "validation", "test"]) -> tuple[Tensor, Tensor]:
        """Inputs (N, ...) and labels (N,) int64 of a whole split on the CPU, normalised.

        Raises:
            ValueError: The sweep has no dataset, or a streamed one.
        """
        data = self._dataset
        part: Split = getattr(data, split)
        if part.is_streamed:
            raise ValueError(
                "the data are streamed, as they may not fit into memory: read batches by "
                f"trial.data.{split}.rows(numbers), or set dataset.storage to memory"
            )
        inputs = data.samples.prepare(torch.from_numpy(part.rows(slice(None))))
        return inputs, torch.from_numpy(part.labels.copy())

    def vectors(self) -> Vectors:
        """A first layer that maps the inputs of :meth:`tensors` to vectors (N, ``layer.size``).

        Categories of a table become one-hot; all other inputs are flattened.

        Raises:
            ValueError: The sweep has no dataset.
        """
        return Vectors(self._dataset.samples)

    @property
    def _dataset(self) -> Dataset:
        if self.data is None:
            raise ValueError("the sweep names no dataset: the loop reads its own")
        return self.data

    def report(
        self,
        epoch: int,
        *,
        validation: Predicted,
        test: Predicted | Callable[[], Predicted],
        **metrics: float,
    ) -> None:
        """Report the results of an epoch. Call it after each epoch, then save your checkpoint.

        Metrics, temperature scaling, early stopping and selection use these results. The call
        notifies the loss of the end of the epoch (``on_epoch_end``, ``on_validation_end``). With
        several workers, each must call it with the whole splits; the results of the first are used.

        Args:
            epoch: Number of the epoch, from 1. After an interruption, continue from the checkpoint
                in :attr:`folder`; you may report an epoch again.
            validation: Logits (N, K) and labels (N,) of the validation split, tensors or arrays.
                All trials must use the same samples in the same order; if :attr:`data` is given,
                those of its split.
            test: Logits and labels of the test split, or a function that returns them. The function
                is called only after epochs at which the trial may end.
            **metrics: Other numbers to record, such as ``train_loss=0.3``, under names that MLflow
                takes: no ``@``, ``(`` or ``%``. Names of calsweep's own metrics, such as
                ``val_loss``, are recorded as ``own_val_loss``.

        Raises:
            TrialStopped: The trial is stopped; do not catch it.
            ValueError: An argument is not as above; the message says what is expected.
            DivergedError: A number is not finite.
        """
        self._check_turn(epoch)
        if self._trains_parameters_itself():
            self._uncalled.discard("parameter_groups")
        if self._uncalled:
            calls = (f"trial.loss.{name}()" for name in sorted(self._uncalled))
            raise ValueError(
                f"the loss {self.loss_name} needs the training loop to call "
                f"{', '.join(calls)}; see "
                "the hooks in docs/own_losses.md, or take it off the sweep's losses"
            )
        kept = {
            _recorded_name(name): _finite(name, value, epoch) for name, value in metrics.items()
        }
        given = self._checked("validation", validation, epoch)
        tested = None
        if self._host.needs_test(epoch):
            tested = self._checked("test", test() if callable(test) else test, epoch)
        self._last = epoch
        # Lightning's hooks run in inference mode, in which autograd and later training would fail.
        with torch.inference_mode(False), torch.no_grad():
            self.loss.on_epoch_end()
            logits, labels = self._host.adapts(*given)
            self.loss.on_validation_end(logits.to(self.device), labels.to(self.device))
        if epoch > self._host.epochs_known:
            self._host.report(Reported(epoch, given, tested, kept))

    def _trains_parameters_itself(self) -> bool:
        """Whether the loop passes ``loss.parameters()`` to its optimiser."""
        if _overrides(self.loss, "parameter_groups"):  # then parameters() does not suffice
            return False
        pairs = zip(self._parameters_before, self.loss.parameters(), strict=False)
        return any(not torch.equal(before, each) for before, each in pairs)

    def _check_turn(self, epoch: int) -> None:
        check_integer("epoch", epoch, low=1)
        if epoch > self.epochs:
            raise ValueError(f"epoch {epoch} is reported; the trial has trial.epochs={self.epochs}")
        known = self._host.epochs_known
        if self._last is None and epoch > known + 1:
            raise ValueError(
                f"epoch {epoch} is reported, and of this trial epochs up to {known} "
                "are known; report each epoch, and save its checkpoint after that"
            )
        if self._last is not None and epoch != self._last + 1:
            raise ValueError(
                f"epoch {epoch} is reported after epoch {self._last}; report each epoch, in order"
            )

    def _checked(self, split: str, predicted: Predicted, epoch: int) -> tuple[Tensor, Tensor]:
        if not isinstance(predicted, tuple) or len(predicted) != 2:
            raise ValueError(
                f"{split} is a {type(predicted).__name__}; allowed: logits and labels, a tuple"
            )
        logits, given = map(_on_cpu, predicted)
        if logits.dim() != 2 or logits.shape[1] != self.num_classes:
            raise ValueError(
                f"{split}: logits must have shape (N, {self.num_classes}), got "
                f"{tuple(logits.shape)}"
            )
        if not torch.isfinite(logits).all():
            raise DivergedError(f"diverged: {split} logits are not finite after epoch {epoch}")
        try:
            scores, labels = check_logits(logits.float(), given, probabilities_as_logits=True)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{split}: {error}") from None
        if logits.is_floating_point() and look_like_probabilities(logits):
            raise ValueError(
                f"{split}: these are probabilities, as each row is in [0, 1] and sums to one; "
                "report logits (the model's output before softmax), or the logarithm of the "
                "probabilities"
            )
        if self.data is not None:
            expected = torch.from_numpy(getattr(self.data, split).labels.copy())
            if not torch.equal(labels, expected):
                raise ValueError(
                    f"{split}: the labels are not those of the {split} split in its order "
                    f"({len(labels)} are given, it has {len(expected)}); predict the samples of "
                    f"trial.data.{split} as they come, without shuffling"
                )
        return scores, labels


class Loop:
    """Runs ``function`` in a thread, one epoch at a time; its argument reports an epoch."""

    def __init__(self, function: Callable[[Callable[[Reported], None]], object]) -> None:
        self._function = function
        self._handed: queue.SimpleQueue[Reported | None] = queue.SimpleQueue()
        self._continue = threading.Semaphore(0)
        self._closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="own-loop", daemon=True)

    def next(self) -> Reported | None:
        """The next epoch; None if the function has returned. Raises its exception."""
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._continue.release()
        return self._result(self._handed.get())

    def finish(self) -> None:
        """Waits until the function returns after the last epoch. Raises its exception."""
        self._continue.release()
        self._result(self._handed.get())

    def close(self) -> None:
        """Stop the blocked function with :class:`TrialStopped`."""
        self._closed = True
        self._continue.release()
        if self._thread.is_alive():
            self._thread.join(_SECONDS_TO_END)

    def _result(self, handed: Reported | None) -> Reported | None:
        if handed is None:
            self._thread.join()
            error, self._error = self._error, None
            if isinstance(error, Exception):
                raise error
            if error is not None:  # for example sys.exit(), which must not end this process
                raise RuntimeError(f"{type(error).__name__}: {error}") from error
        return handed

    def _run(self) -> None:
        try:
            self._function(self._hand_over)
        except TrialStopped:
            pass
        except BaseException as error:
            self._error = error
        self._handed.put(None)

    def _hand_over(self, reported: Reported) -> None:
        if self._closed:
            raise TrialStopped
        self._handed.put(reported)
        self._continue.acquire()
        if self._closed:
            raise TrialStopped


def _watched_hooks(loss: CalibrationLoss) -> set[str]:
    """The hooks of a loss that the loop must still call; calling a hook removes it."""
    uncalled: set[str] = set()
    hooks = ("on_features", "on_train_begin", "prepare_batch", "on_step_end", "parameter_groups")
    for name in hooks:
        learns = name == "parameter_groups" and bool(loss.parameter_groups())
        if learns or _overrides(loss, name):
            uncalled.add(name)
            setattr(loss, name, _watched(getattr(loss, name), name, uncalled))
    return uncalled


def _overrides(loss: CalibrationLoss, hook: str) -> bool:
    return getattr(type(loss), hook) is not getattr(CalibrationLoss, hook)


def _watched(hook: Callable[..., Any], name: str, uncalled: set[str]) -> Callable[..., Any]:
    @wraps(hook)
    def called(*arguments: Any, **options: Any) -> Any:
        uncalled.discard(name)
        return hook(*arguments, **options)

    return called


def _on_cpu(values: Any) -> Tensor:
    """A tensor or array on the CPU, usable outside inference mode too."""
    with torch.inference_mode(False):
        tensor = torch.as_tensor(values).detach().cpu()
        return tensor.clone() if tensor.is_inference() else tensor


def _recorded_name(name: str) -> str:
    """The name under which a number is recorded: another one than a metric of calsweep has."""
    ours = name in (*COSTS, "temperature", "epoch") or name.startswith(_OUR_PREFIXES)
    return f"own_{name}" if ours else name


def _finite(name: str, value: Any, epoch: int) -> float:
    if not _METRIC_NAME.fullmatch(name) or posixpath.normpath(name) != name:
        raise ValueError(
            f"the metric name {name!r} is not allowed, because MLflow refuses it; allowed: at most "
            "250 letters, digits, '_', '-', ':' and spaces, and between them '.' and '/', as in a "
            "path"
        )
    number = float(value)
    if not math.isfinite(number):
        raise DivergedError(f"diverged: {name} is {number} in epoch {epoch}")
    return number
