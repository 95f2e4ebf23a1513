"""The notebooks in examples/ run from the first cell to the last."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
WITH_SWEEPS = {"on_a_cluster", "own_data", "quickstart", "reading_the_evidence"}


def test_notebooks_exist_and_have_no_output() -> None:
    assert {path.stem for path in NOTEBOOKS} == WITH_SWEEPS | {"comparing_losses"}
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            assert not cell.get("outputs")
            assert cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning:zmq")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path: Path, tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    outputs = [each for cell in notebook.cells for each in cell.get("outputs", ())]
    html = "\n".join(_text(each, "text/html") for each in outputs)
    assert html
    if path.stem in WITH_SWEEPS:
        assert re.search(r"\d+/\d+ trials", html)  # the last state of the progress table
        assert "best so far" in html
        assert not any("best so far" in each.get("text", "") for each in outputs)  # and no lines
    if path.stem == "quickstart":
        assert html.count("Selected: ") == 1  # the result appears once
    if path.stem in ("quickstart", "reading_the_evidence"):
        assert any(_text(each, "image/png") for each in outputs)


def _text(output: Any, kind: str) -> str:
    found: str = output.get("data", {}).get(kind, "")
    return found
