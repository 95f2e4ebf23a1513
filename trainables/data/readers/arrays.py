"""Your own arrays, from NumPy files or from memory."""

import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from trainables.data.core.bad_samples import BadSamples
from trainables.data.core.base import Dataset
from trainables.data.core.divisions import ByEqualRows, ByGroup, Division
from trainables.data.core.equal_rows import EQUAL_ROWS
from trainables.data.core.options import CommonOptions, Validation, with_options
from trainables.data.core.splits import About, Part, build_dataset, size_and_path
from trainables.data.core.types import Inputs, without_mask
from trainables.data.kinds.arrays import Arrays, Images
from trainables.data.labelling.groups import IN_ALL, check_apart, names_of_groups
from trainables.data.labelling.targets import Values, check_weights, index_parts
from trainables.data.readers.files import PathOrUri, find_files, without_pickle
from trainables.plugins.arguments import did_you_mean

_USUAL_CHANNELS: Final = (1, 3)


class Given(NamedTuple):
    """The arrays of a part: samples (N, ...), labels (N,) or (N, K), weights and groups (N,).

    ``where`` names the part in messages.
    """

    where: str
    samples: Any
    labels: Any
    weights: Any = None
    groups: Any = None


@with_options("test_size", "on_bad_sample")
def load_npz(
    *,
    train: PathOrUri,
    test: PathOrUri | None = None,
    inputs: str = "x",
    label: str = "y",
    weight: str | None = None,
    group: str | None = None,
    validation: Validation = 0.1,
    common: CommonOptions,
) -> Dataset:
    """Arrays (spectrograms, signals ...) and labels in .npz files, as written by np.savez.

    Numbers of shape (N, C, ...) are standardised per channel, numbers of shape (N, D) per feature;
    uint8 of shape (N, H, W), (N, C, H, W) or (N, H, W, C) are images; ``check`` prints as which.

    Options:
        train: Path or URI (``s3://``, ``gs://`` ...) of a file, of a folder of such files, or a
            pattern such as ``parts/*.npz``.
        test: Path of the test split; by default, ``test_size`` of ``train`` is held out.
        validation: Path of the validation split, or how many samples of ``train`` to hold out.
        inputs: Name of the array of samples.
        label: Name of the array of labels: words or integers from 0, (N,); class probabilities
            (N, K), each row summing to 1; or booleans (N, L) for multi-label data.
        weight: Name of the array of sample weights for training, (N,).
        group: Name of an array of customers, patients ..., (N,): no group is in two splits. Or
            ``equal_rows``: equal samples are in one split.
    """
    keys = {"inputs": inputs, "label": label, "group": None if group == EQUAL_ROWS else group}
    size, held = size_and_path(validation)
    parts = {"train": _read_npz("train", train, {**keys, "weight": weight})}
    for option, path in (("test", test), ("validation", held)):
        if path is not None:
            parts[option] = _read_npz(option, path, keys)
    return _dataset_of("npz", parts, group, replace(common, validation=size))


@with_options("test_size", "on_bad_sample")
def load_npy(
    *,
    train: PathOrUri,
    train_labels: PathOrUri,
    test: PathOrUri | None = None,
    test_labels: PathOrUri | None = None,
    validation: Validation = 0.1,
    validation_labels: PathOrUri | None = None,
    common: CommonOptions,
) -> Dataset:
    """Arrays and labels in separate .npy files; otherwise like ``npz``.

    Options:
        train: Path or URI of the samples: a file, a folder of such files, or a pattern.
        train_labels: Path or URI of their labels in the same order; see ``npz``.
        test: Path of the test samples; by default, ``test_size`` of ``train`` is held out.
        test_labels: Path of the test labels.
        validation: Path of the validation samples, or how many samples of ``train`` to hold out.
        validation_labels: Path of the validation labels.
    """
    size, held = size_and_path(validation)
    given = {
        "train": (train, train_labels),
        "test": (test, test_labels),
        "validation": (held, validation_labels),
    }
    parts = {}
    for option, (samples, labels) in given.items():
        if (samples is None) != (labels is None):
            path = "" if option == "test" else ", a path,"
            raise ValueError(f"{option}{path} and {option}_labels are given together or not at all")
        if samples is not None and labels is not None:
            arrays = _read_npy(option, samples), _read_npy(f"{option}_labels", labels)
            parts[option] = Given(f"{option}={samples}", *arrays)
    return _dataset_of("npy", parts, None, replace(common, validation=size))


