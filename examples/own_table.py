"""Find and correct wrong labels of a table, then predict new rows.

Writes a CSV file of wines with a text column, missing values and a tenth of wrong labels. Audits
it, writes a copy in which the surest suggestions are accepted, and predicts rows without labels.

    python own_table.py
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_wine

import ulc
from ulc.config import DataSpec


def make_table(path: Path) -> "pd.Series[str]":
    """Write the table; return the true labels."""
    rng = np.random.default_rng(0)
    wine = load_wine(as_frame=True)
    table = wine.data[["alcohol", "flavanoids", "color_intensity", "hue", "proline"]].round(2)
    table["shade"] = np.where(table.pop("hue") > 1, "light", "dark")
    table.loc[rng.random(len(table)) < 0.05, "proline"] = np.nan
    growers = np.array(["Barolo", "Grignolino", "Barbera"])
    wrong = np.isin(np.arange(len(table)), rng.choice(len(table), 18, replace=False))
    table["grower"] = growers[(wine.target + wrong) % 3]
    table.to_csv(path, index=False)
    return pd.Series(growers[wine.target])


def main() -> None:
    """Make the data, audit them, correct them, predict."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, help="default: chosen by the amount of data")
    parser.add_argument("--out", type=Path, default=Path("example_table"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path, corrected_path = arguments.out / "wine.csv", arguments.out / "wine.corrected.csv"

    true = make_table(path)
    data = DataSpec(source="table", path=str(path), label="grower")
    run = ulc.audit(data, arguments.out / "audits", epochs=arguments.epochs)
    ulc.apply_decisions(run, out=corrected_path, accepting=ulc.Accepting(below=0.1))

    given, corrected = pd.read_csv(path), pd.read_csv(corrected_path)
    print(f"wrong labels before: {(given['grower'] != true).sum()} of {len(true)}")
    print(f"wrong labels after:  {(corrected['grower'] != true).sum()} of {len(true)}")
    predicted = run.predict(given.drop(columns="grower").head(5))
    print(predicted[["predicted_label", "confidence"]].to_string(index=False))


if __name__ == "__main__":
    main()
