"""The notebooks in examples/ run from the first cell to the last."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.harness.running import START_RAY
from website.notebooks import DIGEST, digest_of

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
# Sweeps that follow train in their own process, which spares each the start of another one.
WITHOUT_RAY = """
from functools import partial
import calsweep

calsweep.run = partial(calsweep.run, debug=True)
"""
WITH_SWEEPS = {"on_a_cluster", "own_data", "quickstart", "reading_the_evidence"}


def test_notebooks_exist() -> None:
    assert {path.stem for path in NOTEBOOKS} == WITH_SWEEPS | {"comparing_losses"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_are_of_the_present_code(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    again = f"python -m website.notebooks {path.stem}"
    assert notebook["metadata"].get(DIGEST) == digest_of(notebook), again
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1)), again
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"], again
    assert any("text/html" in output.get("data", {}) for output in outputs)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning:zmq")
def test_notebooks_run(tmp_path: Path) -> None:
    """One after the other in one kernel and with one MLflow; only that for clusters uses Ray."""
    import nbformat
    from nbclient import NotebookClient

    cells = {path.stem: nbformat.read(path, as_version=4).cells for path in NOTEBOOKS}
    code = nbformat.v4.new_code_cell
    on_ray = [code(START_RAY), *cells["on_a_cluster"], code(f"%reset -f\n{WITHOUT_RAY}")]
    others = [each for name, each in cells.items() if name != "on_a_cluster"]
    in_turn = [cell for each in others for cell in (*each, code("%reset -f"))]
    whole = nbformat.v4.new_notebook(cells=[*on_ray, *in_turn])
    settings = {"kernel_name": "python3", "resources": {"metadata": {"path": tmp_path}}}
    NotebookClient(whole, timeout=600, **settings).execute()
    for name, each in cells.items():
        check([output for cell in each for output in cell.get("outputs", ())], name)


def check(outputs: list[Any], name: str) -> None:
    """Checks the outputs of a notebook."""
    html = "\n".join(_text(each, "text/html") for each in outputs)
    assert html
    if name in WITH_SWEEPS:
        assert re.search(r"\d+/\d+ trials", html)  # the last state of the progress table
        assert "best so far" in html
        assert not any("best so far" in each.get("text", "") for each in outputs)  # and no lines
    if name == "quickstart":
        assert html.count("Selected: ") == 1  # the result appears once
    if name in ("quickstart", "reading_the_evidence"):
        assert any(_text(each, "image/png") for each in outputs)


def _text(output: Any, kind: str) -> str:
    found: str = output.get("data", {}).get(kind, "")
    return found
