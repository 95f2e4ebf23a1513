"""Drafts a commented sweep file from the user's data."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final

from sweeps.drafting.draft_columns import LABELS, group_column, unusable_columns
from sweeps.drafting.draft_rows import TrainingRows, files_beside, pattern_of, read_rows
from sweeps.drafting.frozen import MOST, frozen_network
from sweeps.errors import UserError, first_line
from sweeps.sweep_file.loading import FIRST_LINE, to_yaml
from trainables.data.core.equal_rows import EQUAL_ROWS, equal_numbers
from trainables.data.kinds.table import Columns
from trainables.data.readers.files import TABLES, TABLES_SHOWN, form_of
from trainables.data.readers.table_columns import is_dates
from trainables.models.recipes import usual_recipe
from trainables.plugins.arguments import did_you_mean, few

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

_INPUTS: Final = ("x", "inputs", "data", "features", "images")
_TELL_NOTHING: Final = ("train", "training", "data", "dataset", "images")
_FEW_COLUMNS: Final = 2  # besides a text; with more it is a table
_A_TEXT: Final = 25  # characters on average
_SEVERAL_WORDS: Final = re.compile(r"\s|[^\x00-\x7f]")  # URLs and ids are no texts
_LARGE: Final = 64  # pixels; larger images are resized in the draft
_PIXEL_LOSSES: Final = ("focal", "dual_focal", "inverse_focal", "mbls", "cals_alm")
_VOC: Final = "voc"
_SEEN_VOC: Final = "A class of each pixel, in the form of PASCAL VOC."
_MASKS: Final = 200  # that are looked at
_HELD_OUT: Final = 0.2  # the default share of the test split
_ENOUGH: Final = 3_900  # validation samples, which show a difference in ECE of 0.02
_REPEATED: Final = 0.01  # share of rows with an equal one above which these stay together
_SHARES: Final = 0.1, 0.25  # the default share for validation, and the largest


@dataclass(frozen=True)
class _Kind:
    """The parts of a sweep file for a kind of data: models, and comments about further keys."""

    default: str
    model: str
    hints: tuple[str, ...] = ()


_KINDS: Final = {
    "image": _Kind(
        "small_cnn",
        "{name: timm/resnet18, pretrained: true}",
        ("# evaluation: {ood: [svhn]}              # evaluate the finalists on these too",),
    ),
    "pixel": _Kind("small_fcn", "deeplabv3_mobilenet_v3_large"),
    "table": _Kind("table_mlp", "{name: table_mlp, width: 512, depth: 3}"),
    "array": _Kind("mlp", "{name: mlp, width: 512, depth: 3}"),
    "text": _Kind(
        "text_mlp",
        "huggingface/distilbert-base-uncased   # with dataset.tokenizer: the same name",
    ),
}


@dataclass(frozen=True)
class Draft:
    """The parts of a sweep file that depend on the data.

    Attributes:
        dataset: The section ``dataset``.
        kind: A key of :data:`_KINDS`.
        seen: A description of the data.
        comments: What is said about the data beside ``dataset``.
        count: Number of samples, 0 if unknown.
        frozen: A pretrained network to freeze.
    """

    name: str
    dataset: dict[str, Any]
    kind: str
    seen: str
    losses: tuple[str, ...] = ("focal", "dual_focal", "inverse_focal", "mbls", "mmce")
    comments: tuple[str, ...] = ()
    objective: str = "val_ece"
    count: int = 0
    frozen: str | None = None

    @property
    def training(self) -> dict[str, object]:
        """The section ``training`` for the default model, shown as a comment."""
        return usual_recipe(_KINDS[self.kind].default, {})


def draft_for(data: str) -> Draft:
    """A draft for data at a path, or for a dataset that calsweep knows by name.

    Args:
        data: A folder with a folder of images per class, in the format of PASCAL VOC, or as
            torchvision stores a dataset; a CSV, Parquet or npz file, or a folder of such files; or
            the name of a dataset.

    Raises:
        UserError: There are no such data, or a sweep cannot learn from them.
    """
    path = Path(data).expanduser()
    if not path.exists():
        return _by_name(data)
    try:
        return _on_frozen(_folder(path) if path.is_dir() else _file(path, path))
    except (OSError, ValueError) as error:  # pyarrow and numpy raise ValueErrors
        message = first_line(error)
        raise UserError(message if data in message else f"{data}: {message}") from None


def _on_frozen(draft: Draft) -> Draft:
    """With few images or texts, a draft of heads on a pretrained network, if one is at hand."""
    if (
        draft.kind not in ("image", "text")
        or not 0 < draft.count < MOST
        or draft.dataset["name"] == "npz"  # its images have a size of their own
        or (found := frozen_network(draft.kind)) is None
    ):
        return draft
    model, options = found
    return replace(draft, dataset=draft.dataset | options, frozen=model)


def sweep_file_text(draft: Draft, name: str, trials: int) -> str:
    """A commented sweep file that tries so many settings."""
    return FIRST_LINE + _TEMPLATE.format(
        name=name,
        seen=draft.seen,
        dataset="\n".join(
            [
                indent(to_yaml(draft.dataset).rstrip(), "  "),
                *(f"  # {comment}" for comment in draft.comments),
            ]
        ),
        default=_KINDS[draft.kind].default,
        model=_KINDS[draft.kind].model,
        frozen="" if draft.frozen is None else _FROZEN.format(draft.count, draft.frozen),
        hints="".join(f"{hint}\n" for hint in _KINDS[draft.kind].hints),
        training="\n".join(f"#   {line}" for line in to_yaml(draft.training).splitlines()),
        losses="\n".join(f"  - {loss}" for loss in draft.losses),
        trials=trials,
        objective=draft.objective,
    )


_FROZEN: Final = """\
model:                   # {:,} samples are few: heads on a pretrained network that stays as it is
  name: {}
  pretrained: true       # its weights are on this machine
  frozen: true
  head: linear           # or mlp
