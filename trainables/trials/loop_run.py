"""A trial that runs a custom training loop."""

import bdb
import io
import shutil
import sysconfig
import tarfile
import tempfile
import traceback
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import torch

from trainables.contract.config import ARCHIVE, own_folder
from trainables.contract.messages import Failed, Report
from trainables.files.storage import Folder
from trainables.plugins.arguments import first_line
from trainables.runtime.devices import DeviceFailedError
from trainables.runtime.torch_internals import lost_a_peer
from trainables.trials.own_loop import Host, Loop, Reported, Trial, trainable_function
from trainables.trials.trial import TrialRun

_NOT_THE_USERS: Final = (
    str(Path(__file__).parents[1]),
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
)


class LoopRun(TrialRun):
    """Runs the user's loop epoch by epoch, and writes the trial's folder.

    As in all trials, the results of the epochs are in the checkpoints. The loop has a separate
    folder next to them. If the storage is not a local path, this folder is packed into one file
    before each epoch is written.
    """

    _loop: Loop | None = None
    _own: Path | None = None

    def advance(self) -> Report:
        """Let the loop train one more epoch; see :meth:`TrialRun.advance`."""
        try:
            return super().advance()
        except Exception as error:
            # BdbQuit is the command `q` of Python's debugger, which ends the sweep.
            if isinstance(error, DeviceFailedError | bdb.BdbQuit) or lost_a_peer(error):
                raise
            return Failed(_described(error), "".join(traceback.format_exception(error)))

    def close(self) -> None:
        """Stop the loop, and delete its local files."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None
        if self._own is not None and not self.folder.is_local:
            shutil.rmtree(self._own, ignore_errors=True)

    @property
    def _kept(self) -> Folder:
        """The folder of the loop in the storage, one per setting."""
        return self.folder / "checkpoints" / own_folder(self._setting)

    def _begin(self) -> None:
        self._prepare_process()
        self._take_state()
        if self.history and self.history[-1]["epoch"] >= self.training.epochs:
            return
        function = trainable_function(self.setup.model)
        loss = self._make_loss().to(self.device)
        own = self._own = self._own_folder()

        def train(report: Any) -> None:
            torch.set_num_threads(self.setup.threads)  # per thread, like the device
            if self.device.type == "cuda":
                torch.cuda.set_device(self.device)
            host = Host(
                report,
                needs_test=self._may_end,
                adapts=lambda logits, labels: self._parts(logits, labels)[1],
                epochs=self.training.epochs,
                epochs_known=len(self.history),
                folder=own,
                device=self.device,
            )
            trial = Trial(self.config, self.data, loss, host)
            function(trial=trial, **self.setup.model_options)

        self._loop = Loop(train)

    def _train_epoch(self) -> None:
        assert self._loop is not None
        reported = self._ask(self._loop)
        entry = {**self._entry(reported.epoch), **reported.metrics}
        validation, adapting = self._parts(*reported.validation)
        entry |= self._judge(reported.epoch, validation, adapting, reported.test)
        if not self.folder.is_local:
            self._unsaved.append(partial(self._kept.write, ARCHIVE, self._packed()))
        self._keep(entry, {})

    def _ask(self, loop: Loop) -> Reported:
        """Waits for the next epoch; after the last epoch, waits until the function returns."""
        reported = loop.next()
        if reported is not None and reported.epoch == self.training.epochs:
            loop.finish()
        if reported is None:
            raise ValueError(
                f"the training loop returned after {len(self.history)} epochs; it has to train "
                f"and report trial.epochs={self.training.epochs}"
            )
        return reported

    def _own_folder(self) -> Path:
        """The loop's folder on this machine, with its stored files."""
        if self.folder.is_local:
            Path(self._kept.path).mkdir(parents=True, exist_ok=True)
            return fetch_own_files(self._kept, Path())
        return fetch_own_files(self._kept, Path(tempfile.mkdtemp(prefix="calsweep-own-")))

    def _packed(self) -> bytes:
        assert self._own is not None
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            archive.add(self._own, arcname=".")
        return stream.getvalue()


def fetch_own_files(kept: Folder, scratch: Path) -> Path:
    """A local folder with the kept files of a loop; remote ones are unpacked to ``scratch``."""
    if kept.is_local:
        return Path(kept.path)
    if kept.exists(ARCHIVE):
        with tarfile.open(fileobj=io.BytesIO(kept.read(ARCHIVE))) as archive:
            archive.extractall(scratch, filter="data")
    return scratch


def _described(error: BaseException) -> str:
    """The error on one line, with the file and line in the user's code that raised it."""
    place = _place(error.__traceback__) or _place(getattr(error.__cause__, "__traceback__", None))
    return f"{type(error).__name__}: {first_line(error)}{f' ({place})' if place else ''}"


def _place(trace: TracebackType | None) -> str | None:
    frames = [
        frame
        for frame in traceback.extract_tb(trace)
        if not frame.filename.startswith((*_NOT_THE_USERS, "<"))
    ]
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else None
