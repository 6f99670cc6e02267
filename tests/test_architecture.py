"""The rules that docs/ARCHITECTURE.md says are checked here; a breach of each is noticed."""

import ast
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "ulc"
LAYERS = [
    ["errors", "typing", "importing", "stopping", "validating", "config"],
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
MOST_MODULES = 8  # of the package itself, beside __init__ and __main__
MOST_LINES = 300


@dataclass(frozen=True)
class File:
    """A file of the package and what its syntax tree says."""

    path: str
    text: str

    @property
    def package(self) -> str:
        """The subpackage, or the module of the package itself."""
        return self.path.split("/")[0].removesuffix(".py")

    @property
    def module(self) -> str:
        dotted = "ulc." + self.path.removesuffix(".py").replace("/", ".")
        return dotted.removesuffix(".__init__")

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(ast.parse(self.text)))

    @cached_property
    def imports(self) -> set[str]:
        modules = {node.module for node in self.nodes if isinstance(node, ast.ImportFrom)}
        plain = (node.names for node in self.nodes if isinstance(node, ast.Import))
        return {name for name in modules if name} | {each.name for names in plain for each in names}

    @property
    def ours(self) -> set[str]:
        return {name for name in self.imports if name.startswith("ulc.")}


Files = list[File]


def imports_of_higher_layers(files: Files) -> Iterator[str]:
    for file in files:
        for name in file.ours:
            if LEVEL[name.split(".")[1]] > LEVEL[file.package]:
                yield f"{file.path} imports {name}"


def ways_to_the_truth(files: Files) -> Iterator[str]:
    for file in files:
        for name in file.ours if file.package in {"algorithms", "blocks"} else ():
            if name.startswith(("ulc.data.truth", "ulc.data.prepare", "ulc.evaluation")):
                yield f"{file.path} imports {name}"


def imports_between_algorithms(files: Files) -> Iterator[str]:
    for file in files:
        if file.package == "algorithms" and file.path != "algorithms/__init__.py":
            for name in file.ours - {"ulc.algorithms.base"}:
                if name.startswith("ulc.algorithms"):
                    yield f"{file.path} imports {name}"


def tensors_among_arrays(files: Files) -> Iterator[str]:
    for file in files:
        packages = {name.split(".")[0] for name in file.imports}
        if file.package in NO_TORCH and file.path not in TENSORS_TOO and "torch" in packages:
            yield f"{file.path} imports torch"


def prints_outside_the_command(files: Files) -> Iterator[str]:
    for file in files:
        calls = (node.func for node in file.nodes if isinstance(node, ast.Call))
        names = {name.id for name in calls if isinstance(name, ast.Name)}
        if file.package != "cli" and "print" in names:
            yield f"{file.path} prints"


def modules_beyond_the_limit(files: Files) -> Iterator[str]:
    tops = sorted({file.path for file in files if "/" not in file.path})
    modules = [path for path in tops if path not in ("__init__.py", "__main__.py")]
    if len(modules) > MOST_MODULES:
        yield f"{len(modules)} modules, more than {MOST_MODULES}: {', '.join(modules)}"


def long_files(files: Files) -> Iterator[str]:
    for file in files:
        count = len(file.text.splitlines())
        if file.package not in {"algorithms", "testing"} and count > MOST_LINES:
            yield f"{file.path} has {count} lines, more than {MOST_LINES}"


Rule = Callable[[Files], Iterator[str]]
# Each rule with a file that keeps it and one that breaks it.
RULES: dict[Rule, tuple[File, File]] = {
    imports_of_higher_layers: (
        File("labels/table.py", "from ulc.errors import InputError"),
        File("labels/table.py", "def late():\n    import ulc.data.noise"),
    ),
    ways_to_the_truth: (
        File("evaluation/scores.py", "from ulc.data.truth import Truth"),
        File("blocks/mixture.py", "from ulc.data.truth import Truth"),
    ),
    imports_between_algorithms: (
        File("algorithms/ulc.py", "from ulc.algorithms.base import Algorithm"),
        File("algorithms/ulc.py", "from ulc.algorithms.dividemix import DivideMix"),
    ),
    tensors_among_arrays: (
        File("storage/tensor_file.py", "import torch"),
        File("storage/files.py", "from torch.nn import Module"),
    ),
    prints_outside_the_command: (
        File("cli/tables.py", "print(1)"),
        File("training/loop.py", "def tell():\n    print(1)"),
    ),
    long_files: (
        File("algorithms/ulc.py", "\n" * (MOST_LINES + 1)),
        File("training/loop.py", "\n" * (MOST_LINES + 1)),
    ),
}


def files_of(folder: Path) -> Files:
    paths = sorted(folder.rglob("*.py"))
    return [File(path.relative_to(folder).as_posix(), path.read_text("utf-8")) for path in paths]


@pytest.fixture(scope="module")
def package() -> Files:
    files = files_of(SOURCE)
    assert len(files) > 100
    return files


@pytest.mark.parametrize("rule", [*RULES, modules_beyond_the_limit])
def test_the_package_has_no(rule, package):
    breaches = list(rule(package))
    assert not breaches, "\n".join(breaches)


@pytest.mark.parametrize("rule", RULES)
def test_a_breach_is_named(rule):
    good, bad = RULES[rule]
    assert not list(rule([good]))
    (breach,) = rule([good, bad])
    assert breach.startswith(bad.path)


def test_a_ninth_module_is_noticed():
    eight = [File(f"module{number}.py", "") for number in range(MOST_MODULES)]
    others = [File("__init__.py", ""), File("__main__.py", ""), File("cli/parse.py", "")]
    assert not list(modules_beyond_the_limit(eight + others))
    (breach,) = modules_beyond_the_limit([*eight, *others, File("drawer.py", "")])
    assert "drawer.py" in breach


def test_every_module_imports(package):
    for file in package:
        if file.path != "__main__.py":
            importlib.import_module(file.module)


def test_files_are_found_in_all_folders(tmp_path):
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "parse.py").write_text("import ulc.api")
    (tmp_path / "api.py").touch()
    found = files_of(tmp_path)
    assert [file.path for file in found] == ["api.py", "cli/parse.py"]
    assert [file.module for file in found] == ["ulc.api", "ulc.cli.parse"]
    assert found[1].ours == {"ulc.api"}
