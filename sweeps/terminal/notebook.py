"""A live view below a notebook's cell, without widgets."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any, Final

from rich.console import RenderableType

from sweeps.terminal.console import plain_console

_SECONDS: Final = 1.0
_FORMAT: Final = '<pre style="line-height:1.2;font-family:monospace">{code}</pre>'


class NotebookView:
    """A view that is rendered again every second; its last state stays."""

    def __init__(self, render: Callable[[], RenderableType]) -> None:
        self._render = render
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._refresh, daemon=True, name="notebook-view")
        self._output: Any = None

    def start(self) -> None:
        from IPython.display import display

        self._output = display(self._html(), display_id=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        self._output.update(self._html())

    def _refresh(self) -> None:
        while not self._stopped.wait(_SECONDS):
            self._output.update(self._html())

    def _html(self) -> Any:
        from IPython.display import HTML

        console = plain_console(width=100, file=io.StringIO(), recorded=True)
        console.print(self._render())
        return HTML(console.export_html(inline_styles=True, code_format=_FORMAT))
