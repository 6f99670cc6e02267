"""Bad inputs as a table: what makes the file, the command that reads it, words of the error.

A maker works in an empty folder. `RUN` in a command is a copy of a finished run, which its maker
has damaged.
"""

import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

DEEP = "[" * 100_000


@dataclass(frozen=True)
class BadInput:
    """make: writes the file; command: reads it; says: words of the one sentence."""

    make: Callable[[], object]
    command: tuple[object, ...]
    says: tuple[str, ...]


def train(data, *more):
    return ("train", data, "-a", "ce", "--epochs", 1, "-q", *more)


def text(name, content):
    return lambda: Path(name).write_text(content, encoding="utf-8", newline="")


def raw(name, content):
    return lambda: Path(name).write_bytes(content)


def arrays(**change):
    content = {"X": np.arange(24.0).reshape(12, 2), "y": np.arange(12) % 2}
    return lambda: np.savez("bad.npz", **(content | change))


def members(**named):
    """An archive of raw members."""

    def make():
        with zipfile.ZipFile("bad.npz", "w") as archive:
            for name, content in named.items():
                archive.writestr(f"{name}.npy", content)

    return make


def rows(column, *values):
    """A table of twelve rows with the labels x and y and one more column."""
    lines = [f"{'xy'[i % 2]},{values[i % len(values)]}" for i in range(12)]
    return text("bad.csv", f"label,{column}\n" + "\n".join(lines) + "\n")


def pictures(make_bad=None, classes="ab"):
    """A folder of two pictures a class, then something bad in it."""

    def make():
        for place, name in enumerate(classes):
            Path("photos", name).mkdir(parents=True)
            for i in range(2):
                Image.new("RGB", (16, 16), (99 * place, 9 * i, 0)).save(f"photos/{name}/{i}.png")
        if make_bad is not None:
            make_bad()

    return make


def cifar10(**change):
    """CIFAR-10 in pickles of two rows; `change` replaces keys of the second batch."""

    def make():
        Path("cifar").mkdir()
        for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
            content = {"data": np.zeros((2, 3072), np.uint8), "labels": [0, 1]}
            if name == "data_batch_2":
                content |= change
            Path("cifar", name).write_bytes(pickle.dumps(content, 2))

    return make


def cifar10_file(name, content):
    def make():
        cifar10()()
        Path("cifar", name).write_bytes(content)

    return make


def spec(content):
    return text("spec.toml", content)


def run_file(name, content):
    """Replace a file of the run by this text or bytes."""

    def make():
        packed = content.encode() if isinstance(content, str) else content
        Path("RUN", name).write_bytes(packed)

    return make


def run_json(name, change):
    """Change the content of a JSON file of the run."""

    def make():
        path = Path("RUN", name)
        path.write_text(json.dumps(change(json.loads(path.read_text()))))

    return make


def setting(*path, to):
    """A change of one value at a path of keys."""

    def change(content):
        inner = content
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = to
        return content

    return change


def run_arrays(name, **change):
    def make():
        path = Path("RUN", name)
        with np.load(path) as stored:
            content = dict(stored) | change
        np.savez(path, **{key: value for key, value in content.items() if value is not None})

    return make


def pipe_in(*parts):
    return lambda: os.mkfifo(Path(*parts))


def link(where, to):
    return lambda: Path(where).symlink_to(to)


