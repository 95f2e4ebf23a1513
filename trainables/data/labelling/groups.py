"""The groups of samples that people give, such as customers or patients."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

IN_ALL: Final = (
    "; groups are needed in every part, because a group may be in one split only; if samples are "
    "independent, give each another name"
)
"""The end of a message about a part of the data without groups."""

_MISSING = ("", "nan", "NaT", "None", "<NA>")  # as text


def names_of_groups(
    what: str, values: Any, count: int
) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.bool_]]:
    """The name of each sample's group (N,), and whether it is missing (N,).

    Raises ValueError if there is not one for each of `count` samples; `what` names them.
    """
    names = np.asarray(values).astype(np.str_)
    if names.shape != (count,):
        raise ValueError(
            f"{what} have shape {names.shape}; ({count},) is needed, one for each sample"
        )
    return names, np.isin(names, _MISSING)


def check_none_missing(what: str, missing: npt.NDArray[np.bool_]) -> None:
    """Raises ValueError if samples have no group."""
    if missing.any():
        raise ValueError(
            f"row {int(missing.argmax())} (from 0) has no {what}, as {int(missing.sum())} rows "
            "have none"
        )
