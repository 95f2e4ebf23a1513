"""SIGTERM and SIGHUP end a sweep like Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def terminated_as_interrupted() -> Iterator[Callable[[], None]]:
    """Context: SIGTERM and SIGHUP end a sweep like Ctrl-C, cleanly and resumable.

    SIGHUP comes when the terminal is closed; if it is ignored, as under ``nohup``, it stays so.

    Yields:
        A function that does so from another thread. Outside the main thread, where signals cannot
        be handled, it does nothing, because SIGTERM would end the whole process.
    """

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    try:
        previous = {number: signal.signal(number, interrupt) for number in _ending_signals()}
    except ValueError:  # only the main thread may handle signals
        yield lambda: None
        return
    try:
        yield _terminate_main_thread
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _ending_signals() -> Iterator[signal.Signals]:
    yield signal.SIGTERM
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        yield signal.SIGHUP


def _terminate_main_thread() -> None:
    """Interrupt it by SIGTERM, even if it sleeps; ``_thread.interrupt_main`` does not wake it."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGTERM)
