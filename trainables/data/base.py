"""What a dataset is: three splits in plain numpy arrays, and what belongs to them."""

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Augmentation = Literal["none", "crop", "crop_flip"]


@dataclass(frozen=True)
class Split:
    """Images, or features that an encoder made of them, and their labels.

    Only numpy arrays, so that a split goes through shared memory (pickle protocol 5, out-of-band
    buffers) without a copy. The arrays are read-only, as they are for whoever shares them.

    Attributes:
        inputs: Images, uint8, shape (N, C, H, W), C-contiguous; or features, float32, shape
            (N, D, 1, 1).
        labels: int64, shape (N,), from 0.

    Raises:
        TypeError: An array has another dtype.
        ValueError: Shapes do not fit, or there is no sample.
    """

    inputs: npt.NDArray[Any]
    labels: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        for field, dtypes in (("inputs", ("uint8", "float32")), ("labels", ("int64",))):
            array = getattr(self, field)
            if not isinstance(array, np.ndarray) or array.dtype.name not in dtypes:
                found = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
                allowed = " or ".join(dtypes)
                raise TypeError(f"{field} must be a numpy array of {allowed}, not {found}")
        if self.inputs.ndim != 4 or self.labels.shape != self.inputs.shape[:1]:
            raise ValueError(
                "inputs must be (N, C, H, W) and labels (N,), "
                f"not {self.inputs.shape} and {self.labels.shape}"
            )
        if self.inputs.size == 0:
            raise ValueError(f"a split needs samples; inputs have shape {self.inputs.shape}")
        object.__setattr__(self, "inputs", _read_only(self.inputs))
        object.__setattr__(self, "labels", _read_only(self.labels))

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Dataset:
    """A dataset that is ready for training.

    Attributes:
        name: Its name, as the user wrote it.
        train: For the gradient.
        validation: For every choice: hyperparameters, epochs, temperature.
        test: For the final numbers only.
        classes: Class names; the label is the index.
        mean: Per channel, of the training images on the scale 0..1.
        std: Likewise.
        augmentation: The usual training augmentation of this data.

    Raises:
        ValueError: The splits do not fit each other, the classes, or ``mean`` and ``std``.
    """

    name: str
    train: Split
    validation: Split
    test: Split
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augmentation: Augmentation

    def __post_init__(self) -> None:
        for field in ("train", "validation", "test"):
            split = getattr(self, field)
            if split.inputs.shape[1:] != self.input_shape:
                raise ValueError(
                    f"dataset {self.name!r}: train images are {self.input_shape}, "
                    f"{field} images are {split.inputs.shape[1:]} (channels, height, width)"
                )
            low, high = split.labels.min(), split.labels.max()
            if not 0 <= low <= high < self.num_classes:
                raise ValueError(
                    f"dataset {self.name!r}: {field} labels run from {low} to {high}; "
                    f"{self.num_classes} classes allow 0 to {self.num_classes - 1}"
                )
        channels = self.input_shape[0]
        if len(self.mean) != channels or len(self.std) != channels:
            raise ValueError(
                f"dataset {self.name!r}: mean and std need one number for each of {channels} "
                f"channels, not {len(self.mean)} and {len(self.std)}"
            )
        if not all(deviation > 0 for deviation in self.std):
            raise ValueError(f"dataset {self.name!r}: std must be above 0, not {self.std}")

    @property
    def num_classes(self) -> int:
        """The number of classes, K."""
        return len(self.classes)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image."""
        channels, height, width = self.train.inputs.shape[1:]
        return channels, height, width

    def digest(self) -> str:
        """A digest of all inputs and labels, in their order: equal for equal data only."""
        digest = hashlib.blake2b(digest_size=8)
        for split in (self.train, self.validation, self.test):
            digest.update(repr(split.inputs.shape).encode())
            digest.update(split.inputs.data)
            digest.update(split.labels.data)
        return digest.hexdigest()


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
