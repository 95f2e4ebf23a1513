"""Your own images, texts or tables, with labels, in CSV or Parquet files."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trainables.data.core.bad_samples import BadSamples
from trainables.data.core.base import Dataset, Targets
from trainables.data.core.options import OF_IMAGES, CommonOptions, Validation, with_options
from trainables.data.core.samples import Samples
from trainables.data.core.splits import build_dataset, size_and_path
from trainables.data.kinds.encode import as_numbers, split_words
from trainables.data.kinds.samples import Images
from trainables.data.kinds.subwords import Subwords
from trainables.data.kinds.table import TableRows
from trainables.data.kinds.words import Tokens, WeightedWords
from trainables.data.labelling.targets import Values, check_weights, index_parts
from trainables.data.readers.divided_rows import DividedBy, columns_of, groups_of, read_division
from trainables.data.readers.files import Form, PathOrUri
from trainables.data.readers.images import Encoded
from trainables.data.readers.storing import ImagePart, hold_images
from trainables.data.readers.table_columns import (
    choose_features,
    convert_each,
    flags_of,
    numbers_of,
    read_columns,
    remarks_on_columns,
    remarks_on_labels,
)
from trainables.data.readers.tabular import Content, TabularFiles, open_tabular
from trainables.data.readers.tabular_file import File
from trainables.plugins.components import Range

Count: TypeAlias = Annotated[int, Range(1)]
Names: TypeAlias = tuple[str, ...] | None
TextForm: TypeAlias = Literal["sequence", "weighted_words"]


@with_options(*OF_IMAGES, "test_size")
def _load(
    form: Form,
    *,
    train: PathOrUri,
    test: PathOrUri | None = None,
    label: str = "label",
    labels: Names = None,
    separator: str | None = None,
    soft_labels: Names = None,
    weight: str | None = None,
    text: str | None = None,
    image: str | None = None,
    features: Names = None,
    exclude: Names = None,
    dates: Names = None,
    categorical: Names = None,
    split: str | None = None,
    group: str | None = None,
    time: str | None = None,
    max_words: Count | None = None,
    max_tokens: Count | None = None,
    tokenizer: str | None = None,
    text_form: TextForm | None = None,
    validation: Validation = 0.1,
    common: CommonOptions,
) -> Dataset:
    """A table, texts or images with labels, from files with named columns.

    If none of ``text``, ``image`` and ``features`` is given, a column ``image`` of Parquet files
    contains the images. Without such a column, the rows are those of a table: every column except
    labels and weights is a feature, numeric if it contains numbers or booleans, else categorical.
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
    parts = [open_tabular("train", train, form)]
    if test is not None:
        parts.append(open_tabular("test", test, form))
    size, held = size_and_path(validation)
    if held is not None:
        parts.append(open_tabular("validation", held, form))
    kind = _kind(parts[0], text=text, image=image, features=features)
    kept = [*(features or ()), *(dates or ())]
    by = DividedBy(split, group, time).found_in(parts, [*kept, *(exclude or ())])
    _check_belongs(kind, "text", max_words=max_words, max_tokens=max_tokens, tokenizer=tokenizer)
    _check_belongs(kind, "text", text_form=text_form)
    of_images = {name: getattr(common, name) for name in ("image_size", "storage", "cache")}
    _check_belongs(kind, "image", **of_images)
    _check_belongs(kind, "features", categorical=categorical, exclude=exclude, dates=dates)
    target = _Target(label, labels, separator, soft_labels)
    measure: Callable[[Any], Samples]
    if kind == "text":
        assert text is not None
        if parts[0].content(text, "text") not in ("text", "nothing"):
            raise ValueError(f"{parts[0].holds(text)}, not texts")
        read: Callable[..., Any] = partial(read_texts, column=text)
        measure = _measure_texts(max_words, max_tokens, tokenizer, text_form)
    elif kind == "image":
        read, measure = partial(_image_part, column=image or "image"), Images.measured
    else:
        targets = {*target.columns, weight, *columns_of(by, kept)}
        numbers, words = choose_features(parts, targets, features, exclude, dates, categorical)
        flags = flags_of(parts[0], numbers)
        read = partial(read_columns, numeric=numbers, categorical=words, flags=flags)
        measure = partial(TableRows.measured, numeric=numbers, categorical=words, flags=flags)
    bad = [BadSamples(part.count, part.where) for part in parts]
    of_parts, classes = _targets(parts, bad, target, weight)
    raw = [read(*each) for each in zip(parts, bad, strict=True)]
    if kind == "image":
        raw = hold_images(raw, common)
    division, divided = read_division(parts, bad, by)
    if by.group is not None and not by.together_if_equal(parts):
        of_parts = [
            replace(targets, groups=groups_of(part, by.group))
            for targets, part in zip(of_parts, parts, strict=True)
        ]
    remarks: Sequence[str] = ()
    if kind == "features":
        good = bad[0].good()
        remarks = (
            *remarks_on_columns(parts[0], raw[0], numbers, words),
            *remarks_on_labels(raw[0][good], of_parts[0].labels[good]),
        )
    return build_dataset(
        form,
        raw,
        of_parts,
        classes,
        bad=bad,
        own_validation=held is not None,
        common=replace(common, validation=size),
        measure=measure,
        division=division,
        remarks=(*divided, *remarks),
    )


