"""Files on any path or URI that ``pyarrow.fs`` opens, written whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


_TEMPORARY = ".tmp-"


def open_uri(uri: str) -> tuple[FileSystem, str]:
    """The file system of a local path or a URI, and the path in it.

    Raises:
        ValueError: The URI is malformed, or of a scheme that is not known.
    """
    return _open(absolute(uri))  # before the cache: the working folder may change


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
    """A local path as an absolute path, because workers run in other folders; a URI unchanged."""
    return uri if "://" in uri else str(Path(os.path.expanduser(uri)).absolute())


@dataclass(frozen=True)
class Folder:
    """A folder at a local path or a URI (``s3://bucket/prefix``, ``gs://...``).

    A file is visible under its name only once it is complete: locally it is written to a
    temporary name, flushed and renamed, in an object store to a temporary name and moved.
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
        """Whether the interpreter itself can read it: pyarrow takes a third of a second to load."""
        return "://" not in self.uri

    @property
    def is_local(self) -> bool:
        """Whether files lie on this machine's own file system."""
        return "://" not in self.uri or self.uri.startswith("file://")

    def __truediv__(self, name: str) -> Folder:
        place, mark, options = self.uri.partition("?")  # s3://bucket/prefix?endpoint_override=...
        if "://" not in self.uri:
            place, mark, options = self.uri, "", ""
        return Folder(f"{place.rstrip('/')}/{name}{mark}{options}")

    def create(self) -> None:
        """Make the folder and its parents.

        Raises:
            OSError: Where that is not possible.
        """
        self._filesystem.create_dir(self.path, recursive=True)

    def exists(self, name: str = "") -> bool:
        """Whether the folder (or a file or folder of this name in it) exists."""
        if self._is_path:
            try:
                os.stat(self._child(name))
            except (FileNotFoundError, NotADirectoryError):  # others: it is unknown
                return False
            return True
        from pyarrow.fs import FileType

        info = self._filesystem.get_file_info(self._child(name))
        return bool(info.type != FileType.NotFound)

    def write(self, name: str, data: bytes) -> None:
        """Write a file, replacing one of that name; afterwards either the old or the new is there.

        Raises:
            OSError: The folder cannot be written or the disk is full. The old file stays.
        """
        if not self.is_local:
            self._publish(name, data)
            return
        target = self._child(name)
        folder = os.path.dirname(target)
        os.makedirs(folder, exist_ok=True)
        temporary = f"{folder}/{_TEMPORARY}{uuid.uuid4().hex}"
        try:
            with open(temporary, "xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _publish(self, name: str, data: bytes) -> None:
        """Write a file to an object store.

        An object appears there when its stream is closed, and it is closed whatever happens, cut
        short or empty. So it is written to another name, and moved when it is whole.
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
        """The content of a file.

        Raises:
            FileNotFoundError: There is none of that name.
        """
        if self._is_path:
            return Path(self._child(name)).read_bytes()
        with self._filesystem.open_input_stream(self._child(name), compression=None) as stream:
            return bytes(stream.read())

    def read_if_exists(self, name: str) -> bytes | None:
        """The content of a file; None if there is none of that name."""
        try:
            return self.read(name)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self) -> list[str]:
        """Names of the files and folders directly inside, sorted, temporary files left out."""
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

    def delete(self, name: str) -> None:
        """Delete a file; no error if it does not exist."""
        try:
            self._filesystem.delete_file(self._child(name))
        except FileNotFoundError:
            return

    def delete_tree(self) -> None:
        """Delete the folder and its content; no error if it does not exist."""
        try:
            self._filesystem.delete_dir(self.path)
        except FileNotFoundError:
            return

    def clear(self, besides: Collection[str] = ()) -> None:
        """Delete all files and folders in it, temporary ones too; the folder itself stays.

        Args:
            besides: Names of files and folders in it that stay.
        """
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
        """Delete temporary files of killed writers, here and in all folders below.

        For a folder that no one else writes to; anyone who does so after all has to write again.

        Args:
            besides: Names of folders in this one that are passed over.
        """
        from pyarrow.fs import FileSelector, FileType

        # An object store lists a thousand objects at once, wherever they lie.
        selector = FileSelector(self.path, recursive=not besides, allow_not_found=True)
        for info in self._filesystem.get_file_info(selector):
            if info.base_name.startswith(_TEMPORARY):
                with suppress(FileNotFoundError):
                    self._filesystem.delete_file(info.path)
            elif besides and info.type == FileType.Directory and info.base_name not in besides:
                (self / info.base_name).tidy()

    def _child(self, name: str) -> str:
        return f"{self.path.rstrip('/')}/{name}" if name else self.path
