"""Kinds of rows of a table: texts, images, or features; each with its options."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trainables.data.core.bad_samples import BadSamples
from trainables.data.core.base import Targets
from trainables.data.core.options import CommonOptions
from trainables.data.core.samples import Samples
from trainables.data.kinds.arrays import Arrays, Images
from trainables.data.kinds.encode import split_words
from trainables.data.kinds.subwords import Subwords
from trainables.data.kinds.table import TableRows
from trainables.data.kinds.tokens import Tokens, WeightedWords
from trainables.data.readers.images import Encoded
from trainables.data.readers.row_options import RowsOptions
from trainables.data.readers.storing import ImagePart, hold_images
from trainables.data.readers.table_columns import (
    Features,
    choose_features,
    read_columns,
    remarks_on_columns,
    remarks_on_labels,
)
from trainables.data.readers.tabular import TabularFiles, content_of

_SEQUENCE: Final = 256  # words or tokens from the start of a text
_WEIGHTED: Final = 512  # distinct words of a text


@dataclass(frozen=True)
class RowKind:
    """A kind of rows.

    Attributes:
        read: The samples of a part; those that cannot be used are added to the bad ones.
        measure: The kind of sample, measured on the training part.
        hold: The samples of all parts as they are kept; by default as they are read.
        remarks: Sentences about the training part with these samples and targets.
    """

    read: Callable[[TabularFiles, BadSamples], Any]
    measure: Callable[[Any], Samples]
    hold: Callable[[list[Any], CommonOptions], list[Any]] = lambda raw, _: raw
    remarks: Callable[[TabularFiles, Any, BadSamples, Targets], Sequence[str]] = lambda *_: ()


def kind_of_rows(parts: list[TabularFiles], options: RowsOptions, common: CommonOptions) -> RowKind:
    """The kind of the rows of these parts, the first of which is for training.

    Raises:
        ValueError: Options contradict each other, or the columns.
    """
    kind = _named_kind(parts[0], options)
    for to, names in _BELONGING.items():
        for name in names:
            value = getattr(options, name) if hasattr(options, name) else getattr(common, name)
            if value is not None and kind != to:
                raise ValueError(
                    f"{name} belongs to {_WORDS[to]}, while the rows are read as {_WORDS[kind]}"
                )
    if kind == "image":
        read = partial(_image_part, column=options.image or "image")
        return RowKind(read, Images.measured, hold_images)
    if kind == "embedding" and options.embedding is not None:
        return RowKind(partial(read_embeddings, column=options.embedding), Arrays.measured)
    if kind == "text":
        return _texts(parts[0], options)
    return _features(choose_features(parts, options))


def _texts(rows: TabularFiles, options: RowsOptions) -> RowKind:
    """Rows with a text in a column."""
    assert options.text is not None
    if options.tokenizer is not None and options.max_words is not None:
        raise ValueError("max_words and tokenizer are given; a tokenizer has a vocabulary")
    if options.tokenizer is not None and options.text_form == "weighted_words":
        raise ValueError("text_form: weighted_words is not possible together with tokenizer")
    if rows.content(options.text, "text") not in ("text", "nothing"):
        raise ValueError(f"{rows.holds(options.text)}, not texts")

    def measure(texts: Any) -> Samples:
        length = options.max_tokens or _SEQUENCE
        if options.tokenizer is not None:
            return Subwords.measured(texts, options.tokenizer, length)
        if options.text_form != "weighted_words":
            return Tokens.measured(texts, options.max_words or 20_000, length)
        words, most = options.max_words or 50_000, options.max_tokens or _WEIGHTED
        return WeightedWords.measured(texts, words, most)

    return RowKind(partial(read_texts, column=options.text), measure)


def _features(features: Features) -> RowKind:
    """Rows of a table, with the columns that are features."""

    def measure(columns: Any) -> Samples:
        return TableRows.measured(columns, **vars(features))

    def remarks(rows: TabularFiles, raw: Any, bad: BadSamples, of: Targets) -> Sequence[str]:
        good = bad.good()
        return (
            *remarks_on_columns(rows, raw, features),
            *remarks_on_labels(raw[good], of.labels[good]),
        )

    return RowKind(partial(read_columns, features=features), measure, remarks=remarks)


def read_embeddings(rows: TabularFiles, bad: BadSamples, column: str) -> npt.NDArray[np.float32]:
    """Lists of numbers as an array (N, D); those of another length are added to the bad samples."""
    rows.check_has(column, "embedding")
    lists = rows.as_it_is(column)
    of = getattr(lists.type, "value_field", None)  # of lists of each kind
    if of is None or content_of(of.type) != "number":
        raise ValueError(f"{rows.holds(column, 'embedding')}, not lists of numbers")
    lists = lists.cast(pa.large_list(pa.float32()))
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    size = int(np.bincount(lengths).argmax())
    usual = lengths == size
    bad.add_each(
        ~usual, lambda row: f"{column} has {lengths[row]} numbers, while others have {size}"
    )
    found = np.zeros((len(lists), size), np.float32)
    found[usual] = (  # NaN where a number is missing
        pc.list_flatten(lists.filter(pa.array(usual))).to_numpy().reshape(-1, size)
    )
    bad.add_each(~np.isfinite(found).all(1), f"a number of {column} is missing or not finite")
    return found


_WORDS: Final = {
    "text": "texts",
    "image": "images",
    "embedding": "embeddings",
    "features": "a table",
}
_BELONGING: Final = {
    "text": ("max_words", "max_tokens", "tokenizer", "text_form"),
    "image": ("image_size", "storage", "cache"),
    "features": ("categorical", "exclude", "dates"),
}
"""The options that belong to each kind."""


def _named_kind(rows: TabularFiles, options: RowsOptions) -> str:
    """The kind of sample, a key of ``_WORDS``, by the options that name columns."""
    named = [name for name in _WORDS if getattr(options, name) is not None]
    if len(named) > 1:
        raise ValueError(f"{' and '.join(named)} are given; give one of them")
    if not named and "image" in rows.names:
        return "features" if rows.content("image", "image") in ("number", "truth") else "image"
    return named[0] if named else "features"


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
    return ImagePart(contents, bad, partial(_origin, rows, column, paths=paths))


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


def _origin(rows: TabularFiles, column: str, *, paths: bool) -> object:
    """Names, sizes and modification times of the files that contain the images."""
    files = [file.path for file in rows.files]
    if paths:
        files += [place for place in _places(rows, column) if place is not None]
    found = rows.source.get_file_info(files)
    return column, [(info.path, info.size, info.mtime_ns) for info in found]
