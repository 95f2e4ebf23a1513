"""RefCal: an encoder is trained once, then heads on its frozen features."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from trainables.contract.config import EncoderSetup, HeadConfig, TrainingConfig, TrialSetup
from trainables.contract.messages import Progressed, TrialConfig, Waiting
from trainables.contract.setting import Setting
from trainables.data import load_dataset
from trainables.data.core.base import Dataset, EvaluationSet
from trainables.engine.training import Trainer
from trainables.export.calibrated import load_calibrated
from trainables.files.rows import Rows
from trainables.files.storage import Folder
from trainables.losses import make_loss
from trainables.models import make_model
from trainables.models.base import Classifier
from trainables.trials.making import make_run
from trainables.trials.two_stage import (
    UnitLength,
    encoder_file,
    encoder_folder,
    frozen_features,
    head_for,
    is_trained,
    load_encoder,
    load_encoder_weights,
    load_features,
    save_encoder,
)

WIDTH = 8


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_dataset("digits", seed=0, train_samples=300)


def new_model(digits: Dataset) -> Any:
    return make_model("small_cnn", input_shape=digits.input_shape, num_classes=10, width=WIDTH)


def make_setup(folder: Path, epochs: int = 2) -> TrialSetup:
    encoder = TrainingConfig(epochs=epochs, batch_size=64, lr=0.05, augmentation="crop")
    return TrialSetup(
        model="small_cnn",
        model_options={"width": WIDTH},
        # The head gets no images, so the augmentation does not matter.
        training=TrainingConfig(epochs=6, batch_size=64, lr=3.0, augmentation="crop"),
        trials_uri=str(folder / "trials"),
        outcome_epochs=(6,),
        encoder=EncoderSetup(training=encoder, uri=str(folder / "encoders")),
    )


ENCODER = TrialConfig(0, "encoder", Setting("supcon", {"temperature": 0.1}), seed=0)


def head_of(number: int, loss: str = "focal", **values: Any) -> TrialConfig:
    return TrialConfig(number, "search", Setting(loss, values), seed=0)


def run_to_end(digits: Dataset, setup: TrialSetup, config: TrialConfig) -> dict[str, Any]:
    """The metrics of a trial's last epoch."""
    run = make_run(digits, setup, config)
    while not (report := run.advance()).done:
        pass
    assert isinstance(report, Progressed)
    return report.entries[-1]


@pytest.fixture(scope="module")
def trained(digits: Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrialSetup]:
    folder = tmp_path_factory.mktemp("two_stage")
    setup = make_setup(folder, epochs=16)
    result = run_to_end(digits, setup, ENCODER)
    assert result["epoch"] == 16
    return folder, setup


def folder_of(setup: TrialSetup, seed: int = 0) -> Folder:
    assert setup.encoder is not None
    return encoder_folder(setup.encoder.uri, seed)


def test_a_head_on_a_good_encoder_is_accurate_and_leaves_it_alone(
    digits: Dataset, trained: tuple[Path, TrialSetup]
) -> None:
    folder, setup = trained
    encoder = read(folder_of(setup), "encoder.pt")
    result = run_to_end(digits, setup, head_of(1, gamma=1.0))
    assert result["val_error"] < 0.1
    assert {"test_ece", "temperature", "val_error_low"} <= result.keys()
    assert read(folder_of(setup), "encoder.pt") == encoder
    checkpoint = next((folder / "trials/00001/checkpoints").iterdir())
    names = torch.load(checkpoint, weights_only=True)["trainer"]["model"].keys()
    assert set(names) == {"head.weight", "head.bias"}


KINDS = ("mixup", "crl", "cals_alm", "aucm", "r_aurc", "kde_xe")


@pytest.mark.parametrize(("number", "loss"), list(enumerate(KINDS, start=10)))
def test_every_kind_of_loss_trains_a_head(
    digits: Dataset, trained: tuple[Path, TrialSetup], number: int, loss: str
) -> None:
    _, setup = trained
    result = run_to_end(digits, setup, head_of(number, loss))
    assert result["epoch"] == 6  # no failure before


