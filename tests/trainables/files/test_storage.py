"""Folders at paths and URIs: atomic files, and damaged checkpoints are skipped."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem

from trainables.contract.config import trial_folder
from trainables.files.checkpoints import load_checkpoint, save_checkpoint
from trainables.files.storage import Folder, absolute


@pytest.fixture(params=["path", "relative path", "file URI"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: Any) -> Folder:
    if request.param == "file URI":
        return Folder(f"file://{tmp_path}/store")
    if request.param == "relative path":
        monkeypatch.chdir(tmp_path)
        return Folder("store")
    return Folder(str(tmp_path / "store"))


def test_files_are_created_listed_and_deleted(folder: Folder, tmp_path: Path) -> None:
    assert folder.is_local
    assert not folder.exists()
    assert folder.names() == []
    folder.write("one", b"1")
    (folder / "below").write("two", b"22")
    (folder / "empty").create()
    assert (tmp_path / "store" / "below" / "two").read_bytes() == b"22"
    assert folder.names() == ["below", "empty", "one"]
    assert folder.exists() and folder.exists("one") and not folder.exists("two")
    folder.write("one", b"other")
    assert folder.read("one") == b"other"
    folder.delete("one")
    folder.delete("one")
    with pytest.raises(FileNotFoundError):
        folder.read("one")
    (folder / "below").delete_tree()
    (folder / "below").delete_tree()
    assert folder.names() == ["empty"]


def test_content_comes_back_as_it_was(folder: Folder) -> None:
    # The extension would make pyarrow decompress it.
    data = bytes(range(256)) * 10
    folder.write("data.gz", data)
    assert folder.read("data.gz") == data
    folder.write("nothing", b"")
    assert folder.read("nothing") == b""


def test_unfinished_files_are_not_seen(folder: Folder, tmp_path: Path) -> None:
    folder.write("whole", b"1")
    (tmp_path / "store" / ".tmp-0123").write_bytes(b"half")
    assert folder.names() == ["whole"]


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    folder = Folder(str(tmp_path))
    folder.write("file", b"old")
    monkeypatch.setattr(os, broken, no_space)
    with pytest.raises(OSError, match="No space"):
        folder.write("file", b"new")
    assert folder.read("file") == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("act", [Folder.create, lambda f: f.write("x", b"")])
def test_a_folder_below_a_file_is_an_os_error(
    tmp_path: Path, act: Callable[[Folder], None]
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        act(Folder(str(tmp_path / "file" / "below")))


def test_a_relative_path_is_that_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        Folder("store").write("place", name.encode())
        assert absolute("store") == str(tmp_path / name / "store")
    assert (tmp_path / "here" / "store" / "place").read_bytes() == b"here"
    assert absolute("s3://bucket/x") == "s3://bucket/x"


def test_folders_of_trials_sort_as_numbers_do() -> None:
    numbers = [0, 9, 10, 99999]
    assert sorted(map(trial_folder, numbers)) == [trial_folder(n) for n in numbers]
    assert trial_folder(7) == "00007"


def save(folder: Folder, epoch: int) -> str:
    return save_checkpoint(
        folder, epoch, {"setting": "mine", "epoch": epoch, "weights": torch.ones(50) * epoch}
    )


def test_only_the_last_two_checkpoints_are_kept(folder: Folder) -> None:
    assert load_checkpoint(folder, "mine") is None
    names = [save(folder, epoch) for epoch in (1, 2, 9, 10)]
    assert folder.names() == names[-2:]
    state = load_checkpoint(folder, "mine")
    assert state is not None
    assert state["epoch"] == 10
    assert torch.equal(state["weights"], torch.full((50,), 10.0))


def test_other_files_are_no_checkpoints(folder: Folder) -> None:
    save(folder, 1)
    for name in ("epoch_000002.pt", "notes.txt", "epoch_000003-0123456789abcdef.pt.bak"):
        folder.write(name, b"not a checkpoint")
    save(folder, 2)
    save(folder, 3)
    assert "notes.txt" in folder.names()
    assert len([name for name in folder.names() if name.endswith(".pt")]) == 3
    state = load_checkpoint(folder, "mine")
    assert state is not None and state["epoch"] == 3


@pytest.mark.parametrize("position", [0, 100, -1])
def test_a_flipped_bit_anywhere_is_noticed(folder: Folder, position: int) -> None:
    save(folder, 1)
    name = save(folder, 2)
    data = bytearray(folder.read(name))
    data[position] ^= 1
    folder.write(name, bytes(data))
    state = load_checkpoint(folder, "mine")
    assert state is not None and state["epoch"] == 1


def test_a_checkpoint_can_run_no_code(folder: Folder) -> None:
    import pickle

    save_checkpoint(folder, 1, {"setting": "mine", "hostile": Path("x")})
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        load_checkpoint(folder, "mine")


def test_damaged_checkpoints_are_replaced_when_epochs_are_repeated(folder: Folder) -> None:
    """A trial with two damaged checkpoints starts over, and must keep its new checkpoints."""
    for epoch in (5, 6):
        folder.write(save(folder, epoch), b"damaged")
    assert load_checkpoint(folder, "mine") is None
    for epoch in (1, 2, 3):
        save(folder, epoch)
        state = load_checkpoint(folder, "mine")
        assert state is not None and state["epoch"] == epoch
    folder.write(folder.names()[-1], b"damaged")
    save_checkpoint(folder, 3, {"setting": "mine", "epoch": 3, "digest": "another"})
    assert [name[:12] for name in folder.names()] == ["epoch_000002", "epoch_000003"]
    folder.write(folder.names()[-1], b"damaged")
    state = load_checkpoint(folder, "mine")
    assert state is not None and state["epoch"] == 2


@pytest.mark.parametrize(
    ("uri", "below"),
    [
        ("/a/b", "/a/b/c"),
        ("/a/b?c/", "/a/b?c/c"),
        ("s3://bucket/a/", "s3://bucket/a/c"),
        (
            "s3://bucket/a?endpoint_override=127.0.0.1:9000&scheme=http",
            "s3://bucket/a/c?endpoint_override=127.0.0.1:9000&scheme=http",
        ),
    ],
)
def test_a_folder_below_keeps_the_options_of_a_uri(uri: str, below: str) -> None:
    assert (Folder(uri) / "c").uri == below


class Breaking(MemoryFileSystem):  # type: ignore[misc]
    """An object store: an object appears when its stream is closed, complete or not."""

    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    broken = ""

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        stream = super()._open(path, mode, **options)
        if self.broken == "write" and mode != "rb":
            write = stream.write

            def cut(data: bytes) -> int:
                write(bytes(data)[:1])
                raise OSError("connection reset")

            stream.write = cut
        return stream

    def mv(self, *arguments: Any, **options: Any) -> None:
        if self.broken == "move":
            raise OSError("connection reset")
        super().mv(*arguments, **options)


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[Breaking]:
    """An object store behind all URIs."""
    store = Breaking(skip_instance_cache=True)
    filesystem = PyFileSystem(FSSpecHandler(store))
    monkeypatch.setattr(
        "trainables.files.storage._open", lambda uri: (filesystem, uri.split("//")[1])
    )
    yield store
    store.store.clear()


@pytest.mark.parametrize("broken", ["write", "move"])
def test_a_remote_write_that_fails_publishes_nothing(objects: Breaking, broken: str) -> None:
    folder = Folder("s3://bucket/sweep")
    folder.write("record", b"old")
    objects.broken = broken
    with pytest.raises(OSError, match="connection reset"):
        folder.write("record", b"new")
    with pytest.raises(OSError, match="connection reset"):
        folder.write("another", b"new")
    objects.broken = ""
    assert folder.names() == ["record"]
    assert folder.read("record") == b"old"
    assert [Path(name).name for name in objects.store] == ["record"]


def test_temporary_objects_of_killed_writers_are_deleted(objects: Breaking) -> None:
    folder = Folder("s3://bucket/sweep")
    (folder / "trials").write("record", b"1")
    objects.pipe("/bucket/sweep/trials/.tmp-0123", b"half")
    folder.tidy()
    assert [Path(name).name for name in objects.store] == ["record"]
