"""The files of one run."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.tracking.mlflow_internals import place_here
from sweeps.tracking.retrying import persistently
from sweeps.tracking.sqlite import sqlite_path


@dataclass(frozen=True)
class RunFiles:
    """The files of one run, at a place that this process reads and writes.

    With a SQLite file they are next to it, whatever path another process has stored: the same
    storage may have other paths on other machines. MLflow's own client would use the stored path.
    """

    uri: str
    tracking_uri: str

    @classmethod
    def of(cls, run: Any, tracking_uri: str) -> RunFiles:
        """Those of MLflow's ``Run``."""
        place, database = str(run.info.artifact_uri), sqlite_path(tracking_uri)
        return cls(place if database is None else place_here(place, database), tracking_uri)

    def add(self, folder: Path, below: str = "") -> None:
        """Add the files of a local folder."""
        repository = self._repository
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                parent = "/".join(Path(below, path.relative_to(folder).parent).parts)
                # One by one, so that after a lost reply only that file is sent again.
                persistently(repository.log_artifact, str(path), parent)

    def write(self, texts: Mapping[str, str]) -> None:
        """Add files with these contents by name."""
        with tempfile.TemporaryDirectory(prefix="calsweep-") as folder:
            for name, text in texts.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text.encode())  # whatever the locale
            self.add(Path(folder))

    def read(self, name: str) -> bytes:
        """The content of a file; errors are those of the storage."""
        with tempfile.TemporaryDirectory(prefix="calsweep-") as folder:
            path = persistently(self._repository.download_artifacts, name, folder)
            return Path(path).read_bytes()

    def names(self) -> set[str]:
        """The names of its files and folders, without those in folders."""
        return {str(file.path) for file in persistently(self._repository.list_artifacts)}

    def delete(self) -> None:
        """Delete them all."""
        self._repository.delete_artifacts()

    @property
    def _repository(self) -> Any:
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        return get_artifact_repository(self.uri, self.tracking_uri)
