"""Whole sweeps from Python, with a real MLflow."""

import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from ruamel.yaml import YAML
from sklearn.datasets import load_digits
from torch import Tensor, nn

import calsweep
from sweeps.service.reading.writing import write_figures
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.schema import SweepFile
from tests.builders import handed_out, make_sweep, new_store
from trainables.files.rows import Rows

README = Path(__file__).parents[2] / "README.md"
DIGITS = load_digits()
IMAGES = DIGITS.images.astype(np.uint8)[:600, :, :, None] * 16
LABELS = DIGITS.target[:600]


def from_memory(folder: Path, trials: int, debug: bool) -> calsweep.Result:
    """The result of a sweep whose data, model and one loss exist only in memory."""

    class Doubled(nn.Module):
        def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
            return 2 * nn.functional.cross_entropy(logits, targets)

    return calsweep.run(
        dataset=(IMAGES, LABELS),
        model=lambda: nn.Sequential(
            nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10)
        ),
        losses=[Doubled, calsweep.loss("focal", gamma=(1.5, 2.5))],
        epochs=4,
        trials=trials,
        name="digits",
        storage=folder / "store",
        set={
            "selection.finalists": 1,
            "selection.seeds": 1,
            "training.batch_size": 32,
            "training.lr": 0.02,  # few steps
            "scaling.max_concurrent": 1,  # one process to start
        },
        debug=debug,
    )


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Iterator[calsweep.Result]:
    folder = tmp_path_factory.mktemp("from_memory")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield from_memory(folder, trials=5, debug=True)


