"""Principal components of pooled features, with one common scale."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from ulc.errors import InputError

COMPONENTS = 256
ROWS = 8192  # rows at a time in double precision
MANY = 200_000_000  # features (N · D) from which on no copy in double precision is made


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
            [
                self.exact(features[start : start + ROWS]).astype(np.float16)
                for start in range(0, len(features), ROWS)
            ]
        )

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
    if features.size >= MANY:
        return fit_in_pieces(features, components)
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


def fit_in_pieces(features: NDArray[np.float32], components: int) -> Projection:
    """Fit the same projection as `fit_projection` up to rounding, with little memory.

    Only `ROWS` rows are in double precision at a time.

    components: number of principal components; 0: no PCA
    """
    rows, width = features.shape
    starts = range(0, rows, ROWS)
    total = sum(features[start : start + ROWS].sum(0, dtype=np.float64) for start in starts)
    mean = np.asarray(total) / rows
    scatter = np.zeros((width, width))
    for start in starts:
        centred = features[start : start + ROWS] - mean
        scatter += centred.T @ centred
    if components == 0:
        return Projection(mean, positive_or_one(np.sqrt(np.trace(scatter) / (rows * width))))
    values, vectors = np.linalg.eigh(scatter)  # in ascending order
    values = np.maximum(values[::-1], 0)
    directions = vectors[:, ::-1][:, :components]
    largest = np.abs(directions).argmax(0)
    directions = directions * np.sign(directions[largest, np.arange(components)])
    kept = values[:components]
    share = float(kept.sum() / values.sum()) if values.sum() else 0.0
    return Projection(mean, positive_or_one(np.sqrt(kept.mean() / rows)), directions, share)


def positive_or_one(scale: float) -> float:
    """Return the scale, but 1 for the scale 0 of constant features."""
    return float(scale) if scale > 0 else 1.0
