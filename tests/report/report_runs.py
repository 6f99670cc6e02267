"""Finished run folders without a training: the files that a report reads."""

from importlib.metadata import version

import numpy as np
import pandas as pd
from PIL import Image

from ulc.config import DataSpec, RunSpec
from ulc.data.table_encoding import TableEncoding
from ulc.labels.confusion import ConfusionModel
from ulc.labels.health import health
from ulc.labels.judgement import Judgement
from ulc.labels.table import as_csv, label_columns
from ulc.storage.run_folder import RunFolder

NASTY = "<script>alert(1)</script>"


def toy_judgement(rows, classes, *, wrong=0.3, seed=0, measured=True):
    """Confident predictions that contradict a share of the given labels."""
    rng = np.random.default_rng(seed)
    true = np.arange(rows) % classes
    shifted = (true + rng.integers(1, classes, rows)) % classes
    given = np.where(rng.random(rows) < wrong, shifted, true)
    logits = rng.normal(0, 1, (rows, classes))
    logits[np.arange(rows), true] += 5
    prediction = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    clean = np.where(given == true, 0.97, 0.03) + rng.uniform(-0.03, 0.03, rows)
    epistemic = -(prediction * np.log(prediction)).sum(1) / np.log(classes)
    none = np.full(rows, np.nan)
    return Judgement(
        given=given.astype(np.int64),
        clean_probability=clean.astype(np.float32),
        prediction=prediction.astype(np.float32),
        epistemic=(epistemic if measured else none).astype(np.float32),
        aleatoric=(rng.uniform(0.1, 0.9, rows) if measured else none).astype(np.float32),
    )


def toy_posterior(judgement):
    """A confusion model fitted to a judgement, and the judgement under its posterior."""
    confusion = ConfusionModel.fit(judgement.prediction, judgement.given)
    posterior = confusion.posterior(judgement.prediction, judgement.given)
    return confusion, judgement.with_posterior(posterior)


def toy_records(epochs=4):
    return [
        {
            "epoch": epoch,
            "train": {"trusted_loss": 1 / (epoch + 1), "trusted": 0.7, "fallback_classes": 0.0},
            "test": {"balanced": {"accuracy": 0.5 + epoch / 10}},
        }
        for epoch in range(epochs)
    ]


def write_run(
    path,
    judgement,
    class_names,
    *,
    data=None,
    ids=None,
    spec=None,
    records=None,
    facts=None,
    confusion=None,
):
    """All files that a report reads."""
    spec = spec or RunSpec(data=data or DataSpec(), epochs=4)
    folder = RunFolder.create(path, spec)
    sizes = np.bincount(judgement.given, minlength=len(class_names))
    content = {
        "examples": len(judgement.given),
        "class_names": list(class_names),
        "given_sizes": sizes.tolist(),
        "small_classes": np.flatnonzero(sizes < sizes.mean() / 1.5).tolist(),
    }
    folder.write_json("data.json", content | (facts or {}))
    if ids is not None:
        folder.write_json("ids.json", list(ids))
    folder.write_json("environment.json", {"packages": {"ulc": version("ulc")}})
    folder.write_arrays("judgement.npz", judgement.stored())
    if confusion is not None:
        folder.write_json("confusion.json", confusion.model_dump(mode="json"))
    folder.write_records(toy_records() if records is None else records)
    folder.write("labels.csv", as_csv(label_columns(judgement, class_names, 0.5, ids)))
    folder.write_json("summary.json", {"epochs": 4, "last_epochs": 1})
    folder.finish()
    return folder


def flower_table(path, rows=90, seed=0, posterior=False):
    """A table with an id column, and its run: three classes, one with a name that is a script."""
    rng = np.random.default_rng(seed)
    judgement, confusion = toy_judgement(rows, 3, seed=seed), None
    if posterior:
        confusion, judgement = toy_posterior(judgement)
    names = ("iris", "rose, wild", NASTY)
    ids = [f"flower-{row:03}" for row in range(rows)]
    lines = ["id,label,petal,sepal,note"]
    for row in range(rows):
        label = names[judgement.given[row]]
        label = f'"{label}"' if "," in label else label
        note = "<b>bold</b>" if row % 7 == 0 else "plain"
        lines.append(f"{ids[row]},{label},{rng.normal():.2f},{rng.normal():.2f},{note}")
    path.mkdir(parents=True, exist_ok=True)
    (path / "flowers.csv").write_text("\n".join(lines) + "\n")
    data = DataSpec(source="table", path=str(path / "flowers.csv"))
    folder = write_run(path / "run", judgement, names, data=data, ids=ids, confusion=confusion)
    features = pd.read_csv(path / "flowers.csv")[["petal", "sepal", "note"]]
    encoding = TableEncoding.fit(features, "flowers.csv")
    folder.write_json("encoding.json", encoding.model_dump(mode="json"))
    return folder


def photo_folder(path, rows=60, seed=0):
    """A folder of photographs, each in the colour of its true class, and its run."""
    judgement = toy_judgement(rows, 3, seed=seed)
    names, ids = ("cat", "dog", "fox"), []
    for row in range(rows):
        file = path / "photos" / names[judgement.given[row]] / f"{row:03}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        colour = [40 + row, 0, 0]
        colour[1 + row % 2] = 80 * (row % 3)
        Image.new("RGB", (400, 300), tuple(colour)).save(file)
        ids.append(str(file))
    data = DataSpec(source="folder", path=str(path / "photos"))
    return write_run(path / "run", judgement, names, data=data, ids=ids)


def audit_content(**trainings):
    """What audit.json holds, with these changes of the trainings `plain` and `ulc_plus`."""
    training = {"run": "gone", "held_out_agreement": 0.5, "kept_epoch": 1, "warnings": []}
    return {
        "data": {"source": "fashion", "path": None},
        "noise_rate": 0.1,
        "noise_interval": [0.05, 0.15],
        "handed_over": "ce",
        "why": "the plain model",
        **{name: training | trainings.get(name, {}) for name in ("plain", "ulc_plus")},
    }


def complete_health(folder):
    """The health.json of the run's own judgement."""
    return health(folder.judgement, folder.read_json("data.json")["class_names"], 0.5)


def with_health(folder):
    """The run with a health.json that names its first rows."""
    ids = folder.ids
    folder.write_json(
        "health.json",
        complete_health(folder)
        | {
            "outliers": {
                "rows": 7,
                "listed": [{"id": ids[0], "label": "<b>", "distance": 4.5}],
            },
            "near_duplicates": {
                "pairs": 9,
                "listed": [{"ids": ids[1:3], "labels": ["x", "y"], "distance": 0.01}],
            },
            "duplicates": {
                "groups": 3,
                "rows": 6,
                "conflicts": 3,
                "conflicting": [{"ids": ids[3:5], "labels": ["x", "y"], "size": 2}],
            },
            "near_pictures": {
                "groups": 5,
                "rows": 40,
                "conflicts": 1,
                "listed": [
                    {"ids": ids[5:7], "labels": ["x", "y"], "size": 2},
                    {"ids": ids[7:27], "labels": ["x"] * 20, "size": 30},
                ],
            },
        },
    )
    return folder
