"""How a running sweep reports to its user."""

from __future__ import annotations

import logging
from typing import Final, Protocol

logger = logging.getLogger("calsweep")


class Reporter(Protocol):
    """Shows messages while a sweep runs."""

    def stage(self, what: str) -> None:
        """Show the current stage of the sweep."""

    def notice(self, message: str) -> None:
        """Show a message that the user should know."""

    def fault(self, message: str) -> None:
        """Show what the sweep is waiting for."""

    def left(self, what: str) -> None:
        """Show the remaining work, whenever it decreases."""


class LogReporter:
    """Writes every message to the log."""

    def stage(self, what: str) -> None:
        logger.info("%s", what)

    def notice(self, message: str) -> None:
        logger.warning("%s", message)

    def fault(self, message: str) -> None:
        logger.error("%s", message)

    def left(self, what: str) -> None:
        logger.debug("%s", what)


LOG: Final[Reporter] = LogReporter()
