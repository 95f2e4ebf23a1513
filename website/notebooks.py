"""Runs the notebooks in examples/ and stores their outputs: ``python -m website.notebooks``.

``python -m website.notebooks NAME...`` runs only some. A notebook's metadata has a digest of its
code, so that a test notices outputs of other code.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

EXAMPLES: Final = Path(__file__).parents[1] / "examples"
DIGEST: Final = "calsweep_outputs_of"  # a key of a notebook's metadata
_SECONDS: Final = 900


def digest_of(notebook: dict[str, Any]) -> str:
    """The digest of a notebook's code, from its JSON."""
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return hashlib.sha256("\0".join(code).encode()).hexdigest()


def run(path: Path) -> None:
    """Run a notebook in an empty folder and write its outputs, without the folder's path."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory(prefix="calsweep-") as folder:
        resources = {"metadata": {"path": folder}}
        client = NotebookClient(
            notebook, timeout=_SECONDS, kernel_name="python3", resources=resources
        )
        client.execute()
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)  # times
            if "outputs" in cell:  # without warnings about this machine's packages
                cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
        notebook.metadata[DIGEST] = digest_of(notebook)
        text = nbformat.writes(notebook).replace(folder, ".")
    path.write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Run the notebooks of these names, or all."""
    names = sys.argv[1:] or sorted(path.stem for path in EXAMPLES.glob("*.ipynb"))
    for name in names:
        run(EXAMPLES / f"{name}.ipynb")
        print(f"{name}: outputs written", flush=True)


if __name__ == "__main__":
    main()
