"""Use ULC as a scikit-learn estimator: in a pipeline, in cross-validation, in a grid search.

A fifth of the labels of scikit-learn's digits is made wrong. A grid search chooses an option by
cross-validation on the given labels; the best pipeline then lists the labels that it doubts.

    python estimator_pipeline.py
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ulc


def main() -> None:
    """Search, fit, list the doubtful labels."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rows", type=int, default=600)
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    X, true = load_digits(return_X_y=True)
    X, true = X[: arguments.rows], true[: arguments.rows]
    wrong = rng.random(len(true)) < 0.2
    y = np.where(wrong, (true + rng.integers(1, 10, len(true))) % 10, true)

    pipeline = make_pipeline(
        StandardScaler(), ulc.ULCClassifier(epochs=arguments.epochs, random_state=0)
    )
    search = GridSearchCV(
        pipeline, {"ulcclassifier__options__sgd__lr": [0.02, 0.05]}, cv=StratifiedKFold(3)
    ).fit(X, y)
    print("best options:", search.best_params_)
    print(f"accuracy on given labels, out of fold: {search.best_score_:.2f}")
    print(f"accuracy on true labels: {(search.predict(X) == true).mean():.2f}")

    issues = search.best_estimator_[-1].find_label_issues()  # a pandas frame in the order of X
    found = issues["is_label_issue"].to_numpy()
    print(f"wrong labels found: {(found & wrong).sum()} of {wrong.sum()}")
    print(f"right labels doubted: {(found & ~wrong).sum()} of {(~wrong).sum()}")
    worst = issues[found].sort_values("label_score").head(3)
    print(worst[["label_score", "given_label", "suggested_label"]])


if __name__ == "__main__":
    main()
