"""Gaussian mixtures of all classes at once, beside a loop over scikit-learn.

Both have the same start and the same number of iterations, in float64.
"""

import sys
import warnings

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from benchmarks.timing import check_bound, new_parser, parse_options, report_result, time_in_turns
from ulc.blocks.mixture import Components, fit_gaussian_mixtures, start_from_two_means

FLOOR = 5e-4
STEPS = 10
SHAPES = ((10, 5000), (100, 500), (1000, 1000))


def main(argv: list[str]) -> None:
    options = parse_options(new_parser(__doc__), argv)
    rows, bounds = [], []
    for groups, size in SHAPES:
        values, group = draw_losses(groups, size)
        start = start_from_two_means(values, group, groups=groups, floor=FLOOR)
        arrays = values.view(groups, size, 1).numpy()
        found: dict[str, torch.Tensor] = {}

        def ours(values=values, group=group, start=start, groups=groups, found=found) -> None:
            fitted = fit_gaussian_mixtures(
                values, group, groups=groups, start=start, max_steps=STEPS, tolerance=0.0
            )
            found["ours"] = fitted.posterior(values, group)

        def theirs(arrays=arrays, start=start, found=found) -> None:
            found["theirs"] = torch.from_numpy(fit_by_loop(arrays, start))

        timed = time_in_turns({"theirs": theirs, "ours": ours}, options.repeats)
        difference = float((found["ours"] - found["theirs"]).abs().max())
        ratio = timed["theirs"].over(timed["ours"])
        row = {
            "classes": groups,
            "losses_each": size,
            "steps": STEPS,
            "seconds": timed["ours"].median,
            "sklearn_seconds": timed["theirs"].median,
            "largest_difference": difference,
            **ratio.columns("ratio"),
        }
        rows.append(row)
        if (groups, size) == (100, 500):
            title = "100 mixtures of 500 losses: seconds of scikit-learn ÷ ours"
            bounds.append(check_bound(title, ratio, "≥", 20.0))
        if groups == 1000:
            title = "1,000 mixtures of 1,000 losses: seconds"
            bounds.append(check_bound(title, timed["ours"], "≤", 2.0))
    report_result("mixture", options, rows, bounds)


def draw_losses(groups: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw losses in [0, 1] of right and wrong labels, ordered by class."""
    rng = np.random.default_rng(0)
    wrong = rng.random((groups, size)) < 0.4
    drawn = np.where(wrong, rng.normal(0.7, 0.12, wrong.shape), rng.normal(0.2, 0.1, wrong.shape))
    values = torch.from_numpy(drawn.clip(0, 1)).flatten()
    return values, torch.arange(groups).repeat_interleave(size)


def fit_by_loop(arrays: np.ndarray, start: Components) -> np.ndarray:
    """Return posteriors of the component with the smaller mean, fitted class by class."""
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
