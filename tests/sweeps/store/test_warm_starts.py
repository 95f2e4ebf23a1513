"""Sweeps that a new one learns from: they must exist, and other data are named."""

from pathlib import Path

import pytest

from sweeps.errors import UserError
from sweeps.planning.data import load_data
from sweeps.store.earlier_sweeps import on_other_data, sweeps_to_learn_from
from sweeps.store.identity import identify, identity_files
from tests.builders import baseline, make_sweep, new_store, trial


def test_other_data_are_named(tmp_path: Path) -> None:
    few = make_sweep("few", dataset={"name": "digits", "train_samples": 200})
    data = load_data(few)
    identity = identify(few.named, data)
    records = [baseline(), trial(1)]
    new_store(tmp_path, few, records, identity_files(identity))
    sweep = make_sweep("new", search={"learn_from": ["few"]})
    assert sweeps_to_learn_from(sweep, str(tmp_path))["few"] == records
    assert on_other_data(sweep.search.named, identity.digest, str(tmp_path)) == []
    (line,) = on_other_data(sweep.search.named, "abc", str(tmp_path))
    assert line.startswith("search.learn_from = few was run on other data (digits, digest ")
    with pytest.raises(UserError, match=r"search.learn_from: no sweep named 'few'"):
        sweeps_to_learn_from(sweep, str(tmp_path / "elsewhere"))
