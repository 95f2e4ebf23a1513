"""Drafts a commented sweep file for somebody's data, by looking at a few of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sweeps.errors import UserError, first_line
from sweeps.sweep_file.loading import FIRST_LINE, to_yaml
from trainables.arguments import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

_LABELS: Final = ("label", "labels", "target", "class", "y", "category", "outcome", "topic")
_TEXTS: Final = ("text", "content", "sentence", "document", "body", "review")
_INPUTS: Final = ("x", "inputs", "data", "features", "images")
_TELL_NOTHING: Final = ("train", "training", "data", "dataset", "images")
_ROWS: Final = 2_000  # that are looked at
_A_TEXT: Final = 25  # characters, in the mean
_MOST_CLASSES: Final = 100  # that a column not called a label may have to be taken for one
_LARGE: Final = 64  # pixels, above which images are made smaller at first
_IMAGE_RECIPE: Final = {"epochs": 50, "batch_size": 128, "lr": 0.05}
_PIXEL_RECIPE: Final = {"epochs": 50, "batch_size": 8, "optimizer": "adamw", "lr": 0.001}
_PIXEL_LOSSES: Final = ("focal", "dual_focal", "inverse_focal", "mbls", "cals_alm")
_VOC: Final = "voc"
_VOC_CLASSES: Final = 21
_SEEN_VOC: Final = "A class of each pixel, in the form of PASCAL VOC."
_MASKS: Final = 200  # that are looked at
_OTHER_RECIPE: Final = {"epochs": 30, "batch_size": 128, "optimizer": "adam", "lr": 0.001}


@dataclass(frozen=True)
class Draft:
    """What a sweep file says of data.

    Attributes:
        name: For the sweep.
        dataset: The section ``dataset``.
        training: The section ``training``.
        seen: What the data look like, in words.
        losses: Some to begin with.
    """

    name: str
    dataset: dict[str, Any]
    training: dict[str, Any]
    seen: str
    losses: tuple[str, ...] = ("focal", "dual_focal", "inverse_focal", "mbls", "mmce")


def draft_for(data: str) -> Draft:
    """A draft for data at a path, or for a dataset that calsweep knows by name.

    Args:
        data: A folder with a folder of images for each class, or in the form of PASCAL VOC; a CSV,
            Parquet or npz file, or a folder of such; or a name.

    Raises:
        UserError: There is nothing there, or nothing that a sweep could learn from.
    """
    path = Path(data).expanduser()
    if not path.exists():
        return _by_name(data)
    try:
        if path.is_dir():
            return _folder(path)
        return _file(path, path)
    except (OSError, ValueError) as error:  # pyarrow's and numpy's complaints are ValueErrors
        raise UserError(f"{data}: {first_line(error)}") from None


def sweep_file_text(draft: Draft, name: str, trials: int) -> str:
    """A commented sweep file.

    Args:
        draft: Of :func:`draft_for`.
        name: Of the sweep.
        trials: How many settings to try.
    """
    return FIRST_LINE + _TEMPLATE.format(
        name=name,
        seen=draft.seen,
        dataset=_indented(draft.dataset),
        training=_indented(draft.training),
        losses="\n".join(f"  - {loss}" for loss in draft.losses),
        trials=trials,
    )


_TEMPLATE: Final = """\
# {seen}
# `calsweep check` prints the plan of this file, `calsweep run` starts it.
name: {name}
dataset:
{dataset}
# model: left out, it is the default for such data; `calsweep models` lists others
# model: {{name: timm/resnet18, pretrained: true}}

losses:                  # the cross-entropy baseline is always there; `calsweep losses` lists all
{losses}
  # - {{name: focal_calibration, space: {{gamma: {{low: 1, high: 5}}}}}}    # a range of your own
  # - my_package.my_losses:MyLoss                                       # a loss of your own

training:                # the same for all trials
{training}

search:
  trials: {trials}             # settings to try, the published ones first
  objective: val_ece     # what is to be low; `calsweep metrics` lists all, each also with _scaled
  guard: 0.01            # how much more validation error than the baseline's is allowed
  # max_hours: 8         # of the whole sweep; also max_epochs and max_gpu_hours
  # stop_at_noise: true  # once no further trial could be shown to be better
  seed: 0

# scheduler: {{name: none}}                # to let all trials run to their end
selection:
  finalists: 3           # the best settings are trained again
  seeds: 2               # with so many new seeds, as the best of many is lucky
