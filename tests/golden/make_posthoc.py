"""Write posthoc.json: what other libraries make of the same predictions.

They bring Pyro, GPyTorch and TensorBoard along, so they are no dependencies of the tests. In an
environment of its own, from the repository's root:

    uv run --no-project --with netcal==1.4.0 --with probmetrics==1.3.0 \
        --with numba tests/golden/make_posthoc.py

Both are Apache-2.0. dirichletcal 0.5.1 has no wheel and its source does not build; its penalty is
taken of weights less those of the last class, which the paper does not do.
"""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

NUM_BINS = 8
SHOWN = 12  # rows of fresh predictions that are written


def make_inputs(seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Logits (600, 4) that are too large and favour the first class, and labels (600,)."""
    random = np.random.default_rng(seed)
    truth = random.standard_normal((600, 4))
    probs = softmax(1.5 * truth)
    labels = (probs.cumsum(axis=1) < random.random((600, 1))).sum(axis=1)
    logits = 3 * truth
    logits[:, 0] += 1
    return logits, labels


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def main() -> None:
    import torch
    from netcal.binning import HistogramBinning, IsotonicRegression
    from netcal.scaling import TemperatureScaling
    from probmetrics.calibrators.base import MulticlassOneVsRestCalibrator
    from probmetrics.calibrators.binning import BinaryHistogramBinningCalibrator
    from probmetrics.calibrators.logistic import (
        SMSCalibrator,
        SVSCalibrator,
        VectorScalingCalibrator,
    )
    from probmetrics.calibrators.temperature_scaling import TemperatureScalingCalibrator

    torch.set_default_dtype(torch.float64)
    (logits, labels), (fresh, _) = make_inputs(0), make_inputs(1)
    probs, points = softmax(logits), softmax(fresh)[:SHOWN]

    def netcal(method) -> list[list[float]]:
        return method.fit(probs, labels).transform(points).tolist()

    def probmetrics(method, at=points) -> list[list[float]]:
        return method.fit(probs, labels).predict_proba(at).tolist()

    by_mass = BinaryHistogramBinningCalibrator(NUM_BINS, "quantile")
    values = {
        "netcal temperature": netcal(TemperatureScaling()),
        "netcal isotonic": netcal(IsotonicRegression()),
        "netcal histogram, equal width": netcal(HistogramBinning(NUM_BINS)),
        "probmetrics temperature": probmetrics(TemperatureScalingCalibrator()),
        "probmetrics vector": probmetrics(VectorScalingCalibrator()),
        "probmetrics structured vector": probmetrics(SVSCalibrator()),
        "probmetrics structured matrix": probmetrics(SMSCalibrator()),
        # Of what it was fitted on: where an edge lies between two samples is anybody's choice.
        "probmetrics histogram, equal mass": probmetrics(
            MulticlassOneVsRestCalibrator(by_mass), probs[:SHOWN]
        ),
    }
    path = Path(__file__).with_name("posthoc.json")
    path.write_text(json.dumps(values, indent=1) + "\n")


if __name__ == "__main__":
    main()
