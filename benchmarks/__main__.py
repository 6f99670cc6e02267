"""Run a benchmark by its name, or list all benchmarks.

python -m benchmarks                        list the benchmarks
python -m benchmarks NAME [--json] [...]    run one; --help lists its options
python -m benchmarks all --json-dir DIR     run all speed benchmarks, one JSON file each
"""

import argparse
import ast
import importlib
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
SPEED = (
    "bare",
    "excess",
    "peer",
    "dropout",
    "mixture",
    "augment",
    "growth",
    "many_classes",
    "start",
)


def main(argv: list[str]) -> None:
    if not argv:
        for name, title in find_benchmarks().items():
            print(f"{name:<22} {title}")
    elif argv[0] == "all":
        run_all(argv[1:])
    elif argv[0] in find_benchmarks():
        importlib.import_module(f"benchmarks.{argv[0]}").main(argv[1:])
    else:
        sys.exit(f"no benchmark is called '{argv[0]}'; there are: {', '.join(find_benchmarks())}")


def find_benchmarks() -> dict[str, str]:
    """Return each module with a function `main`, and the first line of its docstring."""
    found = {}
    for path in sorted(FOLDER.glob("[!_]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if "main" in functions:
            found[path.stem] = (ast.get_docstring(tree) or "").split("\n")[0]
    return found


def run_all(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks all")
    parser.add_argument("--json-dir", type=Path, required=True)
    options = parser.parse_args(argv)
    options.json_dir.mkdir(parents=True, exist_ok=True)
    for name in SPEED:
        print(f"== {name}", flush=True)
        target = options.json_dir / f"{name}.json"
        importlib.import_module(f"benchmarks.{name}").main(["--out", str(target)])


if __name__ == "__main__":
    main(sys.argv[1:])