# scaling: {{gpus_per_worker: 0.5}}        # two trials on each GPU
# evaluation: {{ood: [svhn]}}              # what finalists are tried on besides
tracking:
  register_model: true   # the choice goes into MLflow's registry, as champion of its dataset
"""


def _indented(section: dict[str, Any]) -> str:
    return "".join(f"  {line}\n" for line in to_yaml(section).splitlines()).rstrip()


def _by_name(name: str) -> Draft:
    from trainables.components import REQUIRED
    from trainables.data import available_datasets, dataset_options

    known = available_datasets()
    if name not in known:
        raise UserError(
            f"--data {name}: there is no such file or folder, nor a dataset of that name"
            f"{did_you_mean(name, known)}; by name there are: {', '.join(known)}"
        )
    options = {key: f"./{key}" for key, value in dataset_options(name).items() if value is REQUIRED}
    if name == _VOC:
        return Draft(name, {"name": name, **options}, dict(_PIXEL_RECIPE), _SEEN_VOC, _PIXEL_LOSSES)
    recipe = {**_IMAGE_RECIPE, **({"epochs": 27, "batch_size": 64} if name == "digits" else {})}
    return Draft(name, {"name": name, **options}, recipe, f"The dataset {name}.")


def _folder(path: Path) -> Draft:
    for suffix in (".parquet", ".csv", ".npz"):
        files = sorted(path.glob(f"*{suffix}"))
        if files:
            train = next((file for file in files if "train" in file.stem.lower()), None)
            return _file(train, path) if train is not None else _file(files[0], path, whole=path)
    if (path / "SegmentationClass").is_dir():
        return _pixels(path)
    return _image_folder(path)


def _pixels(path: Path) -> Draft:
    import numpy as np
    from PIL import Image

    from trainables.data.tasks import IGNORED

    masks = sorted((path / "SegmentationClass").glob("*.png"))
    found = {0}
    for file in islice(masks, _MASKS):
        with Image.open(file) as mask:
            found |= set(np.unique(np.asarray(mask)).tolist())
    count = max(found - {IGNORED}) + 1
    options: dict[str, Any] = {"name": _VOC, "root": str(path)}
    seen = f"Seen: {len(masks):,} masks of {count} classes, in the form of PASCAL VOC."
    if count != _VOC_CLASSES:
        options["classes"] = [f"class {number}" for number in range(count)]
        seen += " Give the classes their names."
    return Draft(_name(path), options, dict(_PIXEL_RECIPE), seen, _PIXEL_LOSSES)


def _image_folder(path: Path) -> Draft:
    from trainables.data.image_folder import SUFFIXES

    parent = path / "train" if (path / "train").is_dir() else path
    classes = sorted(d for d in parent.iterdir() if d.is_dir() and not d.name.startswith("."))
    found = {
        folder.name: [file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES]
        for folder in classes
    }
    found = {name: files for name, files in found.items() if files}
    if len(found) < 2:
        raise UserError(
            f"--data {path}: not understood; allowed: a folder with a folder of images for each "
            "class (also under train/ and test/), in the form of PASCAL VOC, or with CSV, Parquet "
            "or npz files, or such a file"
        )
    count = sum(map(len, found.values()))
    options: dict[str, Any] = {"name": "image_folder", "root": str(path)}
    sizes = _sizes([files[0] for files in found.values()])
    if len(sizes) > 1 or max(max(size) for size in sizes) > _LARGE:
        options["image_size"] = min(_LARGE, max(max(size) for size in sizes))
    seen = f"Seen: {count:,} images of {len(found)} classes ({_few(list(found))})."
    return Draft(_name(path), options, dict(_IMAGE_RECIPE), seen)


def _sizes(files: Sequence[Path]) -> set[tuple[int, int]]:
    from PIL import Image

    sizes = set()
    for file in islice(files, 50):
        with Image.open(file) as image:
            sizes.add(image.size)
    return sizes


def _file(path: Path, given: Path, whole: Path | None = None) -> Draft:
    """A draft for a file, with the test file beside it if there is one.

    Args:
        path: The file to look at.
        given: What the user has named.
        whole: What to train on, if not that file.
    """
    if path.suffix == ".npz":
        options, recipe, seen = _arrays(path)
    elif path.suffix in (".csv", ".parquet"):
        options, recipe, seen = _rows(path)
    else:
        raise UserError(f"--data {path}: not understood; allowed: a .csv, .parquet or .npz file")
    files = {"train": str(whole or path)}
    test = path.with_name(re.sub("train", "test", path.name, flags=re.IGNORECASE))
    if whole is None and test != path and test.exists():
        files["test"] = str(test)
    return Draft(
        _name(given), {"name": path.suffix[1:], **files, **options}, dict(recipe), f"Seen: {seen}."
    )


def _arrays(path: Path) -> tuple[dict[str, Any], dict[str, Any], str]:
    import numpy as np

    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name].shape for name in file.files}
    label = _called(arrays, _LABELS)
    inputs = _called(arrays, _INPUTS)
    if label is None or inputs is None:
        raise UserError(
            f"--data {path}: which of its arrays ({', '.join(arrays)}) are inputs and labels is "
            f"not clear; call them {_INPUTS[0]} and {_LABELS[0]}, or write the sweep file by hand"
        )
    seen = f"{arrays[inputs][0]:,} arrays of {' x '.join(map(str, arrays[inputs][1:]))}"
    return {"inputs": inputs, "label": label}, _OTHER_RECIPE, seen


def _rows(path: Path) -> tuple[dict[str, Any], dict[str, Any], str]:
    table = _first_rows(path)
    names = table.column_names
    label = _called(names, _LABELS) or _column_of_few_values(table)
    if label is None:
        raise UserError(
            f"--data {path}: none of its columns ({_few(names)}) looks like a label; call one "
            f"{_LABELS[0]}, or write the sweep file by hand"
        )
    classes = len(set(table[label].to_pylist()) - {None})
    others = [name for name in names if name != label]
    seen = f"of {table.num_rows:,} rows {classes} classes in column {label}"
    for kind, column in (("image", _image_column(table, others)), ("text", _text(table, others))):
        if column is not None:
            recipe = _IMAGE_RECIPE if kind == "image" else _OTHER_RECIPE
            seen = f"{seen}, and {kind}s in column {column}"
            return {"label": label, kind: column}, recipe, seen
    return {"label": label}, _OTHER_RECIPE, f"{seen}; features are {_few(others)}"


def _first_rows(path: Path) -> pa.Table:
    import pyarrow as pa

    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        batches = pq.ParquetFile(path).iter_batches(_ROWS)
    else:
        from pyarrow import csv

        batches = csv.open_csv(path)
    return pa.Table.from_batches(list(islice(batches, 1))).slice(0, _ROWS)


def _called(names: Sequence[str] | dict[str, Any], wanted: Sequence[str]) -> str | None:
    """The first of the wanted names that is there, in whatever case."""
    by_lower = {name.lower(): name for name in names}
    return next((by_lower[name] for name in wanted if name in by_lower), None)


def _column_of_few_values(table: pa.Table) -> str | None:
    """The last column that takes a few values over and over."""
    import pyarrow as pa

    for name in reversed(table.column_names):
        kind = table[name].type
        if pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            values = len(set(table[name].to_pylist()))
            if 2 <= values <= min(_MOST_CLASSES, table.num_rows // 2):
                return str(name)
    return None


def _image_column(table: pa.Table, names: Sequence[str]) -> str | None:
    import pyarrow as pa

    from trainables.data.image_folder import SUFFIXES

    for name in names:
        kind = table[name].type
        if pa.types.is_struct(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return name
        if pa.types.is_string(kind):
            values = [value for value in table[name].to_pylist() if value]
            if values and all(value.lower().endswith(tuple(SUFFIXES)) for value in values):
                return name
    return None


def _text(table: pa.Table, names: Sequence[str]) -> str | None:
    import pyarrow as pa

    texts = {}
    for name in names:
        if pa.types.is_string(table[name].type) or pa.types.is_large_string(table[name].type):
            values = [value for value in table[name].to_pylist() if value]
            texts[name] = sum(map(len, values)) / max(1, len(values))
    named = _called(texts, _TEXTS)
    longest = max(texts, key=lambda name: texts[name], default=None)
    if named is None and longest is not None and texts[longest] >= _A_TEXT:
        return longest
    return named


def _name(path: Path) -> str:
    """A sweep's name made of a path: of the last part that says something."""
    stem = path.stem
    if stem.lower() in _TELL_NOTHING and path.absolute().parent.name:
        stem = path.absolute().parent.name
    words = re.sub(r"[^A-Za-z0-9_.-]+", "-", stem).strip("-._")
    return words[:100] or "sweep"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(map(str, names[:6])) + more
