"""The rules of docs/ARCHITECTURE.md, checked."""

import ast
import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "ulc"
FILES = sorted(SOURCE.rglob("*.py"))
LAYERS = [
    ["errors", "typing", "importing", "config"],
    ["labels", "storage"],
    ["data", "networks"],
    ["blocks"],
    ["algorithms"],
    ["evaluation"],
    ["settings"],
    ["training", "embedding", "applying"],
    ["prediction"],
    ["experiments", "auditing", "estimators", "report", "testing"],
    ["api"],
    ["cli", "__main__", "__init__"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
NO_TORCH = {*LAYERS[0], *LAYERS[1], "evaluation"}
TENSORS_TOO = {"storage/tensor_file.py"}  # a file of tensors


def part(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return names


def ours(path: Path) -> set[str]:
    return {name for name in imports(path) if name.startswith("ulc.")}


every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))


@every_file
def test_every_module_imports_and_only_downwards(path):
    module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    importlib.import_module(module.removesuffix(".__init__"))
    for name in ours(path):
        assert LEVEL[name.split(".")[1]] <= LEVEL[part(path)], f"{module} imports {name} above it"


@every_file
def test_algorithms_and_blocks_cannot_reach_the_truth(path):
    if part(path) in {"algorithms", "blocks"}:
        assert not {"ulc.data.truth", "ulc.data.prepare"} & ours(path)
        assert not any(name.startswith("ulc.evaluation") for name in ours(path))


@every_file
def test_algorithms_do_not_import_one_another(path):
    if part(path) == "algorithms" and path.stem != "__init__":
        assert {name for name in ours(path) if name.startswith("ulc.algorithms")} <= {
            "ulc.algorithms.base"
        }


@every_file
def test_arrays_above_tensors_below(path):
    if part(path) in NO_TORCH and str(path.relative_to(SOURCE)) not in TENSORS_TOO:
        assert not any(name.split(".")[0] == "torch" for name in imports(path))


@every_file
def test_only_the_command_prints(path):
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert part(path) == "cli" or "print" not in calls