training: {{epochs: 20, lr: 0.05}}         # of the heads
"""

_TEMPLATE: Final = """\
# {seen}
# `calsweep check` prints the plan of this file, `calsweep run` starts it.
name: {name}
dataset:
{dataset}
{frozen}# model: {default}       # the default for this kind of data; `calsweep models` lists others
# model: {model}

losses:                  # the cross-entropy baseline is always added; `calsweep losses` lists all
{losses}
  # - {{name: focal_calibration, space: {{gamma: {{low: 1, high: 5}}}}}}    # your own range
  # - my_package.my_losses:MyLoss                                       # your own loss

# training:              # the same for all trials; by default the recipe of the model, here:
{training}

search:
  trials: {trials:<15}# settings to try at most
  sampler: guided        # ends when no better setting is expected; tpe: published settings first
  objective: {objective:<11} # the metric to minimise; `calsweep metrics` lists all, also _scaled
  guard: 0.01            # how far the validation error may exceed the baseline's
  # max_hours: 8         # for the whole sweep; also max_epochs and max_gpu_hours
  seed: 0

# scheduler: {{name: asha}}                # stops poor trials early
selection:
  finalists: 3           # the best settings are trained again
  seeds: auto            # 3 to 8 fresh seeds of the best one, until its verdict is decided
# scaling: {{gpus_per_worker: 0.5}}        # two trials on each GPU
{hints}tracking:
  register_model: false  # true: register the recommended classifier in MLflow
