"""Principal components of pooled features, with one common scale."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from ulc.errors import InputError

COMPONENTS = 256
ROWS = 8192  # rows projected at a time, in double precision


@dataclass(frozen=True)
class Projection:
    """Affine map of (N, D) features to (N, P): (x − mean) · directions / scale.

    mean: (D,) mean of the training rows
    directions: (D, P) orthonormal columns; None: the identity, so P = D
    explained: share of the variance of the training rows that the directions keep
    """

    mean: NDArray[np.float64]
    scale: float
    directions: NDArray[np.float64] | None = None
    explained: float = 1.0

    def __call__(self, features: NDArray[np.float32]) -> NDArray[np.float16]:
        """Project (N, D) features and round to half precision."""
        return np.concatenate(
            [self.exact(features[i : i + ROWS]) for i in range(0, len(features), ROWS)]
        ).astype(np.float16)

    def exact(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Project (N, D) features without rounding."""
        centred = features.astype(np.float64) - self.mean
        turned = centred if self.directions is None else centred @ self.directions
        return turned / self.scale


def fit_projection(features: NDArray[np.float32], components: int | None = None) -> Projection:
    """Fit the projection to (N, D) features of training rows; the result has mean square 1.

    components: number of principal components; 0: no PCA; None: 256 if there are more than 256
        features and more than 256 rows, else no PCA
    """
    rows, width = features.shape
    most = min(rows - 1, width)
    if components is None:
        components = COMPONENTS if width > COMPONENTS and most >= COMPONENTS else 0
    if components > most:
        raise InputError(
            f"--pca {components}: {rows} training images with {width} features each have at most "
            f"{most} principal components; give fewer, or 0 for none"
        )
    exact = features.astype(np.float64)
    if components == 0:
        mean = exact.mean(axis=0)
        return Projection(mean, positive_or_one(np.sqrt(np.mean((exact - mean) ** 2))))
    # scikit-learn fixes the signs: the largest loading of every component is positive.
    with np.errstate(invalid="ignore"):  # constant features have the explained ratio 0 / 0
        fitted = PCA(components, svd_solver="covariance_eigh").fit(exact)
    scale = positive_or_one(np.sqrt(fitted.explained_variance_.mean() * (rows - 1) / rows))
    share = float(np.nan_to_num(fitted.explained_variance_ratio_).sum())
    return Projection(fitted.mean_, scale, fitted.components_.T, share)


def positive_or_one(scale: float) -> float:
    """Return the scale, but 1 for the scale 0 of constant features."""
    return float(scale) if scale > 0 else 1.0
