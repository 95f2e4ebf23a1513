"""What other datasets tell about the temperatures of one."""

from dataclasses import replace

import numpy as np

from benchmarks.tabular.temperatures import predicted
from sweeps.search.recorded import RecordedSetting
from tests.builders import baseline, make_sweep
from trainables.contract.setting import Setting


def test_a_dataset_of_similar_error_says_more_than_a_misleading_one_and_than_none() -> None:
    sweep = make_sweep(losses=["focal"])
    first = baseline(temperature=1.5, val_error=0.2)
    known = [
        RecordedSetting("here", Setting("focal", {"gamma": gamma}), -0.2 * gamma, 0.0, 0.2)
        for gamma in (1.0, 2.0, 3.0)
    ]
    misleading = [replace(e, log_ratio=0.5, error_ratio=0.3, baseline_error=0.01) for e in known]
    alike = [replace(each, baseline_error=None) for each in (*known, *misleading)]
    rows = [predicted(sweep, first, given, known) for given in ([], alike, [*known, *misleading])]
    wrong = [float(np.sqrt(np.mean(errors**2))) for errors, _ in rows]
    assert wrong[2] < min(wrong[:2])
    assert rows[2][1] < min(loss for _, loss in rows[:2])
