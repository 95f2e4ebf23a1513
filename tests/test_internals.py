"""Private and undocumented parts of other libraries are leaned on in one place for each of them."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import mlflow.environment_variables
import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("calsweep", "search_spaces", "sweeps", "trainables")
SOURCES = {
    path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8"))
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}
INTERNALS = [path for path in SOURCES if path.name == "internals.py"]
OURS = {
    name.name if isinstance(name, ast.FunctionDef | ast.ClassDef) else name.attr
    for tree in SOURCES.values()
    for name in ast.walk(tree)
    if isinstance(name, ast.FunctionDef | ast.ClassDef)
    or (isinstance(name, ast.Attribute) and isinstance(name.ctx, ast.Store))
}
# Of these the libraries' pages say that users may, or must, set or read them.
DOCUMENTED = {"MLFLOW_BACKEND_STORE_URI"}
DOCUMENTED |= {"RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"}
DOCUMENTED |= {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}
DOCUMENTED |= {name for name in vars(mlflow.environment_variables) if name.startswith("MLFLOW_")}
VARIABLE = re.compile(r"(MLFLOW|NCCL|OPTUNA|PYTORCH|RAY|TORCH|TORCHINDUCTOR|TUNE)_\w+")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def leanings(tree: ast.AST) -> Iterator[str]:
    """What a module takes from the private parts of others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            names = [f"{module}.{each.name}".strip(".") for each in node.names]
            for name in names:
                if name.split(".")[0] in {*PACKAGES, "_thread"}:  # documented, for all its name
                    continue
                if any(map(is_private, name.split("."))):
                    yield f"line {node.lineno}: import of {name}"
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in OURS:
            yield f"line {node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            variable = VARIABLE.fullmatch(node.value) and node.value not in DOCUMENTED
            if variable or re.match(r"(mlflow|optuna|ray|torch)\.(\w+\.)*_", node.value):
                yield f"line {node.lineno}: {node.value}"


def test_nobody_else_leans_on_what_is_private() -> None:
    found = {
        str(path): list(leanings(tree)) for path, tree in SOURCES.items() if path not in INTERNALS
    }
    assert {path: each for path, each in found.items() if each} == {}


def test_nobody_overrides_a_private_method_of_a_librarys() -> None:
    for module in map(importlib.import_module, module_names()):
        for _, kind in inspect.getmembers(module, inspect.isclass):
            others = [c for c in kind.__mro__ if c.__module__.split(".")[0] not in PACKAGES]
            if kind in others:
                continue
            methods = {name for name, each in vars(kind).items() if inspect.isfunction(each)}
            names = {name for name in methods if is_private(name) and not name.endswith("_")}
            assert not [n for n in names if any(n in vars(other) for other in others)], kind


def module_names() -> Iterator[str]:
    for package in PACKAGES:
        folder = importlib.import_module(package).__path__
        yield from (module.name for module in pkgutil.walk_packages(folder, f"{package}."))


def entries() -> Iterator[tuple[str, str]]:
    """What is in the modules of leanings, with what is said of it; numbers aside."""
    for path in INTERNALS:
        body = SOURCES[path].body
        for node, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not is_private(node.name):
                yield f"{path}: {node.name}", ast.get_docstring(node) or ""
            elif isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant):
                name = ast.unparse(node.targets[0])
                said = after.value if isinstance(after, ast.Expr) else None
                if not is_private(name):
                    yield f"{path}: {name}", str(getattr(said, "value", ""))


@pytest.mark.parametrize(("name", "said"), list(entries()), ids=lambda text: text.split("\n")[0])
def test_each_leaning_says_what_why_since_when_and_which_test(name: str, said: str) -> None:
    for part in ("Leans on: ", "Why: ", "Since: ", "Test: "):
        assert part in said, f"{name} lacks {part!r}"
    for test in re.findall(r"Test: (\S+)", said):
        file, _, function = test.partition("::")
        assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), f"{name}: {test}"
