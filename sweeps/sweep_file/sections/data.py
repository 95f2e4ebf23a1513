"""The sections on data: for training, and for evaluating finalists."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Final, Literal

from pydantic import Field, Strict, model_validator

from sweeps.messages.redaction import without_credentials
from sweeps.sweep_file.sections.fields import NamedSection, Section

_TELL_NOTHING = {
    *("data", "dataset", "datasets", "images", "raw", "processed"),
    *("csv", "parquet", "jsonl", "arrow"),
    *("train", "training", "test", "testing", "val", "validation", "valid", "dev"),
}


_ONE_FILE: Final = ("csv", "jsonl", "arrow", "npz")  # one of several in a folder
_OF_FILES: Final = (*_ONE_FILE, "npy", "parquet", "image_folder")

OWN_DATA: Final = "own"
"""The name of data that a custom training loop reads."""


class DatasetSection(NamedSection):
    """``dataset``: the name of a dataset (or a dotted path) and its options.

    Attributes:
        name: Name of a dataset, or ``package.module:function``. Without options ``dataset: NAME``
            is enough.
        title: Name of the dataset in MLflow and ``calsweep best``. By default its name; for your
            own files with the last telling folder: ``…/birds/train`` is ``parquet:birds``.
    """

    title: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None

    @property
    def label(self) -> str:
        """The title, or its default."""
        if self.title is not None:
            return self.title
        place = self.options.get("train", self.options.get("root", ""))
        if self.name in _OF_FILES and isinstance(place, str):
            place = without_credentials(place)
            path = PurePosixPath((place.partition("://")[2] or place).removesuffix(".gz"))
            folders = [part for part in (path.parent if path.suffix else path).parts if part != "/"]
            if self.name in _ONE_FILE and path.suffix and "*" not in path.stem:
                folders.append(path.stem)  # tables in one folder are different data
            telling = [folder for folder in folders if folder.lower() not in _TELL_NOTHING]
            folder = (telling or folders or [""])[-1]
            return f"{self.name}:{folder}" if folder else self.name
        return self.name


class EvaluationSetSection(NamedSection):
    """One entry of ``evaluation.shift`` or ``evaluation.ood``: a set and its options.

    Attributes:
        name: Name of a shift set or dataset, or ``package.module:function``.
    """


class EvaluationSection(Section, frozen=True):
    """``evaluation``: sets besides the test split on which trained finalists are evaluated.

    Attributes:
        shift: Sets of the same classes under other conditions.
        ood: Sets of other classes.
    """

    shift: Annotated[tuple[EvaluationSetSection, ...], Strict(False)] = ()
    ood: Annotated[tuple[EvaluationSetSection, ...], Strict(False)] = ()

    @property
    def sets(self) -> tuple[tuple[str, Literal["shift", "ood"], EvaluationSetSection], ...]:
        """All of them: key, kind and section."""
        return (
            *((f"evaluation.shift.{i}", "shift", each) for i, each in enumerate(self.shift)),
            *((f"evaluation.ood.{i}", "ood", each) for i, each in enumerate(self.ood)),
        )

    @model_validator(mode="after")
    def _each_set_once(self) -> EvaluationSection:
        for key, sections in (("shift", self.shift), ("ood", self.ood)):
            names = [section.name for section in sections]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"{key}: {', '.join(twice)} is named twice; name each set once")
        return self
