"""The sweep store: a folder per sweep, so that no result is lost when a process dies."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from filelock import FileLock, Timeout

from sweeps.errors import NameTakenError, UserError
from sweeps.messages.formatting import finite, resume_command
from sweeps.messages.reporter import LOG, Reporter, logger
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.store.blocks import READERS, block_numbers, read_blocks
from sweeps.store.kept_rows import KeptRows
from sweeps.store.lease import NAME as LEASE
from sweeps.store.lease import Lease, lease
from sweeps.store.storage import (
    DamagedFileError,
    is_name,
    left_out_if_unreadable,
    load_json,
    read_json,
    storage_fault,
    storage_faults,
    sweep_names,
    write_guarded,
)
from sweeps.sweep_file.loading import dump_sweep, read_resolved
from sweeps.sweep_file.schema import SweepFile
from sweeps.sweep_file.sections.fields import NAME_ALLOWED, NAME_LENGTH
from sweeps.sweep_file.upgrading import FORMAT
from trainables.contract.config import trial_folder
from trainables.files.storage import Folder, absolute
from trainables.plugins.arguments import did_you_mean, few

if TYPE_CHECKING:
    from trainables.files.rows import Rows

_SECONDS_BETWEEN_TRIES = 2.0
_TRIALS = "trials"
LOCK = "driver.lock"
ANNOUNCED = "announced"  # the file of a sweep whose result was announced
_LOCK_SECONDS = 0.2  # a process that looks whether it is free holds it for a moment
_MARKS = ("format", "sweep_id")  # the first files of a sweep, and the last that are deleted
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)

P = ParamSpec("P")
T = TypeVar("T")


class SweepStore:
    """A sweep's folder, ``<storage>/sweeps/<name>``: its file, and a folder per trial.

    A name that a sweep file may not have is a UserError, because it could be another folder's.

    :meth:`save`, :meth:`save_answer` and :meth:`patiently` wait while the storage fails. They
    report why, at each try, to the reporter of :meth:`locked`, or else to the log.
    """

    def __init__(self, storage: str, name: str) -> None:
        if not is_name(name):
            raise UserError(
                f"name = {name!r} is not allowed; allowed: at most {NAME_LENGTH} {NAME_ALLOWED}"
            )
        self.storage = absolute(storage)
        self.name = name
        self.folder = Folder(self.storage) / "sweeps" / name
        self._reporter = LOG
        self._lease: Lease | None = None
        self._sweep_id: str | None = None
        self._deleted = False
        self._trials = _TRIALS
        self._rows = KeptRows()

    def pilot(self, epochs: int | None = None) -> SweepStore:
        """The store of the pilot, see :mod:`sweeps.search.pilot`; call it while locked.

        With `epochs`, of a whole training with so many.
        """
        store = copy(self)
        store._trials = "pilot" if epochs is None else f"pilot_{epochs}"
        store._rows = KeptRows()
        return store

    @property
    def trials_folder(self) -> Folder:
        return self.folder / self._trials

    def trial_folder(self, number: int) -> Folder:
        """The folder of a trial; with a number below 0 of a reference model."""
        if number < 0:
            return self.folder / "references" / str(-number)
        return self.trials_folder / trial_folder(number)

    def rows(self, split: str, number: int) -> Rows:
        """A trial's predictions on the ``validation`` or ``test`` split.

        Raises FileNotFoundError or OSError if they cannot be read, ValueError if they are damaged.
        """
        return self._there(self.find_rows(split, number), split, number)

    def rows_patiently(self, split: str, number: int) -> Rows:
        """Like :meth:`rows`, but wait while the storage fails."""
        return self._there(self.patiently(self.find_rows, split, number), split, number)

    def find_rows(self, split: str, number: int, data: bytes | None = None) -> Rows | None:
        """Like :meth:`rows`; None if there are none. `data` is the file, if it has been read."""
        return self._rows.find(self.trial_folder(number), split, data)

    def _there(self, rows: Rows | None, split: str, number: int) -> Rows:
        if rows is None:
            folder = self.trial_folder(number).uri
            raise FileNotFoundError(f"{folder} has no predictions on the {split} split")
        return rows

    def exists(self) -> bool:
        """Whether there is a sweep of this name; UserError if that is unknown."""
        with storage_faults(self.storage):
            return self.folder.exists("sweep.yaml")

    def is_left(self) -> bool:
        """Whether there are files of a sweep, complete or not."""
        return not {"sweep.yaml", *_MARKS}.isdisjoint(self.folder.names())

    def create(self, sweep: SweepFile, files: Mapping[str, bytes] | None = None) -> None:
        """Create the sweep's folder, with the resolved sweep file last; call it while locked.

        Files without a sweep file, left from an incomplete creation or deletion, are deleted.
        `files` are further contents by name.

        Raises:
            UserError: The name is taken, or the storage cannot be written.
        """
        self.check_free()
        with storage_faults(self.storage):
            self.folder.create()
            self.folder.clear(besides=(LOCK, LEASE, *_MARKS))
            self.folder.write("format", str(FORMAT).encode())
            self.folder.write("sweep_id", uuid.uuid4().hex.encode())
            for name, data in (files or {}).items():
                write_guarded(self.folder, name, data)
            write_guarded(self.folder, "sweep.yaml", dump_sweep(sweep).encode())  # now it exists

    def check_free(self) -> None:
        """Raise NameTakenError if a sweep has this name, or its folder holds other files."""
        if self.exists():
            resume = resume_command(self.name, self.storage)
            raise NameTakenError(
                f"name = {self.name!r}: a sweep of this name exists in {self.storage}; continue "
                f"it with {resume}, or choose another name"
            )
        self._check_own()

    def _check_own(self) -> None:
        """Refuse a folder that calsweep has not written: its files would be deleted."""
        others = [name for name in self.folder.names() if name not in (LOCK, LEASE)]
        if others and not self.is_left():
            raise NameTakenError(
                f"name = {self.name!r}: {self.folder.uri} holds other files ({few(others)}); move "
                "them, or choose another name"
            )

    def change(self, sweep: SweepFile) -> None:
        """Rewrite the sweep file if it or its format has changed; UserError if that fails."""
        with storage_faults(self.storage):
            old = self._format() < FORMAT
            if old or sweep != self.load_sweep():
                write_guarded(self.folder, "sweep.yaml", dump_sweep(sweep).encode())
            if old:
                self.folder.write("format", str(FORMAT).encode())

    def load_plan(self) -> Plan:
        """The plan of the sweep; errors are those of :meth:`load_sweep`."""
        return Plan(self.load_sweep())

    def load_sweep(self) -> SweepFile:
        """The resolved sweep file.

        Raises:
            UserError: There is no sweep of this name, or this calsweep cannot read it; the message
                names the version that wrote it.
        """
        try:
            if self._format() > FORMAT:
                raise UserError(
                    f"{self._written_by()}; this calsweep reads formats up to {FORMAT}: update "
                    "calsweep"
                )
            text = self.folder.read("sweep.yaml").decode(errors="replace")
        except FileNotFoundError:
            names: list[str] = []
            with suppress(OSError):
                names = sweep_names(self.storage)
            raise UserError(
                f"no sweep named {self.name!r} in {self.storage}{did_you_mean(self.name, names)}; "
                f"there {'are: ' + ', '.join(names) if names else 'is none'}"
            ) from None
        except (OSError, ValueError) as error:
            raise UserError(storage_fault(self.storage, error)) from None
        try:
            return read_resolved(text, self.name)
        except UserError as error:
            raise UserError(f"{error}\n{self._written_by()}") from None

    def _format(self) -> int:
        """The number of the format of its files; 1 if it is damaged."""
        found = (self.folder.read_if_exists("format") or b"").strip()
        return int(found) if found.isdigit() else 1

    def _written_by(self) -> str:
        def version(kept: Any) -> str:
            return str(kept["packages"]["calsweep"])

        writer = read_json(self.folder, "environment.json", version, "", "it names no version")
        return (
            f"sweep {self.name!r} in {self.storage} was written by calsweep "
            f"{writer or 'of an unknown version'} (format {self._format()})"
        )

    def save_answer(self, answer: dict[str, object]) -> None:
        """Write the result of the sweep, see :func:`~sweeps.results.explanation.answer`."""
        data = json.dumps(finite(answer), indent=1).encode()
        self.patiently(self.folder.write, "answer.json", data)

    def forget_answer(self) -> None:
        """Delete the result, because the trials that it is about are changed.

        The next one is announced too, see :mod:`sweeps.service.notifying`.
        """
        for name in ("answer.json", ANNOUNCED):
            self.folder.delete(name)

    def load_answer(self) -> dict[str, Any] | None:
        """The result of the sweep without undefined values; None until it has ended."""

        def mapping(answer: Any) -> dict[str, object] | None:
            if not isinstance(answer, dict):
                raise TypeError("not an answer")
            return answer

        without = f"{resume_command(self.name, self.storage)} writes it again"
        return read_json(self.folder, "answer.json", mapping, None, without)

    @property
    def verdict(self) -> str | None:
        """Whether the selected setting is shown to be better; None until the end."""
        return (self.load_answer() or {}).get("verdict")

    def save_run_ids(self, parent: str, trials: Mapping[int, str]) -> None:
        """Store MLflow's ids of the sweep's own run and of the trials' runs."""
        data = json.dumps({"parent": parent, "trials": dict(trials)}, indent=1).encode()
        self.folder.write("mlflow_runs.json", data)

    def load_run_ids(self) -> tuple[str | None, dict[int, str]]:
        """The ids of :meth:`save_run_ids`; None and empty before MLflow has the result."""

        def ids(kept: Any) -> tuple[str, dict[int, str]]:
            return kept["parent"], {int(number): run for number, run in kept["trials"].items()}

        with suppress(OSError, AttributeError, DamagedFileError):  # ids are not essential
            return load_json(self.folder, "mlflow_runs.json", ids) or (None, {})
        return None, {}

    def delete(self) -> None:
        """Delete the sweep with all its trials, complete or not; call it while locked.

        The sweep file is deleted first, because without it there is no sweep. The lock or lease is
        deleted last, with the folder, and what shows that the folder is a sweep's.
        """
        self._check_own()
        self.check_held()
        self._deleted = True
        self.folder.delete("sweep.yaml")
        self.folder.clear(besides=(LOCK, LEASE, *_MARKS))
        if self._lease is not None:
            self._lease.stop_renewing()
            self.check_held()
        self.folder.delete_tree()

    def delete_checkpoints(self) -> None:
        """Delete the trials' checkpoints; metrics and predictions stay."""
        for name in self.trials_folder.names():
            (self.trials_folder / name / "checkpoints").delete_tree()

    def epochs_done(self, number: int) -> int:
        """Epochs in the last checkpoint of a running trial; 0 before the first."""
        names = (self.trial_folder(number) / "checkpoints").names()
        epochs = (name.removeprefix("epoch_").partition("-")[0] for name in names)
        return max((int(epoch) for epoch in epochs if epoch.isdigit()), default=0)

    def sweep_id(self) -> str:
        """The id that no other sweep of the same name has; UserError if it is damaged."""
        text = ""
        with suppress(IsADirectoryError):
            text = self.folder.read("sweep_id").decode(errors="replace")
        if not re.fullmatch("[0-9a-f]{32}", text):
            raise UserError(
                f"{self.folder.uri}/sweep_id is damaged: it is unknown which runs in MLflow "
                "are the sweep's; write the tag calsweep.sweep_id of one of them there"
            )
        return text

    def save(self, record: TrialRecord) -> None:
        """Write a trial's record; errors are those of :meth:`check_held`."""
        self.patiently(self._save, record)

    def _save(self, record: TrialRecord) -> None:
        self.check_held()
        record.sweep_id = self._own_id()
        data = json.dumps(finite(record.to_file()), indent=1).encode()
        self.trial_folder(record.number).write("trial.json", data)

    def _own_id(self) -> str | None:
        """The id of :meth:`sweep_id`, read once; None if it is missing or damaged."""
        if self._sweep_id is None:
            with suppress(FileNotFoundError, UserError):
                self._sweep_id = self.sweep_id()
        return self._sweep_id

    def check_held(self) -> None:
        """Raise UserError if another process has taken over the sweep while this was suspended."""
        if self._lease is not None:
            self._lease.check_if_late()

    def patiently(self, act: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Call a function of the storage; wait and retry while the storage fails."""
        while True:
            try:
                return act(*arguments, **options)
            except OSError as error:
                self._reporter.fault(storage_fault(self.storage, error, advice=""))
                time.sleep(_SECONDS_BETWEEN_TRIES)

    def load_records(
        self, on_damaged: Callable[[str], object] = logger.warning
    ) -> list[TrialRecord]:
        """All records, by number. A trial that was still running has its history up to that time.

        `on_damaged` is called with a message for each file that cannot be read or belongs to
        another sweep. Its trial is omitted; a resumed sweep runs it again.
        """
        self._sweep_id = None  # another process may have deleted the sweep and created a new one
        own_id = self._own_id()
        names = {int(name): name for name in self.trials_folder.names() if name.isdigit()}
        blocks = read_blocks(self.folder) if self._trials == _TRIALS else {}
        copies = {
            number: record
            for number, record in blocks.items()
            if number in names and _is_of(record, own_id)
        }
        records = list(copies.values())
        load = partial(self._load_record, own_id=own_id, on_damaged=on_damaged)
        with ThreadPoolExecutor(READERS) as pool:
            others = (name for number, name in names.items() if number not in copies)
            records += [record for record in pool.map(load, others) if record is not None]
        return sorted(records, key=lambda record: record.number)

    def _load_record(
        self, name: str, own_id: str | None, on_damaged: Callable[[str], object]
    ) -> TrialRecord | None:
        folder = self.trials_folder / name
        try:
            record = load_json(folder, "trial.json", partial(TrialRecord.from_file, int(name)))
        except DamagedFileError as error:
            on_damaged(f"{error}; the trial is left out")
            return None
        if record is not None and not _is_of(record, own_id):
            on_damaged(f"{folder.uri}/trial.json is another sweep's; the trial is left out")
            return None
        return record

    @contextmanager
    def locked(
        self, reporter: Reporter = LOG, on_lost: Callable[[], object] = lambda: None
    ) -> Iterator[None]:
        """Lock the sweep for this process, and delete temporary files of killed writers.

        Uses a lock on a local file system, and a lease on a remote storage or a file system without
        locks. If there is no sweep, the folder is created, and deleted again if no sweep was
        created. For `on_lost` see :class:`~sweeps.store.lease.Lease`.

        Raises:
            NameTakenError: Another process is running the sweep.
            UserError: The storage cannot be written.
        """
        parents = Path(self.folder.path).parents if self.folder.is_local else ()
        with storage_faults(self.storage):
            made = [parent for parent in parents if not parent.exists()]
            self.folder.create()
        with ExitStack() as held:
            self._reporter = reporter
            held.callback(setattr, self, "_reporter", LOG)
            if not (self.folder.is_local and self._lock(held)):
                self._lease = held.enter_context(lease(self.folder, reporter, on_lost))
                held.callback(setattr, self, "_lease", None)
            held.callback(self._drop_empty, made)
            with suppress(OSError):  # the storage does not answer: tidied at another time
                self._tidy()
            yield

    def _drop_empty(self, parents: Iterable[Path]) -> None:
        """Delete the folder, and the parents created with it, if it has nothing but the lock."""
        with suppress(OSError, UserError):
            if not self._deleted and not set(self.folder.names()) - {LOCK, LEASE}:
                self.delete()
                for parent in parents:
                    parent.rmdir()  # unless it contains another sweep by now

    def _tidy(self) -> None:
        """Delete temporary files of killed writers, except for trials that are in blocks.

        In an object store, every hundred objects of a trial cost a request.
        """
        ended = {trial_folder(number) for number in block_numbers(self.folder)}
        self.folder.tidy(besides={_TRIALS})
        self.trials_folder.tidy(besides=ended)

    def _lock(self, held: ExitStack) -> bool:
        """Whether the file system supports locks; if so, ``held`` acquires one."""
        path = Path(self.folder.path) / LOCK
        try:
            held.enter_context(
                FileLock(path, fallback_to_soft=False).acquire(timeout=_LOCK_SECONDS)
            )
        except Timeout:
            holder = "another process"
            with suppress(OSError):  # a process that has just ended and deleted the sweep
                holder = f"process {path.read_text().strip()}"
            raise NameTakenError(
                f"sweep {self.name!r} is being run by {holder}; wait for it or stop it first"
            ) from None
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return False
            raise UserError(storage_fault(self.storage, error)) from None
        with suppress(OSError):  # the file is only for a message
            path.write_text(f"{os.getpid()} on {socket.gethostname()}")
        return True


def _is_of(record: TrialRecord, sweep_id: str | None) -> bool:
    """Whether a record may belong to the sweep; an id may be missing or damaged."""
    return record.sweep_id is None or sweep_id is None or record.sweep_id == sweep_id


def of_each_sweep(storage: str, read: Callable[[SweepStore, Plan], T]) -> list[T]:
    """The results of a function of each sweep of a storage.

    Sweeps that are damaged or another user's are reported and left out, because they concern only
    their owners. Raises OSError if the storage itself cannot be read.
    """
    found = []
    for name in sweep_names(storage):
        with left_out_if_unreadable(storage, name):
            store = SweepStore(storage, name)
            found.append(read(store, store.load_plan()))
    return found
