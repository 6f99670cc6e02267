"""Weak and strong views per second against PIL for each sample and kornia in batches.

Strong views: RandAugment and cutout here; with PIL two random operations of Pillow's and a grey
square; kornia's own RandAugment and RandomErasing. The operations are alike, not the same.
"""

import sys

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps

from benchmarks.slices import Case, load
from benchmarks.timing import add_data, arguments, begin, finish, interleaved

OPERATIONS = (
    ImageOps.autocontrast,
    ImageOps.equalize,
    lambda image: ImageOps.posterize(image, 5),
    lambda image: ImageOps.solarize(image, 128),
    lambda image: image.rotate(15),
    lambda image: ImageEnhance.Color(image).enhance(0.5),
    lambda image: ImageEnhance.Contrast(image).enhance(0.5),
    lambda image: ImageEnhance.Brightness(image).enhance(0.5),
    lambda image: ImageEnhance.Sharpness(image).enhance(0.5),
    lambda image: image.transform(image.size, Image.Transform.AFFINE, (1, 0.2, 0, 0, 1, 0)),
)


def main(argv: list[str]) -> None:
    parser = arguments(__doc__)
    add_data(parser)
    parser.add_argument("--images", type=int, default=1024)
    options = begin(parser, argv)
    data = load(Case("", "small_cnn", "cifar10", options.images, 64), options)
    batches = data.stored.split(64)
    pictures = [each.permute(1, 2, 0).numpy() for each in data.stored]
    rng = np.random.default_rng(0)
    ready = data.preprocessing.ready
    mean, std = np.float32(data.preprocessing.mean), np.float32(data.preprocessing.std)
    weak_kornia, strong_kornia = kornia_views()
    pieces = {
        "weak": {
            "ours": lambda: [ready(data.augment(each)) for each in batches],
            "PIL": lambda: [normal(weak_pil(each, rng), mean, std) for each in pictures],
            "kornia": lambda: [ready(255 * weak_kornia(each / 255)) for each in batches],
        },
        "strong": {
            "ours": lambda: [ready(data.strong(each)) for each in batches],
            "PIL": lambda: [normal(strong_pil(each, rng), mean, std) for each in pictures],
            "kornia": lambda: [ready(255 * strong_kornia(each / 255)) for each in batches],
        },
    }
    rows = []
    for view, each in pieces.items():
        timed = interleaved(each, options.repeats)
        rows += [
            {
                "view": view,
                "with": name,
                "views_per_second": options.images / timed[name].median,
                **timed[name].over(timed["ours"]),
            }
            for name in each
        ]
    finish("augment", options, rows)


def weak_pil(picture: np.ndarray, rng: np.random.Generator) -> Image.Image:
    """Pad by four, crop, flip."""
    image = Image.fromarray(picture)
    left, top = rng.integers(0, 9, 2).tolist()
    image = ImageOps.expand(image, 4).crop((left, top, left + image.width, top + image.height))
    return ImageOps.mirror(image) if rng.random() < 0.5 else image


def strong_pil(picture: np.ndarray, rng: np.random.Generator) -> Image.Image:
    """The weak view, two operations, a grey square."""
    image = weak_pil(picture, rng)
    for chosen in rng.integers(0, len(OPERATIONS), 2):
        image = OPERATIONS[chosen](image)
    half = image.width // 2
    left, top = (rng.integers(0, image.width, 2) - half // 2).tolist()
    image.paste((127, 127, 127), (left, top, left + half, top + half))
    return image


def normal(image: Image.Image, mean: np.ndarray, std: np.ndarray) -> torch.Tensor:
    """(C, H, W) floats as the network takes them."""
    pixels = (np.asarray(image, dtype=np.float32) / 255 - mean) / std
    return torch.from_numpy(pixels.transpose(2, 0, 1))


def kornia_views() -> tuple[torch.nn.Module, torch.nn.Module]:
    import kornia.augmentation as K

    weak = torch.nn.Sequential(K.RandomCrop((32, 32), padding=4), K.RandomHorizontalFlip())
    strong = torch.nn.Sequential(
        weak, K.auto.RandAugment(n=2, m=10), K.RandomErasing(scale=(0.25, 0.25), p=1.0)
    )
    return weak, strong


if __name__ == "__main__":
    main(sys.argv[1:])
