"""Losses and metrics without a sweep."""

import copy

import pytest
import torch
from torch import nn

import calsweep
from trainables.losses.registry import CATALOGUE
from trainables.losses.registry import loss_class as by_name

CLASSES = {path.partition(":")[2]: name for name, path in CATALOGUE.ours.items()}
LOGITS = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
TARGETS = torch.arange(12) % 4


KEEP_SOMETHING = {"AUCMargin", "AugmentedLagrangian", "HeuristicMultipliers"}


def test_all_losses_are_named() -> None:
    assert CLASSES.keys() <= set(dir(calsweep.losses))


@pytest.mark.parametrize("name", sorted(KEEP_SOMETHING))
def test_a_loss_with_state_per_class_needs_the_number_of_classes(name: str) -> None:
    with pytest.raises(TypeError, match="num_classes"):
        getattr(calsweep.losses, name)()


@pytest.mark.parametrize("name", sorted(CLASSES.keys() - KEEP_SOMETHING))
def test_the_value_does_not_depend_on_giving_the_number_of_classes(name: str) -> None:
    with_classes = by_name(CLASSES[name])(4)
    alone = getattr(calsweep.losses, name)()
    more = {"indices": torch.arange(12), "features": LOGITS}
    for each in (with_classes, alone):
        each.on_train_begin(12)
    assert alone(LOGITS, TARGETS, **more) == with_classes(LOGITS, TARGETS, **more)
    assert alone.num_classes == 4
    assert isinstance(alone, by_name(CLASSES[name]))


def test_a_loss_takes_its_hyperparameters_and_trains() -> None:
    layer = nn.Linear(4, 4)
    before = copy.deepcopy(layer.state_dict())
    loss = calsweep.losses.DualFocal(gamma=5)
    assert repr(loss) == "DualFocal()"
    loss(layer(LOGITS), TARGETS).backward()
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    assert not torch.equal(before["weight"], layer.weight)
    with pytest.raises(ValueError, match="gamma"):
        calsweep.losses.DualFocal(gamma=-1)
    with pytest.raises(ValueError, match=r"shape \(N, 3\)"):
        calsweep.losses.DualFocal(3)(LOGITS, TARGETS)
    with pytest.raises(AttributeError, match="no attribute 'DualFocall'"):
        calsweep.losses.DualFocall  # noqa: B018


def test_metrics_alone() -> None:
    probs = LOGITS.softmax(1)
    ece = calsweep.metrics.expected_calibration_error(probs, TARGETS)
    assert calsweep.metrics.evaluate(LOGITS, TARGETS)["ece"] == pytest.approx(ece)
