"""A dataset: three splits in plain numpy arrays, with their description."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from trainables.data.core.samples import Samples
from trainables.data.core.tasks import OneClass, Task
from trainables.data.core.types import Inputs, Labels, Stored, Streamed
from trainables.files.storage import digest_of, new_digest

_OPTIONAL: Final = {"soft": (np.float32, 2), "weights": (np.float32, 1), "groups": (np.int64, 1)}
"""Dtype and number of axes of what a split may have."""


@dataclass(frozen=True)
class Targets:
    """The targets of N samples.

    ``labels`` are (N,) int64 from 0; (N, L) of 0 and 1 for multi-label data; or masks (N, H, W)
    uint8 with the class of each pixel, 255 for ignored pixels. ``soft`` has class probabilities
    (N, K) from which they are drawn; None if labels are certain. ``weights`` are sample weights for
    training (N,); None for equal weights. ``groups`` (N,) int64 are equal for samples of one group,
    such as a patient; None if samples are independent.
    """

    labels: npt.NDArray[Any]
    soft: npt.NDArray[np.float32] | None = None
    weights: npt.NDArray[np.float32] | None = None
    groups: npt.NDArray[np.int64] | None = None

    def __getitem__(self, rows: npt.NDArray[np.intp]) -> "Targets":
        given = {name: each for name, each in vars(self).items() if each is not None}
        return Targets(**{name: each[rows] for name, each in given.items()})


@dataclass(frozen=True)
class Split:
    """Samples and their targets (see :class:`Targets`).

    All arrays are read-only, because trials share them. Processes share them without copies (pickle
    protocol 5, out-of-band buffers). Images that do not fit into memory stay encoded on disk.

    Attributes:
        inputs: (N, ...), C-contiguous, in the dtype and shape of the kind of sample; or an object
            that is read like such an array. :meth:`rows` reads both.

    Raises:
        TypeError: A value is not an array, or has another dtype.
        ValueError: Shapes do not match, or there are no samples.
    """

    inputs: Stored
    labels: npt.NDArray[Any]
    soft: npt.NDArray[np.float32] | None = None
    weights: npt.NDArray[np.float32] | None = None
    groups: npt.NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.inputs, np.ndarray | Streamed):
            raise TypeError(f"inputs must be a numpy array, not {type(self.inputs).__name__}")
        if not isinstance(self.labels, np.ndarray) or not _are_labels(self.labels):
            found = getattr(self.labels, "dtype", type(self.labels).__name__)
            raise TypeError(f"labels must be a numpy array of int64, not {found}")
        if self.inputs.ndim < 2 or self.labels.shape[:1] != self.inputs.shape[:1]:
            raise ValueError(
                "inputs must be (N, ...) and labels (N,), "
                f"not {self.inputs.shape} and {self.labels.shape}"
            )
        if self.inputs.size == 0:
            raise ValueError(f"a split needs samples; inputs have shape {self.inputs.shape}")
        for name, (dtype, axes) in _OPTIONAL.items():
            self._check_optional(name, dtype, axes)
        for name, array in vars(self).items():
            if isinstance(array, np.ndarray):
                view = np.ascontiguousarray(array).view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def targets(self) -> npt.NDArray[Any]:
        """The targets of a loss: class probabilities (N, K) if there are any, else labels (N,)."""
        return self.labels if self.soft is None else self.soft

    @property
    def is_streamed(self) -> bool:
        """Whether the samples stay on disk."""
        return not isinstance(self.inputs, np.ndarray)

    def rows(self, numbers: npt.NDArray[np.integer[Any]] | slice) -> Inputs:
        """A copy of some of the samples, (n, ...)."""
        some = self.inputs[numbers]
        if not isinstance(some, np.ndarray):
            return some.read()
        return some.copy() if isinstance(numbers, slice) else some

    def first(self, count: int) -> "Split":
        """The first samples, at most ``count``, in memory."""
        rows = np.arange(min(count, len(self)))
        of = Targets(self.labels, self.soft, self.weights, self.groups)[rows]
        return Split(self.rows(rows), **vars(of))

    @property
    def num_groups(self) -> int | None:
        """The number of groups; None if samples are independent."""
        return None if self.groups is None else len(np.unique(self.groups))

    def _check_optional(self, name: str, dtype: Any, axes: int) -> None:
        if (array := getattr(self, name)) is None:
            return
        if not isinstance(array, np.ndarray) or array.dtype != dtype:
            found = getattr(array, "dtype", type(array).__name__)
            raise TypeError(f"{name} must be a numpy array of {dtype.__name__}, not {found}")
        if array.ndim != axes or len(array) != len(self.labels):
            shape = "(N, K)" if axes == 2 else "(N,)"
            raise ValueError(
                f"{name} must be {shape} of {len(self.labels)} samples, not of shape {array.shape}"
            )


EvaluationKind = Literal["shift", "ood"]


@dataclass(frozen=True)
class EvaluationSet:
    """Data besides the test split that a finished classifier is evaluated on.

    ``kind`` is ``shift``, or ``ood``, whose labels are ignored; ``severity`` that of the shift, if
    known.
    """

    kind: EvaluationKind
    name: str
    severity: int | None
    split: Split


@dataclass(frozen=True)
class Dataset:
    """A dataset that is ready for training.

    Attributes:
        name: Name in the sweep file.
        validation: Split for all selection: hyperparameters, epochs, temperature.
        test: Split for the final evaluation only.
        classes: Class names; the label is the index.
        notes: Notes about skipped samples, one per part; the first line has the number.
        remarks: Sentences about how the data were read, and what is unusual about them.
        copies: Of ``validation`` and ``test``, for each sample (N,) the number of its content if a
            training sample equals it, else -1; None if unknown.

    Raises:
        TypeError: A split has a different kind of sample.
        ValueError: The splits do not match each other, the classes or the kind of sample.
    """

    name: str
    train: Split
    validation: Split
    test: Split
    classes: tuple[str, ...]
    samples: Samples
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    evaluation_sets: tuple[EvaluationSet, ...] = ()
    task: Task = field(default_factory=OneClass)
    copies: Mapping[str, Labels] | None = None

    def __post_init__(self) -> None:
        for name in ("train", "validation", "test"):
            split = getattr(self, name)
            try:
                self.samples.check(split.inputs)
                self.task.check(split.labels, self.samples)
            except (TypeError, ValueError) as error:
                raise type(error)(f"dataset {self.name!r}: {name}: {error}") from None
            occurring = self.task.occurring(split.labels)
            low, high = occurring.min(), occurring.max()
            if not 0 <= low <= high < self.num_classes:
                raise ValueError(
                    f"dataset {self.name!r}: {name} labels run from {low} to {high}; "
                    f"{self.num_classes} classes allow 0 to {self.num_classes - 1}"
                )
            if split.soft is not None and split.soft.shape[1] != self.num_classes:
                raise ValueError(
                    f"dataset {self.name!r}: {name} has probabilities of {split.soft.shape[1]} "
                    f"classes; there are {self.num_classes}"
                )

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    @property
    def num_outputs(self) -> int:
        """The number of logits per sample."""
        return self.task.num_outputs(self.num_classes)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample as input of the model."""
        return self.samples.shape

    def digest(self) -> str:
        """A digest of all inputs and targets in order, which identifies the data."""
        return _digest_of(self.train, self.validation, self.test)

    def test_digest(self) -> str:
        """A digest of the test split alone."""
        return _digest_of(self.test)


