"""Each loss against its formula, written down sample by sample and differentiated by autograd."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.losses import CalibrationLoss, available_losses

BuildLoss = Callable[..., CalibrationLoss]
Batch = dict[str, Tensor]
Formula = Callable[[CalibrationLoss, Batch], Tensor]

STATED_ELSEWHERE = {"cross_entropy", "label_smoothing", "mixup"}  # PyTorch's own


def true_class_mean(term: Callable[[Tensor, Tensor, int], Tensor]) -> Formula:
    """Mean over samples of ``term(z, p, y)``."""

    def formula(loss: CalibrationLoss, batch: Batch) -> Tensor:
        rows = zip(batch["logits"], batch["targets"].tolist(), strict=True)
        return torch.stack([term(z, z.softmax(0), y) for z, y in rows]).mean()

    return formula


def below(p: Tensor, y: int) -> Tensor:
    return torch.stack([q for q in p if q < p[y]] or [p.new_zeros(())]).max()


def onehot(p: Tensor, y: int) -> Tensor:
    return F.one_hot(torch.tensor(y), len(p))


def excess(z: Tensor, margin: float) -> Tensor:
    return F.relu(z.max() - z - margin)


def adaptive_exponents(loss: CalibrationLoss, p: Tensor) -> tuple[float, float]:
    state = loss.state_dict()
    gamma = float(state["gamma"][int((p >= state["edges"]).sum())])
    return abs(gamma), math.copysign(1, gamma)


def adafocal(loss: CalibrationLoss, batch: Batch) -> Tensor:
    def term(z: Tensor, p: Tensor, y: int) -> Tensor:
        gamma, sign = adaptive_exponents(loss, p[y])
        return -((1 - sign * p[y]) ** gamma) * p[y].log()

    return true_class_mean(term)(loss, batch)


def ada_dual_focal(loss: CalibrationLoss, batch: Batch) -> Tensor:
    def term(z: Tensor, p: Tensor, y: int) -> Tensor:
        gamma, sign = adaptive_exponents(loss, p[y])
        return -((1 - sign * (p[y] - below(p, y))) ** gamma) * p[y].log()

    return true_class_mean(term)(loss, batch)


def mmce(loss: CalibrationLoss, batch: Batch) -> Tensor:
    confidence, predicted = batch["logits"].softmax(1).max(1)
    right = (predicted == batch["targets"]).double()
    pairs = [
        (confidence[i] - right[i])
        * (confidence[j] - right[j])
        * torch.exp(-(confidence[i] - confidence[j]).abs() / 0.4)
        for i in range(len(right))
        for j in range(len(right))
    ]
    return F.cross_entropy(batch["logits"], batch["targets"]) + 2 * torch.stack(pairs).mean()


def mdca(loss: CalibrationLoss, batch: Batch) -> Tensor:
    focal = true_class_mean(lambda z, p, y: -(1 - p[y]) * p[y].log())(loss, batch)
    shares = F.one_hot(batch["targets"], 5).double().mean(0)
    return focal + 3 * (batch["logits"].softmax(1).mean(0) - shares).abs().mean()


def crl(loss: CalibrationLoss, batch: Batch) -> Tensor:
    state = loss.state_dict()
    share = (state["times_right"] / state["epochs"])[batch["indices"]]
    confidence = batch["logits"].softmax(1).max(1).values
    ranking = []
    for i in range(len(share)):
        j = (i + 1) % len(share)
        sign = torch.sign(share[i] - share[j])
        gap = (share[i] - share[j]).abs()
        ranking.append(F.relu(-sign * (confidence[i] - confidence[j]) + gap))
    return F.cross_entropy(batch["logits"], batch["targets"]) + torch.stack(ranking).mean()


def dirichlet_log_density(p: Tensor, alpha: Tensor) -> Tensor:
    return ((alpha - 1) * p.log()).sum() + alpha.sum().lgamma() - alpha.lgamma().sum()


def kde_xe(exponent: int) -> Formula:
    def formula(loss: CalibrationLoss, batch: Batch) -> Tensor:
        p, y = batch["logits"].softmax(1), F.one_hot(batch["targets"], 5).double()
        errors = []
        for i in range(len(p)):
            others = [j for j in range(len(p)) if j != i]
            density = [dirichlet_log_density(p[i], p[j] / 0.3 + 1) for j in others]
            weights = torch.stack(density).softmax(0)
            errors.append((weights @ y[others] - p[i]).abs().pow(exponent).sum())
        error = torch.stack(errors).mean()
        return F.cross_entropy(batch["logits"], batch["targets"]) + 0.7 * error

    return formula


def cpc(loss: CalibrationLoss, batch: Batch) -> Tensor:
    def term(z: Tensor, p: Tensor, y: int) -> Tensor:
        wrong = [z[j] for j in range(5) if j != y]
        discrimination = -torch.stack([F.logsigmoid(z[y] - w) for w in wrong]).mean()
        pairs = torch.stack([F.logsigmoid(v - w) for v in wrong for w in wrong])
        exclusion = -0.5 * pairs.sum() / (4 * 3)
        return -p[y].log() + 10 * discrimination + exclusion

    return true_class_mean(term)(loss, batch)


def cals_alm(kind: str) -> Formula:
    def formula(loss: CalibrationLoss, batch: Batch) -> Tensor:
        lam: Tensor = loss.state_dict()["lam"]
        rho = torch.full((5,), 2.0, dtype=torch.float64)

        def penalty(h: Tensor, k: int) -> Tensor:
            if kind == "phr":
                inside = lam[k] + rho[k] * h >= 0
                value = lam[k] * h + rho[k] * h.square() / 2
                return value if inside else -lam[k].square() / (2 * rho[k])
            if h <= 0:
                return lam[k] * h / (1 - rho[k] * h)
            value = lam[k] * h + lam[k] * rho[k] * h.square()
            return value + rho[k].square() * h.pow(3) / 6 if kind == "p2" else value

        def term(z: Tensor, p: Tensor, y: int) -> Tensor:
            distances = (z.max() - z) / 3 - 1
            return -p[y].log() + torch.stack([penalty(distances[k], k) for k in range(5)]).mean()

        return true_class_mean(term)(loss, batch)

    return formula


def cals_hr(loss: CalibrationLoss, batch: Batch) -> Tensor:
    lam = loss.state_dict()["lam"]
    return true_class_mean(lambda z, p, y: -p[y].log() + (lam * excess(z, 3)).mean())(loss, batch)


def r_aurc(kind: str) -> Formula:
    scores: dict[str, Callable[[Tensor], Tensor]] = {
        "max_probability": lambda p: p.max(),
        "margin": lambda p: p.sort().values[-1] - p.sort().values[-2],
        "negative_entropy": lambda p: (p * p.log()).sum(),
    }

    def formula(loss: CalibrationLoss, batch: Batch) -> Tensor:
        # With an ε this small, ranks are exact and constant.
        score = torch.stack([scores[kind](p) for p in batch["logits"].softmax(1)])
        ranks = score.argsort().argsort().double() + 1
        weights = 0.3 - 0.7 * torch.log(1 - ranks / (len(ranks) + 1))
        losses = F.cross_entropy(batch["logits"], batch["targets"], reduction="none")
        return (weights.detach() * losses).mean()

    return formula


def aucm(loss: CalibrationLoss, batch: Batch) -> Tensor:
    a, b, alpha = (dict(loss.named_parameters())[key] for key in ("a", "b", "alpha"))
    p, values = batch["logits"].softmax(1), []
    for k in range(5):
        positive, negative = p[batch["targets"] == k, k], p[batch["targets"] != k, k]
        share = len(positive) / len(p)
        total = p.new_zeros(())
        if len(positive):
            total = (1 - share) * share * ((positive - a[k]) ** 2).mean()
            total = total + share * (1 - share) * ((negative - b[k]) ** 2).mean()
            gap = share * (1 - share) * (0.5 + negative.mean() - positive.mean())
            total = total + 2 * alpha[k] * gap - share * (1 - share) * alpha[k] ** 2
        values.append(total)
    return torch.stack(values).mean()


def supcon(loss: CalibrationLoss, batch: Batch) -> Tensor:
    f, y = F.normalize(batch["features"], dim=1), batch["targets"].tolist()
    values = []
    for i in range(len(y)):
        others = [a for a in range(len(y)) if a != i]
        total = torch.stack([torch.exp(f[i] @ f[a] / 0.2) for a in others]).sum()
        terms = [torch.log(torch.exp(f[i] @ f[a] / 0.2) / total) for a in others if y[a] == y[i]]
        values.append(-torch.stack(terms).mean() if terms else f.new_zeros(()))
    return torch.stack(values).mean()


def soft_ece(loss: CalibrationLoss, batch: Batch) -> Tensor:
    p, y, count = batch["logits"].softmax(1), batch["targets"], len(batch["targets"])
    confidence, predicted = p.max(1)
    right = (predicted == y).double()
    total = p.new_zeros(())
    centres = [(j + 0.5) / 15 for j in range(15)]
    for centre in centres:
        share = torch.stack(
            [
                torch.exp(-((c - centre) ** 2) / 0.02)
                / torch.stack([torch.exp(-((c - x) ** 2) / 0.02) for x in centres]).sum()
                for c in confidence
            ]
        )
        gap = (share * right).sum() / share.sum() - (share * confidence).sum() / share.sum()
        total = total + share.sum() / count * gap**2
    return F.cross_entropy(batch["logits"], y) + 0.7 * total.sqrt()


def entropy(p: Tensor) -> Tensor:
    return -(p * p.log()).sum()


def avuc(loss: CalibrationLoss, batch: Batch) -> Tensor:
    good, bad = torch.zeros(2, dtype=torch.float64).unbind()
    for z, y in zip(batch["logits"], batch["targets"].tolist(), strict=True):
        p = z.softmax(0)
        u, accurate = entropy(p), int(p.argmax()) == y
        weight = p.max() if accurate else 1 - p.max()
        term = weight * (u.tanh() if u > 0.3 else 1 - u.tanh())
        good, bad = (good + term, bad) if accurate == bool(u <= 0.3) else (good, bad + term)
    return F.cross_entropy(batch["logits"], batch["targets"]) + 2 * torch.log(1 + bad / good)


def soft_avuc(loss: CalibrationLoss, batch: Batch) -> Tensor:
    good, bad = torch.zeros(2, dtype=torch.float64).unbind()
    for z, y in zip(batch["logits"], batch["targets"].tolist(), strict=True):
        p = z.softmax(0)
        u, v = entropy(p), entropy(p) / math.log(5)
        t = torch.sigmoid(torch.log(v * (1 - 0.3) / ((1 - v) * 0.3)) / 0.5)
        certain, uncertain = (1 - t) * (1 - u.tanh()), t * u.tanh()
        right = int(p.argmax()) == y
        good = good + (certain if right else uncertain)
        bad = bad + (uncertain if right else certain)
    return F.cross_entropy(batch["logits"], batch["targets"]) + 2 * torch.log(1 + bad / good)


def dece(loss: CalibrationLoss, batch: Batch) -> Tensor:
    """The steps of the authors: soft bins by cut points, ranks of all pairs, means per bin."""
    z, targets = batch["logits"], batch["targets"]
    p = z.softmax(1)
    confidence = p.max(1).values
    cuts = torch.linspace(0, 1, 16, dtype=z.dtype)[:-1]
    h = confidence[:, None] * torch.arange(1, 16) + torch.cumsum(-cuts, 0)
    bins = (h / 0.02).softmax(1)
    ranks = (100 * (p[:, None, :] - p[:, :, None])).sigmoid().sum(2) + 0.5
    right = (2 - ranks[torch.arange(len(z)), targets]).relu()
    size = bins.sum(0)
    gaps = bins.T @ right / size - bins.T @ confidence / size
    return F.cross_entropy(z, targets) + 0.7 * (size * gaps.abs()).sum() / len(z)


def refinement(loss: CalibrationLoss, batch: Batch) -> Tensor:
    f = [each / each.norm() for each in batch["features"]]
    y, terms = batch["targets"].tolist(), []
    for i in range(len(f)):
        apart = {j: (f[i] - f[j]).square().sum() / 2 for j in range(len(f)) if j != i}
        same = [d for j, d in apart.items() if y[j] == y[i]]
        others = [d for j, d in apart.items() if y[j] != y[i]]
        near = torch.stack(same).min() if same else 0
        terms.append(near - torch.stack(others).min())
    return torch.stack(terms).mean()


def dual(first: int, end: int | None) -> Formula:
    def term(z: Tensor, p: Tensor, y: int) -> Tensor:
        chosen = sorted((q for q in p if q < p[y]), reverse=True)[first:end]
        p_j = torch.stack(chosen).mean() if chosen else 0
        return -((1 - p[y] + p_j) ** 3) * p[y].log()

    return true_class_mean(term)


CASES: list[tuple[str, dict[str, Any], Formula]] = [
    ("brier", {}, true_class_mean(lambda z, p, y: ((p - onehot(p, y)) ** 2).sum())),
    ("focal", {"gamma": 2.5}, true_class_mean(lambda z, p, y: -((1 - p[y]) ** 2.5) * p[y].log())),
    (
        "focal_sample_dependent",
        {},
        true_class_mean(lambda z, p, y: -((1 - p[y]) ** (5 if p[y] < 0.2 else 3)) * p[y].log()),
    ),
    (
        "inverse_focal",
        {"gamma": 1.5},
        true_class_mean(lambda z, p, y: -((1 + p[y]) ** 1.5) * p[y].log()),
    ),
    (
        "dual_focal",
        {"gamma": 4.5},
        true_class_mean(lambda z, p, y: -((1 - p[y] + below(p, y)) ** 4.5) * p[y].log()),
    ),
    ("dual_focal", {"gamma": 3, "dual": "second"}, dual(1, 2)),
    ("dual_focal", {"gamma": 3, "dual": "third"}, dual(2, 3)),
    ("dual_focal", {"gamma": 3, "dual": "mean_2"}, dual(0, 2)),
    ("dual_focal", {"gamma": 3, "dual": "mean_3"}, dual(0, 3)),
    ("dual_focal", {"gamma": 3, "dual": "mean_all"}, dual(0, None)),
    (
        "dual_focal",
        {"gamma": 3, "dual": 0.1},
        true_class_mean(lambda z, p, y: -((1 - p[y] + 0.1) ** 3) * p[y].log()),
    ),
    ("adafocal", {}, adafocal),
    ("ada_dual_focal", {}, ada_dual_focal),
    (
        "focal_calibration",
        {"gamma": 2, "lam": 0.8},
        true_class_mean(
            lambda z, p, y: -((1 - p[y]) ** 2) * p[y].log() + 0.8 * ((p - onehot(p, y)) ** 2).sum()
        ),
    ),
    (
        "focal_calibration",
        {"gamma": 2, "lam": 0.8, "p": 1},
        true_class_mean(
            lambda z, p, y: -((1 - p[y]) ** 2) * p[y].log() + 0.8 * (p - onehot(p, y)).abs().sum()
        ),
    ),
    (
        "maxsup",
        {"alpha": 0.3},
        true_class_mean(lambda z, p, y: -p[y].log() + 0.3 * (z.max() - z.mean())),
    ),
    ("soft_ece", {"lam": 0.7, "temperature": 0.02}, soft_ece),
    ("dece", {"lam": 0.7, "temperature": 0.02}, dece),
    ("avuc", {"lam": 2, "threshold": 0.3}, avuc),
    ("soft_avuc", {"lam": 2, "kappa": 0.3, "temperature": 0.5}, soft_avuc),
    ("refinement", {}, refinement),
    ("mmce", {"lam": 2}, mmce),
    ("ecp", {"lam": 0.3}, true_class_mean(lambda z, p, y: -p[y].log() + 0.3 * (p * p.log()).sum())),
    (
        "mbls",
        {"margin": 2, "lam": 0.4},
        true_class_mean(lambda z, p, y: -p[y].log() + 0.4 * excess(z, 2).mean()),
    ),
    ("cals_alm", {"margin": 3, "rho": 2, "penalty": "phr"}, cals_alm("phr")),
    ("cals_alm", {"margin": 3, "rho": 2, "penalty": "p2"}, cals_alm("p2")),
    ("cals_alm", {"margin": 3, "rho": 2, "penalty": "p3"}, cals_alm("p3")),
    ("cals_hr", {"margin": 3}, cals_hr),
    ("cpc", {}, cpc),
    ("mdca", {"gamma": 1, "beta": 3}, mdca),
    ("crl", {"lam": 1}, crl),
    (
        "logitnorm",
        {"temperature": 0.5},
        true_class_mean(lambda z, p, y: -(z / (z.norm() + 1e-7) / 0.5).log_softmax(0)[y]),
    ),
    ("kde_xe", {"lam": 0.7, "bandwidth": 0.3, "p": 1}, kde_xe(1)),
    ("kde_xe", {"lam": 0.7, "bandwidth": 0.3, "p": 2}, kde_xe(2)),
    *(
        ("r_aurc", {"lam": 0.7, "epsilon": 1e-4, "confidence": kind}, r_aurc(kind))
        for kind in ("max_probability", "margin", "negative_entropy")
    ),
    ("aucm", {"margin": 0.5}, aucm),
    ("supcon", {"temperature": 0.2}, supcon),
]


def test_every_loss_has_a_case() -> None:
    assert {name for name, _, _ in CASES} | STATED_ELSEWHERE == set(available_losses())


@pytest.mark.parametrize(
    ("name", "hyperparameters", "formula"), CASES, ids=[f"{n}-{h}" for n, h, _ in CASES]
)
def test_value_and_gradient(
    name: str, hyperparameters: dict[str, Any], formula: Formula, build: BuildLoss, batch: Batch
) -> None:
    loss = build(name, 5, **hyperparameters)
    variable = batch["features" if loss.needs_features else "logits"].requires_grad_()
    value, expected = loss(**batch), formula(loss, batch)
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-12)
    (gradient,) = torch.autograd.grad(value, variable)
    (expected_gradient,) = torch.autograd.grad(expected, variable)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-9, atol=1e-12)


def test_label_smoothing_mixes_with_the_uniform_distribution(
    build: BuildLoss, batch: Batch
) -> None:
    target = 0.9 * F.one_hot(batch["targets"], 5) + 0.1 / 5
    expected = -(target * batch["logits"].log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(build("label_smoothing", 5, alpha=0.1)(**batch), expected)


def test_dual_focal_never_compares_the_true_class_with_itself(build: BuildLoss) -> None:
    # In float32, softmax and exp(log_softmax) of such rows differ in the last bit.
    logits = torch.randn(4096, 7) * 3
    targets = logits.argmin(1)  # no class is below: p_j = 0, dual focal is focal
    focal = build("focal", 7, gamma=3).float()(logits, targets)
    dual = build("dual_focal", 7, gamma=3).float()(logits, targets)
    torch.testing.assert_close(dual, focal, rtol=1e-6, atol=0)


def test_dual_focal_skips_classes_as_likely_as_the_true_one(build: BuildLoss) -> None:
    logits = torch.tensor([[1.0, 1.0, 0.0, 3.0]], dtype=torch.float64)
    p = logits.softmax(1)[0]
    expected = -((1 - p[0] + p[2]) ** 2) * p[0].log()
    value = build("dual_focal", 4, gamma=2)(logits, torch.tensor([0]))
    torch.testing.assert_close(value, expected)


def test_two_classes_are_one_auc_problem(build: BuildLoss) -> None:
    loss = build("aucm", 2)
    assert [p.shape for p in loss.parameters()] == [(1,)] * 3


@pytest.mark.parametrize("num_classes", [61, 1000])
def test_kde_gradient_with_absent_classes(num_classes: int, build: BuildLoss) -> None:
    logits = torch.randn(6, num_classes, requires_grad=True)
    loss = build("kde_xe", num_classes, bandwidth=0.001).float()
    loss(logits, torch.zeros(6, dtype=torch.int64)).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert logits.grad.abs().sum() > 0
