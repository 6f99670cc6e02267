"""Types that many modules name."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

CountCallback = Callable[[int, int], None]  # called with how many of how many are done
Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]
