"""The documentation agrees with the code."""

import ast
import doctest
import re
import shlex
from pathlib import Path

import pytest
import torch
import typer
from ruamel.yaml import YAML

import calsweep
from sweeps.cli import app
from sweeps.planning.json_schema import sections
from sweeps.sweep_file.loading import parse_sweep
from sweeps.terminal.catalogue import losses_markdown
from tests.harness.running import run_programs
from trainables.losses.registry import CATALOGUE

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TABLES = sorted((ROOT / "benchmarks/results").glob("*.md"))
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *TABLES]
OWN_TESTS = ("own_losses.md", "own_data.md", "own_loops.md")  # tested elsewhere
PROGRAMS = ("README.md", "docs/index.md", "docs/metrics.md", "docs/python.md")  # run as is
PACKAGES = ("calsweep", "sweeps", "trainables", "search_spaces")


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page."""
    pattern = rf"^```{language}\n(.*?)^```$"
    return re.findall(pattern, page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


def tables(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


def test_the_table_of_losses_is_current() -> None:
    page = (ROOT / "docs/losses.md").read_text(encoding="utf-8")
    section = page.partition("\n## Overview\n")[2].partition("\n## ")[0]
    assert tables(section) == losses_markdown().splitlines()


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.stem)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)", text):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def test_the_navigation_of_the_site_names_each_page() -> None:
    named = re.findall(
        r": (\w+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert sorted(named) == sorted(pages | {"architecture.md", "contributing.md", "changelog.md"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sweep_files_go_through_the_loader(page: Path) -> None:
    for block in blocks(page, "yaml"):
        tree = YAML(typ="safe", pure=True).load(block)
        sweep = parse_sweep({"name": "a", "dataset": "digits", "losses": ["focal"]} | tree)
        assert all(getattr(sweep, key) is not None for key in tree)


def test_some_sweep_files_are_there() -> None:
    assert sum(len(blocks(page, "yaml")) for page in PAGES) >= 7


COMMAND = re.compile(r"(?:^|&& |^\w+=\S+ |uv run )calsweep((?: .*)?)$")


def commands(page: Path) -> list[str]:
    """Arguments of ``calsweep`` in the shell blocks of a page, and in backticks."""
    text = page.read_text(encoding="utf-8")
    shell = [
        line for block in blocks(page, "sh") for line in block.replace("\\\n", " ").splitlines()
    ]
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    inline = [" ".join(each.split()) for each in re.findall(r"`([^`]+)`", prose)]
    return [found[1] for line in (*shell, *inline) if (found := COMMAND.search(line))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_are_there_with_their_options(page: Path) -> None:
    """The commands are not run: they need data, a cluster or S3, and other tests cover them."""
    group = typer.main.get_group(app)
    for command in commands(page):
        name, *arguments = shlex.split(command, comments=True) or ["--help"]
        if not name.startswith("-"):
            assert name in group.commands, command
            only_named = not arguments  # the text names the command without arguments
            group.commands[name].make_context(name, arguments, resilient_parsing=only_named)


def test_some_commands_are_there() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 60


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")
def test_the_pages_programs_run(tmp_path: Path) -> None:
    found = [blocks(ROOT / page, "python") for page in PROGRAMS]
    assert all(found)
    run_programs(["\n".join(each) for each in found], tmp_path)


@pytest.mark.parametrize("module", ["losses", "metrics", "running"])
def test_the_examples_in_docstrings_run(module: str) -> None:
    text = (ROOT / f"calsweep/{module}.py").read_text(encoding="utf-8")
    logits, labels = torch.randn(64, 10), torch.arange(64) % 10
    probs = logits.softmax(dim=1)
    given = {"logits": logits, "probs": probs, "labels": labels, "targets": labels}
    given["calsweep"] = calsweep
    examples = doctest.DocTestParser().get_examples(text)
    assert examples
    for example in examples:
        if "calsweep.run(" not in example.source:  # a sweep, as the pages' programs run them
            exec(example.source, given)


def test_all_programs_of_pages_are_run() -> None:
    with_programs = {page.name for page in PAGES if blocks(page, "python")}
    run = {*(Path(page).name for page in PROGRAMS), "judge.md"}
    assert with_programs == {*run, *OWN_TESTS}


def test_the_program_of_the_page_on_judging_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [program] = blocks(ROOT / "docs/judge.md", "python")
    monkeypatch.chdir(tmp_path)
    labels = torch.arange(300) % 3
    p, q = (torch.randn(300, 3).softmax(dim=1) for _ in range(2))
    exec(program, {"probs": p, "p": p, "q": q, "labels": labels})
    assert "Reliability diagrams" in (tmp_path / "judgement.html").read_text(encoding="utf-8")


def test_the_loop_of_the_page_is_that_of_the_examples() -> None:
    [loop] = blocks(ROOT / "docs/own_loops.md", "python")
    example = (ROOT / "examples/own_loop/plain.py").read_text(encoding="utf-8")
    assert loop == f"# plain.py\n{example}"


def test_the_losses_page_says_when_to_try_each() -> None:
    text = (ROOT / "docs/losses.md").read_text(encoding="utf-8")
    table = "\n".join(tables(text.partition("## Which to try")[2]))
    named = re.findall(r"`([a-z_]+)`", table)
    assert set(named) == set(CATALOGUE.ours)


def test_the_messages_are_those_of_the_code() -> None:
    said = "\n".join(
        node.value
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    text = (ROOT / "docs/messages.md").read_text(encoding="utf-8")
    messages = [row.split("|")[1].strip(" `") for row in tables(text)]
    messages = [message for message in messages if message not in ("it says", "---")]
    assert len(messages) > 15
    assert [message for message in messages if message not in said] == []


def test_the_sweep_files_page_has_every_key() -> None:
    from website import sweep_file

    page = sweep_file.sections()
    keys = {key for section in sections() for key in section.model_fields}
    assert {key for key in keys if f"| `{key}` |" not in page} == set()
    anchors = set(re.findall(r"\]\(#(\w+)\)", page))
    headings = {re.sub(r"\W", "", h) for h in re.findall(r"^## (.*)$", page, re.MULTILINE)}
    assert anchors <= headings
