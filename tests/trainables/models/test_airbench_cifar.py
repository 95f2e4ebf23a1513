import numpy as np
import pytest
import torch
from sklearn.datasets import load_sample_images
from torch.nn import functional as F

from trainables.models import make_model


@pytest.fixture(scope="module")
def photographs() -> torch.Tensor:
    """Two small photographs, normalised by channel, (2, 3, 53, 80)."""
    pixels = torch.from_numpy(np.stack(load_sample_images().images)).permute(0, 3, 1, 2)
    small = F.avg_pool2d(pixels.float(), 8)
    mean, std = (f(small.transpose(0, 1).flatten(1), dim=1) for f in (torch.mean, torch.std))
    return (small - mean[:, None, None]) / std[:, None, None]


def spread(patches: torch.Tensor) -> float:
    """Largest over smallest variance of patches (N, D, H, W) along any direction."""
    variances = torch.linalg.eigvalsh(torch.cov(patches.transpose(0, 1).flatten(1)))
    return float(variances[-1] / variances[0])


@pytest.mark.parametrize(("channels", "directions"), [(3, 12), (1, 4)])
def test_the_first_layer_makes_neighbouring_pixels_of_photographs_alike_and_independent(
    photographs: torch.Tensor, channels: int, directions: int
) -> None:
    images = photographs if channels == 3 else photographs[:, :1]
    network = make_model("airbench_cifar", input_shape=(channels, 53, 80), num_classes=10)
    with torch.no_grad():
        found = network.encoder[0](images)
    assert found.shape == (2, 2 * directions, 52, 79)
    torch.testing.assert_close(found[:, :directions], -found[:, directions:])
    patches = F.unfold(images, 2).reshape(2, 4 * channels, 52, 79)
    assert spread(found[:, :directions]) < spread(patches) / 15


def test_convolutions_begin_as_the_identity() -> None:
    network = make_model("airbench_cifar", input_shape=(3, 32, 32), num_classes=10)
    maps = torch.randn(2, 24, 9, 9)
    with torch.no_grad():
        torch.testing.assert_close(network.encoder[2](maps)[:, :24], maps)


def test_number_of_parameters() -> None:
    """Jordan's 1.97 million, plus parameters that he fixes: BatchNorm scales, head biases."""
    network = make_model("airbench_cifar", input_shape=(3, 32, 32), num_classes=10)
    theirs = 24 + 9 * (24 * 64 + 64 * 64 + 64 * 256 + 3 * 256 * 256) + 2 * 64 + 4 * 256 + 2560
    assert sum(weight.numel() for weight in network.parameters()) == theirs + 2 * 64 + 4 * 256 + 10


@pytest.mark.parametrize("shape", [(2, 32, 32), (3, 7, 32)])
def test_images_that_it_cannot_take(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"1 or 3 channels and 8x8 or more, not \d of \d+x\d+"):
        make_model("airbench_cifar", input_shape=shape, num_classes=10)
