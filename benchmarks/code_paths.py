"""How much code a newcomer meets: files and functions that a tiny run, audit and fit enter.

Counts what Python itself calls inside the package `ulc`; lambdas and comprehensions do not count.
"""

import argparse
import contextlib
import io
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from types import CodeType

PREPARE = ("data/prepare.py", "prepare")


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks code_paths", description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        write_data(data)
        actions = {
            "ulc train": lambda out: command("train", data, "--epochs", 2, "--out", out),
            "ulc audit": lambda out: command("audit", data, "--epochs", 2, "--out", out),
            "fit": lambda _: fit(data),
        }
        rows = {}
        for name, action in actions.items():
            action(Path(folder) / "first")  # imports are not part of the count
            rows[name] = traced(lambda run=action: run(Path(folder) / "second"))
    if options.json:
        print(json.dumps(rows))
        return
    print("| | files | functions | calls of prepare |\n|---|---|---|---|")
    for name, row in rows.items():
        print(f"| `{name}` | {row['files']} | {row['functions']} | {row['prepare']} |")


def write_data(path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 3
    np.savez(path, X=rng.normal(labels[:, None], 0.5, (120, 4)).astype(np.float32), y=labels)


def command(*arguments: object) -> None:
    from ulc.cli import main

    sys.argv = ["ulc", *map(str, arguments)]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            main()
        except SystemExit as ended:
            if ended.code:
                raise


def fit(path: Path) -> None:
    import ulc

    with np.load(path) as data:
        ulc.ULCClassifier(epochs=2, random_state=0).fit(data["X"], data["y"])


def traced(action: Callable[[], None]) -> dict[str, int]:
    entered: Counter[CodeType] = Counter()

    def note(frame: object, event: str, _: object) -> None:
        if event == "call":
            entered[frame.f_code] += 1  # type: ignore[attr-defined]

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    import ulc

    package = Path(ulc.__file__).parent
    ours = {
        (str(Path(code.co_filename).relative_to(package)), code.co_qualname): count
        for code, count in entered.items()
        if Path(code.co_filename).is_relative_to(package) and "<" not in code.co_name
    }
    files = {file for file, _ in ours}
    return {"files": len(files), "functions": len(ours), "prepare": ours.get(PREPARE, 0)}


if __name__ == "__main__":
    main(sys.argv[1:])
