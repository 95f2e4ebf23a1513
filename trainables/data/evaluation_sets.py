"""Evaluation sets besides the test split: shifted or out-of-distribution data.

A shift set has the classes of the dataset, and a classifier should remain calibrated on it. An
out-of-distribution set has other classes, and a classifier should have low confidence on it. The
papers on focal losses take corrupted images (CIFAR-10-C) as out of distribution, too.
"""

import os
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from trainables.data.core.base import Dataset, EvaluationKind, EvaluationSet, Split
from trainables.data.core.types import Labels
from trainables.plugins.arguments import did_you_mean, few
from trainables.plugins.components import Catalogue, check_options

CATALOGUE: Final = Catalogue(
    kind="shift set",
    group="calsweep.shift_sets",
    others="any dataset, whose test split is taken",
    ours={
        "cifar100_c": "trainables.data.evaluation_sets:load_cifar100_c",
        "cifar10_c": "trainables.data.evaluation_sets:load_cifar10_c",
    },
)
_SEVERITIES = 5


def check_evaluation_sets(kind: EvaluationKind, name: str, **options: Any) -> None:
    """Raises ``ValueError`` if names, types or ranges of options are wrong; loads nothing."""
    from trainables.data import check_dataset_options

    if name in CATALOGUE.names():
        check_options(f"{kind} set {name!r}", CATALOGUE.find(name), options, ())
    else:
        check_dataset_options(name, **options)


def load_evaluation_sets(
    kind: EvaluationKind, name: str, dataset: Dataset, **options: Any
) -> list[EvaluationSet]:
    """Loads evaluation sets by name, with samples encoded as in the dataset.

    ``name`` is a set of corrupted images, or a dataset whose test split is used. Errors are those
    of :func:`~trainables.data.load_dataset`, and ``ValueError`` if they do not fit the dataset.
    """
    from trainables.data import load_dataset

    check_evaluation_sets(kind, name, **options)
    if dataset.samples.encodes:
        raise ValueError(
            f"{kind} set {name!r}: {dataset.samples} are encoded by the training data, so other "
            "data cannot be evaluated; allowed: images and arrays"
        )
    if name in CATALOGUE.names():
        found = [
            EvaluationSet(kind, name, severity, split)
            for severity, split in CATALOGUE.find(name)(**options)
        ]
    else:
        other = load_dataset(name, seed=0, **options)
        if kind == "shift" and other.classes != dataset.classes:
            raise ValueError(
                f"shift set {name!r} has the classes {few(other.classes)}, while those of "
                f"{dataset.name!r} are {few(dataset.classes)}"
            )
        found = [EvaluationSet(kind, name, None, other.test)]
    for each in found:
        try:
            dataset.samples.check(each.split.inputs)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{kind} set {name!r} does not fit {dataset.name!r}: {error}"
            ) from None
        if kind == "shift" and each.split.labels.max() >= dataset.num_classes:
            raise ValueError(
                f"shift set {name!r} has label {each.split.labels.max()}; {dataset.name!r} has "
                f"{dataset.num_classes} classes"
            )
    return found


def _load_cifar_c(
    folder: str,
    *,
    root: str | os.PathLike[str],
    corruptions: tuple[str, ...] | None = None,
    severities: tuple[int, ...] = (1, 2, 3, 4, 5),
) -> list[tuple[int, Split]]:
    """CIFAR-10-C, CIFAR-100-C: test images under 19 corruptions of 5 severities, 10,000 of each.

    Source: D. Hendrycks and T. Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, 2019.

    ``root`` is this folder, or its parent. ``corruptions`` are such as ``gaussian_noise``, by
    default all whose files exist; ``severities`` are from 1 to 5.
    """
    root = Path(root).expanduser()
    place = root / folder if (root / folder).is_dir() else root
    if not (place / "labels.npy").is_file():
        raise FileNotFoundError(f"{place / 'labels.npy'} does not exist; set root to {folder}")
    wrong = [severity for severity in severities if severity not in range(1, _SEVERITIES + 1)]
    if wrong or not severities:
        raise ValueError(f"severities={list(severities)} must be some of 1 to {_SEVERITIES}")
    names = _corruptions(place, corruptions)
    labels = _read(place / "labels.npy").astype(np.int64)
    return [
        (severity, _corrupted(place / f"{name}.npy", labels, severity))
        for severity in severities
        for name in names
    ]


load_cifar10_c = partial(_load_cifar_c, "CIFAR-10-C")
load_cifar100_c = partial(_load_cifar_c, "CIFAR-100-C")


def _corruptions(place: Path, wanted: tuple[str, ...] | None) -> list[str]:
    there = sorted(file.stem for file in place.glob("*.npy") if file.stem != "labels")
    if (unknown := [name for name in wanted or () if name not in there]) or not there:
        name = unknown[0] if unknown else ""
        raise FileNotFoundError(
            f"{place} has no corruption {name!r}{did_you_mean(name, there)}; there are: "
            f"{', '.join(there) or 'none'}"
        )
    return list(wanted or there)


def _corrupted(file: Path, labels: Labels, severity: int) -> Split:
    """The images of one severity, by which a file is ordered."""
    images, wanted = _read(file), (len(labels), 32, 32, 3)
    if images.dtype != np.uint8 or images.shape != wanted:
        raise ValueError(
            f"{file} holds {images.dtype} of shape {images.shape}, while uint8 of shape {wanted} "
            "is expected"
        )
    size = len(labels) // _SEVERITIES
    rows = slice((severity - 1) * size, severity * size)
    return Split(np.ascontiguousarray(images[rows].transpose(0, 3, 1, 2)), labels[rows])


def _read(file: Path) -> Any:
    try:
        return np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{file} is damaged: {error}") from error
