"""The runner before and after Tune runs; whole sweeps are in test_service."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from sweeps.errors import UserError
from sweeps.planning.data import load_data
from sweeps.service import running
from sweeps.service.interrupts import terminated_as_interrupted
from sweeps.service.reading.finding import overviews, read_answer
from sweeps.service.reading.writing import write_report
from sweeps.service.running import resume_sweep, run_sweep
from sweeps.service.upkeep import delete_sweep
from sweeps.store.first_files import given_files, keep_given
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import parse_sweep, with_other_budgets
from sweeps.sweep_file.schema import SweepFile
from tests.builders import baseline, make_sweep, new_store, trial


def test_a_taken_name_is_refused_before_anything_starts(tmp_path: Path) -> None:
    sweep = make_sweep("taken")
    new_store(tmp_path, sweep)
    with pytest.raises(UserError, match=r"a sweep of this name exists.*calsweep resume taken"):
        run_sweep(sweep, str(tmp_path))


def test_a_faulty_sweep_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'focal'"):
        run_sweep(make_sweep("faulty", losses=["focall"]), str(tmp_path / "store"))
    assert list(tmp_path.iterdir()) == []


def test_a_missing_sweep_cannot_be_resumed(tmp_path: Path) -> None:
    for act in (resume_sweep, delete_sweep, read_answer, write_report):
        with pytest.raises(UserError, match="no sweep named 'nowhere'"):
            act("nowhere", str(tmp_path))


def test_a_sweep_of_which_no_trial_has_begun_has_no_answer(tmp_path: Path) -> None:
    new_store(tmp_path, make_sweep("created"))
    with pytest.raises(
        UserError, match=r"'created' has no trial yet; `calsweep resume created --storage "
    ):
        read_answer("created", str(tmp_path))


def test_the_answer_is_for_good_once_the_sweep_has_ended(tmp_path: Path) -> None:
    records = [baseline(val_ece=0.05), trial(1, val_ece=0.02)]
    store = new_store(tmp_path, make_sweep("ended"), records)
    _, answer, final = read_answer("ended", str(tmp_path))
    assert not final
    assert answer.selected is not None and answer.selected.loss == "focal"
    store.save_answer(answer.to_json())
    assert read_answer("ended", str(tmp_path))[2]


@pytest.mark.parametrize("there_is", [False, True])
def test_run_or_resume_starts_what_does_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there_is: bool
) -> None:
    begun: list[tuple[bool, float | None, str]] = []
    monkeypatch.setattr(
        running,
        "_run",
        lambda sweep, *_, new, **__: begun.append(
            (new, sweep.search.max_hours, sweep.training.precision)
        ),
    )
    if there_is:
        training = {"epochs": 9, "precision": "float32"}
        settled = make_sweep("birds", training=training, search={"trials": 40})
        given = make_sweep("birds", training={"epochs": 9, "precision": "auto"})
        new_store(tmp_path, settled, files=given_files(given))
    asked = make_sweep(
        "birds", training={"epochs": 9, "precision": "auto"}, search={"max_hours": 5, "trials": 40}
    )
    running.run_or_resume(asked, str(tmp_path))
    assert begun == [(not there_is, 5.0, "float32" if there_is else "auto")]


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"training": {"epochs": 8}}, r"training\.epochs"),
        ({"losses": ["focal"]}, "losses"),
        ({"losses": ["focal", {"name": "mbls", "hyperparameters": {"lam": 0.3}}]}, "losses"),
        ({"dataset": {"name": "digits", "train_samples": 100}}, r"dataset\.train_samples"),
        ({"search": {"sampler": "random"}}, r".*search\.sampler"),  # and its usual trials
    ],
)
def test_run_or_resume_refuses_another_sweep_of_the_name(
    tmp_path: Path, changed: dict[str, object], key: str
) -> None:
    begun = make_sweep("birds", training={"epochs": 9})
    new_store(tmp_path, begun, files=given_files(begun))
    message = f"'birds': a sweep of this name exists, and was started with another {key}.*; put"
    with pytest.raises(UserError, match=message):
        running.run_or_resume(make_sweep("birds", **changed), str(tmp_path))


GIVEN = make_sweep("birds", training={"epochs": 9, "lr": 0.3}, search={"max_hours": 1})


def asked_again(**sections: Any) -> SweepFile:
    """The same sweep file, apart from these sections; None removes a key."""
    file = GIVEN.model_dump(mode="json", exclude_unset=True)
    for section, values in sections.items():
        merged = {**file[section], **values}
        file[section] = {key: value for key, value in merged.items() if value is not None}
    return parse_sweep(file)


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SweepStore:
    """A sweep of that file; runs do no more than what precedes the first trial."""

    def run(sweep: SweepFile, store: SweepStore, *_: object, given: SweepFile, **__: object) -> Any:
        store.change(sweep)
        keep_given(store.folder, given)

    monkeypatch.setattr(running, "_run", run)
    settled = {"training": {"epochs": 9, "lr": 0.3, "batch_size": 16}, "search": {"max_hours": 1}}
    return new_store(tmp_path, make_sweep("birds", **settled), files=given_files(GIVEN))


@pytest.mark.parametrize(
    ("set_by_hand", "changed", "expected"),
    [
        (None, {}, 1.0),
        (5.0, {}, 5.0),  # by `resume --set`, and the file is the same as before
        (5.0, {"search": {"max_hours": 5}}, 5.0),
        (None, {"search": {"max_hours": 3}}, 3.0),
        (5.0, {"search": {"max_hours": 3}}, 3.0),
        (None, {"search": {"max_hours": None}}, None),
        (5.0, {"search": {"max_hours": None}}, None),
        (None, {"training": {"batch_size": 16}}, 1.0),  # as the data have decided
    ],
)
def test_budgets_changed_in_the_file_count_once(
    begun: SweepStore, set_by_hand: float | None, changed: dict[str, Any], expected: float | None
) -> None:
    if set_by_hand is not None:
        begun.change(with_other_budgets(begun.load_sweep(), {"search.max_hours": set_by_hand}))
    again = asked_again(**changed)
    for _ in range(2):  # the second time, the sweep has ended: nothing is left to be changed
        running.run_or_resume(again, begun.storage)
        assert begun.load_sweep().search.max_hours == expected
        begun.save_answer({})


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("training", {"lr": None}),
        ("training", {"lr": 0.2}),
        ("training", {"batch_size": 8}),
        ("search", {"sampler": None}),
    ],
)
def test_removed_and_changed_keys_are_another_sweep(
    begun: SweepStore, section: str, values: dict[str, Any]
) -> None:
    key = rf"{section}\.{next(iter(values))}"
    with pytest.raises(UserError, match=f"was started with another {key}.*; put"):
        running.run_or_resume(asked_again(**{section: values}), begun.storage)


@pytest.mark.parametrize("content", [b"[", b"[1]", b'{"sections": {}}'])
def test_without_the_given_file_no_change_is_noticed(begun: SweepStore, content: bytes) -> None:
    begun.folder.write("given.json", content)
    running.run_or_resume(asked_again(search={"max_hours": None}), begun.storage)
    assert begun.load_sweep().search.max_hours == 1
    running.run_or_resume(asked_again(), begun.storage)  # from now on it is known
    running.run_or_resume(asked_again(search={"max_hours": None}), begun.storage)
    assert begun.load_sweep().search.max_hours is None


def test_a_sweep_that_is_being_run_is_not_deleted(tmp_path: Path) -> None:
    store = new_store(tmp_path, make_sweep("held"), [baseline()])
    with store.locked(), pytest.raises(UserError, match=r"'held' is being run by process \d+"):
        delete_sweep("held", str(tmp_path))
    assert SweepStore(str(tmp_path), "held").exists()
    delete_sweep("held", str(tmp_path))
    assert not SweepStore(str(tmp_path), "held").exists()


def test_the_latest_sweep_is_listed_first(tmp_path: Path) -> None:
    for name, started in (("old", 1e9), ("new", 2e9)):
        first = baseline()
        first.started = started
        new_store(tmp_path, make_sweep(name), [first])
    new_store(tmp_path, make_sweep("unbegun"))
    assert [each.name for each in overviews(str(tmp_path))] == ["unbegun", "new", "old"]


def test_data_that_cannot_be_loaded_are_reported_as_the_users(tmp_path: Path) -> None:
    sweep = make_sweep(dataset={"name": "image_folder", "root": str(tmp_path / "none")})
    with pytest.raises(UserError, match=r"^dataset: .*none"):
        load_data(sweep)


def test_data_are_split_by_the_sweeps_seed() -> None:
    one, same, other = (
        load_data(make_sweep(search={"seed": seed})).validation.labels.tolist()
        for seed in (1, 1, 2)
    )
    assert one == same != other


def test_a_closed_terminal_interrupts_unless_it_is_ignored() -> None:
    outer = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests may run under nohup, too
    before = signal.getsignal(signal.SIGHUP)
    with pytest.raises(KeyboardInterrupt), terminated_as_interrupted():
        os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == before
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        with terminated_as_interrupted():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, outer)
