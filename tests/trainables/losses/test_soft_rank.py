"""Soft ranks."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from trainables.losses.soft_rank import soft_rank

scores = st.lists(st.integers(-50, 50).map(lambda n: n / 20), min_size=1, max_size=40)
strengths = st.sampled_from([1e-3, 0.05, 0.3, 1.0, 10.0])


def pool_adjacent_violators(y: list[float]) -> list[float]:
    """Decreasing least-squares fit, as in textbooks."""
    blocks: list[list[float]] = []
    for value in y:
        blocks.append([value, 1])
        while len(blocks) > 1 and blocks[-2][0] <= blocks[-1][0]:
            mean, size = blocks.pop()
            previous, previous_size = blocks[-1]
            total = size + previous_size
            blocks[-1] = [(previous * previous_size + mean * size) / total, total]
    return [mean for mean, size in blocks for _ in range(int(size))]


def projection_on_permutahedron(values: list[float], epsilon: float) -> Tensor:
    x = torch.tensor(values, dtype=torch.float64) / epsilon
    order = x.argsort(descending=True)
    offsets = x[order] - torch.arange(len(x), 0, -1)
    ranks = torch.empty_like(x)
    ranks[order] = x[order] - torch.tensor(
        pool_adjacent_violators(offsets.tolist()), dtype=torch.float64
    )
    return ranks


@given(scores, strengths)
def test_is_the_projection(values: list[float], epsilon: float) -> None:
    found = soft_rank(torch.tensor(values, dtype=torch.float64), epsilon)
    torch.testing.assert_close(
        found, projection_on_permutahedron(values, epsilon), rtol=1e-9, atol=1e-9
    )


@given(scores, strengths)
def test_ranks_are_in_order_and_share_their_sum(values: list[float], epsilon: float) -> None:
    n, x = len(values), torch.tensor(values, dtype=torch.float64)
    ranks = soft_rank(x, epsilon)
    assert ranks.sum().item() == pytest.approx(n * (n + 1) / 2)
    assert ranks.min() > 1 - 1e-9
    assert ranks.max() < n + 1e-9
    assert (ranks[x.argsort()].diff() > -1e-9).all()


@given(st.permutations(range(1, 20)))
def test_little_regularisation_gives_ranks(values: list[int]) -> None:
    ranks = soft_rank(torch.tensor(values, dtype=torch.float64), 1e-3)
    assert ranks.tolist() == pytest.approx(values)


def test_much_regularisation_gives_the_mean_rank_and_a_slope() -> None:
    ranks = soft_rank(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), 100.0)
    assert ranks.tolist() == pytest.approx([1.99, 2.0, 2.01])


def test_ties_share_ranks_and_gradients() -> None:
    x = torch.tensor([0.5, 0.2, 0.5, 0.9, 0.2], dtype=torch.float64, requires_grad=True)
    ranks = soft_rank(x, 0.1)
    assert ranks.tolist() == pytest.approx([3.5, 1.5, 3.5, 5, 1.5])
    (gradient,) = torch.autograd.grad(ranks, x, torch.arange(1.0, 6.0).double())
    assert gradient.tolist() == pytest.approx([-10, -15, 10, 0, 15])


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 5.0])
def test_gradient(epsilon: float) -> None:
    x = torch.randn(30, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(soft_rank, (x, epsilon))


def test_float32_has_the_precision_of_float32() -> None:
    x = torch.rand(1000)
    exact = soft_rank(x.double(), 0.01)
    torch.testing.assert_close(soft_rank(x, 0.01).double(), exact, rtol=1e-6, atol=0)
