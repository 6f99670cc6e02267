"""Weak and strong views per second, beside PIL (one image at a time) and kornia (batches).

Strong views: ours are RandAugment and cutout; PIL's are two random operations and a grey square;
kornia's are RandAugment and RandomErasing. The operations are similar, not the same.
"""

import sys

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps

from benchmarks.slices import Case, load_case
from benchmarks.timing import (
    add_data_options,
    new_parser,
    parse_options,
    report_result,
    time_in_turns,
)

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
    parser = new_parser(__doc__)
    add_data_options(parser)
    parser.add_argument("--images", type=int, default=1024)
    options = parse_options(parser, argv)
    data = load_case(Case("", "small_cnn", "cifar10", options.images, 64), options)
    batches = data.stored.split(64)
    pictures = [each.permute(1, 2, 0).numpy() for each in data.stored]
    rng = np.random.default_rng(0)
    ready = data.preprocessing.ready
    mean, std = np.float32(data.preprocessing.mean), np.float32(data.preprocessing.std)
    weak_kornia, strong_kornia = kornia_views()
    pieces = {
        "weak": {
            "ours": lambda: [ready(data.augment(each)) for each in batches],
            "PIL": lambda: [normalise(weak_pil(each, rng), mean, std) for each in pictures],
            "kornia": lambda: [ready(255 * weak_kornia(each / 255)) for each in batches],
        },
        "strong": {
            "ours": lambda: [ready(data.strong(each)) for each in batches],
            "PIL": lambda: [normalise(strong_pil(each, rng), mean, std) for each in pictures],
            "kornia": lambda: [ready(255 * strong_kornia(each / 255)) for each in batches],
        },
    }
    rows = []
    for view, each in pieces.items():
        timed = time_in_turns(each, options.repeats)
        rows += [
            {
                "view": view,
                "with": name,
                "views_per_second": options.images / timed[name].median,
                **timed[name].over(timed["ours"]).columns("ratio"),
            }
            for name in each
        ]
    report_result("augment", options, rows)


def weak_pil(picture: np.ndarray, rng: np.random.Generator) -> Image.Image:
    """Pad by four pixels, crop, flip."""
    image = Image.fromarray(picture)
    left, top = rng.integers(0, 9, 2).tolist()
    image = ImageOps.expand(image, 4).crop((left, top, left + image.width, top + image.height))
    return ImageOps.mirror(image) if rng.random() < 0.5 else image


def strong_pil(picture: np.ndarray, rng: np.random.Generator) -> Image.Image:
    """Make a weak view, apply two operations, paste a grey square."""
    image = weak_pil(picture, rng)
    for chosen in rng.integers(0, len(OPERATIONS), 2):
        image = OPERATIONS[chosen](image)
    half = image.width // 2
    left, top = (rng.integers(0, image.width, 2) - half // 2).tolist()
    image.paste((127, 127, 127), (left, top, left + half, top + half))
    return image


def normalise(image: Image.Image, mean: np.ndarray, std: np.ndarray) -> torch.Tensor:
    """Return the (C, H, W) floats that the network takes."""
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
