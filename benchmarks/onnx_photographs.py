"""How far an ONNX graph from photographs to labels is from `ulc predict`.

    python -m benchmarks onnx_photographs

The photographs are parts of the two of scikit-learn, with labels drawn at random: a model of such
labels is unsure, so that its probabilities move with every pixel. Embedded by EfficientNet-Lite0.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from PIL import Image
from sklearn.datasets import load_sample_images

import ulc
from ulc.config import DataSpec, RunSpec
from ulc.data.sources import load_source
from ulc.embedding.backbones import load_backbone
from ulc.embedding.embed import Embedder, embed
from ulc.prediction.export import export_onnx
from ulc.prediction.photo_graph import find_photo_input
from ulc.storage.run_folder import RunFolder
from ulc.training.model import Model
from ulc.training.run import run

CLASSES = "abcd"


def main(argv: list[str]) -> None:
    if argv:
        sys.exit("this benchmark has no options")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        rng = np.random.default_rng(0)
        for number, part in enumerate(draw_parts(rng, 300, 70)):
            write(part, home / "png" / CLASSES[rng.integers(4)] / f"{number}.png")
        for number, part in enumerate(draw_parts(rng, 40, 200)):
            size = (4 * part.width, 4 * part.height)
            write(part.resize(size, Image.Resampling.LANCZOS), home / "jpg" / f"{number}.jpg")
        finished = train(home)
        made = export_onnx(Model.load(finished), inputs=find_photo_input(finished))
        graph = onnxruntime.InferenceSession(made.content, providers=["CPUExecutionProvider"])
        print_differences("PNG", graph, finished, home / "png", decode)
        print_differences("JPEG, draft", graph, finished, home / "jpg", decode)
        print_differences("JPEG, in full", graph, finished, home / "jpg", decode_in_full)
        for shape in ((480, 640), (3000, 4000)):
            image = np.zeros((1, *shape, 3), np.uint8)
            graph.run(None, {"inputs": image})  # the first call makes room in memory
            began = time.perf_counter()
            graph.run(None, {"inputs": image})
            print(f"{shape[1]} x {shape[0]} pixels: {time.perf_counter() - began:.2f} s")


def draw_parts(rng: np.random.Generator, count: int, smallest: int) -> Iterator[Image.Image]:
    """Yield rectangles of `smallest` to 400 pixels a side, from both photographs in turn."""
    photographs = load_sample_images().images
    for number in range(count):
        whole = photographs[number % 2]
        height, width = rng.integers(smallest, 400, 2)
        top, left = rng.integers(whole.shape[0] - height + 1), rng.integers(640 - width + 1)
        yield Image.fromarray(whole[top : top + height, left : left + width])


def write(image: Image.Image, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)


def train(home: Path) -> RunFolder:
    source = load_source(DataSpec(source="folder", path=str(home / "png")))
    embedder = Embedder(load_backbone(), home / "cache", torch.device("cpu"))
    embed(source, embedder).write(home / "features.npz")
    data = DataSpec(source="npz", path=str(home / "features.npz"))
    return run(RunSpec(data=data, algorithm="ce", options={"batch_size": 16}, epochs=4), home)


def decode(path: str) -> np.ndarray:
    """Decode as docs/predict.md says."""
    with Image.open(path) as image:
        image.draft(None, (128, 128))
        return np.asarray(image.convert("RGB"))


def decode_in_full(path: str) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def print_differences(
    title: str,
    graph: onnxruntime.InferenceSession,
    finished: RunFolder,
    photographs: Path,
    decode: Callable[[str], np.ndarray],
) -> None:
    table = ulc.load_run(finished.path).predict(str(photographs), probabilities=True)
    wanted = table[[f"probability_{name}" for name in CLASSES]].to_numpy()
    found = [graph.run(None, {"inputs": decode(path)[None]})[0][0] for path in table["id"]]
    largest = np.abs(np.stack(found) - wanted).max(1)
    print(
        f"{title}: {len(table)} images, largest {largest.max():.2g}, "
        f"median {np.median(largest):.2g}, probabilities {wanted.min():.2g} to {wanted.max():.2g}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
