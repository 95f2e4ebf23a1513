"""How a running sweep reports to its user."""

from __future__ import annotations

import logging
from typing import Final

logger = logging.getLogger("calsweep")


class Reporter:
    """Reports to the log while a sweep runs; subclasses show it to the user."""

    def stage(self, text: str) -> None:
        """Show the current stage of the sweep."""
        logger.info("%s", text)

    def notice(self, text: str) -> None:
        """Show a message that the user should know."""
        logger.warning("%s", text)

    def fault(self, message: str) -> None:
        """Show what the sweep is waiting for."""
        logger.error("%s", message)

    def left(self, text: str) -> None:
        """Show the remaining work, whenever it decreases."""
        logger.debug("%s", text)


LOG: Final = Reporter()
