"""Private APIs of other libraries are used in one module per library."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import mlflow.environment_variables

ROOT = Path(__file__).parents[1]
PACKAGES = ("calsweep", "search_spaces", "sweeps", "trainables")
# These are documented by the libraries.
DOCUMENTED = {"MLFLOW_BACKEND_STORE_URI"}
DOCUMENTED |= {"RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"}
DOCUMENTED |= {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}
DOCUMENTED |= {name for name in vars(mlflow.environment_variables) if name.startswith("MLFLOW_")}
DESPITE_THEIR_NAMES = {"_plot", "_exit"}  # documented: by torchmetrics for subclasses, by Python
VARIABLE = re.compile(r"(MLFLOW|NCCL|OPTUNA|PYTORCH|RAY|TORCH|TORCHINDUCTOR|TUNE)_\w+")


def syntax_trees() -> dict[str, ast.Module]:
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in paths
    }


def own_names(trees: Iterable[ast.Module]) -> set[str]:
    """Names of functions, classes and attributes that the project defines."""
    return {
        node.attr if isinstance(node, ast.Attribute) else node.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        or (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    }


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_uses(tree: ast.AST, own: set[str]) -> Iterator[str]:
    """The private names of other libraries that a module uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            names = [f"{module}.{each.name}".strip(".") for each in node.names]
            for name in names:
                if name.split(".")[0] in {*PACKAGES, "_thread"}:  # documented despite its name
                    continue
                if any(map(is_private, name.split("."))):
                    yield f"line {node.lineno}: import of {name}"
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            yield f"line {node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            variable = VARIABLE.fullmatch(node.value) and node.value not in DOCUMENTED
            if variable or re.match(r"(mlflow|optuna|ray|torch)\.(\w+\.)*_", node.value):
                yield f"line {node.lineno}: {node.value}"


def test_private_parts_are_used_in_internals_only() -> None:
    trees = syntax_trees()
    own = own_names(trees.values()) | DESPITE_THEIR_NAMES
    found = {
        path: list(private_uses(tree, own))
        for path, tree in trees.items()
        if not path.endswith("_internals.py")
    }
    assert {path: each for path, each in found.items() if each} == {}


def test_no_private_method_of_a_library_is_overridden() -> None:
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