"""


def _validation(samples: int, *, held_out: bool) -> dict[str, float]:
    """The share of the training samples for validation, unless the default gives enough.

    A test split is ``held_out`` of the samples before.
    """
    training = samples * (1 - _HELD_OUT * held_out)
    usual, most = _SHARES
    share = min(most, math.ceil(100 * _ENOUGH / max(training, 1)) / 100)
    return {"validation": share} if share > usual else {}


def _by_name(name: str) -> Draft:
    from trainables.data import available_datasets, dataset_options
    from trainables.plugins.components import REQUIRED

    known = available_datasets()
    if name not in known:
        raise UserError(
            "there is no such file or folder, nor a dataset of that name"
            f"{did_you_mean(name, known)}; by name there are: {', '.join(known)}",
            "data",
            name,
        )
    known_options = dataset_options(name)
    options = {key: f"./{key}" for key, value in known_options.items() if value is REQUIRED}
    seen = f"The dataset {name}." + " Replace ./root by the folder with its files." * bool(options)
    if "download" in known_options:
        seen += " `download: true` fetches them."
    if name == _VOC:
        return Draft(name, {"name": name, **options}, "pixel", _SEEN_VOC, _PIXEL_LOSSES)
    return Draft(name, {"name": name, **options}, "image", seen)


def _torchvision(path: Path) -> Draft | None:
    """A draft for a dataset as torchvision stores it; None if there is none."""
    from trainables.data.named.torchvision_files import find_torchvision

    found = find_torchvision(path.absolute())
    if len(found) > 1:
        raise UserError(
            f"holds several datasets ({', '.join(found)}); give the folder of one", "data", path
        )
    for name, root in found.items():
        seen = f"Seen: the dataset {name}, as torchvision stores it."
        return Draft(name, {"name": name, "root": str(root)}, "image", seen)
    return None


def _folder(path: Path) -> Draft:
    if (draft := _torchvision(path)) is not None:
        return draft
    for ends in (*TABLES.values(), (".npz",)):
        if files := sorted(each for each in path.iterdir() if each.name.lower().endswith(ends)):
            if not (trains := [file for file in files if "train" in file.stem.lower()]):
                return _file(files[0], path, whole=path)
            return _file(trains[0] if ends == (".npz",) else pattern_of(trains), path)
    if (path / "SegmentationClass").is_dir():
        return _pixels(path)
    return _image_folder(path)


def _pixels(path: Path) -> Draft:
    import numpy as np
    from PIL import Image

    from trainables.data.core.tasks import IGNORED

    masks = sorted((path / "SegmentationClass").glob("*.png"))
    found = {0}
    for file in islice(masks, _MASKS):
        with Image.open(file) as mask:
            found |= set(np.unique(np.asarray(mask)).tolist())
    count = max(found - {IGNORED}) + 1
    options: dict[str, object] = {"name": _VOC, "root": str(path)}
    seen = f"Seen: {len(masks):,} masks of {count} classes, in the form of PASCAL VOC."
    if count != 21:  # the classes of PASCAL VOC, with the background
        options["classes"] = [f"class {number}" for number in range(count)]
        seen += " Give the classes their names."
    return Draft(_name(path), options, "pixel", seen, _PIXEL_LOSSES)


def _image_folder(path: Path) -> Draft:
    from trainables.data.readers.image_folder import SUFFIXES, find_trees

    try:
        trees = find_trees(path)
    except (OSError, ValueError) as error:
        raise UserError(str(error), "data", path) from None
    classes = sorted(d for d in trees.train.iterdir() if d.is_dir() and not d.name.startswith("."))
    found = {
        folder.name: [file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES]
        for folder in classes
    }
    found = {name: files for name, files in found.items() if files}
    if len(found) < 2:
        raise UserError(
            "not understood; allowed: a folder with a folder of images for each class (also under "
            "train/ and test/), in the form of PASCAL VOC, of a dataset of torchvision, or with "
            "CSV, Parquet or npz files, or such a file",
            "data",
            path,
        )
    count = sum(map(len, found.values()))
    options: dict[str, object] = {"name": "image_folder", "root": str(path)}
    sizes = _sizes([files[0] for files in found.values()])
    if len(sizes) > 1 or max(max(size) for size in sizes) > _LARGE:
        options["image_size"] = min(_LARGE, max(max(size) for size in sizes))
    if trees.validation is None:
        options |= _validation(count, held_out=trees.test is None)
    seen = f"Seen: {count:,} images of {len(found)} classes ({few(found)})."
    return Draft(_name(path), options, "image", seen, count=count)


def _sizes(files: Sequence[Path]) -> set[tuple[int, int]]:
    from PIL import Image, ImageOps

    sizes = set()
    for file in islice(files, 50):
        with Image.open(file) as image:
            sizes.add(ImageOps.exif_transpose(image).size)
    return sizes


def _file(path: Path, given: Path, whole: Path | None = None) -> Draft:
    """A draft for a file or pattern, and the files of other splits next to it.

    `given` is the path that the user gave; `whole` the training data, if not that file.
    """
    beside = files_beside(path) if whole is None else {}
    form = form_of(path.name)
    if path.suffix == ".npz":
        found = _arrays(_name(given), path, beside.get("test"))
    elif form is not None:
        found = _rows(_name(given), read_rows(whole or path, form, beside))
    else:
        raise UserError(f"not understood; allowed: {TABLES_SHOWN}, or .npz", "data", path)
    options = {"name": form or "npz", "train": str(whole or path), **found.dataset}
    if whole is None and not {"split", "validation"} & options.keys():
        options |= _validation(found.count, held_out="test" not in options)
    return replace(found, dataset=options)


def _arrays(name: str, path: Path, test: Path | None) -> Draft:
    import numpy as np

    from trainables.data.kinds.arrays import Images
    from trainables.data.readers.arrays import array_in, as_arrays, load_arrays

    where = f"data = {path}"
    with load_arrays(where, path) as file:
        arrays = {name: array_in(where, file, name) for name in file.files}
    label = _called(arrays, LABELS)
    inputs = _called(arrays, _INPUTS)
    if label is None or inputs is None:
        raise UserError(
            f"{where}: which of its arrays ({', '.join(arrays)}) are inputs and labels is "
            f"not clear; call them {_INPUTS[0]} and {LABELS[0]}, or write the sweep file by hand"
        )
    samples, labels = as_arrays(arrays[inputs], arrays[label], where)
    options, count = {"inputs": inputs, "label": label}, len(samples)
    options |= {} if test is None else {"test": str(test)}
    together, notes = _together({}, samples, labels, tested=test is not None)
    options |= together
    kind, seen = "array", f"arrays of {' x '.join(map(str, samples.shape[1:]))}"
    if samples.dtype == np.uint8:
        kind, seen = "image", str(Images.measured(samples[:1]))
    return Draft(name, options, kind, f"Seen: {count:,} {seen}.", comments=notes, count=count)


def _rows(own_name: str, rows: TrainingRows) -> Draft:
    table, label, tested = rows.table, rows.label, "test" in rows.beside
    classes = len(set(table[label].to_pylist()) - {None})
    others = [name for name in table.column_names if name != label]
    divided, notes = _divided_by(table, others, label, tested=tested)
    notes, given = (*rows.comments, *notes), {**rows.options, "label": label}
    others = [name for name in others if name not in divided.values()]
    seen = f"{table.num_rows:,} rows, {classes} classes in column {label}"
    unusable = {**rows.lacking, **unusable_columns(table, others)}
    usable = [name for name in others if name not in unusable]
    image, text = _image_column(table, others), _text(table, others)
    if len([name for name in usable if name != text]) > _FEW_COLUMNS:
        text = None  # free text among the columns of a table
    for kind, column in (("image", image), ("text", text)):
        if column is not None:
            options, more = _together(
                divided, _values(table[column]), _values(table[label]), tested=tested
            )
            options = {**given, kind: column, **options}
            return Draft(
                own_name,
                options,
                kind,
                f"Seen: {seen}, {kind}s in column {column}.",
                comments=(*notes, *more),
                count=table.num_rows,
            )
    dates = [
        name
        for name in unusable
        if name not in rows.lacking and is_dates(table[name]) and len(table[name].unique()) > 1
    ]
    unusable = {name: reason for name, reason in unusable.items() if name not in dates}
    if not (usable or dates):
        reasons = ", ".join(f"{name} ({reason})" for name, reason in unusable.items())
        raise UserError(f"none of its columns can be a feature: {reasons}", "data", rows.path)
    features = Columns(table.select([*usable, *dates]))
    divided, more = _together(divided, features, _values(table[label]), tested=tested)
    options = {**given, **divided}
    if unusable:
        options["exclude"] = list(unusable)
    if dates:
        options["dates"] = dates
    comments = [f"{name} is excluded: {reason}" for name, reason in unusable.items()]
    comments += [
        f"{name}: its year, month and weekday are features; with time: {name} instead of split and "
        "group, the latest rows are the test split"
        for name in dates
    ]
    return Draft(
        own_name,
        options,
        "table",
        f"Seen: {seen}; features are {few([*usable, *dates])}.",
        comments=(*notes, *more, *comments),
        objective="val_event_ece" if classes == 2 else "val_ece",
        count=table.num_rows,
    )


def _values(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Texts, digests of images or labels, (N,); missing ones are empty."""
    import numpy as np

    return np.array(["" if each is None else each for each in column.to_pylist()], dtype=object)


