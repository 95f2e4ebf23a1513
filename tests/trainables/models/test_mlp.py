import math

import pytest
import torch

from trainables.data.kinds.arrays import Arrays
from trainables.models import make_model


@pytest.mark.parametrize("shape", [(5,), (2, 7), (2, 3, 4)])
def test_layers(shape: tuple[int, ...]) -> None:
    samples = Arrays.unscaled(shape)
    model = make_model(
        "mlp", input_shape=shape, samples=samples, num_classes=3, width=11, depth=3, dropout=0.5
    )
    assert model.head.in_features == 11
    sizes = [p.shape for p in model.encoder.parameters() if p.ndim == 2]
    assert sizes == [(11, math.prod(shape)), (11, 11), (11, 11)]
    assert model(torch.randn(4, *shape)).shape == (4, 3)
