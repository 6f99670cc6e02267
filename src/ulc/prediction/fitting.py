"""Pillow's `ImageOps.fit` with the bicubic filter, as tensor operations for an ONNX graph."""

import PIL
import torch
from torch import Tensor

STEPS = 2.0**22  # Pillow rounds its weights to whole multiples of 1 / STEPS
SUPPORT = 2.0  # reach of the cubic kernel, in pixels
# Both orders are the same filter, but bytes are rounded in between. Pillow 13 resizes the rows
# first if that removes more than twice as many rows as columns; older versions never do.
MAY_START_WITH_ROWS = int(PIL.__version__.split(".")[0]) >= 13


def fit_images(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Scale images until they cover `size` (height, width), and crop the centre.

    images: (B, H, W, 3) uint8; B, H and W may be unknown while a graph is traced
    Return (B, 3, height, width) whole numbers from 0 to 255, as float64: those of the installed
    Pillow.
    """
    height, width = size
    rows = torch.arange(images.shape[1], dtype=torch.float64, device=images.device)
    columns = torch.arange(images.shape[2], dtype=torch.float64, device=images.device)
    # Tensors, not numbers: a graph must compute them for images of every size.
    tall, wide = rows[-1] + 1, columns[-1] + 1
    ratio = width / height
    crop_width = torch.where(wide / tall > ratio, ratio * tall, wide)
    crop_height = torch.where(wide / tall < ratio, wide / ratio, tall)
    across = resampling_weights(columns, crop_width, width)
    down = resampling_weights(rows, crop_height, height)
    pixels = images.permute(0, 3, 1, 2).double()
    fitted = to_bytes(down @ to_bytes(pixels @ across.T))
    if not MAY_START_WITH_ROWS:
        return fitted
    rows_first = to_bytes(to_bytes(down @ pixels) @ across.T)
    starts_with_rows = (tall > height) & (tall - height > 2 * (wide - width))
    return torch.where(starts_with_rows, rows_first, fitted)


def resampling_weights(positions: Tensor, crop: Tensor, out: int) -> Tensor:
    """Return the (out, L) weights, times `STEPS`, by which L pixels become `out` pixels.

    positions: (L,) numbers 0 to L − 1
    crop: length of the part in the middle that is resized
    """
    length = positions[-1] + 1
    left = (length - crop) * 0.5
    # Pillow keeps the borders of the part in single precision.
    start, end = left.float(), (left + crop).float()
    scale = (end - start).double() / out
    spread = scale.clamp(min=1.0)
    centres = torch.arange(out, dtype=torch.float64, device=positions.device) + 0.5
    centres = (start.double() + centres * scale)[:, None]
    first = (centres - SUPPORT * spread + 0.5).floor()
    last = (centres + SUPPORT * spread + 0.5).floor()
    inside = (positions >= first) & (positions < last)
    weights = torch.where(inside, cubic_kernel((positions - centres + 0.5) / spread), 0.0)
    weights = weights / weights.sum(1, keepdim=True)
    return torch.sign(weights) * (weights.abs() * STEPS + 0.5).floor()


def cubic_kernel(distance: Tensor) -> Tensor:
    """Return Keys's cubic convolution kernel (a = −1/2) of distances in pixels."""
    x = distance.abs()
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))


def to_bytes(sums: Tensor) -> Tensor:
    """Divide weighted sums by `STEPS`, and round to whole numbers from 0 to 255."""
    return (sums / STEPS + 0.5).floor().clamp(0.0, 255.0)
