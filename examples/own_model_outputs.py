"""Find wrong labels from the outputs of a model of your own.

`ulc.find_label_issues` needs only the labels and the probabilities that any model gives for rows
it did not learn from. Here a scikit-learn model predicts each row out of fold.

    python own_model_outputs.py
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ulc


def main() -> None:
    """Predict out of fold, judge the labels, print the most suspicious ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1797)
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    X, true = load_digits(return_X_y=True)
    X, true = X[: arguments.rows], true[: arguments.rows]
    wrong = rng.random(len(true)) < 0.1
    y = np.where(wrong, (true + rng.integers(1, 10, len(true))) % 10, true)

    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01))
    probability = cross_val_predict(model, X, y, method="predict_proba")
    issues = ulc.find_label_issues(y, pred_probs=probability)

    found = issues["is_label_issue"].to_numpy()
    worst = issues[found].sort_values("label_score").head(5)
    print(worst[["label_score", "given_label", "suggested_label"]].round(3))
    print(f"wrong labels found: {(found & wrong).sum()} of {wrong.sum()}")
    print(f"right labels doubted: {(found & ~wrong).sum()} of {(~wrong).sum()}")


if __name__ == "__main__":
    main()
