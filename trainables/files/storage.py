"""Atomically written files at any path or URI that ``pyarrow.fs`` opens."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


_TEMPORARY = ".tmp-"
_PRIVATE = partial(os.open, mode=0o600)


def open_uri(uri: str) -> tuple[FileSystem, str]:
    """The file system of a local path or a URI, and the path in it.

    Raises:
        ValueError: The URI is malformed, or its scheme is unknown.
    """
    return _open(absolute(uri))  # absolute, because the working directory may change


@lru_cache(maxsize=64)
def _open(uri: str) -> tuple[FileSystem, str]:
    from pyarrow import fs

    if "://" in uri:
        if uri.startswith("s3://"):  # small files in one request instead of three
            uri += ("&" if "?" in uri else "?") + "allow_delayed_open=true"
        filesystem, path = fs.FileSystem.from_uri(uri)
        return filesystem, path
    return fs.LocalFileSystem(), uri


def absolute(uri: str) -> str:
    """Makes a local path absolute, because workers have other working directories; keeps a URI."""
    return uri if "://" in uri else str(Path(os.path.expanduser(uri)).absolute())


@dataclass(frozen=True)
class Folder:
    """A folder at a local path or a URI (``s3://bucket/prefix``, ``gs://...``).

    A file is complete when it appears: it is written to a temporary name, then renamed (locally,
    after a flush) or moved (in an object store). Methods raise ``OSError``.
    """

    uri: str

    @property
    def _filesystem(self) -> FileSystem:
        return open_uri(self.uri)[0]

    @property
    def path(self) -> str:
        """The path inside the file system (the absolute path for a local folder)."""
        return absolute(self.uri) if self._is_path else open_uri(self.uri)[1]

    @property
    def _is_path(self) -> bool:
        """Whether Python can read it without pyarrow, which takes a third of a second to import."""
        return "://" not in self.uri

    @property
    def is_local(self) -> bool:
        """Whether the files are in the local file system."""
        return "://" not in self.uri or self.uri.startswith("file://")

    def __truediv__(self, name: str) -> Folder:
        place, mark, options = self.uri.partition("?")  # s3://bucket/prefix?endpoint_override=...
        if "://" not in self.uri:
            place, mark, options = self.uri, "", ""
        return Folder(f"{place.rstrip('/')}/{name}{mark}{options}")

    def create(self) -> None:
        """Create the folder and its parents."""
        self._filesystem.create_dir(self.path, recursive=True)

    def exists(self, name: str = "") -> bool:
        """Whether the folder (or a file or folder of this name in it) exists."""
        if self._is_path:
            try:
                os.stat(self._child(name))
            except (FileNotFoundError, NotADirectoryError):  # after other errors, it is unknown
                return False
            return True
        from pyarrow.fs import FileType

        info = self._filesystem.get_file_info(self._child(name))
        return bool(info.type != FileType.NotFound)

    def write(self, name: str, data: bytes, *, private: bool = False) -> None:
        """Writes a file atomically; after an error, an existing one is kept.

        A `private` one in a local folder is for this user alone.
        """
        if not self.is_local:
            self._publish(name, data)
            return
        target = self._child(name)
        folder = os.path.dirname(target)
        os.makedirs(folder, exist_ok=True)
        temporary = f"{folder}/{_TEMPORARY}{uuid.uuid4().hex}"
        try:
            with open(temporary, "xb", opener=_PRIVATE if private else None) as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _publish(self, name: str, data: bytes) -> None:
        """Write a file to an object store.

        An object appears when its stream is closed, even truncated after an error, so it is written
        to a temporary name.
        """
        temporary = self._child(f"{_TEMPORARY}{uuid.uuid4().hex}")
        try:
            with self._filesystem.open_output_stream(temporary) as stream:
                stream.write(data)
            self._filesystem.move(temporary, self._child(name))
        except BaseException:
            with suppress(OSError):
                self._filesystem.delete_file(temporary)
            raise

    def read(self, name: str) -> bytes:
        """The content of a file; ``FileNotFoundError`` if there is none."""
        if self.is_local:
            return Path(self._child(name)).read_bytes()
        with self._filesystem.open_input_stream(self._child(name), compression=None) as stream:
            return bytes(stream.read())

    def read_if_exists(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        try:
            return self.read(name)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def modified(self, name: str) -> float | None:
        """When a file was written, in seconds since the epoch; None if there is none."""
        if self.is_local:
            with suppress(FileNotFoundError, NotADirectoryError):
                return os.stat(self._child(name)).st_mtime
            return None
        written: float | None = self._filesystem.get_file_info(self._child(name)).mtime_ns
        return None if written is None else written / 1e9

    def names(self) -> list[str]:
        """Sorted names of the files and folders in the folder, without temporary files."""
        if self._is_path:
            try:
                names = os.listdir(self.path)
            except FileNotFoundError:
                names = []
        else:
            from pyarrow.fs import FileSelector

            selector = FileSelector(self.path, recursive=False, allow_not_found=True)
            names = [info.base_name for info in self._filesystem.get_file_info(selector)]
        return sorted(name for name in names if not name.startswith(_TEMPORARY))

    def size(self) -> int:
        """Bytes of all files in the folder and its subfolders; 0 if it does not exist."""
        if self._is_path:
            total = 0
            for folder, _, files in os.walk(self.path):
                for name in files:
                    with suppress(FileNotFoundError):  # deleted meanwhile
                        total += os.stat(f"{folder}/{name}").st_size
            return total
        from pyarrow.fs import FileSelector

        selector = FileSelector(self.path, recursive=True, allow_not_found=True)
        return sum(info.size or 0 for info in self._filesystem.get_file_info(selector))

    def delete(self, name: str) -> None:
        """Delete a file; no error if it does not exist."""
        with suppress(FileNotFoundError):
            self._filesystem.delete_file(self._child(name))

    def delete_tree(self) -> None:
        """Delete the folder and its content; no error if it does not exist."""
        with suppress(FileNotFoundError):
            self._filesystem.delete_dir(self.path)

    def clear(self, besides: Collection[str] = ()) -> None:
        """Delete all files and folders in the folder, also temporary ones, except ``besides``."""
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self.path, recursive=False, allow_not_found=True)
        for info in self._filesystem.get_file_info(selector):
            if info.base_name in besides:
                continue
            with suppress(FileNotFoundError):
                if info.type == FileType.Directory:
                    self._filesystem.delete_dir(info.path)
                else:
                    self._filesystem.delete_file(info.path)

    def tidy(self, besides: Collection[str] = ()) -> None:
        """Deletes temporary files of killed writers, also in subfolders except ``besides``.

        No other process should write to the folder; if one does, it has to write again.
        """
        from pyarrow.fs import FileSelector, FileType

        # One request to an object store lists a thousand objects, at any depth.
        selector = FileSelector(self.path, recursive=not besides, allow_not_found=True)
        for info in self._filesystem.get_file_info(selector):
            if info.base_name.startswith(_TEMPORARY):
                with suppress(FileNotFoundError):
                    self._filesystem.delete_file(info.path)
            elif besides and info.type == FileType.Directory and info.base_name not in besides:
                (self / info.base_name).tidy()

    def _child(self, name: str) -> str:
        return f"{self.path.rstrip('/')}/{name}" if name else self.path


def new_digest() -> hashlib.blake2b:
    """An empty digest, for incremental updates."""
    return hashlib.blake2b(digest_size=8)


def digest_of(data: bytes) -> str:
    """The digest of some bytes, 16 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()
