"""Find the photographs that lie in the wrong folder.

Makes a folder `photos` with one folder of pictures per class, moves a tenth of the pictures to a
wrong folder, audits it, and prints the most suspicious labels. For your own photographs keep only
the call of `ulc.audit`. With `pip install 'ulc[embed]'`, leave out `embed="none"`: pretrained
features find more.

    python own_photographs.py
"""

import argparse
from pathlib import Path

import pandas as pd
from PIL import Image

import ulc
from ulc.data.sources.fashion import load

WRONG_FOLDER = {"trouser": "sandal", "sandal": "bag", "bag": "trouser"}


def make_photographs(folder: Path, count: int = 60) -> None:
    """Write `count` pictures per class; the file name says what is in the picture."""
    fashion = load()
    for name, wrong in WRONG_FOLDER.items():
        rows = (fashion.labels == fashion.class_names.index(name)).nonzero()[0]
        for number, row in enumerate(rows[:count]):
            target = folder / (wrong if number % 10 == 0 else name)
            target.mkdir(parents=True, exist_ok=True)
            Image.fromarray(fashion.inputs[row, 0]).save(target / f"{name}-{number}.png")


def main() -> None:
    """Make the data, audit them, print the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, help="default: chosen by the amount of data")
    parser.add_argument("--out", type=Path, default=Path("example_photographs"))
    arguments = parser.parse_args()

    make_photographs(arguments.out / "photos")
    run = ulc.audit(
        arguments.out / "photos", arguments.out / "audits", epochs=arguments.epochs, embed="none"
    )

    table = pd.read_csv(run.path / "labels.csv")  # most suspicious first
    for row in table.head(10).itertuples():
        print(
            f"{Path(row.id).name:16} lies in {row.given_label:8} looks like {row.suggested_label}"
        )
    print(f"{table['is_label_issue'].sum()} of {len(table)} labels look wrong")
    print(f"All labels: {run.path / 'labels.csv'}")
    print(f"Look through them: ulc report {run.path} --open")


if __name__ == "__main__":
    main()
