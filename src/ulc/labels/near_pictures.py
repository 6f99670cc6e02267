"""Pictures that are almost the same, found by a perceptual hash, without a network.

The hash is a difference hash (dHash) of 64 bits: whether each cell of a grey 9 × 8 thumbnail is
darker than its right neighbour. Pairs of close hashes are confirmed by their thumbnails in colour,
because smooth pictures often have close hashes by chance.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ulc.labels.duplicates import Copies, find_copies
from ulc.typing import Floats, Integers

BITS = 64
CLOSE = 4  # bits in which the hashes of almost equal pictures may differ
BANDS = CLOSE + 1  # two such hashes agree in at least one of so many bands of bits
EDGE = 16  # height and width of the thumbnails that confirm a pair
ALIKE = 0.98  # correlation of two such thumbnails, at least
BLOCK = 1024  # pairs at a time
PIECE = 256  # images that are read at a time
TABLE = 1_000_000  # pairs of hashes at a time
MOST_COMPARED = 1_000_000_000  # pairs of hashes: some seconds
MOST_CONFIRMED = 3_000_000  # pairs of thumbnails: some seconds
LISTED = 100  # groups that are written
LISTED_ROWS = 20  # rows of a group that are written

Images = NDArray[np.uint8]


class ImageRows(Protocol):
    """(N, C, H, W) images: an array, or something whose selected rows become an array when read."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: Any, /) -> Any: ...


@dataclass(frozen=True)
class NearPictures:
    """Groups of almost equal pictures; of exact copies, only the first one is in a group.

    groups: the rows of each group
    checked: number of pictures that were compared
    complete: False if the search ended early because too many hashes are close to one another
    """

    groups: Copies
    checked: int
    complete: bool


def find_near_pictures(images: ImageRows, digests: NDArray[np.uint8] | None = None) -> NearPictures:
    """Group (N, C, H, W) images that are almost equal.

    Two images are in one group if a chain of almost equal pairs connects them.

    digests: (N, D), equal where images are; None: the images themselves are compared
    """
    copies = find_copies(np.asarray(images) if digests is None else digests)
    rows = np.delete(np.arange(len(images)), np.delete(copies.rows, copies.starts))
    hashes = hash_pictures(images, rows)
    # The hash 0 says nothing: most of its pictures have one colour.
    rows, hashes = rows[hashes != 0], hashes[hashes != 0]
    close: list[Integers] = [np.empty((0, 2), np.int64)]
    seen, complete = 0, True
    for pairs in close_pairs(hashes):
        seen += 0 if pairs is None else len(pairs)
        if pairs is None or seen > MOST_CONFIRMED:
            complete = False
            break
        close.append(pairs)
    found = rows[np.concatenate(close)]
    alike = found[correlation(images, found) >= ALIKE]
    return NearPictures(connect(alike, len(images)), len(rows), complete)


def read_images(images: ImageRows, rows: Integers) -> Iterator[Images]:
    """Yield the (C, H, W) images at these positions, one by one; they are read in pieces."""
    for start in range(0, len(rows), PIECE):
        yield from np.asarray(images[rows[start : start + PIECE]])


def hash_pictures(images: ImageRows, rows: Integers) -> NDArray[np.uint64]:
    """(n,) difference hashes of the images at these positions."""
    hashes = np.empty(len(rows), np.uint64)
    for place, image in enumerate(read_images(images, rows)):
        small = np.asarray(as_grey(image).resize((9, 8), Image.Resampling.BOX))
        bits = np.packbits(small[:, 1:] > small[:, :-1])
        hashes[place] = np.frombuffer(bits.tobytes(), ">u8")[0]
    return hashes


def as_grey(image: Images) -> Image.Image:
    """A (C, H, W) image in grey."""
    if len(image) == 3:
        return Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))).convert("L")
    return Image.fromarray(image.mean(0).round().astype(np.uint8))