PLAIN = "is damaged"
NPZ = ("bad.npz: not a readable npz file", "numpy.savez")
PICKLE = ("data_batch_2: not", "use the official file")
DATA: dict[str, BadInput] = {
    "npz: a member without a header": BadInput(members(X=b"", y=b""), train("bad.npz"), NPZ),
    "npz: a header of nonsense": BadInput(
        members(X=b"\x93NUMPY\1\0\4\0(((("), train("bad.npz"), NPZ
    ),
    "npz: a version of the future": BadInput(members(X=b"\x93NUMPY\x09\0"), train("bad.npz"), NPZ),
    "npz: X is a text": BadInput(arrays(X=np.array("x")), train("bad.npz"), ("inputs have shape",)),
    "npz: X of texts": BadInput(
        arrays(X=np.full((12, 2), "a")), train("bad.npz"), ("X has type", "give numbers")
    ),
    "npz: X of times": BadInput(
        arrays(X=np.zeros((12, 2), "M8[s]")), train("bad.npz"), ("X has type", "give numbers")
    ),
    "npz: X of records": BadInput(
        arrays(X=np.zeros(12, [("a", "f8")])), train("bad.npz"), ("inputs have shape",)
    ),
    "npz: X of complex numbers": BadInput(
        arrays(X=np.ones((12, 2)) * 1j), train("bad.npz"), ("complex128", "give numbers")
    ),
    "npz: X without columns": BadInput(
        arrays(X=np.zeros((12, 0))), train("bad.npz"), ("shape (12, 0)", "give vectors")
    ),
    "npz: numbers beyond float32": BadInput(
        arrays(X=np.full((12, 2), 1e300)), train("bad.npz"), ("row 0, column 0 is inf", "fill")
    ),
    "npz: labels of two columns": BadInput(
        arrays(y=np.zeros((12, 2), int)), train("bad.npz"), ("y has shape (12, 2)", "one label")
    ),
    "npz: labels beyond 64 bits": BadInput(
        arrays(y=np.full(12, 2**63, np.uint64)), train("bad.npz"), ("whole numbers",)
    ),
    "npz: class names of two columns": BadInput(
        arrays(class_names=np.array([["a"], ["b"]])), train("bad.npz"), ("give a list of names",)
    ),
    "npz: ids too few": BadInput(
        arrays(ids=np.array(["a"])), train("bad.npz"), ("1 ids for 12 rows", "one for each")
    ),
    "npz: an empty id": BadInput(
        arrays(ids=np.array(["", *"abcdefghijk"])), train("bad.npz"), ("ids: row 0 is empty",)
    ),
    "npz: ids that are not UTF-8": BadInput(
        arrays(ids=np.array([b"\xff"] * 12)), train("bad.npz"), ("not text in UTF-8", "save")
    ),
    "npz: flags that are no flags": BadInput(
        arrays(verified=np.arange(12)), train("bad.npz"), ("true or false for each row",)
    ),
    "npz: flags of text": BadInput(
        arrays(verified=np.array(["yes"] * 12)), train("bad.npz"), ("true or false for each row",)
    ),
    "npz: true labels too few": BadInput(
        arrays(y_true=np.zeros(3, int)), train("bad.npz"), ("3 true labels for 12 rows",)
    ),
    "npz: a test set without labels": BadInput(
        arrays(X_test=np.zeros((2, 2))), train("bad.npz"), ("no array 'y_test'", "save")
    ),
    "npz: text beside numbers": BadInput(
        arrays(y=np.array(["a", "b"] * 6), y_true=np.zeros(12, int)),
        train("bad.npz"),
        ("y_true has type", "all labels as text"),
    ),
    "npz: a pipe": BadInput(pipe_in("bad.npz"), train("bad.npz"), ("no regular file",)),
    "csv: a pipe": BadInput(pipe_in("bad.csv"), train("bad.csv"), ("give the path of a table",)),
    "csv: a link to itself": BadInput(
        link("bad.csv", "bad.csv"), train("bad.csv"), ("bad.csv", "give")
    ),
    "csv: dates and then none": BadInput(
        rows("day", "9999-12-31", "9999-12-31"), train("bad.csv"), ("'day' is constant", "vary")
    ),
    "csv: a quote without end": BadInput(
        text("bad.csv", 'label,a\nx,"1\ny,2\n'), train("bad.csv"), ("bad.csv", "not a table")
    ),
    "csv: rows too long": BadInput(
        text("bad.csv", "label,a\nx,1,2\ny,1,2\n"), train("bad.csv"), ("bad.csv", "as many values")
    ),
    "csv: only a header": BadInput(
        text("bad.csv", "label,a\n"), train("bad.csv"), ("holds no rows", "fill it")
    ),
    "csv: an id for one row only": BadInput(
        text("bad.csv", "id,label,a\n1,x,1\n,y,2\n3,x,3\n"), train("bad.csv"), ("has no id", "fill")
    ),
    "csv: a class of its own for each row": BadInput(
        text("bad.csv", "label,a\nx,1\ny,2\nz,3\n"), train("bad.csv"), ("label of its own",)
    ),
    "csv: zero bytes": BadInput(
        raw("bad.csv", b"label,a\nx,\0\ny,1\n"), train("bad.csv"), ("not a text file",)
    ),
    "parquet: text": BadInput(text("bad.parquet", "no"), train("bad.parquet"), ("not a readable",)),
    "pictures: a pipe": BadInput(
        pictures(pipe_in("photos", "a", "pipe.png")), train("photos"), ("no regular file", "mend")
    ),
    "pictures: a link to itself": BadInput(
        pictures(link("photos/a/loop.png", "loop.png")), train("photos"), ("loop.png", "mend")
    ),
    "pictures: a class that links to its parent": BadInput(
        pictures(link("photos/c", ".")), train("photos"), ("a link to a folder above it", "remove")
    ),
    "pictures: a class that links further up": BadInput(
        pictures(link("photos/c", "..")), train("photos"), ("a link to a folder above it",)
    ),
    "pictures: an empty file": BadInput(
        pictures(raw("photos/a/9.png", b"")), train("photos"), ("9.png: not a readable image",)
    ),
    "pictures: a text": BadInput(
        pictures(raw("photos/a/9.jpg", b"<html>")), train("photos"), ("not in a format that",)
    ),
    "pictures: cut short": BadInput(
        pictures(lambda: os.truncate("photos/a/0.png", 40)), train("photos"), ("0.png: not a",)
    ),
    "pictures: one class": BadInput(pictures(classes="a"), train("photos"), ("the same class",)),
    "cifar: objects": BadInput(
        cifar10(data=np.array([None, None])), train("cifar10:cifar"), (*PICKLE, "'O8'")
    ),
    "cifar: floats": BadInput(cifar10(data=np.zeros((2, 3072))), train("cifar10:cifar"), PICKLE),
    "cifar: pixels too few": BadInput(
        cifar10(data=np.zeros((2, 3000), np.uint8)), train("cifar10:cifar"), PICKLE
    ),
    "cifar: labels of text": BadInput(cifar10(labels=["a", "b"]), train("cifar10:cifar"), PICKLE),
    "cifar: labels too large": BadInput(cifar10(labels=[0, 2**70]), train("cifar10:cifar"), PICKLE),
    "cifar: labels in a list": BadInput(cifar10(labels=[[0], [1]]), train("cifar10:cifar"), PICKLE),
    "cifar: labels too few": BadInput(
        cifar10(labels=[0]), train("cifar10:cifar"), ("10 inputs but 9 labels",)
    ),
    "cifar: code": BadInput(
        cifar10_file("data_batch_2", b"cos\nsystem\n(S'true'\ntR."),
        train("cifar10:cifar"),
        (*PICKLE, "asks for os.system"),
    ),
    "cifar: a memo of gigabytes": BadInput(
        cifar10_file("data_batch_2", b"\x80\2Nr\xff\xff\xff\x2f."),
        train("cifar10:cifar"),
        ("no 'data' and 'labels' in it",),
    ),
    "cifar: nothing": BadInput(cifar10_file("data_batch_2", b""), train("cifar10:cifar"), PICKLE),
    "cifar: a pipe": BadInput(
        lambda: (cifar10()(), Path("cifar/data_batch_2").unlink(), os.mkfifo("cifar/data_batch_2")),
        train("cifar10:cifar"),
        PICKLE,
    ),
    "labels: deep JSON": BadInput(
        lambda: (arrays()(), Path("l.json").write_text(DEEP)),
        train("bad.npz", "--noise", "file:l.json"),
        ("l.json: not a JSON list", "write it again"),
    ),
    "labels: a JSON object": BadInput(
        lambda: (arrays()(), Path("l.json").write_text("{}")),
        train("bad.npz", "--noise", "file:l.json"),
        ("l.json", "not a flat list"),
    ),
    "labels: uneven lists": BadInput(
        lambda: (arrays()(), Path("l.json").write_text("[[1], 2]")),
        train("bad.npz", "--noise", "file:l.json"),
        ("l.json", "list"),
    ),
    "labels: a pt file that is none": BadInput(
        lambda: (arrays()(), Path("l.pt").write_bytes(b"\x80\2}.")),
        train("bad.npz", "--noise", "file:l.pt"),
        ("l.pt: damaged", "use the official file"),
    ),
    "labels: an npz of several": BadInput(
        lambda: (arrays()(), shutil.copy("bad.npz", "l.npz")),
        train("bad.npz", "--noise", "file:l.npz"),
        ("several arrays", "noise.key"),
    ),
    "spec: deep brackets": BadInput(
        spec("a = " + DEEP), ("train", "--spec", "spec.toml", "-q"), ("not a readable TOML file",)
    ),
    "spec: bytes": BadInput(
        raw("spec.toml", b"\xff\xfe"), ("train", "--spec", "spec.toml"), ("not a readable TOML",)
    ),
    "spec: a pipe": BadInput(
        pipe_in("spec.toml"), ("train", "--spec", "spec.toml"), ("no regular file",)
    ),
    "spec: a list of algorithms": BadInput(
        spec('algorithm = ["ce"]'), ("train", "--spec", "spec.toml"), ("'algorithm'", "string")
    ),
    "spec: own code": BadInput(
        spec('algorithm = "evil:Own"'), ("train", "--spec", "spec.toml"), ("say --trust",)
    ),
    "spec: an infinite rate": BadInput(
        spec('algorithm = "ce"\n[options.sgd]\nlr = inf'),
        ("train", "--spec", "spec.toml", "-q"),
        ("'sgd.lr'", "finite"),
    ),
}
SHOW, REPORT = ("show", "RUN"), ("report", "RUN")
PREDICT = ("predict", "RUN", "good.npz", "-q")
APPLY = ("apply", "RUN", "--accept-all", "--out", "c.npz")
EXPORT = ("export", "RUN", "--safetensors", "m.safetensors")
RESUME = ("resume", "RUN", "-q")
HEALTH = ("health.json is damaged", "--fresh")
FACTS = ("data.json is damaged", "--fresh")
FOLDER: dict[str, BadInput] = {
    "health: deep": BadInput(run_file("health.json", DEEP), SHOW, HEALTH),
    "health: a list": BadInput(run_file("health.json", "[]"), SHOW, HEALTH),
    "health: nothing": BadInput(run_file("health.json", "null"), SHOW, HEALTH),
    "health: classes of text": BadInput(
        run_json("health.json", setting("classes", to="ab")), SHOW, (*HEALTH, "'classes'")
    ),
    "health: no share": BadInput(
        run_json("health.json", setting("issue_share", to=None)), SHOW, (*HEALTH, "'issue_share'")
    ),
    "health: a class without a name": BadInput(
        run_json("health.json", setting("classes", 0, "class", to=3)), SHOW, HEALTH
    ),
    "health: NaN": BadInput(
        run_json("health.json", setting("threshold", to=float("nan"))), SHOW, HEALTH
    ),
    "data: a number": BadInput(run_file("data.json", "3"), SHOW, FACTS),
    "data: names of numbers": BadInput(
        run_json("data.json", setting("class_names", to=[1, 2])), SHOW, FACTS
    ),
    "data: no classes": BadInput(
        run_json("data.json", setting("class_names", to=[])), SHOW, FACTS
    ),
    "data: too few classes": BadInput(
        run_json("data.json", setting("class_names", to=["a"])), SHOW, ("judgement.npz is damaged",)
    ),
    "data: more rows than there are": BadInput(
        run_json("data.json", setting("examples", to=10**9)), SHOW, ("judgement.npz is damaged",)
    ),
    "data: rows without end": BadInput(
        run_json("data.json", setting("examples", to=10**30)), APPLY, FACTS
    ),
    "data: a small class that is none": BadInput(
        run_json("data.json", setting("small_classes", to=[99])), REPORT, FACTS
    ),
    "data: skipped of numbers": BadInput(
        run_json("data.json", setting("skipped", to=3)), REPORT, FACTS
    ),
    "ids: an object": BadInput(run_file("ids.json", "{}"), SHOW, ("ids.json is damaged",)),
    "ids: numbers": BadInput(run_file("ids.json", "[1, 2]"), SHOW, ("ids.json is damaged",)),
    "ids: too few": BadInput(run_file("ids.json", '["a"]'), SHOW, ("ids.json is damaged",)),
    "verified: texts": BadInput(
        run_file("verified.json", '["x"]'), APPLY, ("verified.json is damaged",)
    ),
    "verified: rows that are none": BadInput(
        run_file("verified.json", "[99999]"), APPLY, ("verified.json is damaged",)
    ),
    "summary: a list": BadInput(run_file("summary.json", "[]"), SHOW, ("summary.json is damaged",)),
    "summary: text for a number": BadInput(
        run_json("summary.json", setting("training", to={"last": {"accuracy": "high"}})),
        SHOW,
        ("summary.json is damaged", "accuracy"),
    ),
    "summary: a list of scores": BadInput(
        run_json("summary.json", setting("labels", to=[1])), SHOW, ("summary.json is damaged",)
    ),
    "records: a number in a line": BadInput(
        run_file("records.jsonl", "3\n"), REPORT, ("records.jsonl is damaged",)
    ),
    "records: deep": BadInput(
        run_file("records.jsonl", DEEP), REPORT, ("records.jsonl is damaged",)
    ),
    "records: signs of numbers": BadInput(
        run_file("records.jsonl", '{"epoch": 0, "train": {}, "held_out": {"agreement": "x"}}\n'),
        REPORT,
        ("records.jsonl is damaged", "agreement"),
    ),
    "environment: threads of text": BadInput(
        lambda: (
            run_json("environment.json", setting("threads", to="many"))(),
            Path("RUN/done").unlink(),
        ),
        RESUME,
        ("environment.json is damaged", "threads"),
    ),
    "environment: own code of numbers": BadInput(
        run_json("environment.json", setting("own_code", to=[1])),
        RESUME,
        ("environment.json is damaged", "own_code"),
    ),
    "judgement: other names": BadInput(
        run_arrays("judgement.npz", other=np.zeros(3)), SHOW, ("judgement.npz is damaged",)
    ),
    "judgement: too few rows": BadInput(
        run_arrays("judgement.npz", given=np.zeros(2, int)), SHOW, ("judgement.npz is damaged",)
    ),
    "judgement: a class that is none": BadInput(
        run_arrays("judgement.npz", given=np.full(12, 7)), APPLY, ("judgement.npz is damaged",)
    ),
    "judgement: labels of text": BadInput(
        run_arrays("judgement.npz", given=np.full(12, "a")), SHOW, ("judgement.npz is damaged",)
    ),
    "judgement: NaN": BadInput(
        run_arrays("judgement.npz", clean_probability=np.full(12, np.nan, np.float32)),
        REPORT,
        ("judgement.npz is damaged",),
    ),
    "judgement: an unknown rule": BadInput(
        run_arrays("judgement.npz", score_kind=np.array("luck")), SHOW, ("score_kind is luck",)
    ),
    "model: deep": BadInput(run_file("model.json", DEEP), PREDICT, ("model.json is damaged",)),
    "model: a list": BadInput(run_file("model.json", "[]"), PREDICT, ("model.json",)),
    "model: a network of gigabytes": BadInput(
        run_json("model.json", setting("network", "width", to=10**9)),
        PREDICT,
        ("model.safetensors is damaged", "does not fit"),
    ),
    "model: inputs of gigabytes": BadInput(
        run_json(
            "model.json",
            lambda c: setting("preprocessing", "shape", to=[10**9])(
                setting("preprocessing", "mean", to=[0.0])(c)
            ),
        ),
        PREDICT,
        ("model.json: 'preprocessing'", "do not fit the shape"),
    ),
    "model: no networks": BadInput(
        run_json("model.json", setting("networks", to=0)), EXPORT, ("'networks'",)
    ),
    "model: many networks": BadInput(
        run_json("model.json", setting("networks", to=10**9)), EXPORT, ("'networks'",)
    ),
    "model: another number of classes": BadInput(
        run_json("model.json", setting("class_names", to=["a"])), PREDICT, ("class_prior",)
    ),
    "model: own code": BadInput(
        run_json("model.json", setting("network", "name", to="os:abort")), EXPORT, ("say --trust",)
    ),
    "model: weights of another kind": BadInput(
        run_file("model.safetensors", b"\0" * 64), EXPORT, ("model.safetensors is damaged",)
    ),
    "spec: passes without end": BadInput(
        lambda: Path("RUN/spec.toml").write_text(
            Path("RUN/spec.toml").read_text().replace("[options]", "[options]\npasses = 10000000")
        ),
        PREDICT,
        ("options.passes", "give a number from 1"),
    ),
    "spec: deep": BadInput(
        run_file("spec.toml", "a = " + DEEP), SHOW, ("spec.toml: not a readable TOML",)
    ),
    "encoding: of another shape": BadInput(
        run_file("encoding.json", '{"columns": 3}'), PREDICT, ("encoding.json", "columns")
    ),
    "embedding: without its parts": BadInput(
        lambda: np.savez("RUN/embedding.npz", embedding_backbone="x"),
        PREDICT,
        ("description of the embedding is damaged",),
    ),
}  # fmt: skip
