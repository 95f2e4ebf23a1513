"""The verdicts of a sweep, their basis and conclusion, for the terminal, the report and MLflow."""

from __future__ import annotations

from collections.abc import Sequence

from sweeps.evidence.comparison import CALIBRATION_PART, ENSEMBLE, SCALED, Comparison, deciding
from sweeps.messages.formatting import counted, metric_heading


def basis(comparisons: Sequence[Comparison]) -> list[str]:
    """The basis of the intervals, a sentence each; empty without comparisons."""
    if not comparisons:
        return []
    lines = [
        "A difference below 0 favours the setting in the heading; + T: after temperature scaling."
    ]
    if any(each.metric == CALIBRATION_PART for each in comparisons):
        lines.append("NLL calibration is the part of the NLL that a temperature removes.")
    for each in comparisons:
        lines.append(
            "Intervals for the ensemble are over samples alone: its networks are already trained."
            if each.ours == ENSEMBLE
            else f"Intervals are over samples and {counted(each.seeds, 'seed')}."
        )
        if each.split == "test":
            sweeps = each.corrected_for or 1
            shared = f"; corrected for the {sweeps} sweeps evaluated on it" if sweeps > 1 else ""
            lines.append(f"The test split took no part in the selection{shared}.")
        elif each.corrected_for:
            looks = f" and for {each.looks} looks at the verdict" if each.looks > 1 else ""
            lines.append(
                "On the validation split intervals are corrected for the selection among "
                f"{counted(each.corrected_for, 'setting')}{looks}."
            )
    return list(dict.fromkeys(lines))


def conclusion(of_setting: Sequence[Comparison]) -> list[str]:
    """The conclusion from the verdicts about the selected setting, and the deciding metrics."""
    found = deciding(of_setting)
    lines = _on_calibration(of_setting)
    if found is None:
        return lines
    decided_by = f"by {metric_heading(found.metric)} on the {found.split} split"
    if found.verdict == "supported":
        return [*lines, f"{found.ours} is shown to beat {found.theirs}, {decided_by}."]
    lines.append(
        f"No setting is shown to beat {found.theirs}, {decided_by}: use that, unless a comparison "
        "on more samples shows otherwise."
    )
    return lines


def _on_calibration(of_setting: Sequence[Comparison]) -> list[str]:
    """Whether the setting is better calibrated than plain cross-entropy, by the part of the NLL.

    The verdict by its own metric is added, but does not decide.
    """
    plain = [
        each for each in of_setting if each.split == "test" and not each.theirs.endswith(SCALED)
    ]
    deciding_one = next((each for each in plain if each.metric == CALIBRATION_PART), None)
    if deciding_one is None:
        return []
    also = [
        f" ({metric_heading(each.metric)}: {each.verdict})"
        for each in plain
        if each != deciding_one
    ]
    return [
        f"Better calibrated than {plain[0].theirs} without a temperature: {deciding_one.verdict}, "
        f"by {metric_heading(CALIBRATION_PART)} on the test split{''.join(also)}."
    ]


def short_name(name: str) -> str:
    """Such as ``cross_entropy + T`` for cross-entropy after temperature scaling."""
    return name.replace(SCALED, " + T")
