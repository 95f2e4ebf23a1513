"""The section on losses and the ranges of their hyperparameters."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, Strict, model_validator

from sweeps.sweep_file.sections.fields import MOST_ENTRIES, Bound, Scalar, Section, name_alone
from trainables.contract.setting import loss_name


class SpaceSection(Section, frozen=True):
    """The range of one hyperparameter: ``low`` and ``high`` (with ``log``), or ``choices``.

    Attributes:
        low: Lowest value.
        high: Highest value.
        log: Whether it is searched on a logarithmic scale.
        choices: The values, instead of a range.
    """

    low: Bound | None = None
    high: Bound | None = None
    log: bool = False
    choices: Annotated[tuple[Scalar, ...] | None, Strict(False), Field(max_length=MOST_ENTRIES)] = (
        None
    )

    @model_validator(mode="after")
    def _one_kind(self) -> SpaceSection:
        if self.choices is not None:
            if self.low is not None or self.high is not None or self.log:
                raise ValueError("give either choices, or low and high")
            if not self.choices:
                raise ValueError("choices is empty")
            return self
        if self.low is None or self.high is None:
            raise ValueError("give low and high, or choices")
        if not self.low <= self.high:
            raise ValueError(f"low = {self.low} is above high = {self.high}")
        if self.log and not self.low > 0:
            raise ValueError(f"low = {self.low} must be above 0 where log is true")
        return self


class LossSection(Section, frozen=True):
    """One loss of ``losses``: its name, search ranges and fixed hyperparameters.

    Attributes:
        name: Name of a loss, also as in papers (``FCL``), or ``package.module:Class``. Without
            other keys ``- NAME`` is enough.
        space: Search range of each hyperparameter; by default those of the loss.
        hyperparameters: Values of hyperparameters that are not searched.
    """

    name: Annotated[str, AfterValidator(loss_name)]
    space: dict[str, SpaceSection] = {}
    hyperparameters: dict[str, Scalar] = {}

    _short_form = model_validator(mode="before")(name_alone)
