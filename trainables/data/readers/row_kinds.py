"""Kinds of rows of a table: texts, images, or features; each with its options."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trainables.data.core.bad_samples import BadSamples
from trainables.data.core.base import Targets
from trainables.data.core.options import CommonOptions, Validation
from trainables.data.core.samples import Samples
from trainables.data.kinds.arrays import Arrays, Images
from trainables.data.kinds.encode import split_words
from trainables.data.kinds.subwords import Subwords
from trainables.data.kinds.table import Columns, TableRows
from trainables.data.kinds.tokens import Tokens, WeightedWords
from trainables.data.readers.divided_rows import DividedBy, columns_of
from trainables.data.readers.files import PathOrUri
from trainables.data.readers.images import Encoded
from trainables.data.readers.storing import ImagePart, hold_images
from trainables.data.readers.table_columns import (
    Names,
    choose_features,
    flags_of,
    read_columns,
    remarks_on_columns,
    remarks_on_labels,
)
from trainables.data.readers.tabular import TabularFiles, content_of
from trainables.plugins.components import Range

Count: TypeAlias = Annotated[int, Range(1)]
TextForm: TypeAlias = Literal["sequence", "weighted_words"]

_SEQUENCE: Final = 256  # words or tokens from the start of a text
_WEIGHTED: Final = 512  # distinct words of a text


@dataclass(frozen=True, kw_only=True)
class RowsOptions:
    """The options of datasets in files with named columns; see ``labelled_rows``."""

    train: PathOrUri
    test: PathOrUri | None = None
    label: str = "label"
    labels: Names = None
    separator: str | None = None
    soft_labels: Names = None
    weight: str | None = None
    text: str | None = None
    image: str | None = None
    embedding: str | None = None
    features: Names = None
    exclude: Names = None
    dates: Names = None
    categorical: Names = None
    split: str | None = None
    group: str | None = None
    time: str | None = None
    max_words: Count | None = None
    max_tokens: Count | None = None
    tokenizer: str | None = None
    text_form: TextForm | None = None
    validation: Validation = 0.1

    @property
    def kept(self) -> list[str]:
        """Columns that are features although they may also divide the rows."""
        return [*(self.features or ()), *(self.dates or ())]

    @property
    def target_columns(self) -> tuple[str, ...]:
        """Columns of the labels."""
        several = () if self.separator else self.labels or ()
        return (self.label, *(self.soft_labels or several))


class RowKind(ABC):
    """A kind of rows."""

    @abstractmethod
    def read(self, rows: TabularFiles, bad: BadSamples) -> Any:
        """The samples; those that cannot be used are added to the bad ones."""

    def held(self, raw: list[Any], common: CommonOptions) -> list[Any]:
        """The samples of all parts as they are kept; the default returns them unchanged."""
        return raw

    @abstractmethod
    def measure(self, raw: Any) -> Samples:
        """The kind of sample, measured on the training part."""

    def remarks(self, rows: TabularFiles, raw: Any, bad: BadSamples, of: Targets) -> Sequence[str]:
        """Sentences about the training part with these samples and targets."""
        return ()


@dataclass(frozen=True)
class TextRows(RowKind):
    """Rows with a text in a column, and the options that belong to texts."""

    column: str
    max_words: int | None
    max_tokens: int | None
    tokenizer: str | None
    text_form: TextForm | None

    def __post_init__(self) -> None:
        if self.tokenizer is not None and self.max_words is not None:
            raise ValueError("max_words and tokenizer are given; a tokenizer has a vocabulary")
        if self.tokenizer is not None and self.text_form == "weighted_words":
            raise ValueError("text_form: weighted_words is not possible together with tokenizer")

    def read(self, rows: TabularFiles, bad: BadSamples) -> npt.NDArray[Any]:
        """The texts; see :class:`RowKind`."""
        return read_texts(rows, bad, self.column)

    def measure(self, raw: Any) -> Samples:
        """The kind of these texts, with a vocabulary of words or a tokenizer."""
        if self.tokenizer is not None:
            length = self.max_tokens or _SEQUENCE
            return Subwords.measured(raw, tokenizer=self.tokenizer, max_tokens=length)
        if self.text_form == "weighted_words":
            words, length = self.max_words or 50_000, self.max_tokens or _WEIGHTED
            return WeightedWords.measured(raw, max_words=words, max_tokens=length)
        words, length = self.max_words or 20_000, self.max_tokens or _SEQUENCE
        return Tokens.measured(raw, max_words=words, max_tokens=length)


@dataclass(frozen=True)
class ImageRows(RowKind):
    """Rows with an image, or with its path."""

    column: str

    def read(self, rows: TabularFiles, bad: BadSamples) -> ImagePart:
        """The encoded images; see :class:`RowKind`."""
        return _image_part(rows, bad, self.column)

    def held(self, raw: list[Any], common: CommonOptions) -> list[Any]:
        """The images, decoded or encoded on disk; see :class:`RowKind`."""
        return list(hold_images(raw, common))

    def measure(self, raw: Any) -> Samples:
        """The kind of images; see :class:`RowKind`."""
        return Images.measured(raw)


@dataclass(frozen=True)
class EmbeddingRows(RowKind):
    """Rows with a list of numbers, all of one length."""

    column: str

    def read(self, rows: TabularFiles, bad: BadSamples) -> npt.NDArray[np.float32]:
        """The embeddings (N, D); see :class:`RowKind`."""
        rows.check_has(self.column, "embedding")
        lists = rows.as_it_is(self.column)
        of = getattr(lists.type, "value_field", None)  # of lists of each kind
        if of is None or content_of(of.type) != "number":
            raise ValueError(f"{rows.holds(self.column, 'embedding')}, not lists of numbers")
        lists = lists.cast(pa.large_list(pa.float32()))
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
        size = int(np.bincount(lengths).argmax())
        usual = lengths == size
        bad.add_each(
            ~usual,
            lambda row: f"{self.column} has {lengths[row]} numbers, while others have {size}",
        )
        found = np.zeros((len(lists), size), np.float32)
        found[usual] = (  # NaN where a number is missing
            pc.list_flatten(lists.filter(pa.array(usual))).to_numpy().reshape(-1, size)
        )
        bad.add_each(
            ~np.isfinite(found).all(1), f"a number of {self.column} is missing or not finite"
        )
        return found

    def measure(self, raw: Any) -> Samples:
        """The kind of arrays; see :class:`RowKind`."""
        return Arrays.measured(raw)


@dataclass(frozen=True)
class FeatureRows(RowKind):
    """Rows of a table, with the columns that are features."""

    numeric: Sequence[str]
    categorical: Sequence[str]
    flags: Sequence[str]

    def read(self, rows: TabularFiles, bad: BadSamples) -> Columns:
        """The features; see :class:`RowKind`."""
        return read_columns(rows, bad, **vars(self))

    def measure(self, raw: Any) -> Samples:
        """The kind of table; see :class:`RowKind`."""
        return TableRows.measured(raw, **vars(self))

    def remarks(self, rows: TabularFiles, raw: Any, bad: BadSamples, of: Targets) -> Sequence[str]:
        """Sentences about columns; see :class:`RowKind`."""
        good = bad.good()
        return (
            *remarks_on_columns(rows, raw, self.numeric, self.categorical),
            *remarks_on_labels(raw[good], of.labels[good]),
        )


def kind_of_rows(
    parts: list[TabularFiles], options: RowsOptions, common: CommonOptions, by: DividedBy
) -> RowKind:
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
        return ImageRows(options.image or "image")
    if kind == "embedding" and options.embedding is not None:
        return EmbeddingRows(options.embedding)
    if kind == "text":
        assert options.text is not None
        if parts[0].content(options.text, "text") not in ("text", "nothing"):
            raise ValueError(f"{parts[0].holds(options.text)}, not texts")
        own = (getattr(options, name) for name in _BELONGING["text"])
        return TextRows(options.text, *own)
    targets = {*options.target_columns, options.weight, *columns_of(by, options.kept)}
    chosen = (options.features, options.exclude, options.dates, options.categorical)
    numbers, words = choose_features(parts, targets, *chosen)
    return FeatureRows(numbers, words, flags_of(parts[0], numbers))


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