@pytest.mark.any_version
def test_what_exists_only_in_memory_is_sent_to_ray(
    ray_session: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = from_memory(tmp_path, trials=3, debug=False).table()
    assert {"Doubled", "focal", "cross_entropy"} == set(table["loss"])
    assert set(table["state"]) <= {"finished", "stopped"}


def test_the_best_setting(result: calsweep.Result) -> None:
    assert result.finished
    assert result.best is not None
    assert result.best.loss.rpartition(":")[2] in ("cross_entropy", "Doubled", "focal")
    assert 0 <= result.best.val["error"] < 0.5
    assert 0 <= result.best.test["ece"] < 0.5
    assert result.best.temperature > 0
    assert result.supported == result.best.supported == (result.best.verdict == "supported")
    assert result.why[0].startswith("Selected: ")


def test_unnamed_sweeps_that_start_at_once_take_the_next_free_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process holds the first name, without having created its sweep."""
    new_store(tmp_path, make_sweep("sweep-2"))
    monkeypatch.setattr("sweeps.service.running._loading", stop_named)  # what follows the lock
    held = SweepStore(str(tmp_path), "sweep-1").locked()
    with held, pytest.raises(RuntimeError, match=r"^sweep-3$"):
        calsweep.run(dataset=(IMAGES, LABELS), losses="focal", storage=tmp_path, progress=False)


def stop_named(sweep: SweepFile, *_: Any) -> None:
    raise RuntimeError(sweep.name)


def test_a_row_for_each_trial(result: calsweep.Result) -> None:
    table = result.table()
    assert list(table["trial"]) == list(range(len(table)))
    assert {"Doubled", "focal", "cross_entropy"} == set(table["loss"])
    assert set(table["state"]) <= {"finished", "stopped"}
    assert table.loc[table["loss"] == "focal", "gamma"].between(1.5, 2.5).all()
    assert table["val_ece"].between(0, 1).all()


def test_the_model_gives_the_calibrated_probabilities_of_the_sweep(result: calsweep.Result) -> None:
    model = result.model()
    probs = model.predict_proba(IMAGES)
    assert probs.shape == (600, 10)
    assert np.allclose(probs.sum(1), 1, atol=1e-5)
    assert (probs.argmax(1) == LABELS).mean() > 0.6
    rows = torch.from_numpy(model.encode(IMAGES[:5]))
    assert np.allclose(model(rows).detach(), probs[:5], atol=1e-6)
    # The test logits are those that the trial wrote, after its scaling.
    assert result.recommended is not None
    trial = result._sweep.ranking.records[result.recommended.trials[0]]
    _, labels = Rows.read(result._sweep.store.trial_folder(trial.number), "test").tensors()
    from sweeps.planning.data import load_data

    split = load_data(result._sweep.store.load_sweep()).test
    assert np.array_equal(split.labels, labels)
    expected = handed_out(result._sweep.store, trial.number)
    assert torch.allclose(model(torch.from_numpy(split.inputs.copy())), expected, atol=1e-5)


def test_the_model_is_kept_by_torch(result: calsweep.Result, tmp_path: Path) -> None:
    torch.save(model := result.model(), tmp_path / "model.pt")
    again = torch.load(tmp_path / "model.pt", weights_only=False)
    assert np.array_equal(again.predict_proba(IMAGES[:9]), model.predict_proba(IMAGES[:9]))
    with pytest.raises(TypeError, match="must be uint8 from 0 to 255, not float64"):
        model.predict_proba(IMAGES / 255)


@pytest.mark.parametrize("plot", ["plot_reliability", "plot_search", "plot_curves"])
def test_figures_show_themselves(result: calsweep.Result, plot: str) -> None:
    figure = getattr(result, plot)()
    image = np.asarray(Image.open(io.BytesIO(figure._repr_png_())).convert("L"))
    assert (image < 128).mean() > 0.002
    assert all(axis.has_data() for axis in figure.axes)


@pytest.mark.parametrize(("form", "begins"), [("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_figures_are_files_for_papers(
    result: calsweep.Result, tmp_path: Path, form: Any, begins: bytes
) -> None:
    written = write_figures(result.name, result.storage, form, str(tmp_path / "figures"))
    assert [Path(each).stem for each in written] == [
        *("search", "curves", "auroc_ece", "accuracy_ece", "reliability")
    ]
    for path in map(Path, written):
        assert path.suffix == f".{form}" and path.read_bytes().startswith(begins)
    if form == "svg":
        assert ">confidence</text>" in Path(written[-1]).read_text()  # not outlines


def test_leaderboard_and_verdicts_are_data_frames(result: calsweep.Result) -> None:
    board = result.leaderboard()
    assert result.best is not None
    chosen = board[board["note"] == "selected"].iloc[0]
    assert chosen["val_ece"] == result.best.val["ece"]
    assert board["trials"].sum() == len(result.table())
    focal = board[board["loss"] == "focal"].iloc[0]
    assert 1.5 <= focal["gamma"] <= 2.5
    verdicts = result.comparisons()
    assert {"ours", "theirs", "metric", "low", "high", "verdict"} <= set(verdicts.columns)
    assert set(verdicts["verdict"]) <= {"supported", "not supported", "worse"} and len(verdicts)


def test_an_unknown_argument_says_which_it_is_like() -> None:
    with pytest.raises(TypeError, match=r"no argument 'epoch' \(did you mean 'epochs'\?\)"):
        calsweep.run(dataset="digits", epoch=1)


def test_a_loss_has_its_own_reliability_diagram(result: calsweep.Result) -> None:
    drawn, other = (result.plot_reliability(loss=loss) for loss in ("focal", "cross_entropy"))
    titles = [figure.axes[0].get_title() for figure in (drawn, other)]
    assert titles[0] != titles[1]
    with pytest.raises(calsweep.UserError, match="did you mean 'focal'"):
        result.plot_reliability(loss="focl")


def test_a_cell_that_runs_again_resumes(result: calsweep.Result) -> None:
    tree = YAML(typ="safe").load(result.sweep_file)
    again = calsweep.run(tree, storage=result.storage, or_resume=True, debug=True)
    assert len(again.table()) == len(result.table())
    with pytest.raises(calsweep.UserError, match="name is missing"):
        calsweep.run(dataset="digits", losses=["focal"], or_resume=True)


def test_the_result_can_be_loaded_later(result: calsweep.Result) -> None:
    again = calsweep.load(result.storage, "digits")
    assert repr(again) == repr(pickle.loads(pickle.dumps(result))) == repr(result)
    assert "Selected: " in repr(again)
    assert again._repr_html_().startswith("<pre")
    [entry] = calsweep.best(dataset="digits", storage=result.storage)
    assert entry["loss"] == (again.best and again.best.loss)
    resumed = calsweep.resume("digits", storage=result.storage, progress=False, debug=True)
    assert resumed.best == again.best
