"""The interface of all train-time losses."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor, nn

from trainables.plugins.arguments import Range, check_in, check_integer
from trainables.runtime.distributed import all_gather, global_mean, world_size

Extra: TypeAlias = Tensor | None
"""What some losses need besides logits and targets; others ignore it."""

Augment: TypeAlias = Callable[[Tensor], Tensor]

_LOW_PRECISION = (torch.float16, torch.bfloat16)


@dataclass(eq=False, repr=False)
class CalibrationLoss(nn.Module):
    """Base class of train-time losses; subclasses define :meth:`compute`.

    Hyperparameters are keyword arguments of the subclass's constructor, with defaults. A subclass
    that is a dataclass declares one as ``gamma: Annotated[float, Range(0, 100)] = 3.0``. Values
    and gradients are finite for all finite logits, also where a probability is exactly 0 or 1.

    Formulas use z for the logits, p = softmax(z) for the probabilities and y for the true class of
    one of N samples with K classes. The loss of a batch is the mean over its samples.

    Under ``torch.distributed``, every worker passes its share of the global batch, which must not
    be empty, and gets the loss of the global batch, the same number on every worker. The mean of
    the gradients over workers, which ``DistributedDataParallel`` computes, is the gradient of the
    global loss, even if the shares differ in size.

    A loss works under ``torch.compile(fullgraph=True)``, where a class out of range is a
    ``RuntimeError``, and under ``torch.vmap``, where classes are not checked.

    Args:
        num_classes: Number K of classes, at least 2.

    Attributes:
        source: Paper and equation.
        formula: The loss of a sample or a batch, in one line.
        bounds: Allowed range of each numeric hyperparameter; those of annotations are added.
        needs_features: Whether :meth:`forward` needs ``features``.
        trains_classifier: Whether the gradient reaches the classifier, not just the encoder.
        looks_across_batch: Whether the loss of a sample depends on the rest of the batch. Workers
            then exchange their logits, and :meth:`compute` sees the global batch.
        mixes_inputs: Whether the loss trains on mixtures of two samples.
        soft_targets: Whether targets may be class probabilities, (N, K). The loss is then the
            expectation over the label.
        several_labels: Whether the loss supports multi-label data, where each label is a binary
            problem with the logits 0 and z.
        each_pixel: Whether the loss supports segmentation, where each pixel is a sample. Its time
            must then grow at most linearly with the number of samples.
        views: Number of inputs that :meth:`prepare_batch` makes from each sample; used to estimate
            memory.
    """

    num_classes: int

    source: ClassVar[str] = ""
    formula: ClassVar[str] = ""
    bounds: ClassVar[Mapping[str, Range]] = {}
    needs_features: ClassVar[bool] = False
    trains_classifier: ClassVar[bool] = True
    looks_across_batch: ClassVar[bool] = True
    mixes_inputs: ClassVar[bool] = False
    views: ClassVar[int] = 1
    soft_targets: ClassVar[bool] = False
    several_labels: ClassVar[bool] = False
    each_pixel: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        try:
            own = inspect.get_annotations(cls, eval_str=True)
        except NameError:  # of a name that only type checkers import
            own = inspect.get_annotations(cls)
        annotated = {k: h.__metadata__[0] for k, h in own.items() if hasattr(h, "__metadata__")}
        if annotated:
            cls.bounds = {**cls.bounds, **annotated}

    def __post_init__(self) -> None:
        super().__init__()  # keeps the values that are set
        self.num_classes = check_integer("num_classes", self.num_classes, low=2)
        for field in fields(self):
            if field.name in self.bounds:
                value = getattr(self, field.name)
                setattr(self, field.name, self.check(field.name, value))

    def forward(
        self, logits: Tensor, targets: Tensor, *, indices: Extra = None, features: Extra = None
    ) -> Tensor:
        """Returns the loss of a batch, the mean over samples.

        Float16 and bfloat16 inputs are computed in float32, also under autocast. Float64 inputs
        are computed in float64.

        Args:
            logits: (N, K), floating point, not normalised.
            targets: (N,) int64 in [0, K). With ``soft_targets`` also (N, K) floating point, each
                row summing to 1.
            indices: (N,) int64, position of each sample in the training split. Only losses that
                keep state per sample read it.
            features: (N, D), floating point, the inputs of the classifier's last layer. Only losses
                with ``needs_features`` read it.

        Returns:
            Scalar of the logits' dtype, but at least float32.

        Raises:
            ValueError: A shape is wrong, a class is out of range (checked on the CPU only), a
                required argument is missing, or :meth:`compute` returned a value that is not a
                scalar or has no gradient.
            TypeError: A dtype is wrong, or :meth:`compute` did not return a tensor.
        """
        self._check(logits, targets, indices, features)
        if logits.dtype in _LOW_PRECISION:
            logits = logits.float()
        if features is not None and features.dtype in _LOW_PRECISION:
            features = features.float()
        device = logits.device.type
        if torch.is_autocast_enabled(device):
            with torch.autocast(device, enabled=False):
                value = self._global_loss(logits, targets, indices, features)
        else:
            value = self._global_loss(logits, targets, indices, features)
        self._check_value(value, logits)
        return value

    def compute(self, logits: Tensor, targets: Tensor, indices: Extra, features: Extra) -> Tensor:
        """Returns the loss of a checked batch in float32 or float64; see :meth:`forward`."""
        raise NotImplementedError(f"{type(self).__name__} has no method compute")

    def prepare_batch(
        self, inputs: Tensor, targets: Tensor, *, augment: Augment, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Prepares a training batch for the model.

        Args:
            inputs: (N, ...), as loaded.
            targets: (N,) int64, or class probabilities (N, K) if the data have soft labels.
            augment: Random augmentation of a batch; each call draws new random numbers.
            generator: Random generator of the loss, on the inputs' device.

        Returns:
            Inputs (M, ...) for the model and targets of length M for :meth:`forward`. M is N times
            :attr:`views`; the views are stacked along the first axis, one after the other.
        """
        return augment(inputs), targets

    def on_features(self, num_features: int) -> None:
        """Called once with the number D of features, before :meth:`on_train_begin`."""

    def on_train_begin(self, num_samples: int) -> None:
        """Called once with the size of the training split, before the optimiser is created."""

    def on_step_end(self) -> None:
        """Called after each optimiser step."""

    def on_epoch_end(self) -> None:
        """Called after each pass over the training split."""

    def on_validation_end(self, val_logits: Tensor, val_targets: Tensor) -> None:
        """Called after each epoch with the logits (M, K) and labels (M,) of the validation split.

        Every worker passes the whole split, so the state is the same on all workers.
        """

    def multipliers(self) -> Tensor | None:
        """Weights (K,) of the classes that adapt, which a trial records: the buffer ``lam``."""
        return dict(self.named_buffers(recurse=False)).get("lam")

    def parameter_groups(self) -> list[dict[str, object]]:
        """Parameter groups of the loss for the optimiser; by default all parameters in one."""
        trainable = [parameter for parameter in self.parameters() if parameter.requires_grad]
        return [{"params": trainable}] if trainable else []

    def check(self, name: str, value: float) -> float:
        """A hyperparameter as a float; TypeError or ValueError unless it is in :attr:`bounds`."""
        return check_in(name, value, self.bounds[name])

    def _global_loss(
        self, logits: Tensor, targets: Tensor, indices: Extra, features: Extra
    ) -> Tensor:
        if world_size() == 1:
            return self.compute(logits, targets, indices, features)
        if not self.looks_across_batch:
            return global_mean(self.compute(logits, targets, indices, features), len(logits))
        return self.compute(
            all_gather(logits),
            all_gather(targets),
            None if indices is None else all_gather(indices),
            None if features is None else all_gather(features),
        )

    def _check_value(self, value: Any, logits: Tensor) -> None:
        """Checks the result of a custom loss."""
        if not isinstance(value, Tensor):
            raise TypeError(f"the loss must be a tensor, got {type(value).__name__}")
        if value.dim() != 0:
            raise ValueError(
                "the loss must be a scalar, the mean over samples, "
                f"got a tensor of shape {tuple(value.shape)}"
            )
        if logits.requires_grad and torch.is_grad_enabled() and not value.requires_grad:
            raise ValueError(
                "the loss has no gradient; compute it from the logits by torch operations, "
                "without detach(), item() or no_grad()"
            )

    def _check(self, logits: Tensor, targets: Tensor, indices: Extra, features: Extra) -> None:
        shape = logits.shape
        if len(shape) != 2 or shape[1] != self.num_classes or shape[0] == 0:
            raise ValueError(
                f"logits must have shape (N, {self.num_classes}) with N >= 1, got {tuple(shape)}"
            )
        if not logits.is_floating_point():
            raise TypeError(f"logits must be floating point, got {logits.dtype}")
        if targets.dtype == torch.int64:
            self._check_labels(targets, shape[0])
        elif not self.soft_targets or not targets.is_floating_point():
            allowed = "int64 or floating point" if self.soft_targets else "int64"
            raise TypeError(f"targets must be {allowed}, got {targets.dtype}")
        elif targets.shape != shape:
            raise ValueError(
                f"soft targets must have the logits' shape {tuple(shape)}, "
                f"got {tuple(targets.shape)}"
            )
        if indices is not None and (indices.shape != shape[:1] or indices.dtype != torch.int64):
            raise ValueError(
                f"indices must be int64 of shape ({shape[0]},), "
                f"got {indices.dtype} of shape {tuple(indices.shape)}"
            )
        if self.needs_features:
            self._check_features(features, shape[0])

    def _check_labels(self, targets: Tensor, count: int) -> None:
        if targets.shape != (count,):
            raise ValueError(
                f"targets must have shape ({count},), one per row of logits, "
                f"got {tuple(targets.shape)}"
            )
        # On a GPU this check would synchronise; there, the indexing itself fails.
        if targets.device.type != "cpu":
            return
        if torch.compiler.is_compiling():  # part of the graph; a Python number would break it
            inside = ((targets >= 0) & (targets < self.num_classes)).all()
            assert inside, "targets must be classes in [0, K) for K columns of logits"
            return
        try:
            low, high = torch.stack(torch.aminmax(targets)).tolist()
        except RuntimeError:  # torch.vmap lets no values be read
            return
        if low < 0 or high >= self.num_classes:
            outside = low if low < 0 else high
            raise ValueError(f"targets must be classes in [0, {self.num_classes}), got {outside}")

    def _check_features(self, features: Tensor | None, count: int) -> None:
        if features is None:
            raise ValueError(f"{type(self).__name__} needs features=, (N, D)")
        if features.dim() != 2 or len(features) != count or not features.is_floating_point():
            raise ValueError(
                f"features must be floating point of shape ({count}, D), "
                f"got {features.dtype} of shape {tuple(features.shape)}"
            )


