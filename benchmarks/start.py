"""Seconds of `ulc --help`, `import ulc`, the first step of a training, default `ulc train`."""

import subprocess
import sys
import tempfile
from collections.abc import Callable

from benchmarks.timing import check_bound, new_parser, parse_options, report_result, time_in_turns

FIRST_STEP = """
import tempfile
from pathlib import Path
from ulc.config import RunSpec
from ulc.settings.presets import with_preset
from ulc.training.run import run
from ulc.training.loop import TrainingProgress

class Stop(TrainingProgress):
    def on_step(self, epoch, seen):
        raise SystemExit

with tempfile.TemporaryDirectory() as folder:
    run(with_preset(RunSpec()), Path(folder), progress=Stop())
"""


def main(argv: list[str]) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--no-train", action="store_true", help="without the trainings")
    options = parse_options(parser, argv)
    timed = time_in_turns(
        {
            "python alone": python_command("-c", "pass"),
            "import ulc": python_command("-c", "import ulc"),
            "ulc --help": python_command("-m", "ulc", "--help"),
            "import torch": python_command("-c", "import torch"),
            "first step of a training": python_command("-c", FIRST_STEP),
        },
        options.repeats,
    )
    bounds = [check_bound("`ulc --help`: seconds", timed["ulc --help"], "≤", 0.5)]
    if not options.no_train:
        timed |= time_in_turns({"ulc train": train_default}, min(3, options.repeats), warm_up=False)
        bounds.append(
            check_bound(
                "default `ulc train` (four trainings): seconds", timed["ulc train"], "≤", 120.0
            )
        )
    rows = [{"what": name, **each.columns("seconds")} for name, each in timed.items()]
    report_result("start", options, rows, bounds)


def python_command(*arguments: str) -> Callable[[], object]:
    command = [sys.executable, *arguments]
    return lambda: subprocess.run(command, check=True, capture_output=True)


def train_default() -> None:
    with tempfile.TemporaryDirectory() as folder:
        python_command("-m", "ulc", "train", "--out", folder, "--quiet")()


if __name__ == "__main__":
    main(sys.argv[1:])