def test_both_stages_together_predict_what_the_head_did(
    digits: Dataset, trained: tuple[Path, TrialSetup]
) -> None:
    folder, setup = trained
    run_to_end(digits, setup, head_of(2, "cross_entropy"))
    model = new_model(digits)
    model.encoder.load_state_dict(
        torch.load(path_of(folder_of(setup), "encoder.pt"), weights_only=True)
    )
    head = next((folder / "trials/00002/checkpoints").glob("epoch_000006*"))
    assert setup.encoder is not None
    frozen = frozen_features(trainer_of(digits, model))
    classifier = head_for(frozen, setup.encoder)
    classifier.load_state_dict(torch.load(head, weights_only=True)["trainer"]["model"])
    whole = Classifier(nn.Sequential(model.encoder, UnitLength()), classifier.head)
    trainer = trainer_of(digits, whole)
    logits, labels = trainer.predict(digits.test)
    data = (folder / "trials/00002/predictions_test.parquet").read_bytes()
    torch.testing.assert_close(Rows.decode(data).tensors(), (logits, labels))
    assert frozen.input_shape == (model.head.in_features,)


def read(folder: Folder, name: str) -> bytes:
    return folder.read(encoder_file(folder, name))


def path_of(folder: Folder, name: str) -> Path:
    return Path(folder.path) / encoder_file(folder, name)


def trainer_of(digits: Dataset, model: Any) -> Trainer:
    config = TrainingConfig(epochs=1, batch_size=64)
    device = torch.device("cpu")
    return Trainer(model, make_loss("cross_entropy", num_classes=10), digits, config, 0, device)


def test_an_encoder_interrupted_after_any_epoch_has_the_same_result(
    tmp_path: Path, digits: Dataset
) -> None:
    whole = make_setup(tmp_path / "whole", epochs=3)
    run_to_end(digits, whole, ENCODER)
    for cut in (1, 2):
        setup = make_setup(tmp_path / f"cut{cut}", epochs=3)
        before = make_run(digits, setup, ENCODER)
        for _ in range(cut):
            before.advance()
        assert not is_trained(folder_of(setup))
        run_to_end(digits, setup, ENCODER)
        for name in ("features_train.npy", "features_validation.npy", "features_test.npy"):
            assert read(folder_of(setup), name) == read(folder_of(whole), name), name


def test_an_encoder_is_trained_only_once_all_its_files_are_there(
    tmp_path: Path, digits: Dataset
) -> None:
    trainer = trainer_of(digits, new_model(digits))
    folder = Folder(str(tmp_path / "encoder"))
    assert not is_trained(folder)
    save_encoder(folder, trainer.model.encoder, frozen_features(trainer))
    assert is_trained(folder)
    features = load_features(folder)
    assert {name: len(array) for name, array in features.items()} == {
        "train": len(digits.train),
        "validation": len(digits.validation),
        "test": len(digits.test),
    }
    assert all(isinstance(array, np.memmap) for array in features.values())


@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_damaged_feature_file_fails_the_trial_with_its_name(
    tmp_path: Path, digits: Dataset, damage: str
) -> None:
    setup = make_setup(tmp_path, epochs=1)
    run_to_end(digits, setup, ENCODER)
    path = path_of(folder_of(setup), "features_validation.npy")
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[-5:]
    else:
        data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"features_validation-\w+\.npy is damaged; delete"):
        make_run(digits, setup, head_of(1)).advance()


def test_the_encoder_stage_leaves_the_classifiers_head_alone(digits: Dataset) -> None:
    model = new_model(digits)
    before = model.head.weight.detach().clone()
    config = TrainingConfig(epochs=1, batch_size=64, weight_decay=0.1)
    loss = make_loss("supcon", num_classes=10)
    Trainer(model, loss, digits, config, 0, torch.device("cpu")).train_epoch()
    assert torch.equal(model.head.weight, before)


