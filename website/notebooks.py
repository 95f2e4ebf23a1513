"""Runs the notebooks in examples/ and stores their outputs: ``python -m website.notebooks``.

A notebook's metadata has a digest of its code, so that a fast test notices outputs of other code. A
slow test runs the notebooks again, and compares what they print with the stored outputs, if these
were made by the same kind of processor: another one rounds differently, which training amplifies.
"""

from __future__ import annotations

import hashlib
import platform
import re
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.harness.running import START_RAY

EXAMPLES: Final = Path(__file__).parents[1] / "examples"
DIGEST: Final = "calsweep_outputs_of"  # a key of a notebook's metadata
PROCESSOR: Final = "calsweep_outputs_by"  # likewise
ON_RAY: Final = "on_a_cluster"
_CPU: Final = Path("/proc/cpuinfo")
_SECONDS: Final = 600  # for a cell
# Sweeps that follow train in their own process: no other one starts, and results do not depend on
# which of two trials ends first.
_WITHOUT_RAY: Final = """
from functools import partial
import calsweep

calsweep.run = partial(calsweep.run, debug=True)
"""


def notebooks() -> dict[str, Any]:
    """The notebooks by name, as stored."""
    import nbformat

    paths = sorted(EXAMPLES.glob("*.ipynb"))
    return {path.stem: nbformat.read(path, as_version=4) for path in paths}


def digest_of(notebook: dict[str, Any]) -> str:
    """The digest of a notebook's code, from its JSON."""
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return hashlib.sha256("\0".join(code).encode()).hexdigest()


def processor() -> str:
    """The kind of this machine's processor."""
    kind = re.compile(r"^(?:vendor_id|cpu family|model|stepping)\s*: *(.*)$", re.MULTILINE)
    return " ".join(kind.findall(_CPU.read_text())[:4]) if _CPU.exists() else platform.processor()


def run(books: dict[str, Any], folder: Path) -> None:
    """Run notebooks in an empty folder, in one kernel and with one MLflow; sets their outputs."""
    import nbformat
    from nbclient import NotebookClient

    code = nbformat.v4.new_code_cell
    cells = [code(START_RAY), *books[ON_RAY].cells, code(f"%reset -f\n{_WITHOUT_RAY}")]
    for name, notebook in books.items():
        if name != ON_RAY:
            cells += [*notebook.cells, code("%reset -f")]
    resources = {"metadata": {"path": folder}}
    whole = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(whole, timeout=_SECONDS, kernel_name="python3", resources=resources).execute()


def printed(cell: Any) -> str:
    """What a cell prints and returns as text: neither progress nor pictures."""
    found = []
    for output in cell.get("outputs", ()):
        if output["output_type"] == "stream" and output["name"] == "stdout":
            found.append(output["text"])
        elif output["output_type"] == "execute_result":
            found.append(output["data"].get("text/plain", ""))
    return "\n".join(found)


def _lasting(outputs: list[Any]) -> list[Any]:
    """The outputs to store: a live display in its last state, results, and what was printed.

    Not lines of progress, nor that this machine was busy or lacks a package.
    """
    kept: list[Any] = []
    for output in outputs:
        kind = output["output_type"]
        if kind == "stream" and kept and kept[-1]["output_type"] == "stream":
            kept[-1]["text"] += output["text"]
        elif kind == "display_data":
            live = output["data"].get("text/plain", "").startswith("<IPython")
            kept += [output] if live else []
        else:
            kept.append(output)
    return kept


def _store(name: str, notebook: Any, folder: str) -> None:
    import nbformat

    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code, 1):
        cell.metadata.pop("execution", None)  # times
        cell.outputs = _lasting([each for each in cell.outputs if each.get("name") != "stderr"])
        cell.execution_count = number
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number
    notebook.metadata[DIGEST] = digest_of(notebook)
    notebook.metadata[PROCESSOR] = processor()
    text = re.sub(r"  [\d.,]+ epochs/s", "", nbformat.writes(notebook).replace(folder, "."))
    (EXAMPLES / f"{name}.ipynb").write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Run all notebooks and store their outputs."""
    books = notebooks()
    with tempfile.TemporaryDirectory(prefix="calsweep-") as folder:
        run(books, Path(folder))
        for name, notebook in books.items():
            _store(name, notebook, folder)
            print(f"{name}: outputs written")


if __name__ == "__main__":
    main()
