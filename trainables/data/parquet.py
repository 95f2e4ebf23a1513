"""The user's own images and labels in Parquet files."""

import json
import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from trainables.arguments import did_you_mean
from trainables.components import Range
from trainables.data.base import Dataset
from trainables.data.images import decode_images, match_channels
from trainables.data.labels import Values, index_labels
from trainables.data.samples import Images
from trainables.data.splits import HeldOut, Pixels, SampleCount, build_dataset

PathOrUri: TypeAlias = str | os.PathLike[str]


def load_parquet(
    *,
    seed: int,
    train: PathOrUri,
    test: PathOrUri,
    image: str = "image",
    label: str = "label",
    image_size: Annotated[int, Range(1)] | None = None,
    validation: HeldOut = 0.1,
    train_samples: SampleCount = None,
) -> Dataset:
    """Images (PNG, JPEG ... as bytes) and labels from Parquet files, one row per image.

    An image column holds binary values, or structs with a field ``bytes`` as Hugging Face writes
    them. Labels are strings or integers from 0. Class names are taken from the schema's metadata,
    if there: Hugging Face's ``ClassLabel``, or a key ``classes`` with names between commas.

    Args:
        seed: Chooses the validation samples and the subset.
        train: Path or URI (``s3://``, ``gs://`` ...) of a file, or of a folder of .parquet files.
        test: Likewise.
        image: Column of the images.
        label: Column of the labels.
        image_size: Resize the shorter side to this and crop the centre; needed if sizes differ.
        validation: Fraction or number of training samples to hold out.
        train_samples: Train on so many samples only.
    """
    parts = [
        _Rows.find(option, path, image=image, label=label)
        for option, path in (("train", train), ("test", test))
    ]
    train_labels, test_labels, classes = index_labels(
        parts[0].labels(),
        parts[1].labels(),
        parts[0].class_names(),
        where_train=parts[0].where,
        where_test=parts[1].where,
    )
    train_images, test_images = match_channels(*(part.images(image_size) for part in parts))
    return build_dataset(
        "parquet",
        train=(train_images, train_labels),
        test=(test_images, test_labels),
        classes=classes,
        measure=Images.measured,
        validation=validation,
        train_samples=train_samples,
        seed=seed,
    )


@dataclass(frozen=True)
class _Rows:
    """The rows of one or more Parquet files of one schema, numbered on from file to file."""

    option: str
    image: str
    label: str
    source: fs.FileSystem
    paths: tuple[str, ...]
    starts: tuple[int, ...]
    count: int
    schema: pa.Schema

    @classmethod
    def find(cls, option: str, path: PathOrUri, *, image: str, label: str) -> "_Rows":
        source, paths = _find_files(option, path)
        sizes, schemas = [], []
        for found in paths:
            with _open(option, source, found) as file:
                sizes.append(file.metadata.num_rows)
                schemas.append(file.schema_arrow)
            _check_columns(f"{option}={found}", schemas[-1], image=image, label=label)
            if _is_text(schemas[-1], label) != _is_text(schemas[0], label):
                raise ValueError(f"{option}={found}: labels are of another type than in {paths[0]}")
        if sum(sizes) == 0:
            raise ValueError(f"{option}={os.fspath(path)} has no rows")
        starts = tuple(accumulate(sizes[:-1], initial=0))
        return cls(option, image, label, source, paths, starts, sum(sizes), schemas[0])

    def where(self, row: int) -> str:
        file = bisect_right(self.starts, row) - 1
        return f"{self.option}={self.paths[file]}, row {row - self.starts[file]} (from 0)"

    def labels(self) -> Values:
        values = list(self._values(self.label))
        if None in values:
            raise ValueError(f"{self.where(values.index(None))}: there is no label (null)")
        return np.array(values, np.str_ if _is_text(self.schema, self.label) else np.int64)

    def images(self, image_size: int | None) -> Pixels:
        values = self._values(self.image)
        if pa.types.is_struct(self.schema.field(self.image).type):
            values = (value and value["bytes"] for value in values)
        return decode_images(values, self.count, image_size=image_size, where=self.where)

    def class_names(self) -> tuple[str, ...] | None:
        metadata = self.schema.metadata or {}
        if b"classes" in metadata:
            return tuple(metadata[b"classes"].decode().split(","))
        described = json.loads(metadata.get(b"huggingface", b"{}"))
        features = described.get("info", {}).get("features", {})
        names = features.get(self.label, {}).get("names")
        return None if names is None else tuple(names)

    def _values(self, column: str) -> Iterator[Any]:
        for path in self.paths:
            with _open(self.option, self.source, path) as file:
                for batch in file.iter_batches(batch_size=1024, columns=[column]):
                    yield from batch.column(0).to_pylist()


def _find_files(option: str, path: PathOrUri) -> tuple[fs.FileSystem, tuple[str, ...]]:
    text = os.fspath(path)
    if "://" in text:
        try:
            source, place = fs.FileSystem.from_uri(text)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{option}={text}: {error}") from error
    else:
        source, place = fs.LocalFileSystem(), os.path.abspath(os.path.expanduser(text))
    kind = source.get_file_info(place).type
    if kind is fs.FileType.NotFound:
        raise FileNotFoundError(f"{option}={text} does not exist")
    if kind is fs.FileType.File:
        return source, (place,)
    inside = source.get_file_info(fs.FileSelector(place, recursive=True))
    found = tuple(
        sorted(
            info.path
            for info in inside
            if info.path.endswith(".parquet")
            and not any(
                part.startswith(".") for part in info.path.removeprefix(place).split("/") if part
            )
        )
    )
    if not found:
        raise FileNotFoundError(f"{option}={text} is a folder without any .parquet file")
    return source, found


def _open(option: str, source: fs.FileSystem, path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, filesystem=source)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{option}={path} is not a Parquet file ({error})") from error


def _check_columns(where: str, schema: pa.Schema, *, image: str, label: str) -> None:
    for option, column in (("image", image), ("label", label)):
        if column not in schema.names:
            raise ValueError(
                f"{where} has no column {column!r} (option {option})"
                f"{did_you_mean(column, schema.names)}; its columns: {', '.join(schema.names)}"
            )
    kind = schema.field(image).type
    if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        kind = kind.field("bytes").type
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise ValueError(
            f"{where}: column {image!r} holds {kind}; images must be encoded files (PNG, JPEG ...) "
            "as binary values, or structs with a binary field 'bytes'"
        )
    if not _is_text(schema, label) and not pa.types.is_integer(schema.field(label).type):
        raise ValueError(
            f"{where}: column {label!r} holds {schema.field(label).type}; labels must be integers "
            "or strings"
        )


def _is_text(schema: pa.Schema, column: str) -> bool:
    kind = schema.field(column).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
