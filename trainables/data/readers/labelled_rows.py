"""Your own images, texts or tables, with labels, in CSV or Parquet files."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trainables.data.core.bad_samples import BadSamples
from trainables.data.core.base import Dataset, Targets
from trainables.data.core.divisions import ByEqualRows
from trainables.data.core.options import OF_IMAGES, CommonOptions, with_options
from trainables.data.core.splits import About, Part, build_dataset, size_and_path
from trainables.data.kinds.encode import as_numbers
from trainables.data.labelling.targets import Values, check_weights, index_parts
from trainables.data.readers.divided_rows import groups_of, read_division, with_split_column
from trainables.data.readers.files import Form
from trainables.data.readers.row_kinds import kind_of_rows
from trainables.data.readers.row_options import Names, RowsOptions
from trainables.data.readers.table_columns import convert_each, numbers_of
from trainables.data.readers.tabular import Content, TabularFiles, open_tabular
from trainables.data.readers.tabular_file import File


def _load(form: Form, *, options: RowsOptions, common: CommonOptions) -> Dataset:
    """A table, texts or images with labels, from files with named columns.

    If none of ``text``, ``image``, ``embedding`` and ``features`` is given, a column ``image`` of
    Parquet files contains the images. Without such a column, the rows are those of a table: every
    column except labels and weights is a feature, numeric if it contains numbers or booleans, else
    categorical.
    In CSV, an empty value, NA, N/A, NaN and null are missing values unless quoted.

    A column of images contains paths relative to the folder of the file. In Parquet files, it may
    also contain encoded images (PNG, JPEG ...) as binary values or, as written by Hugging Face, in
    structs with a field ``bytes``. Class names come from the metadata of the Parquet schema, if
    present: a ``ClassLabel`` of Hugging Face, or a key ``classes`` with comma-separated names.
    Codes are positions in the names of their own file.

    Options:
        train: Path or URI (``s3://``, ``gs://`` ...) of a file, of a folder of such files, or a
            pattern such as ``parts/*.csv``.
        test: Path of the test split; by default, ``test_size`` of ``train`` is held out.
        validation: Path of the validation split, or how many samples of ``train`` to hold out.
        label: Column of the labels: words, integers from 0 (also 0.0), or booleans.
        labels: For multi-label data, instead of ``label``: one column per label, which is 1 or true
            if the label is present.
        separator: Separator of several labels in the column ``label``, such as ``|``. A sample with
            an empty value has no label. ``labels`` then lists the labels to use.
        soft_labels: Instead of ``label``: one column per class with its probability. The other
            splits may have a column ``label`` all the same.
        weight: Column of sample weights for training.
        text: Column of the texts.
        image: Column of the images.
        embedding: Column of embeddings: lists of numbers, all of one length (not in CSV).
        features: Feature columns of a table; by default all except labels and weights.
        exclude: Columns of a table that are not features; instead of ``features``.
        dates: Columns of dates, such as 2026-11-24; their year, month and weekday are features.
        categorical: Feature columns that are categories although they contain numbers.
        split: Column that names the split of each row: train or training; val, valid or validation;
            test or testing. A split that it does not name is held out of training. Without this
            option, a column called ``split`` with only such words divides a single file.
        group: Column of customers, patients ...: no group is in two splits. It is no feature. Or
            ``equal_rows``: rows that are equal in all features are in one split.
        time: Column of dates, times or numbers: the latest rows are the test split, and the latest
            before them the validation split. It is a feature only if ``features`` or ``dates`` name
            it. With ``group``, earlier rows of a group in a later split are left out.
        max_words: Size of the vocabulary, the most frequent words of the training texts (default:
            50,000; for a sequence 20,000).
        max_tokens: Maximum number of words, or tokens, per text: those with the largest weights
            (default: 512); for a sequence the first ones (default: 256).
        tokenizer: Name on the Hugging Face hub, or folder, of the tokenizer of an encoder; by
            default, texts are split into words.
        text_form: ``weighted_words`` for bags of words with TF-IDF weights, or ``sequence`` for
            sequences of words. By default the form that the model of the sweep needs.
    """
    size, held = size_and_path(options.validation)
    places = {"train": options.train, "test": options.test, "validation": held}
    given = {option: path for option, path in places.items() if path is not None}
    parts = [open_tabular(option, path, form) for option, path in given.items()]
    options = with_split_column(parts, options)
    kind = kind_of_rows(parts, options, common)
    bad = [BadSamples(part.count, part.where) for part in parts]
    targets, classes = _targets(parts, bad, options)
    raw = kind.hold([kind.read(*each) for each in zip(parts, bad, strict=True)], common)
    division, divided = read_division(parts, bad, options)
    if options.group is not None and not isinstance(division, ByEqualRows):
        groups = [groups_of(part, options.group) for part in parts]
        targets = [replace(each, groups=own) for each, own in zip(targets, groups, strict=True)]
    about = About(
        name=form,
        classes=classes,
        measure=kind.measure,
        division=division,
        remarks=(*divided, *kind.remarks(parts[0], raw[0], bad[0], targets[0])),
    )
    found = map(Part, raw, targets, bad)
    common = replace(common, validation=size)
    return build_dataset(dict(zip(given, found, strict=True)), about, common)


_with_rows = with_options(*OF_IMAGES, "test_size", own=RowsOptions)
load_csv = _with_rows(partial(_load, "csv"))
load_parquet = _with_rows(partial(_load, "parquet"))
load_jsonl = _with_rows(partial(_load, "jsonl"))
load_arrow = _with_rows(partial(_load, "arrow"))


def _targets(
    parts: list[TabularFiles], bad: list[BadSamples], target: RowsOptions
) -> tuple[list[Targets], tuple[str, ...]]:
    """Targets of each part, with class names."""
    content = _label_content(parts[0], target)
    names = _names(parts[0], target)
    values = [_labels(*each, target, names, content) for each in zip(parts, bad, strict=True)]
    targets, classes = index_parts(values, names, bad)
    if (weight := target.weight) is not None:
        weights = check_weights(_column_of_numbers(parts[0], weight, "weight"), "train", bad[0])
        targets[0] = replace(targets[0], weights=weights)
    return targets, classes


def _names(rows: TabularFiles, target: RowsOptions) -> Names:
    """Names of classes or labels; None if they come from the column."""
    if target.soft_labels is not None and (target.labels, target.separator) != (None, None):
        raise ValueError("soft_labels are of one class of each sample; leave labels and separator")
    if target.soft_labels is not None or target.labels is not None:
        return tuple(target.soft_labels or target.labels or ())
    if target.separator is None:
        return _class_names(rows, target.label)
    return tuple(sorted({name for each in _separated(rows, target) for name in each}))


def _label_content(rows: TabularFiles, target: RowsOptions) -> Content:
    """What the training part decides that the label column contains in every file."""
    needed = target.separator is not None or target.label in rows.names
    content = rows.content(target.label, "label") if needed else "nothing"
    if target.separator is not None and content not in ("text", "nothing"):
        raise ValueError(
            f"{rows.holds(target.label)}, not words that separator={target.separator!r} could split"
        )
    return content


def _labels(
    rows: TabularFiles, bad: BadSamples, target: RowsOptions, names: Names, content: Content
) -> Values:
    """Labels (N,), class probabilities (N, K), or which labels are present (N, L)."""
    if target.separator is not None:
        assert names is not None
        return np.array([[name in each for name in names] for each in _separated(rows, target)])
    if target.labels is not None:
        return np.stack([_yes_or_no(rows, bad, each) for each in target.labels], 1)
    columns, certain = target.soft_labels, target.label in rows.names
    if columns is None or (rows.option != "train" and certain and columns[0] not in rows.names):
        return _certain_labels(rows, bad, target.label, names, content)
    return np.stack([_column_of_numbers(rows, each, "soft_labels") for each in columns], 1)


def _separated(rows: TabularFiles, target: RowsOptions) -> list[set[str]]:
    """The labels of each row."""
    texts = rows.column(target.label, pa.string()).to_pylist()
    parted = ((value or "").split(target.separator) for value in texts)
    return [{name for each in names if (name := each.strip())} for names in parted]


def _yes_or_no(rows: TabularFiles, bad: BadSamples, column: str) -> Values:
    values = _column_of_numbers(rows, column, "labels")

    def fault(row: int) -> str:
        found = "missing" if np.isnan(values[row]) else f"{values[row]:g}"
        return f"{column} is {found}; allowed: 0 and 1, or true and false"

    bad.add_each(~np.isin(values, (0, 1)), fault)
    there: Values = values == 1
    return there


def _column_of_numbers(rows: TabularFiles, column: str, option: str) -> Values:
    """Numbers (N,), NaN where missing; 1 for true and 0 for false."""
    content = rows.content(column, option)
    if content not in ("number", "truth", "nothing"):
        raise ValueError(f"{rows.holds(column, option)}, not numbers")
    values: Values = numbers_of(rows, column, content).to_numpy()
    return values


def _certain_labels(
    rows: TabularFiles, bad: BadSamples, column: str, names: Names, trained: Content
) -> Values:
    """Labels (N,): names, text if that of training is, or whole numbers."""
    content = rows.content(column, "label")
    own = content == "number" and _class_names(rows, column) is not None
    names_given = names is not None and content == "text"
    decided = content if own or names_given or trained == "nothing" else trained
    if decided in ("bytes", "other"):
        raise ValueError(f"{rows.holds(column)}; labels must be integers, words, or true and false")
    if decided in ("number", "nothing"):
        found = _whole_numbers(rows, bad, column, content)
    else:
        found = rows.column(column, pa.string())
        found = pc.utf8_lower(found) if decided == "truth" else found
        blank = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(found)), 0)
        found = pc.if_else(blank, pa.scalar(None, found.type), found)  # quoted "" in CSV
    bad.add_each(found.is_null(), "there is no label")
    if pa.types.is_integer(found.type):
        codes: Values = pc.fill_null(found, 0).to_numpy()
        named = own or names is not None
        return _decoded(rows, bad, column, codes.tolist(), names or ()) if named else codes
    return np.array(pc.fill_null(found, "").to_pylist(), np.str_)


def _whole_numbers(
    rows: TabularFiles, bad: BadSamples, column: str, content: Content
) -> pa.ChunkedArray:
    """Labels, int64, also from 0.0 and 1.0."""
    if content not in ("number", "nothing"):
        return convert_each(rows, column, bad, as_numbers, "an integer").cast(pa.int64())
    if all(pa.types.is_integer(file.schema.field(column).type) for file in rows.files):
        return rows.column(column, pa.int64())
    numbers = rows.column(column, pa.float64())
    numbers = pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)
    try:
        return numbers.cast(pa.int64())
    except pa.ArrowInvalid:
        raise ValueError(
            f"{rows.holds(column)}; labels must be integers, words, or true and false"
        ) from None


def _decoded(
    rows: TabularFiles, bad: BadSamples, column: str, codes: list[int], names: tuple[str, ...]
) -> Values:
    """The names of codes, which in each file are positions in the names of that file."""
    found: list[str] = []
    for file, start in zip(rows.files, rows.starts, strict=True):
        own = _names_in(file, column) or names
        for row, code in enumerate(codes[start : start + file.count], start):
            known = 0 <= code < len(own)
            if not known:
                bad.add(
                    row,
                    f"label {code} must be at least 0 and below {len(own)}, the number of "
                    f"class names in {file.path}",
                )
            found.append(own[code] if known else "")
    return np.array(found, np.str_)


def _class_names(rows: TabularFiles, label: str) -> tuple[str, ...] | None:
    """The names in any of the files; in that order, if all have the same."""
    names = [name for file in rows.files for name in _names_in(file, label) or ()]
    return tuple(dict.fromkeys(names)) or None


def _names_in(file: File, label: str) -> tuple[str, ...] | None:
    """The class names in the metadata of a file."""
    metadata = file.schema.metadata or {}
    if b"classes" in metadata:
        return tuple(metadata[b"classes"].decode().split(","))
    described = json.loads(metadata.get(b"huggingface", b"{}"))
    names = described.get("info", {}).get("features", {}).get(label, {}).get("names")
    return None if names is None else tuple(names)
