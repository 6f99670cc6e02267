"""How long until something happens: `ulc --help`, `import ulc`, the first step of `ulc train`.

And the default `ulc train`, three trainings, a few times.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable

from benchmarks.timing import arguments, begin, claim, finish, interleaved

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
    parser = arguments(__doc__)
    parser.add_argument("--no-train", action="store_true", help="without the three trainings")
    options = begin(parser, argv)
    timed = interleaved(
        {
            "python alone": python("-c", "pass"),
            "import ulc": python("-c", "import ulc"),
            "ulc --help": python("-m", "ulc", "--help"),
            "import torch": python("-c", "import torch"),
            "first step of a training": python("-c", FIRST_STEP),
        },
        options.repeats,
    )
    claims = [claim("`ulc --help`, seconds", timed["ulc --help"].median, "≤", 0.5)]
    if not options.no_train:
        timed |= interleaved({"ulc train": demonstration}, min(3, options.repeats), warm_up=False)
        claims.append(claim("default `ulc train`, seconds", timed["ulc train"].median, "≤", 120.0))
    rows = [
        {"what": name, "seconds": each.median, "low": min(each.seconds), "high": max(each.seconds)}
        for name, each in timed.items()
    ]
    finish("start", options, rows, claims)


def python(*arguments: str) -> Callable[[], object]:
    command = [sys.executable, *arguments]
    return lambda: subprocess.run(command, check=True, capture_output=True)


def demonstration() -> None:
    with tempfile.TemporaryDirectory() as folder:
        python("-m", "ulc", "train", "--out", folder, "--quiet")()


if __name__ == "__main__":
    main(sys.argv[1:])
