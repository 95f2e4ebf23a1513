"""The options of datasets in files with named columns."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from trainables.data.core.equal_rows import EQUAL_ROWS
from trainables.data.core.options import Validation
from trainables.data.readers.files import PathOrUri
from trainables.plugins.arguments import Range

Names: TypeAlias = tuple[str, ...] | None
Count: TypeAlias = Annotated[int, Range(1)]
TextForm: TypeAlias = Literal["sequence", "weighted_words"]


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

    def __post_init__(self) -> None:
        given = self.dividing
        if len(given) > 1 and (self.split is not None or self.group == EQUAL_ROWS):
            raise ValueError(f"{' and '.join(given)} are given; give one of them")

    @property
    def kept(self) -> list[str]:
        """Columns that are features although they may also divide the rows."""
        return [*(self.features or ()), *(self.dates or ())]

    @property
    def dividing(self) -> dict[str, str]:
        """The columns that divide the rows into splits: one of them, or group and time."""
        columns = {"split": self.split, "group": self.group, "time": self.time}
        return {name: column for name, column in columns.items() if column is not None}

    @property
    def no_features(self) -> set[str | None]:
        """Columns of labels and weights, and those that divide the rows.

        Times may be features, too; groups and names of splits may not.
        """
        labels = self.soft_labels or (() if self.separator else self.labels) or ()
        dividing = {
            column
            for name, column in self.dividing.items()
            if name != "time" or column not in self.kept
        }
        return {self.label, self.weight, *labels, *dividing}
