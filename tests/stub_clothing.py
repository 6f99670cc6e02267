"""A small stand-in for Clothing1M: real JPEGs in exactly its layout, with all its lists."""

from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = 14
SIZES = {"noisy_train": 168, "clean_val": 42, "clean_test": 42, "clean_train": 14}


def clothing1m(root, size=(20, 26), sizes=SIZES):
    """Write the tree below `root`; return it. Every fourth noisy label is wrong."""
    rng = np.random.default_rng(0)
    root = Path(root)
    colours = rng.integers(30, 225, (CLASSES, 3))
    labels = {"noisy": [], "clean": []}
    for split, count in sizes.items():
        keys = []
        for number in range(count):
            true = number % CLASSES
            key = f"images/{number % 3}/{number % 7:02}/{split}{number},1.jpg"
            pixels = np.clip(colours[true] + rng.normal(0, 25, (*size, 3)), 0, 255)
            (root / key).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(root / key)
            given = (true + 1) % CLASSES if split == "noisy_train" and number % 4 == 3 else true
            labels[split.partition("_")[0]].append(f"{key} {given}")
            keys.append(key)
        (root / f"{split}_key_list.txt").write_text("\n".join(keys) + "\n")
    for kind, lines in labels.items():
        (root / f"{kind}_label_kv.txt").write_text("\n".join(lines) + "\n")
    return root
