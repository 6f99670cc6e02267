"""Images that are read lazily: speed beside raw decoding, and memory of a long list.

    python -m benchmarks lazy_images [--images 1000] [--listed 200000] [--workers 2]

The images are drawn: smooth noise, 300 by 300 pixels, JPEG. Raw decoding: as many processes each
decode their share to 224 pixels and keep nothing; no cache on either side. Both are timed in turns.
The long list names few files many times; cross entropy learns it for one epoch in a process of its
own, at 64 pixels, where all images in memory would take 2.5 GB.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.timing import time_in_turns
from ulc.data.lazy.images import LazyImages
from ulc.data.lazy.reader import JOB, split_rows
from ulc.data.sources.pictures import Picture, decode_pictures

SIZE = (224, 224)


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks lazy_images")
    parser.add_argument("--images", type=int, default=1000, help="files that are decoded")
    parser.add_argument("--listed", type=int, default=200_000, help="rows of the list; 0: none")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)  # in a process of its own
    options = parser.parse_args(argv)
    if options.train:
        train(options.train)
        return
    os.environ |= {"ULC_IMAGE_WORKERS": str(options.workers), "ULC_IMAGE_CACHE_LIMIT": "0"}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        paths = [draw(home / f"{number}.jpg", number) for number in range(options.images)]
        measure_speed(paths, options.workers, options.repeats)
        if options.listed:
            measure_memory(home, options.listed)


def draw(path: Path, number: int, size: int = 300) -> Path:
    """Write an image of smooth noise."""
    small = np.random.default_rng(number).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    image = Image.fromarray(small).resize((size, size), Image.Resampling.BICUBIC)
    image.save(path, quality=90)
    return path


def measure_speed(paths: list[Path], workers: int, repeats: int) -> None:
    """Print images a second of the lazy source and of raw decoding, and their ratio."""
    pictures = [Picture.from_path(path) for path in paths]
    images = LazyImages.of(pictures, SIZE)
    pieces = split_rows(np.random.default_rng(0).permutation(len(paths)), 64)
    with get_context("spawn").Pool(workers) as pool:

        def read_lazily() -> None:
            for _ in images.batches(pieces):
                pass

        raw = {"raw": lambda: decode_raw(pool, pictures), "lazy": read_lazily}
        timed = time_in_turns(raw, repeats)
    ratio = timed["raw"].over(timed["lazy"]).columns("ratio")
    for name, each in timed.items():
        print(f"{name}: {len(paths) / np.median(each.values):.0f} images a second")
    print(f"lazy over raw: {ratio['ratio']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})")


def decode_raw(pool: Pool, pictures: list[Picture]) -> None:
    """Decode all images in the processes of the pool, and keep nothing."""
    parts = [pictures[start : start + JOB] for start in range(0, len(pictures), JOB)]
    for _ in pool.imap_unordered(decode_and_drop, parts):
        pass


def decode_and_drop(pictures: list[Picture]) -> int:
    """Decode images; return their number."""
    return len(decode_pictures(pictures, SIZE)[0])


def measure_memory(home: Path, listed: int) -> None:
    """Print the largest memory of a training on a list of so many images, and of its workers."""
    small = [draw(home / f"small{number}.jpg", number, 64) for number in range(200)]
    rows = [f"{row},{small[row % len(small)]},{row % 7}" for row in range(listed)]
    table = home / "list.csv"
    table.write_text("\n".join(["id,image,label", *rows]))
    cache = {"ULC_IMAGE_CACHE": str(home / "cache"), "ULC_IMAGE_CACHE_LIMIT": "10GB"}
    command = [sys.executable, "-m", "benchmarks", "lazy_images", "--train", str(table)]
    done = subprocess.run(command, env=os.environ | cache, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"{listed} listed images, training and workers: at most {found['most'] / 2**30:.2f} GiB")
    print(f"of them the training: {found['own'] / 2**30:.2f} GiB; {found['seconds']:.0f} s")


def train(table: Path) -> None:
    """Train one epoch on the list, and print the largest memory in bytes as JSON."""
    from ulc.config import DataSpec, RunSpec
    from ulc.training.run import run

    began = time.perf_counter()
    data = DataSpec(source="table", path=str(table), id="id", image="image", lazy=True)
    spec = RunSpec(
        data=data,
        algorithm="ce",
        epochs=1,
        network={"name": "small_cnn", "width": 4},  # type: ignore[arg-type]
    )
    most, over = [0], threading.Event()
    watch = threading.Thread(target=watch_memory, args=(most, over))
    watch.start()
    run(spec, table.parent / "runs")
    over.set()
    watch.join()
    own = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = time.perf_counter() - began
    print(json.dumps({"most": most[0], "own": own, "seconds": seconds}))


def watch_memory(most: list[int], over: threading.Event) -> None:
    """Look every half second at the memory of this process and of its children (Linux)."""
    while not over.wait(0.5):
        children: list[str] = []
        for thread in Path("/proc/self/task").iterdir():  # each thread has started its own worker
            with suppress(OSError):
                children += (thread / "children").read_text().split()
        most[0] = max(most[0], sum(map(resident, {"self", *children})))


def resident(process: str) -> int:
    """Return the bytes of memory of a process; 0 if it has ended."""
    with suppress(OSError):
        return 4096 * int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return 0
