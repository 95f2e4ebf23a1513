"""How large a difference in ECE a split can detect, before anything is trained."""

import math

from scipy.special import ndtri

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
    """Smallest difference in ECE of two networks that a split of N samples is likely to show.

    Where both networks are miscalibrated in one direction, the difference of their ECEs is that of
    their mean confidences and accuracies over the same samples. What the two predict alike cancels,
    so its variance per sample is about the share of samples that only one of them gets right, and

        difference = 1.4 (z(confidence) + z(power)) sqrt(disagreement / N)

    with normal quantiles z. The factor is for the noise of bins, which hides more where one of the
    two is nearly calibrated. At a power of 80%, `difference` found such a difference in 68% (500
    samples) to 98% of simulated cases (`benchmarks/detectable.py`): far from calibration, or on
    many samples, smaller ones show too. Training seeds come on top.

    Args:
        num_samples: N.
        error: Error rate that is expected of the networks, in (0, 1).
        disagreement: Share of samples that only one of the two gets right, in (0, 1]; None takes
            `error`: networks trained alike share about half of their errors.
        confidence: Level at which the difference is to be shown, in (0, 1).
        power: Probability of showing it, in (0.5, 1).
        candidates: Of how many settings the better one was picked; the level is corrected for it
            (Bonferroni).

    Returns:
        A fraction, at most 1.

    Raises:
        TypeError: If a rate is no number.
        ValueError: If a value is not as above.
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