class EncoderLoss(CalibrationLoss):
    """Base class of losses that train an encoder alone, by two augmented views of each input."""

    needs_features: ClassVar[bool] = True
    trains_classifier: ClassVar[bool] = False
    views: ClassVar[int] = 2

    def prepare_batch(
        self, inputs: Tensor, targets: Tensor, *, augment: Augment, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Returns two augmented views of each input, (2N, ...), and repeated labels, (2N,)."""
        return torch.cat([augment(inputs), augment(inputs)]), targets.repeat(2)


class PerSampleLoss(CalibrationLoss):
    """Base class of losses with one independent term per sample.

    Subclasses define the formula in :meth:`class_terms`. The loss is the mean over samples; with
    soft targets, each term is the expectation over the label.
    """

    looks_across_batch: ClassVar[bool] = False
    soft_targets: ClassVar[bool] = True
    several_labels: ClassVar[bool] = True
    each_pixel: ClassVar[bool] = True

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        """Returns the loss of each sample for a given label, differentiable: (N, 1), or (N, K).

        Args:
            logits: (N, K), float32 or float64.
            classes: (N, 1) int64, the label of each sample; None for the loss under each of the K
                labels. Pass it to :func:`of_classes`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method class_terms")

    def compute(self, logits: Tensor, targets: Tensor, indices: Extra, features: Extra) -> Tensor:
        if targets.is_floating_point():
            return (self.class_terms(logits, None) * targets.to(logits.dtype)).sum(1).mean()
        return self.class_terms(logits, targets.unsqueeze(1)).mean()


def of_classes(values: Tensor, classes: Tensor | None) -> Tensor:
    """Selects column ``classes`` (N, 1) of each row of ``values`` (N, K); all columns for None."""
    return values if classes is None else values.gather(1, classes)
