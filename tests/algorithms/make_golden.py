"""Golden values: what every algorithm records over three epochs on the toys.

They change only on purpose, with a line in the changelog: `python tests/algorithms/make_golden.py`.
"""

import json
from pathlib import Path

import torch

from ulc.algorithms import ALGORITHMS
from ulc.testing import KINDS, Case, toy_data

PATH = Path(__file__).with_name("golden.json")
EPOCHS = 3


def recorded(name, kind):
    """Records of each epoch."""
    _, records = Case(ALGORITHMS[name], kind).trained(toy_data(kind), EPOCHS)
    return records


def main():
    """Write them all."""
    torch.set_num_threads(1)
    golden = {name: {kind: recorded(name, kind) for kind in KINDS} for name in ALGORITHMS}
    PATH.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
