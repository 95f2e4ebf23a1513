"""The options of datasets in files with named columns."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

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

    @property
    def kept(self) -> list[str]:
        """Columns that are features although they may also divide the rows."""
        return [*(self.features or ()), *(self.dates or ())]

    @property
    def target_columns(self) -> tuple[str, ...]:
        """Columns of the labels."""
        several = () if self.separator else self.labels or ()
        return (self.label, *(self.soft_labels or several))
