"""Write a part of CIFAR-10: the first images of each training batch, and the whole test set.

    python -m benchmarks part_of_cifar10 CIFAR OUT [--images 2500]

Both folders have the binary layout. The setting `images-narrow-quarter-1to10-50` of the grid learns
from the 12,500 training images that this leaves by default.
"""

import argparse
import sys
from pathlib import Path

from ulc.data.sources.cifar import PIXELS
from ulc.errors import InputError
from ulc.storage.files import write_whole
from ulc.storage.memory import read_file

LAYOUT = "cifar-10-batches-bin"


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cifar", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--images", type=int, default=2500, help="of each training batch (2500)")
    options = parser.parse_args(argv)
    try:
        write_part(options.cifar / LAYOUT, options.out / LAYOUT, options.images)
    except (InputError, OSError) as error:
        sys.exit(str(error))


def write_part(cifar: Path, out: Path, images: int) -> None:
    """Write the first images of each training batch, and the test set."""
    if images < 1:
        raise InputError(f"--images {images}: give a number above 0")
    out.mkdir(parents=True, exist_ok=True)
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)]:
        write_whole(out / name, read_file(cifar / name)[: images * (1 + PIXELS)])
    write_whole(out / "test_batch.bin", read_file(cifar / "test_batch.bin"))
