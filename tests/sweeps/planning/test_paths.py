"""Paths in a sweep file are absolute once the sweep is created."""

import json
from pathlib import Path
from typing import Any

import pytest

from sweeps.planning.paths import with_absolute_paths
from sweeps.sweep_file.loading import dump_sweep, parse_sweep, read_resolved


@pytest.mark.parametrize(
    ("sections", "changed"),
    [
        ({"dataset": {"name": "csv", "train": "a.csv"}}, {"train": "{here}/a.csv"}),
        ({"dataset": {"name": "csv", "train": ["a.csv", "/b"]}}, {"train": ["{here}/a.csv", "/b"]}),
        ({"dataset": {"name": "csv", "train": "t*/*.csv"}}, {"train": "{here}/t*/*.csv"}),
        ({"dataset": {"name": "csv", "train": "[1].csv"}}, {"train": "{here}/[1].csv"}),
        ({"dataset": {"name": "parquet", "train": "s3://b/a.csv"}}, {}),
        ({"dataset": {"name": "csv", "train": "none.csv", "tokenizer": "tok"}}, {}),  # a hub's name
        ({"dataset": {"name": "csv", "tokenizer": "./tok"}}, {"tokenizer": "{here}/tok"}),
        ({"trainable": {"name": "a:b", "tokenizer": "./tok"}}, {"tokenizer": "{here}/tok"}),
        ({"trainable": {"name": "a:b", "at": {"x": "~/f"}, "n": 3}}, {"at": {"x": "{here}/f"}}),
        ({"model": {"name": "huggingface/./tok"}}, {"name": "huggingface/{here}/tok"}),
        ({"model": {"name": "huggingface/org/net"}}, {}),
        ({"model": {"name": "small_cnn", "weights": "tok/w.pt"}}, {"weights": "{here}/tok/w.pt"}),
    ],
)
def test_a_path_that_exists_is_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sections: dict[str, Any], changed: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("a.csv", "[1].csv", "f", "tok/w.pt", "tables/b.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    base = {"name": "a", "dataset": {"name": "digits"}, "losses": ["focal"]}
    before = parse_sweep({**base, **sections})
    after = with_absolute_paths(before)
    (key,) = sections
    section, written = getattr(after, key), getattr(before, key)
    changed = json.loads(json.dumps(changed).replace("{here}", str(tmp_path)))
    assert {"name": section.name, **section.options} == {
        "name": written.name,
        **written.options,
        **changed,
    }
    assert after.dataset.label == before.dataset.label
    assert read_resolved(dump_sweep(after), "a") == after


def test_the_label_of_the_data_does_not_depend_on_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "birds").mkdir()
    (tmp_path / "birds/train.parquet").touch()
    monkeypatch.chdir(tmp_path / "birds")
    data = {"name": "parquet", "train": "train.parquet"}
    sweep = parse_sweep({"name": "a", "dataset": data, "losses": ["focal"]})
    after = with_absolute_paths(sweep)
    assert after.dataset.options["train"] == str(tmp_path / "birds/train.parquet")
    assert after.dataset.label == sweep.dataset.label == "parquet"
