"""Mixtures for all classes at once against a loop over scikit-learn.

Same start, same number of iterations, float64.
"""

import sys
import warnings

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from benchmarks.timing import arguments, begin, claim, finish, interleaved
from ulc.blocks.mixture import Components, fit_gaussian_mixtures, start_from_two_means

FLOOR = 5e-4
STEPS = 10
SHAPES = ((10, 5000), (100, 500), (1000, 1000))


def main(argv: list[str]) -> None:
    options = begin(arguments(__doc__), argv)
    rows, claims = [], []
    for groups, size in SHAPES:
        values, group = losses(groups, size)
        start = start_from_two_means(values, group, groups=groups, floor=FLOOR)
        arrays = values.view(groups, size, 1).numpy()
        found: dict[str, torch.Tensor] = {}

        def ours(values=values, group=group, start=start, groups=groups, found=found) -> None:
            fitted = fit_gaussian_mixtures(
                values, group, groups=groups, start=start, max_steps=STEPS, tolerance=0.0
            )
            found["ours"] = fitted.posterior(values, group)

        def theirs(arrays=arrays, start=start, found=found) -> None:
            found["theirs"] = torch.from_numpy(by_loop(arrays, start))

        timed = interleaved({"theirs": theirs, "ours": ours}, options.repeats)
        difference = float((found["ours"] - found["theirs"]).abs().max())
        row = {
            "classes": groups,
            "losses_each": size,
            "steps": STEPS,
            "seconds": timed["ours"].median,
            "sklearn_seconds": timed["theirs"].median,
            "largest_difference": difference,
            **timed["theirs"].over(timed["ours"]),
        }
        rows.append(row)
        if (groups, size) == (100, 500):
            claims.append(claim("100 × 500: times faster", row["ratio"], "≥", 20.0))
            claims.append(claim("100 × 500: difference in posterior", difference, "≤", 1e-6))
        if groups == 1000:
            claims.append(claim("1,000 × 1,000: seconds", row["seconds"], "≤", 2.0))
    finish("mixture", options, rows, claims)


def losses(groups: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses in [0, 1] of clean and of wrong labels, ordered by class."""
    rng = np.random.default_rng(0)
    wrong = rng.random((groups, size)) < 0.4
    drawn = np.where(wrong, rng.normal(0.7, 0.12, wrong.shape), rng.normal(0.2, 0.1, wrong.shape))
    values = torch.from_numpy(drawn.clip(0, 1)).flatten()
    return values, torch.arange(groups).repeat_interleave(size)


def by_loop(arrays: np.ndarray, start: Components) -> np.ndarray:
    """Posterior of the component with the smaller mean, class after class."""
    parts = []
    for each, weights, means, variances in zip(
        arrays, start.weights.numpy(), start.means.numpy(), start.variances.numpy(), strict=True
    ):
        mixture = GaussianMixture(
            2,
            max_iter=STEPS,
            tol=0.0,
            reg_covar=FLOOR,
            weights_init=weights,
            means_init=means[:, None],
            precisions_init=1 / variances[:, None, None],
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the steps are limited on purpose
            mixture.fit(each)
        clean = mixture.means_[:, 0].argmin()
        parts.append(mixture.predict_proba(each)[:, clean])
    return np.concatenate(parts)


if __name__ == "__main__":
    main(sys.argv[1:])
