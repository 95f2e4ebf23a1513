"""Power analysis: which differences in ECE a split can detect, and how probably."""

import math

from scipy.special import ndtr, ndtri

from trainables.metrics._inputs import check_count, check_level
from trainables.plugins.arguments import check_number

_NEAR_CALIBRATION = 1.4


def detectable_difference(
    num_samples: int,
    error: float = 0.1,
    *,
    disagreement: float | None = None,
    confidence: float = 0.95,
    power: float = 0.8,
    candidates: int = 1,
) -> float:
    """Smallest difference in ECE between two networks that a split of N samples can detect.

    If both networks are overconfident, or both underconfident, their ECEs differ by the difference
    of their mean gaps between confidence and accuracy on the same samples. Predictions that agree
    cancel, so the variance per sample is about the share of samples that exactly one network
    classifies correctly, and with normal quantiles z

        difference = 1.4 (z(confidence) + z(power)) sqrt(disagreement / N).

    The factor 1.4 accounts for the noise of the bins, which matters most if one network is nearly
    calibrated. At a power of 80%, `difference` detected a difference of this size in 68% (500
    samples) to 98% of simulated cases (`benchmarks/detectable.py`). The formula ignores the
    variance over training seeds.

    Args:
        num_samples: Number N of samples.
        error: Expected error rate of the networks, in (0, 1).
        disagreement: Share of samples that exactly one of the two classifies correctly, in (0, 1].
            By default `error`: similarly trained networks share about half of their errors.
        confidence: Level of the interval, in (0, 1).
        power: Probability of detection, in (0.5, 1).
        candidates: Number of settings from which the better one was selected (Bonferroni).
    """
    check_count("num_samples", num_samples)
    check_count("candidates", candidates)
    check_level(confidence)
    error = check_number("error", error, 0, 1, open_low=True, open_high=True)
    power = check_number("power", power, 0.5, 1, open_low=True, open_high=True)
    share = error
    if disagreement is not None:
        share = check_number("disagreement", disagreement, 0, 1, open_low=True)
    quantiles = ndtri(power) - ndtri((1 - confidence) / (2 * candidates))
    return float(min(1.0, _NEAR_CALIBRATION * quantiles * math.sqrt(share / num_samples)))


def chance_of_detection(
    difference: float, num_samples: int, error: float = 0.1, *, disagreement: float | None = None
) -> float:
    """The power with which a split of N samples detects a difference in ECE, at 95 % confidence.

    The inverse of :func:`detectable_difference`, with its arguments and its limits;
    `python -m benchmarks.detectable --power 0.3` simulates it.
    """
    smallest = detectable_difference(num_samples, error, disagreement=disagreement, power=0.8)
    quantile = ndtri(0.975)
    return float(ndtr((quantile + ndtri(0.8)) * difference / smallest - quantile))
