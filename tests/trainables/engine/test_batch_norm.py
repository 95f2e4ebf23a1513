"""Batch norm over workers equals one process, and folding it changes no output."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.harness.workers import run_workers
from trainables.engine.batch_norm import folded, synchronised
from trainables.models import make_model

KINDS = ("plain", "without bias", "with activation", "with parameters")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    script = Path(__file__).with_name("batch_norm_worker.py")
    return run_workers(script, tmp_path_factory.mktemp("workers"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bfloat16", [False, True])
def test_two_workers_normalise_as_one_does(
    results: dict[str, Any], kind: str, bfloat16: bool
) -> None:
    alone, *workers = (results[name][kind, bfloat16] for name in ("alone", "worker0", "worker1"))
    close: dict[str, float] = (
        {"atol": 0.1, "rtol": 0.05} if bfloat16 else {"atol": 1e-5, "rtol": 1e-5}
    )
    for name, value in alone.items():
        if name in ("out", "evaluated"):
            found = torch.cat([worker[name] for worker in workers])
        elif name.startswith("gradient"):
            found = workers[0][name] + workers[1][name]
        else:
            found = workers[0][name]
            assert torch.equal(found, workers[1][name])
        torch.testing.assert_close(found, value, **close, msg=name)


@pytest.mark.parametrize("missing", ["weight", "bias"])
def test_weight_and_bias_are_used_independently(missing: str) -> None:
    single = nn.BatchNorm1d(4)
    nn.init.uniform_(single.weight, 2, 3)
    nn.init.uniform_(single.bias, 2, 3)
    single.register_parameter(missing, None)
    rows = torch.randn(9, 4)
    expected = F.batch_norm(rows, None, None, single.weight, single.bias, training=True)
    together = synchronised(nn.Sequential(single), torch.device("cpu"))
    torch.testing.assert_close(together(rows), expected)


class Scaled(nn.BatchNorm2d):
    """A batch norm with additional code."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(input)


def test_an_unknown_batch_norm_is_rejected() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), Scaled(2))
    with pytest.raises(ValueError, match=r"sync_batch_norm: layer '1' is a \S+\.Scaled, of which"):
        synchronised(model, torch.device("cpu"))
    assert type(model[1]) is Scaled


def with_statistics(model: nn.Module, images: torch.Tensor) -> nn.Module:
    """The model in eval mode, with batch norms that differ from their initial state."""
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.weight.uniform_(0.5, 1.5)
                layer.bias.normal_()
        model.train()(images)
    return model.eval()


def batch_norms(model: nn.Module) -> int:
    return sum(isinstance(layer, nn.BatchNorm2d) for layer in model.modules())


@pytest.mark.parametrize(
    ("name", "left"),
    [("small_cnn", 0), ("resnet18_cifar", 0), ("airbench_cifar", 3)],
)
def test_folded_batch_norms_change_no_output(name: str, left: int) -> None:
    torch.manual_seed(0)
    images = torch.rand(8, 3, 16, 16)
    model = with_statistics(make_model(name, input_shape=(3, 16, 16), num_classes=5), images)
    layers = list(model.modules())
    with torch.no_grad():
        plain = model(images)
        with folded(model):
            assert batch_norms(model) == left
            torch.testing.assert_close(model(images), plain, rtol=1e-4, atol=1e-5)
        assert torch.equal(model(images), plain)
    assert all(one is other for one, other in zip(layers, model.modules(), strict=True))


def test_batch_norms_are_restored_after_an_error() -> None:
    model = make_model("small_cnn", input_shape=(1, 8, 8), num_classes=5).eval()
    before = batch_norms(model)
    with pytest.raises(KeyboardInterrupt), folded(model):
        raise KeyboardInterrupt
    assert batch_norms(model) == before > 0


class Looking(nn.Sequential):
    """A third-party module that uses the output of the convolution."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found = self[0][0](images)
        seen: torch.Tensor = found.mean() + self[0][1](found)
        return seen


def test_third_party_layers_are_not_folded() -> None:
    layers = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    for model, left in ((nn.Sequential(layers), 0), (Looking(layers), 1)):
        with folded(model.eval()):
            assert batch_norms(model) == left
    unlike = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2, track_running_stats=False))
    with folded(unlike.eval()):
        assert batch_norms(unlike) == 1
