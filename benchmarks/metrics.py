"""Time and memory of the metrics, compared with common alternatives.

Run `python -m benchmarks.metrics` (about a minute), with `--samples` and `--classes` for other
sizes. Each row runs in a separate process, to measure its peak memory (Linux only).
"""

import argparse
import multiprocessing
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from trainables import metrics as M
from trainables.posthoc import TemperatureScaling

EPOCH = ("nll", "error", "ece", "adaptive_ece", "brier")


def loop_over_classes(probs: Tensor, labels: Tensor, num_bins: int = 15) -> float:
    """Class-wise ECE as commonly implemented: masks over all samples, per class and bin."""
    edges = torch.linspace(0, 1, num_bins + 1)
    total = 0.0
    for k in range(probs.shape[1]):
        scores, members = probs[:, k], labels == k
        for lower, upper in pairwise(edges):
            inside = (scores > lower) & (scores <= upper)
            if inside.any():
                gap = (scores[inside].mean() - members[inside].float().mean()).abs()
                total += float(gap * inside.float().mean())
    return total / probs.shape[1]


def sklearn_auroc(probs: Tensor, labels: Tensor) -> float:
    """Multi-class AUROC by scikit-learn."""
    from sklearn.metrics import roc_auc_score

    normalised = probs.double()
    normalised /= normalised.sum(dim=1, keepdim=True)
    return float(roc_auc_score(labels.numpy(), normalised.numpy(), multi_class="ovr"))


def relplot_smooth_ece(probs: Tensor, labels: Tensor) -> float:
    """Smooth ECE by relplot."""
    import relplot

    confidence, predicted = probs.max(dim=1)
    right = (predicted == labels).double()
    return float(relplot.smECE(confidence.double().numpy(), right.numpy()))


def evaluate_all(probs: Tensor, labels: Tensor) -> float:
    """Every metric, from logits."""
    return M.evaluate(probs, labels)["ece"]


def evaluate_epoch(probs: Tensor, labels: Tensor) -> float:
    """The metrics of a training epoch, from logits."""
    return M.evaluate(probs, labels, EPOCH)["ece"]


def temperature_by_nll(probs: Tensor, labels: Tensor) -> float:
    """Temperature scaling by NLL."""
    return TemperatureScaling("nll").fit(probs, labels).temperature


def temperature_by_ece(probs: Tensor, labels: Tensor) -> float:
    """Temperature scaling on the ECE grid."""
    return TemperatureScaling("ece").fit(probs, labels).temperature


FROM_LOGITS: list[Callable[[Tensor, Tensor], float]] = [
    evaluate_all,
    evaluate_epoch,
    temperature_by_nll,
    temperature_by_ece,
]
FROM_PROBS: list[Callable[[Tensor, Tensor], float]] = [
    M.expected_calibration_error,
    M.classwise_calibration_error,
    loop_over_classes,
    M.multiclass_auroc,
    sklearn_auroc,
    M.smooth_calibration_error,
    relplot_smooth_ece,
    M.kde_calibration_error,
]


def make_logits(num_samples: int, num_classes: int) -> tuple[Tensor, Tensor]:
    """Overconfident float32 logits, with labels drawn from their softmax at temperature 1.5."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(num_samples, num_classes, generator=generator)
    logits[torch.arange(num_samples), torch.arange(num_samples) % num_classes] += 8
    probs = torch.softmax(logits / 1.5, dim=1)
    labels = torch.multinomial(probs, 1, generator=generator)[:, 0]
    labels[:num_classes] = torch.arange(num_classes)  # scikit-learn requires every class
    return logits, labels


def measure(job: tuple[Callable[[Tensor, Tensor], float], int, int, int]) -> tuple[Any, ...]:
    """Best wall time, the value, and the peak memory above the inputs (in sizes of the inputs)."""
    function, num_samples, num_classes, num_threads = job
    torch.set_num_threads(num_threads)
    small = make_logits(1000, num_classes)
    function(*small if function in FROM_LOGITS else (torch.softmax(small[0], 1), small[1]))
    scores, labels = make_logits(num_samples, num_classes)
    if function in FROM_PROBS:
        scores = torch.softmax(scores, dim=1)
    reset_peak()
    before = peak_now_mib()
    seconds = []
    value = float("nan")
    for _ in range(1 if scores.numel() > 1_000_000 else 20):
        start = time.perf_counter()
        value = function(scores, labels)
        seconds.append(time.perf_counter() - start)
    size = scores.numel() * scores.element_size() / 2**20
    return function.__name__, min(seconds), value, 1 + (peak_now_mib() - before) / size


def reset_peak() -> None:
    """Reset the kernel's peak memory, because creating the inputs takes more than they need."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def peak_now_mib() -> float:
    """Peak resident memory since `reset_peak` (Linux)."""
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) / 1024


def main() -> None:
    """Print a table per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, nargs="+", default=[360, 10_000, 50_000])
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.metrics"])  # importing it takes seconds
    for num_samples, num_classes in zip(arguments.samples, arguments.classes, strict=True):
        print(f"\n{num_samples:,} samples x {num_classes:,} classes, float32")
        print(f"{'function':32} {'seconds':>10} {'value':>10} {'peak memory / input':>20}")
        for function in FROM_LOGITS + FROM_PROBS:
            with context.Pool(1) as pool:
                row = pool.apply(
                    measure, ((function, num_samples, num_classes, arguments.threads),)
                )
            name, seconds, value, memory = row
            print(f"{name:32} {seconds:10.5f} {value:10.5f} {memory:20.1f}", flush=True)


if __name__ == "__main__":
    main()
