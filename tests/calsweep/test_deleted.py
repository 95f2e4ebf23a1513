"""A result of a sweep that was deleted meanwhile: one message, no traceback."""

from pathlib import Path

import pytest

import calsweep
from sweeps.service.upkeep import delete_sweep
from tests.harness.tracked import keep_answer, make_records, make_store, make_sweep


@pytest.mark.parametrize("loaded", [False, True])
def test_a_plot_after_the_deletion_says_so(tmp_path: Path, loaded: bool) -> None:
    sweep, records = make_sweep("gone"), make_records()
    keep_answer(make_store(tmp_path, sweep, records), records, sweep)
    result = calsweep.load(tmp_path, "gone")
    if loaded:
        assert len(result.table()) == len(records)
        assert result.plot_reliability() is not None
    delete_sweep("gone", str(tmp_path))
    assert result.plot_search() is not None  # which needs only what was loaded
    if loaded:
        assert result.plot_reliability() is not None
        return
    with pytest.raises(calsweep.UserError, match="no longer in"):
        result.plot_reliability()
