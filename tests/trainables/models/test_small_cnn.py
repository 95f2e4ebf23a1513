import pytest
import torch
from torch import nn

from trainables.data import Split, load_dataset
from trainables.data.kinds.augmentation import normalise
from trainables.models import make_model


@pytest.mark.parametrize(
    ("side", "channels"),
    [(8, [16, 32]), (15, [16, 32]), (16, [16, 32, 64]), (28, [16, 32, 64]), (32, [16, 32, 64, 64])],
)
def test_stages_follow_the_image_size(side: int, channels: list[int]) -> None:
    model = make_model("small_cnn", input_shape=(1, side, side), num_classes=10)
    convolutions = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    assert [layer.out_channels for layer in convolutions] == channels


def test_width_scales_the_channels() -> None:
    model = make_model("small_cnn", input_shape=(1, 8, 8), num_classes=10, width=5)
    assert model.head.in_features == 2 * 5 * 2 * 2


def test_dropout_acts_in_training_only() -> None:
    model = make_model("small_cnn", input_shape=(1, 8, 8), num_classes=10, dropout=0.5)
    inputs = torch.randn(8, 1, 8, 8)
    features = model.encoder(inputs)
    assert not torch.equal(model.encoder(inputs), features)
    model.eval()
    assert torch.equal(model(inputs), model(inputs))


@pytest.mark.parametrize("input_shape", [(1, 7, 8), (1, 8, 7)])
def test_too_small_images(input_shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="small_cnn needs images of 8x8 or more, not"):
        make_model("small_cnn", input_shape=input_shape, num_classes=10)


def test_digits_are_learnt_in_fifteen_epochs() -> None:
    dataset = load_dataset("digits", seed=0)

    def tensors(split: Split) -> tuple[torch.Tensor, torch.Tensor]:
        images = torch.tensor(split.inputs)
        return normalise(images, dataset.samples.mean, dataset.samples.std), torch.tensor(
            split.labels
        )

    torch.manual_seed(0)
    model = make_model("small_cnn", input_shape=dataset.input_shape, num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    inputs, labels = tensors(dataset.train)
    for _ in range(15):
        for batch in torch.chunk(torch.randperm(len(labels)), 17):  # batches of 64
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs[batch]), labels[batch])
            torch.autograd.backward(loss)
            optimizer.step()
    inputs, labels = tensors(dataset.test)
    model.eval()
    assert (model(inputs).argmax(1) == labels).double().mean() >= 0.97