def close_pairs(hashes: NDArray[np.uint64]) -> Iterator[Integers | None]:
    """Yield (P, 2) pairs of places whose hashes differ in at most CLOSE bits, each pair once.

    Only hashes that agree in a band are compared, block by block, so no table of all pairs is
    made. None at the end: there are too many to compare.
    """
    edges = [BITS * band // BANDS for band in range(BANDS + 1)]
    masks = [np.uint64(((1 << (high - low)) - 1) << low) for low, high in pairwise(edges)]
    compared = 0
    for band, mask in enumerate(masks):
        for bucket in equal_places(hashes & mask):
            size = max(1, TABLE // len(bucket))
            for start in range(0, len(bucket), size):
                part, others = bucket[start : start + size], bucket[start:]
                compared += len(part) * len(others)
                if compared > MOST_COMPARED:
                    yield None
                    return
                apart = hashes[part, None] ^ hashes[others]
                first, second = np.nonzero(np.triu(np.bitwise_count(apart) <= CLOSE, 1))
                apart = apart[first, second]
                # A pair that agrees in an earlier band was found there.
                new = np.all([apart & earlier != 0 for earlier in masks[:band]], axis=0)
                found = np.stack([part[first], others[second]], axis=1)
                yield found[np.broadcast_to(new, len(found))]


def equal_places(keys: NDArray[np.uint64]) -> Iterator[Integers]:
    """Yield the places of each value that occurs more than once."""
    order = np.argsort(keys, kind="stable")
    ends = np.flatnonzero(np.diff(keys[order])) + 1
    yield from (group for group in np.split(order, ends) if len(group) > 1)


def correlation(images: ImageRows, pairs: Integers) -> Floats:
    """(P,) correlation of the thumbnails of (P, 2) pairs of images; 0 if one has one colour only.

    Another brightness or contrast of a picture does not change it.
    """
    rows, places = np.unique(pairs, return_inverse=True)
    thumbnails = np.array([thumbnail(image) for image in read_images(images, rows)])
    places, found = places.reshape(-1, 2), np.zeros(len(pairs))
    for start in range(0, len(pairs), BLOCK):
        block = thumbnails[places[start : start + BLOCK]].astype(np.float32)
        block -= block.mean(2, keepdims=True)
        lengths = np.sqrt((block**2).sum(2)).prod(1)
        products = block.prod(1).sum(1)
        found[start : start + BLOCK] = np.divide(
            products, lengths, out=np.zeros(len(block)), where=lengths > 0
        )
    return found


def thumbnail(image: Images) -> Images:
    """The values of a (C, H, W) image at a size of 16 × 16, one after the other."""
    small = [
        np.asarray(Image.fromarray(channel).resize((EDGE, EDGE), Image.Resampling.BOX))
        for channel in np.ascontiguousarray(image)
    ]
    return np.stack(small).ravel()


def connect(pairs: Integers, count: int) -> Copies:
    """The groups that (P, 2) pairs of `count` rows connect, in the order of their first rows."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), (count, count))
    _, component = connected_components(links, directed=False)
    rows = np.unique(pairs)
    first = np.unique(component[rows], return_index=True, return_inverse=True)
    leaders = rows[first[1]][first[2]]
    order = np.lexsort((rows, leaders))
    starts = np.flatnonzero(np.diff(leaders[order], prepend=-1))
    return Copies(rows[order], starts)


def near_picture_entry(
    found: NearPictures, given: Integers, class_names: Sequence[str], ids: Sequence[str] | None
) -> dict[str, Any]:
    """The entry of almost equal pictures in `health.json`; groups with different labels first."""
    groups = found.groups
    conflict = groups.in_conflict(given)
    order = np.argsort(~conflict, kind="stable")
    listed = []
    for number in order[:LISTED]:
        rows = rarest_first(groups.group(int(number)), given)
        shown = rows[:LISTED_ROWS]
        listed.append(
            {
                "size": len(rows),
                "ids": [int(row) if ids is None else ids[row] for row in shown],
                "labels": [class_names[given[row]] for row in shown],
            }
        )
    return {
        "checked": found.checked,
        "complete": found.complete,
        "groups": len(groups.starts),
        "rows": len(groups.rows),
        "conflicts": int(conflict.sum()),
        "rows_in_conflict": int(groups.sizes[conflict].sum()),
        "listed": listed,
    }


def rarest_first(rows: Integers, given: Integers) -> Integers:
    """The rows of a group, those with the label that is rarest among them first."""
    _, number, counts = np.unique(given[rows], return_inverse=True, return_counts=True)
    return rows[np.lexsort((rows, number, counts[number]))]
