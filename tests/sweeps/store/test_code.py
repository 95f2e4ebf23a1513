"""Which code trained each trial."""

from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.search.record import TrialRecord
from sweeps.store.code import Code, code_warnings, keep_code
from sweeps.store.identity import Identity, identity_files
from trainables.contract.setting import Setting
from trainables.files.storage import Folder

IDENTITY = Identity("d1", {"train": 4}, 10, {"own.py": "c1"})


def record(number: int, *codes: str) -> TrialRecord:
    return TrialRecord(number, "search", Setting("brier", {}), 0, 1.0, code=list(codes))


def test_each_change_names_the_trials_before_and_after(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    for name, data in identity_files(IDENTITY).items():
        folder.write(name, data)
    first = Code({"own.py": "c1"})
    a = keep_code(folder, first)
    b = keep_code(folder, Code({"own.py": "c2", "more.py": "c3"}))
    c = keep_code(folder, replace(first, packages={**first.packages, "torch": "1.0"}))
    assert code_warnings(folder, [record(0), record(1, a)]) == []  # older records name no code
    found = code_warnings(folder, [record(0), record(1, a), record(3, a, b), record(4, b, c)])
    assert [line.partition(": ")[2] for line in found] == [
        "more.py was added, own.py has changed (trials 0 to 1, 3 before, trials 3 to 4 after, 3 "
        "with both). Their results may differ for that reason.",
        f"more.py is gone, own.py has changed, torch went from {first.packages['torch']} to 1.0 "
        "(trials 3 to 4 before, trial 4 after, 4 with both). Their results may differ for that "
        "reason.",
    ]


@pytest.mark.parametrize(
    ("damage", "content"),
    [("identity.json", b"{"), ("code", b"{"), ("code", b'{"modules": {}}')],
)
def test_a_damaged_file_hides_only_what_changed(
    tmp_path: Path, damage: str, content: bytes
) -> None:
    folder = Folder(str(tmp_path))
    for name, data in identity_files(IDENTITY).items():
        folder.write(name, data)
    a, b = (keep_code(folder, Code({"own.py": name})) for name in ("c1", "c2"))
    name = f"{b}.json" if damage == "code" else damage
    (folder / "code" if damage == "code" else folder).write(name, content)
    (found,) = code_warnings(folder, [record(0, a), record(1, b)])
    assert ("it is unknown what changed" in found) == (damage == "code")
