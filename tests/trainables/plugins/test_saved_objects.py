"""Saved objects are equal in all processes."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from trainables.files.storage import Folder
from trainables.plugins.components import Catalogue
from trainables.plugins.saved_objects import is_kept, keep, load_kept

CATALOGUE = Catalogue(kind="thing", group="no.such.group", ours={})


def test_a_function_without_a_name_is_found_by_another_process(tmp_path: Path) -> None:
    added = 3
    name = keep(Folder(str(tmp_path)), lambda x: x + added, "adder")
    assert is_kept(name)
    assert name.rpartition(":")[2] == "adder"
    code = f"from trainables.plugins.saved_objects import load_kept; print(load_kept({name!r})(4))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout == "7\n"


def test_an_object_is_one_wherever_it_is_named(tmp_path: Path) -> None:
    class Mine:
        pass

    name = keep(Folder(str(tmp_path)), Mine, "Mine")
    assert load_kept(name) is load_kept(name) is CATALOGUE.find(name)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    name = keep(Folder(str(tmp_path)), lambda: 1, "one")
    [file] = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match="is damaged"):
        CATALOGUE.find(name)
    file.unlink()
    with pytest.raises(ValueError, match=r"cannot be imported: .*No such file"):
        CATALOGUE.find(name)


def test_an_unpicklable_object_is_rejected(tmp_path: Path) -> None:
    lock = threading.Lock()
    with pytest.raises(ValueError, match=r"model cannot be given to other processes: .*lock"):
        keep(Folder(str(tmp_path)), lambda: lock, "model")
    assert not list(tmp_path.iterdir())
