"""The distribution of sampled errors: the convolution against simulation."""

import numpy as np
import pytest

from trainables.metrics.inference.inversion import Array, Cells, ErrorOfGaps
from trainables.metrics.inference.sampled_errors import DrawnErrors, SummedErrors

NUM_DRAWS = 30_000


def make_cells(size: int, seed: int) -> Cells:
    """Cells of 3 to 3,000 samples, some of them almost certain."""
    random = np.random.default_rng(seed)
    count = np.round(3 * 1000 ** random.random(size))
    confidence = 1 - 10 ** (-3 * random.random(size))
    positives = random.binomial(count.astype(int), 0.9 * confidence).astype(float)
    return Cells(count, confidence, positives, np.arange(size))


def squares(gaps: Array) -> Array:
    return gaps * np.abs(gaps)


def binomial_errors(cells: Cells, error: ErrorOfGaps, accuracy: Array) -> Array:
    random = np.random.default_rng(1)
    counts = cells.count.astype(int)
    positives = random.binomial(counts, accuracy, (NUM_DRAWS, len(counts)))
    return error.statistic((cells.count * cells.confidence - positives) / cells.num_samples)


@pytest.mark.parametrize("terms", [np.abs, squares])
@pytest.mark.parametrize("size", [6, 15])
@pytest.mark.parametrize("model", [SummedErrors, DrawnErrors])
def test_probabilities_match_binomial_samples(
    terms: np.ufunc, size: int, model: type[SummedErrors] | type[DrawnErrors]
) -> None:
    cells = make_cells(size, seed=size)
    error = ErrorOfGaps(lambda g: terms(g).sum(axis=1), lambda g: 0.0, terms=terms)
    errors = model(cells, error)
    direction = cells.positives / cells.count - cells.confidence
    for scale in (0.0, 0.5, 1.5):
        accuracy = np.clip(cells.confidence + scale * direction, 0, 1)
        drawn = binomial_errors(cells, error, accuracy)
        # As in the models: confidences vary, and discrete errors are smoothed.
        variance = errors.of_confidences(accuracy) + (0.1 * drawn.std()) ** 2
        drawn += np.sqrt(variance) * np.random.default_rng(2).standard_normal(NUM_DRAWS)
        allowed = 0.01 if model is SummedErrors else 0.05  # of 1,024 draws
        for share in (0.975, 0.84, 0.5, 0.16, 0.025):
            observed = float(np.quantile(drawn, 1 - share))
            assert errors.share_above(observed, direction, scale) == pytest.approx(
                share, abs=allowed
            )


def test_quantile_without_gaps_matches_calibrated_samples() -> None:
    cells = make_cells(15, seed=0)
    error = ErrorOfGaps(lambda g: np.abs(g).sum(axis=1), lambda g: 0.0, terms=np.abs)
    drawn = binomial_errors(cells, error, cells.confidence)
    errors = SummedErrors(cells, error)
    for share in (0.05, 0.5, 0.9):
        expected = float(np.quantile(drawn, share))
        assert errors.quantile_without_gaps(share) == pytest.approx(expected, rel=0.02)


def test_certain_predictions_have_no_gaps() -> None:
    cells = Cells(np.array([40.0]), np.array([1.0]), np.array([40.0]), np.array([0]))
    error = ErrorOfGaps(lambda g: np.abs(g).sum(axis=1), lambda g: 0.0, terms=np.abs)
    assert SummedErrors(cells, error).quantile_without_gaps(0.99) == pytest.approx(0, abs=1e-9)
    # With accuracy 0.9, 40 of 40 are right in 1.5% of samples.
    direction = np.array([-0.1])
    above = SummedErrors(cells, error).share_above(0.5 / 40, direction, 1.0)
    assert above == pytest.approx(1 - 0.9**40, abs=0.005)
