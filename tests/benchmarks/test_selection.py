"""Verdicts about the best of many settings, by simulation."""

import pytest

from benchmarks.selection import EVENTS, NOISES, SEEDS, SPLITS, simulate


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["mixed", "seeds"])
def test_verdicts_hold_with_any_number_of_seeds_and_until_decided(noise: str) -> None:
    repetitions = 100
    counts = simulate(NOISES[noise], 300, repetitions, [1, 3])
    for finalists in (1, 3):
        for truth in ("none", "several"):
            for way in (*SEEDS, "auto"):
                for split in SPLITS:
                    key = (finalists, truth, way, split)
                    covers, supported, false = (counts[*key, event] for event in EVENTS)
                    assert covers >= 0.9 * repetitions, key
                    assert false <= 0.05 * repetitions, key
                    assert supported >= false, key
        fixed, until_decided = (
            counts[finalists, "several", way, "validation", "supported"] for way in (2, "auto")
        )
        assert until_decided > 2 * fixed
        assert 3 <= counts[finalists, "none", "auto", "seeds"] / repetitions < 5
