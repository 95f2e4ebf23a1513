"""The headline of the result."""

from typing import Any

import pytest

from sweeps.evidence.comparison import SCALED, Comparison, Verdict
from sweeps.results.headline import headline
from tests.builders import baseline, ranked, trial


def compared(verdict: Verdict, ours: str = "focal") -> list[Comparison]:
    return [
        Comparison(ours, f"cross_entropy{ending}", "ece", -0.01, -0.03, 0.01, verdict, 2)
        for ending in ("", SCALED)
    ]


RECORDS = [
    baseline(val_ece=0.05, temperature=1.62, test_ece=0.061, test_ece_scaled=0.033),
    trial(1, val_ece=0.02, test_ece=0.021, test_ece_low=0.0, test_ece_high=0.04, test_error=0.125),
]


@pytest.mark.parametrize(
    ("verdict", "advice"),
    [
        ("supported", "Train with focal (γ=1): it is better calibrated than"),
        ("not supported", "Use plain cross-entropy and divide its logits by T = 1.62"),
        ("worse", "Use plain cross-entropy and divide its logits by T = 1.62"),
    ],
)
def test_what_to_do_follows_the_verdict(verdict: Any, advice: str) -> None:
    found = headline(ranked(RECORDS), compared(verdict))
    assert found.advice.startswith(advice)
    off, wrong = found.facts
    assert "off by 2.1 percentage points on average (95% interval 0.0 to 4.0)" in off
    assert "that of cross-entropy by 6.1, with a temperature by 3.3" in off
    assert wrong == "It misclassifies 12.5 of 100 test samples, cross-entropy 10."


def test_the_advice_on_several_networks_comes_last() -> None:
    found = headline(ranked(RECORDS), compared("worse"), "For a lower NLL average five.")
    assert found.advice.endswith("focal (γ=1). For a lower NLL average five.")


def test_without_an_end_a_baseline_or_a_choice() -> None:
    assert headline(ranked(RECORDS), []).advice == "focal (γ=1) has the lowest validation ECE."
    alone = headline(ranked(RECORDS[1:]), [])
    assert "cross-entropy" not in " ".join([alone.advice, *alone.facts])
    nothing = headline(ranked([baseline(state="failed", history=[])]), [])
    assert nothing.advice.startswith("There is nothing to recommend yet")
    assert nothing.facts == ()
    chosen = headline(ranked(RECORDS[:1]), compared("not supported", "cross_entropy")[1:])
    assert chosen.advice.startswith("Use plain cross-entropy, with or without a temperature")


def test_by_the_error_no_temperature_is_recommended() -> None:
    by_error = {"search": {"objective": "val_error"}}
    records = [baseline(val_error=0.2), trial(1, val_error=0.1)]

    def advice(verdict: Verdict) -> str:
        found = Comparison("focal", "cross_entropy", "error", -0.1, -0.2, 0.0, verdict, 2)
        return headline(ranked(records, **by_error), [found]).advice

    assert (
        advice("supported") == "Train with focal (γ=1): it makes fewer errors than cross-entropy."
    )
    assert advice("not supported").startswith("Use plain cross-entropy: no other setting is shown")
