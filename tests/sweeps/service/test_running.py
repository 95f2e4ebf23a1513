"""The runner before and after Tune runs; whole sweeps are in test_service."""

from pathlib import Path

import pytest

from sweeps.errors import UserError
from sweeps.planning.data import load_data
from sweeps.service import running
from sweeps.service.ending import _on_budget
from sweeps.service.reading import overviews, read_answer, write_report
from sweeps.service.running import resume_sweep, run_sweep
from sweeps.service.upkeep import delete_sweep
from sweeps.store.sweep_store import SweepStore
from tests.builders import baseline, make_sweep, new_store, queue_of, trial


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
    answer, final = read_answer("ended", str(tmp_path))
    assert not final
    assert answer["chosen"]["loss"] == "focal"
    store.save_answer(answer)
    assert read_answer("ended", str(tmp_path))[1]


def test_a_search_that_came_to_noise_says_so(tmp_path: Path) -> None:
    sweep = make_sweep("enough", search={"stop_at_noise": True}, selection={"finalists": 0})
    honest = trial(1, val_ece=0.02, val_ece_calibrated_high=0.03)
    queue = queue_of(sweep, new_store(tmp_path, sweep, [baseline(val_ece=0.05), honest]))
    assert queue.exhausted
    assert _on_budget(queue) == (
        "The search ended by search.stop_at_noise, after 2 settings: focal γ=1 reached val_ece "
        "0.0200, and a perfectly calibrated model would show up to 0.0300 with so few samples, so "
        "nothing further could be shown to be better."
    )


@pytest.mark.parametrize("there_is", [False, True])
def test_run_or_resume_starts_what_does_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there_is: bool
) -> None:
    begun: list[tuple[str, object]] = []
    monkeypatch.setattr(
        running, "run_sweep", lambda sweep, *_, **__: begun.append(("run", sweep.name))
    )
    monkeypatch.setattr(
        running, "resume_sweep", lambda name, *rest, **_: begun.append(("resume", rest[-1]))
    )
    if there_is:
        training = {"epochs": 9, "precision": "float32"}
        settled = make_sweep("birds", training=training, search={"trials": 40})
        new_store(tmp_path, settled)
    asked = make_sweep(
        "birds", training={"epochs": 9, "precision": "auto"}, search={"max_hours": 5, "trials": 40}
    )
    running.run_or_resume(asked, str(tmp_path))
    assert begun == [("resume", {"search.max_hours": 5.0}) if there_is else ("run", "birds")]


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"training": {"epochs": 8}}, r"training\.epochs"),
        ({"losses": ["focal"]}, "losses"),
        ({"losses": ["focal", {"name": "mbls", "hyperparameters": {"lam": 0.3}}]}, "losses"),
        ({"dataset": {"name": "digits", "train_samples": 100}}, r"dataset\.train_samples"),
        ({"search": {"sampler": "random"}}, r"search\.sampler"),
    ],
)
def test_run_or_resume_refuses_another_sweep_of_the_name(
    tmp_path: Path, changed: dict[str, object], key: str
) -> None:
    new_store(tmp_path, make_sweep("birds", training={"epochs": 9}))
    message = f"'birds': a sweep of this name exists, and was started with another {key}; put"
    with pytest.raises(UserError, match=message):
        running.run_or_resume(make_sweep("birds", **changed), str(tmp_path))


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
