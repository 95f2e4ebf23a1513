"""The user's own images, texts or table, with labels, in CSV or Parquet files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, TypeAlias

import numpy as np
import pyarrow as pa

from trainables.components import Range
from trainables.data.bad_samples import BadSamples, OnBadSample, settle
from trainables.data.base import Dataset
from trainables.data.files import PathOrUri
from trainables.data.images import Encoded
from trainables.data.labels import Values
from trainables.data.rows import Form, Rows, open_rows
from trainables.data.samples import Images, Samples
from trainables.data.splits import HeldOut, SampleCount, build_dataset, stratified_split
from trainables.data.storing import Cache, ImagePart, Storage, hold_images
from trainables.data.subwords import Subwords
from trainables.data.table import Columns, TableRows
from trainables.data.targets import check_weights, index_targets
from trainables.data.tasks import strata
from trainables.data.tokens import Tokens, split_words

Count: TypeAlias = Annotated[int, Range(1)]
Names: TypeAlias = tuple[str, ...] | None


def load_csv(
    *,
    seed: int,
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
    categorical: Names = None,
    test_size: HeldOut = 0.2,
    image_size: Count | None = None,
    max_words: Count | None = None,
    max_tokens: Count | None = None,
    tokenizer: str | None = None,
    on_bad_sample: OnBadSample = "error",
    storage: Storage = None,
    cache: Cache = None,
    validation: HeldOut = 0.1,
    train_samples: SampleCount = None,
) -> Dataset:
    """A table, texts, or paths of images with labels, from CSV files with a header.

    Without ``text`` and ``image`` the rows are those of a table: every column but those of labels
    and weights is a feature, numeric if it holds numbers or true and false, else categorical.
    Unquoted, an empty value, NA, N/A, NaN and null are missing.

    Args:
        seed: Chooses the validation samples and the subset.
        train: Path or URI (``s3://``, ``gs://`` ...) of a file, of a folder of such files, or a
            pattern such as ``parts/*.csv``.
        test: Likewise; without it ``test_size`` makes the test split of ``train``.
        label: Column of the labels: words, integers from 0, or true and false.
        labels: In place of it, a column for each of several labels: is it there (1, true) or not?
        separator: What parts several labels in the column ``label``, such as ``|``; an empty value
            has none. ``labels`` then names those that count.
        soft_labels: In place of it, a column for each class with its probability; a test split may
            have certain labels all the same.
        weight: Column of numbers: how much each sample counts in training.
        text: Column of the texts.
        image: Column of the images' paths, from the folder of the file.
        features: Columns of a table to learn from; by default all but those of labels and weights.
        categorical: Which of them are categories although they hold numbers.
        test_size: Fraction or number of samples for the test split, the same for every seed.
        image_size: Resize the shorter side to this and crop the centre; needed if sizes differ.
        max_words: Size of the vocabulary (20,000): the most frequent words of the training texts.
        max_tokens: Number of words, or tokens, to read of each text (256).
        tokenizer: Name on the hub of Hugging Face's, or folder, of what cuts texts into tokens for
            its encoders; by default texts are cut into words.
        on_bad_sample: ``skip`` passes over samples that cannot be used, and counts them.
        storage: Where images are held: decoded in ``memory``, or encoded on the disk to
            ``stream`` them; by default their size decides.
        cache: Folder of what is streamed (``~/.cache/calsweep``).
        validation: Fraction or number of training samples to hold out.
        train_samples: Train on so many samples only.
    """
    return _load(
        "csv",
        _Paths(train, test, test_size),
        _Options(
            label=label,
            labels=labels,
            separator=separator,
            soft_labels=soft_labels,
            weight=weight,
            text=text,
            image=image,
            features=features,
            categorical=categorical,
            image_size=image_size,
            max_words=max_words,
            max_tokens=max_tokens,
            tokenizer=tokenizer,
            on_bad_sample=on_bad_sample,
            storage=storage,
            cache=cache,
        ),
        validation=validation,
        train_samples=train_samples,
        seed=seed,
    )


def load_parquet(
    *,
    seed: int,
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
    categorical: Names = None,
    test_size: HeldOut = 0.2,
    image_size: Count | None = None,
    max_words: Count | None = None,
    max_tokens: Count | None = None,
    tokenizer: str | None = None,
    on_bad_sample: OnBadSample = "error",
    storage: Storage = None,
    cache: Cache = None,
    validation: HeldOut = 0.1,
    train_samples: SampleCount = None,
) -> Dataset:
    """Images, texts or a table with labels from Parquet files, a row for each sample.

    Without ``text``, ``image`` and ``features`` a column ``image`` is taken for images; without
    one the rows are those of a table: every column but those of labels and weights is a feature,
    numeric if it holds numbers or true and false, else categorical.

    An image column holds encoded files (PNG, JPEG ...) as binary values or, as Hugging Face writes
    them, in structs with a field ``bytes``; or paths. Class names are taken from the schema's
    metadata, if there: Hugging Face's ``ClassLabel``, or a key ``classes`` with names between
    commas.

    Args:
        seed: Chooses the validation samples and the subset.
        train: Path or URI (``s3://``, ``gs://`` ...) of a file, of a folder of such files, or a
            pattern such as ``parts/*.parquet``.
        test: Likewise; without it ``test_size`` makes the test split of ``train``.
        label: Column of the labels: words, integers from 0, or true and false.
        labels: In place of it, a column for each of several labels: is it there (1, true) or not?
        separator: What parts several labels in the column ``label``, such as ``|``; an empty value
            has none. ``labels`` then names those that count.
        soft_labels: In place of it, a column for each class with its probability; a test split may
            have certain labels all the same.
        weight: Column of numbers: how much each sample counts in training.
        text: Column of the texts.
        image: Column of the images.
        features: Columns of a table to learn from; by default all but those of labels and weights.
        categorical: Which of them are categories although they hold numbers.
        test_size: Fraction or number of samples for the test split, the same for every seed.
        image_size: Resize the shorter side to this and crop the centre; needed if sizes differ.
        max_words: Size of the vocabulary (20,000): the most frequent words of the training texts.
        max_tokens: Number of words, or tokens, to read of each text (256).
        tokenizer: Name on the hub of Hugging Face's, or folder, of what cuts texts into tokens for
            its encoders; by default texts are cut into words.
        on_bad_sample: ``skip`` passes over samples that cannot be used, and counts them.
        storage: Where images are held: decoded in ``memory``, or encoded on the disk to
            ``stream`` them; by default their size decides.
        cache: Folder of what is streamed (``~/.cache/calsweep``).
        validation: Fraction or number of training samples to hold out.
        train_samples: Train on so many samples only.
    """
    return _load(
        "parquet",
        _Paths(train, test, test_size),
        _Options(
            label=label,
            labels=labels,
            separator=separator,
            soft_labels=soft_labels,
            weight=weight,
            text=text,
            image=image,
            features=features,
            categorical=categorical,
            image_size=image_size,
            max_words=max_words,
            max_tokens=max_tokens,
            tokenizer=tokenizer,
            on_bad_sample=on_bad_sample,
            storage=storage,
            cache=cache,
        ),
        validation=validation,
        train_samples=train_samples,
        seed=seed,
    )


@dataclass(frozen=True)
class _Paths:
    train: PathOrUri
    test: PathOrUri | None
    test_size: float | int


@dataclass(frozen=True)
class _Options:
    label: str
    labels: Names
    separator: str | None
    soft_labels: Names
    weight: str | None
    text: str | None
    image: str | None
    features: Names
    categorical: Names
    image_size: int | None
    max_words: int | None
    max_tokens: int | None
    tokenizer: str | None
    on_bad_sample: OnBadSample
    storage: Storage
    cache: Cache


Read: TypeAlias = Callable[[list[Rows], list[BadSamples]], list[Any]]
"""Reads the samples of all parts: one thing for each that an array of rows can index."""


def _load(form: Form, paths: _Paths, given: _Options, **splitting: Any) -> Dataset:
    parts = [open_rows(form, "train", paths.train)]
    if paths.test is not None:
        parts.append(open_rows(form, "test", paths.test))
    read, measure = _kind(parts, given)
    bad = [BadSamples(part.count, part.where) for part in parts]
    names = _names(parts[0], given)
    values = [_labels(*each, given, names) for each in zip(parts, bad, strict=True)]
    train_targets, test_targets, classes = index_targets(
        values[0], values[-1], names, (bad[0], bad[-1])
    )
    if given.weight is not None:
        weights = _column_of_numbers(parts[0], given.weight, "weight")
        train_targets = replace(train_targets, weights=check_weights(weights, "train", bad[0]))
    raw = read(parts, bad)
    notes = settle(bad, given.on_bad_sample)
    kept = [part.good() for part in bad]
    if paths.test is None:
        test_targets = train_targets
        kinds, known = strata(train_targets.labels[kept[0]], classes)
        rest, held = stratified_split(
            kinds, paths.test_size, seed=0, classes=known, option="test_size"
        )
        kept = [kept[0][rest], kept[0][held]]
    return build_dataset(
        form,
        train=(raw[0][kept[0]], train_targets[kept[0]]),
        test=(raw[-1][kept[-1]], test_targets[kept[-1]]),
        classes=classes,
        measure=measure,
        notes=notes,
        **splitting,
    )


def _kind(parts: list[Rows], given: _Options) -> tuple[Read, Callable[[Any], Samples]]:
    """How the samples are read, and what they are."""
    named = [name for name in ("text", "image", "features") if getattr(given, name) is not None]
    if len(named) > 1:
        raise ValueError(f"{' and '.join(named)} are given; give one of them")
    kind = named[0] if named else "features"
    if not named and "image" in parts[0].names and _is_image(parts[0], "image"):
        kind = "image"
    belongs = {"categorical": "features", "image_size": "image"}
    belongs |= {"storage": "image", "cache": "image"}
    belongs |= {"max_words": "text", "max_tokens": "text", "tokenizer": "text"}
    for option, to in belongs.items():
        if getattr(given, option) is not None and kind != to:
            raise ValueError(
                f"{option} belongs to {_WORDS[to]}, while the rows are read as {_WORDS[kind]}"
            )
    if kind == "text":
        assert given.text is not None
        return partial(_read_texts, column=given.text), _measure_texts(given)
    if kind == "image":
        column = given.image or "image"
        return partial(_read_images, column=column, given=given), Images.measured
    numeric, categorical = _features(parts, given)
    return (
        partial(_read_table, numeric=numeric, categorical=categorical),
        partial(TableRows.measured, numeric=numeric, categorical=categorical),
    )


def _measure_texts(given: _Options) -> Callable[[Any], Samples]:
    max_words, max_tokens = given.max_words or 20_000, given.max_tokens or 256
    if given.tokenizer is None:
        return partial(Tokens.measured, max_words=max_words, max_tokens=max_tokens)
    if given.max_words is not None:
        raise ValueError("max_words and tokenizer are given; a tokenizer has a vocabulary")
    return partial(Subwords.measured, tokenizer=given.tokenizer, max_tokens=max_tokens)


_WORDS = {"text": "texts", "image": "images", "features": "a table"}


def _is_image(rows: Rows, column: str) -> bool:
    return rows.content(column, "image") not in ("number", "truth")


def _names(rows: Rows, given: _Options) -> Names:
    """Names of classes or of several labels; None where they are what is found in the column."""
    if given.soft_labels is not None and (given.labels, given.separator) != (None, None):
        raise ValueError("soft_labels are of one class of each sample; leave labels and separator")
    if given.soft_labels is not None or given.labels is not None:
        return tuple(given.soft_labels or given.labels or ())
    if given.separator is None:
        return _class_names(rows, given.label)
    return tuple(sorted({name for each in _separated(rows, given) for name in each}))


def _labels(rows: Rows, bad: BadSamples, given: _Options, names: Names) -> Values:
    """Labels (N,), class probabilities (N, K), or which of several labels are there (N, L)."""
    if given.separator is not None:
        assert names is not None
        return np.array([[name in each for name in names] for each in _separated(rows, given)])
    if given.labels is not None:
        return np.stack([_yes_or_no(rows, bad, each) for each in given.labels], 1)
    columns, certain = given.soft_labels, given.label in rows.names
    if columns is None or (rows.option == "test" and certain and columns[0] not in rows.names):
        return _certain_labels(rows, bad, given.label)
    return np.stack([_column_of_numbers(rows, each, "soft_labels") for each in columns], 1)


def _separated(rows: Rows, given: _Options) -> list[set[str]]:
    """The labels of each row."""
    if rows.content(given.label, "label") not in ("text", "nothing"):
        raise ValueError(
            f"{rows.option}={rows.files[0].path}: column {given.label!r} holds "
            f"{rows.type(given.label)}, not words that separator={given.separator!r} could part"
        )
    parted = ((value or "").split(given.separator) for value in rows.values(given.label))
    return [{name for each in names if (name := each.strip())} for names in parted]


def _yes_or_no(rows: Rows, bad: BadSamples, column: str) -> Values:
    """Whether a label is there, (N,)."""
    if rows.content(column, "labels") == "truth":
        values = rows.column(column, pa.bool_()).cast(pa.uint8()).cast(pa.float64()).to_numpy()
    else:
        values = _column_of_numbers(rows, column, "labels")
    for row in np.flatnonzero(~np.isin(values, (0, 1))).tolist():
        found = "missing" if np.isnan(values[row]) else f"{values[row]:g}"
        bad.add(row, f"{column} is {found}; allowed: 0 and 1, or true and false")
    there: Values = values == 1
    return there


def _column_of_numbers(rows: Rows, column: str, option: str) -> Values:
    """Numbers (N,), NaN where there is none."""
    if rows.content(column, option) not in ("number", "nothing"):
        raise ValueError(
            f"{rows.option}={rows.files[0].path}: column {column!r} (option {option}) holds "
            f"{rows.type(column)}, not numbers"
        )
    values: Values = rows.column(column, pa.float64()).to_numpy()
    return values


def _certain_labels(rows: Rows, bad: BadSamples, column: str) -> Values:
    content = rows.content(column, "label")
    kind = rows.type(column)
    whole = content == "number" and not (pa.types.is_floating(kind) or pa.types.is_decimal(kind))
    if content not in ("text", "truth", "nothing") and not whole:
        raise ValueError(
            f"{rows.option}={rows.files[0].path}: column {column!r} holds {kind}; labels must be "
            "integers, words, or true and false"
        )
    values = list(rows.values(column))
    fill: Any = "" if content == "text" else 0
    for row, value in enumerate(values):
        if value is None:
            bad.add(row, "there is no label (null)")
            values[row] = fill
        elif content == "truth":
            values[row] = str(value).lower()
    if content == "truth":
        return np.array(list(map(str, values)), np.str_)
    return np.array(values, np.str_ if content == "text" else np.int64)


def _class_names(rows: Rows, label: str) -> tuple[str, ...] | None:
    if b"classes" in rows.metadata:
        return tuple(rows.metadata[b"classes"].decode().split(","))
    described = json.loads(rows.metadata.get(b"huggingface", b"{}"))
    names = described.get("info", {}).get("features", {}).get(label, {}).get("names")
    return None if names is None else tuple(names)


def _read_texts(parts: list[Rows], bad: list[BadSamples], *, column: str) -> list[Any]:
    raw = []
    for rows, faults in zip(parts, bad, strict=True):
        content = rows.content(column, "text")
        if content not in ("text", "nothing"):
            raise ValueError(
                f"{rows.option}={rows.files[0].path}: column {column!r} holds {rows.type(column)}, "
                "not texts"
            )
        texts = np.array(list(rows.values(column)), dtype=object)
        for row, text in enumerate(texts):
            if text is None or not split_words(text):
                faults.add(row, "there is no text" if not text else "there is no word in the text")
        raw.append(texts)
    return raw


def _read_images(
    parts: list[Rows], bad: list[BadSamples], *, column: str, given: _Options
) -> list[Any]:
    found = []
    for rows, faults in zip(parts, bad, strict=True):
        content = rows.content(column, "image")
        if content not in ("bytes", "text", "nothing"):
            raise ValueError(
                f"{rows.option}={rows.files[0].path}: column {column!r} holds {rows.type(column)}; "
                "images must be encoded files (PNG, JPEG ...) as binary values, structs with a "
                "binary field 'bytes', or paths"
            )
        paths = content == "text"
        contents = partial(_files if paths else _values, rows, column)
        found.append(ImagePart(contents, faults, partial(_origin, rows, column, paths)))
    return hold_images(found, image_size=given.image_size, storage=given.storage, cache=given.cache)


def _values(rows: Rows, column: str) -> Iterator[Encoded]:
    """The encoded images in a column."""
    values = rows.values(column)
    if pa.types.is_struct(rows.type(column)):
        return (value and value["bytes"] for value in values)
    return values


def _files(rows: Rows, column: str) -> Iterator[Encoded]:
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


def _places(rows: Rows, column: str) -> Iterator[str | None]:
    """Paths in the file system: those of a column start at the folder of the file they are in."""
    for row, path in enumerate(rows.values(column)):
        inside = path is None or path.startswith("/")
        yield path if inside else f"{rows.folder(row)}/{path}"


def _origin(rows: Rows, column: str, paths: bool) -> object:
    """Names, sizes and times of the files that images are in."""
    files = [file.path for file in rows.files]
    if paths:
        files += [place for place in _places(rows, column) if place is not None]
    found = rows.source.get_file_info(files)
    return column, [(info.path, info.size, info.mtime_ns) for info in found]


def _features(parts: list[Rows], given: _Options) -> tuple[list[str], list[str]]:
    """Numeric and categorical columns."""
    several = () if given.separator else given.labels or ()
    targets = {given.label, given.weight, *(given.soft_labels or several)}
    names = list(given.features or [n for n in parts[0].names if n not in targets])
    for name in given.categorical or ():
        if name not in names:
            raise ValueError(f"categorical names {name!r}, which is none of the features: {names}")
    if targets & set(names) or not names:
        raise ValueError(
            f"features={names}: give one or more columns, without that of the labels or weights"
        )
    words = {n for n in names if _holds_words(n, parts)} | set(given.categorical or ())
    return [n for n in names if n not in words], [n for n in names if n in words]


def _holds_words(name: str, parts: list[Rows]) -> bool:
    """Whether a column holds words rather than numbers, in all parts alike."""
    contents: dict[str, str] = {}
    for rows in parts:
        found = rows.content(name, "features")
        if found in ("bytes", "other"):
            raise ValueError(
                f"{rows.option}={rows.files[0].path}: column {name!r} holds {rows.type(name)}; "
                "features must be numbers, words, or true and false; if these are images, set "
                f"image: {name}, else name the columns to learn from in features"
            )
        if found != "nothing":
            contents[rows.option] = found
    if "text" in contents.values() and len(set(contents.values())) > 1:
        raise ValueError(
            f"column {name!r} holds "
            + ", ".join(f"{found} in {option}" for option, found in contents.items())
            + "; it must hold the same in both"
        )
    return "text" in contents.values()


def _read_table(
    parts: list[Rows],
    bad: list[BadSamples],
    *,
    numeric: list[str],
    categorical: list[str],
) -> list[Any]:
    raw = []
    for rows, faults in zip(parts, bad, strict=True):
        columns = {name: _numbers(rows, name) for name in numeric}
        columns |= {name: rows.column(name, pa.string()) for name in categorical}
        for name in numeric:
            for row in np.flatnonzero(np.isinf(columns[name].to_numpy())).tolist():
                faults.add(row, f"{name} is infinite")
        raw.append(Columns(pa.table(columns)))
    _check_categories(parts[0], raw[0], categorical)
    return raw


def _numbers(rows: Rows, name: str) -> pa.ChunkedArray:
    if rows.content(name, "features") == "truth":
        return rows.column(name, pa.bool_()).cast(pa.uint8()).cast(pa.float64())
    return rows.column(name, pa.float64())


def _check_categories(rows: Rows, columns: Columns, categorical: list[str]) -> None:
    """Texts and identifiers are no categories: nothing could be learnt from them."""
    for name in categorical:
        count = len(columns.table[name].unique())
        if count > 100 and count > len(columns) / 2:
            raise ValueError(
                f"{rows.option}={rows.files[0].path}: column {name!r} holds {count:,} different "
                f"values in {len(columns):,} rows, too many for categories; if these are the texts "
                f"to classify, set text: {name}, else name the columns to learn from in features"
            )