def test_a_digest_tells_datasets_apart(digits: Dataset) -> None:
    assert digits.digest() == load_dataset("digits", seed=0, train_samples=300).digest()
    assert digits.digest() != load_dataset("digits", seed=1, train_samples=300).digest()


def test_a_head_waits_until_the_features_can_be_read(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = make_setup(tmp_path)
    encoder = make_run(digits, setup, ENCODER)
    while not encoder.advance().done:
        pass
    run = make_run(digits, setup, head_of(1))

    def unavailable(folder: Folder) -> None:
        raise OSError("HTTP response code 503")

    with monkeypatch.context() as patch:
        patch.setattr("trainables.trials.making._features", unavailable)
        waits = run.advance()
        assert isinstance(waits, Waiting)
        assert "cannot be read: HTTP response code 503" in waits.reason
    assert isinstance(run.advance(), Progressed)


def features_of(digits: Dataset, seed: int) -> tuple[nn.Module, Dataset]:
    torch.manual_seed(seed)
    trainer = trainer_of(digits, new_model(digits))
    return trainer.model.encoder, frozen_features(trainer)


def test_a_complete_encoder_is_never_replaced(tmp_path: Path, digits: Dataset) -> None:
    folder = Folder(str(tmp_path / "encoder"))
    save_encoder(folder, *features_of(digits, 0))
    files = {name: folder.read(name) for name in folder.names()}
    save_encoder(folder, *features_of(digits, 1))
    assert {name: folder.read(name) for name in folder.names()} == files


def test_two_sweeps_that_write_the_same_encoder_concurrently_leave_a_complete_one(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(str(tmp_path / "encoder"))
    one, other = features_of(digits, 0), features_of(digits, 1)
    write = Folder.write
    for at in range(4):  # the other sweep writes all its files before the n-th file
        folder.delete_tree()
        files = 0

        def interleaved(self: Folder, name: str, data: bytes, at: int = at) -> None:
            nonlocal files
            files += 1
            if files == at + 1:
                save_encoder(folder, *other)
            write(self, name, data)

        with monkeypatch.context() as patch:
            patch.setattr(Folder, "write", interleaved)
            save_encoder(folder, *one)
        features = load_features(folder)
        assert np.array_equal(features["train"], other[1].train.inputs)
        torch.load(path_of(folder, "encoder.pt"), weights_only=True)


def test_a_damaged_index_is_no_encoder(tmp_path: Path, digits: Dataset) -> None:
    folder = Folder(str(tmp_path / "encoder"))
    encoder, frozen = features_of(digits, 0)
    save_encoder(folder, encoder, frozen)
    folder.write("encoder.json", b"")
    assert not is_trained(folder)
    with pytest.raises(FileNotFoundError, match="no complete encoder"):
        load_features(folder)
    save_encoder(folder, encoder, frozen)
    assert is_trained(folder)


def test_the_calibrated_classifier_is_both_stages_and_the_temperature(
    digits: Dataset, trained: tuple[Path, TrialSetup]
) -> None:
    folder, setup = trained
    config = head_of(3, gamma=1.0)
    temperature = run_to_end(digits, setup, config)["temperature"]
    trial = Folder(str(folder / "trials/00003"))
    assert setup.encoder is not None
    model = load_calibrated(
        digits, ("small_cnn", {"width": WIDTH}), config, trial, temperature, setup.encoder
    )
    logits, _ = Rows.read(trial, "test").tensors()
    found = model(torch.from_numpy(digits.test.inputs.copy()))
    assert torch.allclose(found, (logits / temperature).softmax(1), atol=1e-5)


FROZEN = TrialConfig(0, "encoder", Setting("cross_entropy"), seed=0)


def frozen_setup(folder: Path, head: HeadConfig, checkpoint: str | None) -> TrialSetup:
    setup = make_setup(folder)
    encoder = EncoderSetup(
        training=TrainingConfig(epochs=1, batch_size=64),
        uri=str(folder / "encoders"),
        frozen=True,
        checkpoint=checkpoint,
        head=head,
    )
    return replace(setup, encoder=encoder, training=replace(setup.training, lr=0.1))


@pytest.mark.parametrize("head", [HeadConfig(), HeadConfig("mlp", width=32, dropout=0.1)])
def test_a_head_on_a_network_that_is_not_trained(
    digits: Dataset, tmp_path: Path, head: HeadConfig
) -> None:
    own = new_model(digits)
    torch.save(own.state_dict(), weights := str(tmp_path / "weights.pt"))
    setup = frozen_setup(tmp_path, head, weights)
    sets = tuple(EvaluationSet(kind, "same", None, digits.test) for kind in ("shift", "ood"))
    digits = replace(digits, evaluation_sets=sets)
    found = run_to_end(digits, setup, FROZEN)
    encoder, features = load_encoder(folder_of(setup)), load_features(folder_of(setup))
    assert all(torch.equal(encoder[k], v) for k, v in own.encoder.state_dict().items())
    assert features["train"].dtype == np.float16
    x = features["validation"].astype(np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    half = ((x[:, None] - x) ** 2).sum(2) / 2
    y = digits.validation.labels
    others, same = y[:, None] != y, (y[:, None] == y) & ~np.eye(len(y), dtype=bool)
    nearest = [np.where(which, half, np.inf).min(1) for which in (same, others)]
    assert found["val_l_ref"] == pytest.approx((nearest[0] - nearest[1]).mean(), abs=1e-3)
    assert found["val_l_sc"] > found["val_l_ref"]  # an upper bound, as RefCal proves

    config = TrialConfig(7, "finalist", Setting("cross_entropy"), seed=3)  # any seed shares it
    result = run_to_end(digits, setup, config)
    assert result["val_error"] < 0.25  # random convolutions
    assert result["shift_same_error"] == result["test_error"]
    assert result["ood_same_auroc"] == pytest.approx(0.5)
    trial = Folder(str(tmp_path / "trials/00007"))
    model = load_calibrated(
        digits, ("small_cnn", {"width": WIDTH}), config, trial, 1, setup.encoder
    )
    logits, _ = Rows.read(trial, "test").tensors()
    probs = model(torch.from_numpy(digits.test.inputs.copy()))
    assert torch.allclose(probs, logits.softmax(1), atol=5e-3)  # features were in half precision


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"other.weight": torch.zeros(1)}, "lacks .* of the network"),
        ([1.0], "holds list, not a state dict"),
        ({}, "is of another network: the shapes of .* differ"),
        (None, "cannot be read"),
    ],
)
def test_weights_that_do_not_suit_the_network(
    digits: Dataset, tmp_path: Path, content: object, message: str
) -> None:
    network = new_model(digits)
    if content == {}:  # the right names, but other shapes
        content = {name: each[..., None] for name, each in network.encoder.state_dict().items()}
    torch.save(content, path := tmp_path / "weights.pt")
    if content is None:
        path.write_bytes(b"no weights")
    with pytest.raises(ValueError, match=f"checkpoint = .*{message}"):
        load_encoder_weights(network, str(path))


def test_a_damaged_encoder_is_not_used(tmp_path: Path, digits: Dataset) -> None:
    model = new_model(digits)
    folder = Folder(str(tmp_path))
    save_encoder(folder, model.encoder, frozen_features(trainer_of(digits, model)))
    found = load_encoder(folder)
    assert all(torch.equal(found[key], value) for key, value in model.encoder.state_dict().items())
    path = path_of(folder, "encoder.pt")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="is damaged; delete that folder"):
        load_encoder(folder)