@with_options("test_size", "on_bad_sample")
def dataset_from_arrays(
    name: str,
    train: tuple[Any, ...],
    test: tuple[Any, ...] | None = None,
    held: tuple[Any, ...] | None = None,
    *,
    common: CommonOptions,
) -> Dataset:
    """A dataset of arrays in memory.

    ``train``, ``test`` and ``held``, the validation split, are samples and labels. Samples: uint8
    of shape (N, H, W), (N, C, H, W) or (N, H, W, C), which are images; or numbers of any shape (N,
    ...). Labels: (N,), integers from 0, booleans or words; (N, K), class probabilities; or (N, L),
    booleans for multi-label data. A third array of ``train`` has sample weights, (N,). If ``test``
    or ``held`` is None, ``test_size`` or ``validation`` is held out.

    For the other options see :mod:`trainables.data`.

    Raises:
        TypeError: Samples are not arrays of numbers.
        ValueError: Shapes, labels or numbers of samples are wrong.
    """
    given = {"train": train, "test": test, "validation": held}
    parts = {option: Given(option, *part) for option, part in given.items() if part is not None}
    return _dataset_of(name, parts, None, common)


def _dataset_of(
    name: str, parts: Mapping[str, Given], group: str | None, common: CommonOptions
) -> Dataset:
    """The dataset of the arrays of each part; ``group`` is the name of those of groups."""
    inputs, labels, bad = [], [], []
    for option, given in parts.items():
        if given.weights is not None and option != "train":
            raise ValueError(f"{given.where}: weights are for samples to train on; leave them out")
        samples, values = as_arrays(given.samples, given.labels, given.where)
        inputs.append(samples)
        labels.append(values)
        bad.append(BadSamples(len(samples), partial("{}, row {} (from 0)".format, given.where)))
        if samples.dtype == np.float32:
            finite = np.isfinite(samples).reshape(len(samples), -1).all(1)
            bad[-1].add_each(~finite, "a number is infinite or not a number")
    targets, names = index_parts(labels, None, bad)
    train = parts["train"]
    if train.weights is not None:
        targets[0] = replace(targets[0], weights=check_weights(train.weights, train.where, bad[0]))
    division: Division | None = None
    if group == EQUAL_ROWS:
        division = ByEqualRows()
    elif group is not None:
        groups = {
            option: names_of_groups(f"{option}: groups", given.groups, len(own))
            for (option, given), own in zip(parts.items(), inputs, strict=True)
        }
        check_apart(group, groups, bad)
        of_parts = [np.unique(own, return_inverse=True)[1] for own, _ in groups.values()]
        targets = [replace(each, groups=own) for each, own in zip(targets, of_parts, strict=True)]
        division = ByGroup(group, of_parts[0])
    about = About(
        name=name,
        classes=names,
        measure=Images.measured if inputs[0].dtype == np.uint8 else Arrays.measured,
        division=division,
    )
    found = map(Part, inputs, targets, bad)
    return build_dataset(dict(zip(parts, found, strict=True)), about, common)


def as_arrays(raw: Any, given: Any, where: str) -> tuple[Inputs, Values]:
    """Samples as uint8 (N, C, H, W) or float32 (N, ...); labels as int64 or text (N,), or (N, K).

    Errors are those of :func:`as_inputs` and :func:`as_labels`, and ``ValueError`` if lengths
    differ.
    """
    samples, labels = as_inputs(raw, where), as_labels(given, where)
    if labels.shape[:1] != samples.shape[:1]:
        raise ValueError(
            f"{where}: there are {samples.shape[0]} samples, and labels of shape {labels.shape}"
        )
    return samples, labels


def as_inputs(raw: Any, part: str) -> Inputs:
    """Samples as uint8 (N, C, H, W) or float32 (N, ...), from arrays as in :func:`load_npz`.

    Raises ``TypeError`` unless they are numbers, ``ValueError`` for one axis or an empty array.
    """
    array = without_mask(raw, f"{part}: samples")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{part}: samples must be numbers, not {array.dtype}")
    if array.ndim < 2 or array.size == 0:
        raise ValueError(f"{part}: samples must be (N, ...), not of shape {array.shape}")
    if array.dtype == np.uint8 and array.ndim in (3, 4):
        return _channels_first(array)
    return array.astype(np.float32, copy=False)


