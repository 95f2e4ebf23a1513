"""Which code trained each trial: the user's modules, and the versions of packages.

Each version is a file of the sweep's folder, named after a digest that records keep.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from sweeps.errors import UserError
from sweeps.messages.formatting import number_ranges
from sweeps.search.record import TrialRecord
from sweeps.store.environment import versions, versions_in
from sweeps.store.identity import changes, read_environment, read_identity
from sweeps.store.storage import read_json
from trainables.files.storage import Folder, digest_of

_FOLDER: Final = "code"


@dataclass(frozen=True)
class Code:
    """A digest of each file of the user's code, and the version of each package."""

    modules: dict[str, str]
    packages: dict[str, str | None] = field(default_factory=versions)

    @property
    def digest(self) -> str:
        return digest_of(json.dumps(asdict(self), sort_keys=True).encode())

    def changes_to(self, later: Code) -> list[str]:
        """How later code differs, such as ``own.py has changed``."""
        return [*changes(self.modules, later.modules), *changes(self.packages, later.packages)]


def keep_code(folder: Folder, code: Code) -> str:
    """Store it in a sweep's folder; returns its digest."""
    place, name = folder / _FOLDER, f"{code.digest}.json"
    if not place.exists(name):
        place.write(name, json.dumps(asdict(code), indent=1).encode())
    return code.digest


def code_warnings(folder: Folder, records: Sequence[TrialRecord]) -> list[str]:
    """A sentence for each change of the code between trials, with the trials before and after."""
    start = _at_start(folder)
    of_trial = {r.number: r.code or ([start.digest] if start else []) for r in records}
    order = list(dict.fromkeys(digest for used in of_trial.values() for digest in used))
    codes = {digest: _read(folder, digest, start) for digest in order}
    found = []
    for before, after in itertools.pairwise(order):
        earlier, later = codes[before], codes[after]
        what = earlier.changes_to(later) if earlier and later else []
        both = number_ranges(n for n, used in of_trial.items() if {before, after} <= set(used))
        found.append(
            f"Not all trials ran the same code: {', '.join(what) or 'it is unknown what changed'} "
            f"({_trials(before, of_trial.items())} before, {_trials(after, of_trial.items())} after"
            + (f", {both} with both" if both else "")
            + "). Their results may differ for that reason."
        )
    return found


def _trials(digest: str, of_trial: Iterable[tuple[int, list[str]]]) -> str:
    numbers = number_ranges(number for number, used in of_trial if digest in used)
    return f"trial {numbers}" if numbers.isdigit() else f"trials {numbers}"


def _at_start(folder: Folder) -> Code | None:
    """The code with which a sweep was started; None if it is unknown."""
    try:
        identity, environment = read_identity(folder), read_environment(folder)
    except UserError:  # damaged
        return None
    if identity is None or environment is None:
        return None
    return Code(identity.modules, versions_in(environment))


def _read(folder: Folder, digest: str, start: Code | None) -> Code | None:
    if start is not None and digest == start.digest:
        return start

    def code(kept: Any) -> Code:
        return Code(kept["modules"], kept["packages"])

    without = "it is unknown what changed in the code"
    return read_json(folder / _FOLDER, f"{digest}.json", code, None, without)
