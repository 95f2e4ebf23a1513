"""Losses that change the inputs of the model."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.losses import available_losses, make_loss


class Shift:
    """An augmentation that is different at each call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        return inputs + 100 * self.calls


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


INPUTS = torch.arange(12.0).reshape(6, 2)
TARGETS = torch.tensor([0, 1, 2, 0, 1, 2])


TWO_VIEWS = ("refinement", "supcon")


@pytest.mark.parametrize("name", sorted(set(available_losses()) - {"mixup", *TWO_VIEWS}))
def test_most_losses_only_augment(name: str) -> None:
    inputs, targets = make_loss(name, 3).prepare_batch(
        INPUTS, TARGETS, augment=Shift(), generator=generator()
    )
    assert torch.equal(inputs, INPUTS + 100)
    assert torch.equal(targets, TARGETS)


@pytest.mark.parametrize("name", TWO_VIEWS)
def test_contrastive_losses_take_two_views(name: str) -> None:
    inputs, targets = make_loss(name, 3).prepare_batch(
        INPUTS, TARGETS, augment=Shift(), generator=generator()
    )
    assert torch.equal(inputs, torch.cat([INPUTS + 100, INPUTS + 200]))
    assert torch.equal(targets, torch.cat([TARGETS, TARGETS]))


@pytest.mark.parametrize("seed", range(5))
def test_mixup_mixes_inputs_and_labels_alike(seed: int) -> None:
    onehot = F.one_hot(TARGETS, 3).float()
    inputs, targets = make_loss("mixup", 3, alpha=1).prepare_batch(
        torch.cat([INPUTS, onehot], 1),
        TARGETS,
        augment=lambda inputs: inputs,
        generator=generator(seed),
    )
    torch.testing.assert_close(inputs[:, 2:], targets)
    torch.testing.assert_close(targets.sum(1), torch.ones(6))
    assert not torch.equal(targets, onehot)


def test_mixup_augments_before_it_mixes() -> None:
    inputs, _ = make_loss("mixup", 3).prepare_batch(
        INPUTS, TARGETS, augment=Shift(), generator=generator()
    )
    assert inputs.mean().item() == pytest.approx((INPUTS + 100).mean().item(), rel=1e-5)


def test_mixup_is_seeded() -> None:
    def mix(seed: int) -> Tensor:
        return make_loss("mixup", 3).prepare_batch(
            INPUTS, TARGETS, augment=lambda inputs: inputs, generator=generator(seed)
        )[0]

    assert torch.equal(mix(1), mix(1))
    assert not torch.equal(mix(1), mix(2))


@pytest.mark.parametrize("alpha", [1e-3, 0.2, 1.0, 5.0])
def test_mixup_weights_are_beta_distributed(alpha: float) -> None:
    loss, random = make_loss("mixup", 2, alpha=alpha), generator()
    inputs = torch.tensor([[0.0], [1.0]])
    weights = torch.stack(
        [
            loss.prepare_batch(
                inputs, torch.tensor([0, 1]), augment=lambda inputs: inputs, generator=random
            )[0][0, 0]
            for _ in range(4000)
        ]
    )
    # Half of the permutations change nothing; the others give w or 1 − w, both Beta(α, α).
    mixed = weights[(weights > 0) & (weights < 1)] if alpha > 0.1 else weights
    assert torch.isfinite(weights).all()
    if alpha > 0.1:
        assert mixed.mean().item() == pytest.approx(0.5, abs=0.04)
        assert mixed.var().item() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.1)
    else:
        assert ((weights < 1e-3) | (weights > 1 - 1e-3)).float().mean() > 0.99


def test_mixup_needs_numbers_that_can_be_mixed() -> None:
    with pytest.raises(TypeError, match=r"floating-point inputs, got torch\.int64"):
        make_loss("mixup", 3).prepare_batch(
            INPUTS.long(), TARGETS, augment=lambda inputs: inputs, generator=generator()
        )


def test_mixup_takes_soft_and_hard_targets() -> None:
    loss, logits = make_loss("mixup", 3), torch.randn(6, 3)
    hard = loss(logits, TARGETS)
    torch.testing.assert_close(loss(logits, F.one_hot(TARGETS, 3).double()), hard)
    with pytest.raises(ValueError, match=r"the logits' shape \(6, 3\), got \(6, 2\)"):
        loss(logits, torch.zeros(6, 2))