load_csv = partial(_load, "csv")
load_parquet = partial(_load, "parquet")
load_jsonl = partial(_load, "jsonl")
load_arrow = partial(_load, "arrow")


@dataclass(frozen=True)
class _Target:
    """The options for labels."""

    label: str
    labels: Names
    separator: str | None
    soft_labels: Names

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are not features."""
        several = () if self.separator else self.labels or ()
        return (self.label, *(self.soft_labels or several))


_WORDS = {"text": "texts", "image": "images", "features": "a table"}


def _kind(rows: TabularFiles, **columns: object) -> str:
    """The kind of sample, a key of ``_WORDS``; ``columns`` are the options that name columns."""
    named = [name for name, given in columns.items() if given is not None]
    if len(named) > 1:
        raise ValueError(f"{' and '.join(named)} are given; give one of them")
    if not named and "image" in rows.names:
        return "features" if rows.content("image", "image") in ("number", "truth") else "image"
    return named[0] if named else "features"


def _check_belongs(kind: str, to: str, **options: object) -> None:
    for option, value in options.items():
        if value is not None and kind != to:
            raise ValueError(
                f"{option} belongs to {_WORDS[to]}, while the rows are read as {_WORDS[kind]}"
            )


_SEQUENCE = 256  # words or tokens from the start of a text
_WEIGHTED = 512  # distinct words of a text


def _measure_texts(
    words: int | None, tokens: int | None, tokenizer: str | None, form: TextForm | None
) -> Callable[[Any], Samples]:
    if tokenizer is not None:
        if words is not None:
            raise ValueError("max_words and tokenizer are given; a tokenizer has a vocabulary")
        if form == "weighted_words":
            raise ValueError("text_form: weighted_words is not possible together with tokenizer")
        return partial(Subwords.measured, tokenizer=tokenizer, max_tokens=tokens or _SEQUENCE)
    if form == "weighted_words":
        return partial(
            WeightedWords.measured, max_words=words or 50_000, max_tokens=tokens or _WEIGHTED
        )
    return partial(Tokens.measured, max_words=words or 20_000, max_tokens=tokens or _SEQUENCE)


def _targets(
    parts: list[TabularFiles], bad: list[BadSamples], target: _Target, weight: str | None
) -> tuple[list[Targets], tuple[str, ...]]:
    """Targets of each part, with class names."""
    content = _label_content(parts[0], target)
    names = _names(parts[0], target)
    values = [_labels(*each, target, names, content) for each in zip(parts, bad, strict=True)]
    targets, classes = index_parts(values, names, bad)
    if weight is not None:
        weights = check_weights(_column_of_numbers(parts[0], weight, "weight"), "train", bad[0])
        targets[0] = replace(targets[0], weights=weights)
    return targets, classes


def _names(rows: TabularFiles, target: _Target) -> Names:
    """Names of classes or labels; None if they come from the column."""
    if target.soft_labels is not None and (target.labels, target.separator) != (None, None):
        raise ValueError("soft_labels are of one class of each sample; leave labels and separator")
    if target.soft_labels is not None or target.labels is not None:
        return tuple(target.soft_labels or target.labels or ())
    if target.separator is None:
        return _class_names(rows, target.label)
    return tuple(sorted({name for each in _separated(rows, target) for name in each}))


def _label_content(rows: TabularFiles, target: _Target) -> Content:
    """What the training part decides that the label column contains in every file."""
    needed = target.separator is not None or target.label in rows.names
    content = rows.content(target.label, "label") if needed else "nothing"
    if target.separator is not None and content not in ("text", "nothing"):
        raise ValueError(
            f"{rows.holds(target.label)}, not words that separator={target.separator!r} could split"
        )
    return content


def _labels(
    rows: TabularFiles, bad: BadSamples, target: _Target, names: Names, content: Content
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


def _separated(rows: TabularFiles, target: _Target) -> list[set[str]]:
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


def read_texts(rows: TabularFiles, bad: BadSamples, column: str) -> npt.NDArray[Any]:
    """Texts (N,) of Python strings; those without a word are added to the bad samples.

    Raises ``ValueError`` if the column is missing or holds something else.
    """
    if rows.content(column, "text") not in ("text", "nothing") and rows.typed:
        raise ValueError(f"{rows.holds(column)}, not texts")
    texts = rows.column(column, pa.string()).to_pylist()
    for row, text in enumerate(texts):
        if text is None or not split_words(text):
            bad.add(row, "there is no text" if not text else "there is no word in the text")
    return np.array([text or "" for text in texts], dtype=object)


def _image_part(rows: TabularFiles, bad: BadSamples, column: str) -> ImagePart:
    content = rows.content(column, "image")
    if content not in ("bytes", "text", "nothing"):
        raise ValueError(
            f"{rows.holds(column)}; images must be encoded files (PNG, JPEG ...) as binary "
            "values, structs with a binary field 'bytes', or paths"
        )
    paths = content == "text"
    contents = partial(_files if paths else _values, rows, column)
    return ImagePart(contents, bad, partial(_origin, rows, column, paths))


def _values(rows: TabularFiles, column: str) -> Iterator[Encoded]:
    """The encoded images in a column."""
    values = rows.values(column)
    if pa.types.is_struct(rows.type(column)):
        return (value and value["bytes"] for value in values)
    return values


def _files(rows: TabularFiles, column: str) -> Iterator[Encoded]:
    """The files at the paths of a column."""
    for path, place in zip(rows.values(column), _places(rows, column), strict=True):
        if place is None:
            yield None
            continue
        try:
            with rows.source.open_input_stream(place, compression=None) as stream:
                yield stream.read()
        except OSError as error:
            yield f"{column}={path} cannot be read: {error}"


def _places(rows: TabularFiles, column: str) -> Iterator[str | None]:
    """Paths in the file system; paths in a column are relative to the folder of its file."""
    for row, path in enumerate(rows.values(column)):
        inside = path is None or path.startswith("/")
        yield path if inside else f"{rows.folder(row)}/{path}"


def _origin(rows: TabularFiles, column: str, paths: bool) -> object:
    """Names, sizes and modification times of the files that contain the images."""
    files = [file.path for file in rows.files]
    if paths:
        files += [place for place in _places(rows, column) if place is not None]
    found = rows.source.get_file_info(files)
    return column, [(info.path, info.size, info.mtime_ns) for info in found]