def _together(
    divided: dict[str, object], samples: Any, labels: npt.NDArray[Any], *, tested: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The option that divides the rows, and a comment: equal rows together if there are many."""
    import numpy as np

    (numbers,) = equal_numbers([samples])
    share = (np.bincount(numbers)[numbers] > 1).mean()
    if share <= _REPEATED:
        return divided, ()
    noticed = f"{share:.0%} of the rows equal another row in all features"
    words = map(str, labels if labels.ndim == 1 else labels.argmax(axis=1))
    of_class = {each for each in zip(words, numbers.tolist(), strict=True) if each[0]}
    if divided or tested or min(Counter(each for each, _ in of_class).values()) < 3:
        return divided, (f"{noticed}; `calsweep check` counts copies of training rows",)
    return {"group": EQUAL_ROWS}, (f"{noticed}: equal rows are in one split",)


def _divided_by(
    table: pa.Table, names: Sequence[str], label: str, *, tested: bool
) -> tuple[dict[str, object], tuple[str, ...]]:
    """The option with a column that divides the rows into splits, and a comment on it.

    If there is a test file (``tested``), which may share groups, the option is only in the comment.
    """
    from trainables.data.readers.divided_rows import names_splits
    from trainables.data.readers.tabular import tabular_of

    if "split" in names and not tested and names_splits(tabular_of(table), "split"):
        return {"split": "split"}, ("split names the split of each row",)
    if (group := group_column(table, names, label)) is None:
        return {}, ()
    count = len(table[group].unique())
    noticed = f"{group} repeats, {count:,} groups in {table.num_rows:,} rows"
    if tested:
        return {}, (f"{noticed}; with group: {group} none may be in two splits",)
    return {"group": group}, (f"{noticed}: none is in two splits",)


def _called(names: Sequence[str] | dict[str, Any], wanted: Sequence[str]) -> str | None:
    """The first of the wanted names that exists, ignoring upper and lower case."""
    by_lower = {name.lower(): name for name in names}
    return next((by_lower[name] for name in wanted if name in by_lower), None)


def _image_column(table: pa.Table, names: Sequence[str]) -> str | None:
    from trainables.data.readers.image_folder import SUFFIXES
    from trainables.data.readers.tabular import content_of

    for name in names:
        if (content := content_of(table[name].type)) == "bytes":
            return name
        if content == "text":
            values = [value for value in table[name].to_pylist() if value]
            if values and all(value.lower().endswith(tuple(SUFFIXES)) for value in values):
                return name
    return None


def _text(table: pa.Table, names: Sequence[str]) -> str | None:
    from trainables.data.readers.tabular import content_of

    texts = {}
    for name in names:
        if content_of(table[name].type) == "text":
            values = [value for value in table[name].to_pylist() if value]
            several = sum(map(bool, map(_SEVERAL_WORDS.search, values))) > len(values) / 2
            texts[name] = several * sum(map(len, values)) / max(1, len(values))
    named = _called(texts, ("text", "content", "sentence", "document", "body", "review"))
    longest = max(texts, key=lambda name: texts[name], default=None)
    if named is None and longest is not None and texts[longest] >= _A_TEXT:
        return longest
    return named


def _name(path: Path) -> str:
    stem = path.stem
    if stem.lower() in _TELL_NOTHING and path.absolute().parent.name:
        stem = path.absolute().parent.name
    words = re.sub(r"[^A-Za-z0-9_.-]+", "-", stem).strip("-._")
    return words[:100] or "sweep"
