"""Verdicts count the settings of earlier sweeps that the sweep's settings were selected from."""

from pathlib import Path
from typing import Any

import pytest

from sweeps.evidence.comparison import compare
from sweeps.results.best import as_sweep_file, best_settings
from sweeps.search.record import State
from sweeps.service.reading.stored import stored_sweeps, sweeps_on_test_split
from sweeps.store.first_files import candidate_files, earlier_candidates, read_earlier_candidates
from sweeps.store.identity import Identity, identity_files
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import parse_sweep
from sweeps.sweep_file.schema import SweepFile
from tests.builders import baseline, finalist, make_sweep, new_store, ranked, trial
from tests.sweeps.evidence.test_comparison import sweep_of, written
from trainables import metrics as M

DATA = "ab12"


def begun(
    storage: Path, name: str, settings: int, data: str = DATA, earlier: int = 0
) -> dict[str, Any]:
    """A sweep with this number of settings on these data; returns its trials by sweep name."""
    records = [baseline(), *(trial(n, val_ece=0.05) for n in range(1, settings))]
    records += [finalist(settings, records[0], 1), trial(settings + 1, state="stopped")]
    files = {**identity_files(Identity(data, {}, 10, {})), **candidate_files(earlier)}
    new_store(storage, make_sweep(name), records, files)
    return {name: records}


def test_the_best_settings_file_says_what_it_was_selected_from(tmp_path: Path) -> None:
    begun(tmp_path, "first", settings=5, earlier=10)
    (entry,) = best_settings(stored_sweeps(str(tmp_path)))
    resolved = make_sweep("first").model_dump(mode="json")
    tree = as_sweep_file(entry.setting, resolved, entry.candidates, entry.data)
    again = parse_sweep(tree)
    assert again.selection.selected_from is not None
    assert again.selection.selected_from.candidates == 15
    assert earlier_candidates(again.selection.selected_from, DATA, str(tmp_path), {}) == 15
    assert (
        earlier_candidates(again.selection.selected_from, "cd34", str(tmp_path), {}) == 0
    )  # different samples


def test_trials_that_a_sweep_learns_from_count_on_the_same_data(tmp_path: Path) -> None:
    same = begun(tmp_path, "same", settings=5, earlier=10)
    other = begun(tmp_path, "other", settings=7, data="cd34")
    assert earlier_candidates(None, DATA, str(tmp_path), {**same, **other}) == 15


def test_the_number_is_kept_with_the_sweep(tmp_path: Path) -> None:
    begun(tmp_path, "kept", settings=2, earlier=3)
    begun(tmp_path, "none", settings=2)
    for name, count in (("kept", 3), ("none", 0)):
        store = new_store(tmp_path / name, make_sweep(name), (), candidate_files(count))
        assert read_earlier_candidates(store.folder) == count


def test_the_comparison_is_corrected_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    whole = M.difference

    def spy(*arguments: Any, **options: Any) -> M.Difference:
        counts.append(arguments[-1].candidates)  # M.Design
        return whole(*arguments, **options)

    monkeypatch.setattr(M, "difference", spy)
    records, factors = sweep_of(1.0, 2.0)
    compare(ranked(records), written(tmp_path, factors), earlier_candidates=40)
    assert counts == [41, 41]


def test_a_sweep_file_refuses_half_an_origin() -> None:
    sections: dict[str, Any] = {"selection": {"selected_from": {"candidates": 3, "data": "x y"}}}
    with pytest.raises(Exception, match="selected_from"):
        make_sweep(**sections)
    good: SweepFile = make_sweep(selection={"selected_from": {"candidates": 3, "data": DATA}})
    assert good.selection.selected_from is not None


def test_sweeps_on_the_same_test_split_are_counted(tmp_path: Path) -> None:
    def sweep(name: str, data: str, test: str | None, state: State = "finished") -> SweepStore:
        files = identity_files(Identity(data, {}, 10, {}, test=test))
        return new_store(tmp_path, make_sweep(name), [baseline(state=state)], files)

    own = sweep("own", "a", "t")
    assert sweeps_on_test_split(own) == 1
    sweep("another_validation_split", "b", "t")
    sweep("from_before_the_test_split_was_known", "a", None)
    sweep("another_test_split", "c", "u")
    sweep("nothing_finished", "a", "t", state="stopped")
    assert sweeps_on_test_split(own) == 3