def _channels_first(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Converts images (N, H, W) or (N, H, W, C) to (N, C, H, W).

    Of four axes the last is channels if it is smaller than both others, or 1 or 3, unless the
    second is 1 or 3.
    """
    if images.ndim == 3:
        return images[:, np.newaxis]
    _, first, second, last = images.shape
    if first not in _USUAL_CHANNELS and (last in _USUAL_CHANNELS or last < min(first, second)):
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    return images


def as_labels(raw: Any, part: str) -> Values:
    """Labels (N,) as int64 or text, class probabilities (N, K) as float64, or booleans (N, L).

    Labels (N, 1) are (N,), and 0.0, 1.0 … are integers.

    Raises ``TypeError`` for another type, ``ValueError`` for another number of axes or a fraction.
    """
    labels = without_mask(raw, f"{part}: labels")
    allowed = "labels must be integers from 0, words, or true and false"
    if labels.ndim == 2 and labels.shape[1] == 1:  # a column
        labels = labels[:, 0]
    if labels.ndim == 2 and labels.dtype.kind in "biuf":
        return labels if labels.dtype.kind == "b" else labels.astype(np.float64)
    if labels.ndim != 1:
        raise ValueError(
            f"{part}: labels must be (N,), class probabilities (N, K) or several labels (N, L), "
            f"not of shape {labels.shape}"
        )
    if labels.dtype.kind in "US":
        return labels.astype(np.str_)
    if labels.dtype.kind == "b":
        return np.where(labels, "true", "false").astype(np.str_)
    if labels.dtype.kind in "iuf":
        wrong = ~(np.isfinite(labels) & (labels == np.floor(labels)))
        if wrong.any():
            raise ValueError(f"{part}: {allowed}, not {labels[wrong][0]}")
        return labels.astype(np.int64)
    kinds = {type(label) for label in labels.tolist()} if labels.dtype == object else set()
    if kinds == {str}:
        return labels.astype(np.str_)
    if len(kinds) == 1 and issubclass(kinds.pop(), int | np.integer | np.bool_):
        return as_labels(np.array(labels.tolist()), part)
    raise TypeError(f"{part}: {allowed}, not {labels.dtype}")


def _read_npz(option: str, path: PathOrUri, keys: Mapping[str, str | None]) -> Given:
    """The arrays with the names in ``keys``, by option; None for those without a name."""
    wanted = {name: key for name, key in keys.items() if key is not None}
    found = []
    for where, arrays in _loaded(option, path, ".npz"):
        if not isinstance(arrays, Mapping):
            raise ValueError(f"{where} is no .npz file")
        for name, key in wanted.items():
            if key not in arrays:
                advice = IN_ALL if name == "group" else ""
                raise ValueError(
                    f"{where} has no array {key!r} (option {name}){did_you_mean(key, list(arrays))}"
                    f"; its arrays: {', '.join(arrays)}{advice}"
                )
        found.append([array_in(where, arrays, key) for key in wanted.values()])
    joined = (_joined(option, parts) for parts in zip(*found, strict=True))
    by_name = dict(zip(wanted, joined, strict=True))
    arrays = (by_name.get(name) for name in ("inputs", "label", "weight", "group"))
    return Given(f"{option}={path}", *arrays)


def array_in(where: str, arrays: Mapping[str, Any], key: str) -> Any:
    """An array of a .npz file; ``ValueError``, which begins with ``where``, if it is unreadable."""
    try:
        return arrays[key]
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{where}: array {key!r} cannot be read ({without_pickle(error)})"
        ) from error


def _read_npy(option: str, path: PathOrUri) -> Any:
    return _joined(option, [array for _, array in _loaded(option, path, ".npy")])


def _loaded(option: str, path: PathOrUri, suffix: str) -> Iterator[tuple[str, Any]]:
    """The content of each file at a path, and its name for messages."""
    source, places = find_files(option, path, (suffix,))
    for place in places:
        with source.open_input_stream(place, compression=None) as stream:
            content = io.BytesIO(stream.read())
        where = f"{option}={place}"
        yield where, load_arrays(where, content)


def load_arrays(where: str, file: Path | io.BytesIO) -> Any:
    """The array of a .npy file, or the arrays of a .npz file by name.

    Raises ``ValueError``, which begins with ``where``, for another file, or for Python objects.
    """
    try:
        return np.load(file, allow_pickle=False)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{where} is no file of NumPy arrays, or damaged ({without_pickle(error)})"
        ) from error


def _joined(option: str, parts: Any) -> Any:
    try:
        return np.concatenate(parts) if len(parts) > 1 else parts[0]
    except ValueError as error:
        raise ValueError(f"{option}: arrays of the files do not fit each other: {error}") from error
