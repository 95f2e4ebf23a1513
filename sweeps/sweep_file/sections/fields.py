"""Types of values in a sweep file, and the base classes of sections."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sweeps.sweep_file.yaml_text import LARGEST_INTEGER, shortened
from trainables.contract.config import LARGEST

MOST_ENTRIES = 100


def _check_scalar(value: Any) -> Any:
    """Give one message, where pydantic would give one for each type."""
    if not isinstance(value, bool | int | float | str) or (
        isinstance(value, int | float) and not abs(value) <= LARGEST
    ):
        raise ValueError(
            f"{shortened(value)} is not allowed; allowed: a finite number from {-LARGEST:,.0f} to "
            f"{LARGEST:,.0f}, text, true or false"
        )
    return value


def _check_gpus(value: Any) -> Any:
    """Give one message, as for scalars."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value != "auto" and not (
        number and 0 <= value <= 1_000 and (value < 1 or value == int(value))
    ):
        raise ValueError(
            f"{shortened(value)} is not allowed; allowed: auto, 0, a fraction below 1, or a whole "
            "number up to 1,000"
        )
    return value


Scalar = Annotated[bool | int | float | str, BeforeValidator(_check_scalar)]
Gpus = Annotated[
    Annotated[float, Field(ge=0, le=1_000)] | Literal["auto"], BeforeValidator(_check_gpus)
]
Bound = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Count = Annotated[int, Field(gt=0, le=1_000_000)]
Resources = Annotated[int, Field(gt=0, le=10_000)]
Again = Annotated[int, Field(ge=0, le=1_000)]
NAME_PATTERN = "[A-Za-z0-9][A-Za-z0-9_.-]*"
NAME_LENGTH = 100
NAME_ALLOWED = "letters, digits, '_', '.', '-', the first a letter or digit"
Name = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$", max_length=NAME_LENGTH)]


class Section(BaseModel, frozen=True):
    """A section that refuses unknown keys and values of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def name_alone(value: Any) -> Any:
    """``focal`` is short for ``{name: focal}``."""
    return {"name": value} if isinstance(value, str) else value


def one_alone(value: Any) -> Any:
    """``first`` is short for ``[first]``."""
    return [value] if isinstance(value, str) else value


class NamedSection(BaseModel):
    """A component selected by name, with the options of that component."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)
    name: str

    _short_form = model_validator(mode="before")(name_alone)

    @model_validator(mode="after")
    def _integers_of_64_bits(self) -> Self:
        for key, value in self.options.items():
            if isinstance(value, int) and not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
                raise ValueError(
                    f"{key} is not allowed; allowed: whole numbers up to {LARGEST_INTEGER}"
                )
        return self

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    @property
    def options_in_words(self) -> str:
        """``,width=8``; empty without options."""
        return "".join(f",{name}={value}" for name, value in sorted(self.options.items()))