def _digest_of(*splits: Split) -> str:
    digest = new_digest()
    for split in splits:
        digest.update(repr(split.inputs.shape).encode())
        if isinstance(split.inputs, np.ndarray):
            digest.update(split.inputs.data)
        else:
            for image in split.inputs.each():
                digest.update(image.data)
        digest.update(split.labels.data)
        for more in (split.soft, split.weights):
            if more is not None:
                digest.update(more.data)
    return digest.hexdigest()


@dataclass(frozen=True)
class OwnData:
    """Data with ``num_classes`` classes that a custom training loop loads itself."""

    name: str
    num_classes: int
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def task(self) -> Task:
        return OneClass()

    @property
    def classes(self) -> tuple[str, ...]:
        """Class numbers, as names are unknown."""
        return tuple(str(k) for k in range(self.num_classes))

    def digest(self) -> str:
        """A digest of the name and the number of classes, because the data are unknown."""
        return digest_of(repr((self.name, self.num_classes)).encode())

    def test_digest(self) -> str:
        """Data with the same name are assumed to have one test split."""
        return self.digest()


Data: TypeAlias = Dataset | OwnData


def _are_labels(labels: npt.NDArray[Any]) -> bool:
    return labels.dtype == np.int64 or (labels.dtype == np.uint8 and labels.ndim == 3)
