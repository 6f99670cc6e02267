"""Array types that many modules name."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]
