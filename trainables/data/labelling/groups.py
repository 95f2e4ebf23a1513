"""The groups of samples that people give, such as customers or patients."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trainables.data.core.bad_samples import BadSamples

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
    return names, np.isin(names, _MISSING) | np.ma.getmaskarray(values)


def check_apart(
    column: str,
    of_parts: Mapping[str, tuple[npt.NDArray[np.str_], npt.NDArray[np.bool_]]],
    bad: Sequence[BadSamples],
) -> None:
    """Adds samples without a group to the bad ones; ValueError if a group is in two parts.

    ``of_parts`` has the groups (N,) of each part, and which are missing (N,).
    """
    seen = dict[str, str]()
    for (part, (names, missing)), faults in zip(of_parts.items(), bad, strict=True):
        faults.add_each(missing, f"there is no group ({column} is missing)")
        values = np.unique(names[~missing]).tolist()
        if shared := [each for each in values if each in seen]:
            raise ValueError(
                f"group={column}: {len(shared):,} groups, such as {shared[0]!r}, are in "
                f"{seen[shared[0]]} and {part}; a group may be in one split only"
            )
        seen |= dict.fromkeys(values, part)


def check_none_missing(what: str, missing: npt.NDArray[np.bool_]) -> None:
    """Raises ValueError if samples have no group."""
    if missing.any():
        raise ValueError(
            f"row {int(missing.argmax())} (from 0) has no {what}, as {int(missing.sum())} rows "
            "have none"
        )
