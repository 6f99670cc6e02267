"""Whatever a user gets wrong: one sentence that names it and the remedy, and nothing written.

Each mistake is made twice, at the command and in Python.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ulc import load_run, train
from ulc.cli import main
from ulc.config import DataSpec, ImbalanceSpec, NetworkSpec, NoiseSpec, RunSpec
from ulc.errors import InputError
from ulc.storage.run_folder import RunFolder
from ulc.training.run import run

OPTIONS = {"batch_size": 8}


def toy(**change):
    """Twelve vectors of two classes, with what is wrong about them."""
    content = {"X": np.arange(24.0).reshape(12, 2), "y": np.arange(12) % 2}
    return {name: value for name, value in (content | change).items() if value is not None}


@pytest.fixture
def good(tmp_path):
    """A file with which nothing is wrong."""
    np.savez(tmp_path / "good.npz", **toy())
    return "good.npz"


@pytest.fixture
def ulc(monkeypatch, capsys):
    """Run the command here; return its exit code and what it said on stderr."""

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["ulc", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code, capsys.readouterr().err

    return command


def on_the_disk():
    """Every file and folder here with its content; locks hold nothing."""
    return {
        path: path.read_bytes() if path.is_file() else None
        for path in Path().rglob("*")
        if path.name != "lock"
    }


@pytest.fixture
def refused(ulc):
    """Check that the command fails as it should, with these words in its one sentence."""

    def check(*arguments, says):
        before = on_the_disk()
        code, said = ulc(*arguments)
        assert code == 2
        assert said.startswith("ulc: ")
        assert said.count("\n") == 1
        assert said.endswith("\n")
        for words in says:
            assert words in said
        assert on_the_disk() == before

    return check


def cross_entropy(data="good.npz", **change):
    """The spec of a run that would take no time."""
    source = DataSpec(source="npz", path=data)
    return RunSpec(data=source, algorithm="ce", options=OPTIONS, epochs=1, **change)


def refused_in_python(spec, *, says):
    before = on_the_disk()
    with pytest.raises(InputError) as caught:
        train(spec, "runs")
    assert isinstance(caught.value, ValueError)
    for words in says:
        assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert on_the_disk() == before


BAD_ARRAYS = {
    "a label below zero": (toy(y=[-1] + [0, 1] * 5 + [0]), ["row 0 has label -1", "correct it"]),
    "a label beyond the classes": (
        toy(y=[0, 1] * 5 + [0, 2], class_names=["a", "b"]),
        ["row 11 has label 2, outside 0 to 1", "correct it"],
    ),
    "a label beyond all reason": (
        toy(y=[0, 1] * 5 + [0, 10**12]),
        ["row 11 has label 1000000000000", "number the classes from 0"],
    ),
    "a label without a name": (toy(y=["a", ""] * 6), ["y: row 1 is empty", "fill it"]),
    "a missing label": (toy(y=[0, np.nan] * 6), ["row 1 is nan", "whole numbers from 0"]),
    "a label too few": (toy(y=[0, 1, 0]), ["12 inputs but 3 labels", "one label for each"]),
    "a single class": (toy(y=[1] * 12), ["all labels are the same class", "at least two"]),
    "a missing feature": (
        toy(X=np.where(np.arange(24) == 5, np.nan, 0).reshape(12, 2)),
        ["row 2, column 1 is nan", "fill or remove"],
    ),
    "an infinite feature": (toy(X=np.full((12, 2), np.inf)), ["row 0, column 0 is inf", "fill"]),
    "a wrong shape": (toy(X=np.zeros((12, 2, 2))), ["shape (12, 2, 2)", "give vectors"]),
    "images of floats": (toy(X=np.zeros((12, 1, 4, 4))), ["type float64", "as uint8"]),
    "no labels at all": (toy(y=None), ["no array 'y'", "save"]),
    "nothing": ({}, ["no array 'X'", "save"]),
    "too few examples": ({"X": np.eye(3), "y": [0, 1, 0]}, ["3 examples are too few", "give"]),
    "a test set of another shape": (
        toy(X_test=np.zeros((1, 3)), y_test=[0]),
        ["test inputs have shape (3,)", "give both the same shape"],
    ),
}


@pytest.mark.parametrize("wrong", BAD_ARRAYS)
def test_arrays_that_cannot_be_learned_from(refused, wrong):
    arrays, says = BAD_ARRAYS[wrong]
    np.savez("bad.npz", **arrays)
    says = [*says, "bad"] if wrong != "too few examples" else says
    refused("train", "bad.npz", "-a", "ce", "--epochs", 1, "-q", says=says)
    refused_in_python(cross_entropy("bad.npz"), says=says)


class Command:
    """A pickle of this runs a command."""

    def __reduce__(self):
        return os.system, ("touch was-run",)


def damage(path):
    """Overwrite some of the middle of a file."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 20] = bytes(range(200, 220))
    path.write_bytes(content)


def write_pickled(path):
    with path.open("wb") as stream:
        np.savez(stream, **toy(y=np.array([Command()] * 12, object)))


def write_single(path):
    with path.open("wb") as stream:
        np.save(stream, np.zeros((12, 2)))


def write_damaged(path):
    with path.open("wb") as stream:
        np.savez_compressed(stream, **toy(X=np.random.default_rng(0).normal(size=(12, 50))))
    damage(path)


def write_truncated(path):
    with path.open("wb") as stream:
        np.savez(stream, **toy())
    path.write_bytes(path.read_bytes()[:-50])


def write_other_zip(path):
    import zipfile

    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X", "no array")


BAD_FILES = {
    "missing": (lambda _: None, ["no such file", "give the path"]),
    "a folder": (Path.mkdir, ["not a readable npz file", "numpy.savez"]),
    "empty": (Path.touch, ["not a readable npz file", "numpy.savez"]),
    "nonsense": (lambda path: path.write_bytes(b"\x80\x04K\x01." * 60), ["not a readable"]),
    "pickled objects": (write_pickled, ["pickled objects, which could run code", "numpy.savez"]),
    "a single array": (write_single, ["not a readable npz file", "numpy.savez"]),
    "damaged": (write_damaged, ["not a readable npz file", "numpy.savez"]),
    "cut short": (write_truncated, ["not a readable npz file", "numpy.savez"]),
    "another archive": (write_other_zip, ["not a readable npz file", "numpy.savez"]),
}


@pytest.mark.parametrize("wrong", BAD_FILES)
def test_a_file_that_holds_no_arrays(refused, wrong):
    write, says = BAD_FILES[wrong]
    write(Path("bad.npz"))
    refused("train", "bad.npz", "-q", says=["bad.npz: ", *says])
    refused_in_python(cross_entropy("bad.npz"), says=["bad.npz: ", *says])
    assert not Path("was-run").exists()


BAD_TABLES = {
    "empty": (b"", ["first line is empty", "names of the columns"]),
    "binary": (b"\x00\x01" * 99, ["not a text file", "CSV in UTF-8"]),
    "a row with too many values": (b"label,a\nx,1,2\ny,1\n", ["not a table", "--sep"]),
    "no labels": (b"a,b\n1,2\n", ["no column is called label", "--label", "columns: a, b"]),
    "no label in any row": (b"label,a\n,1\n,2\n", ["no row has a label", "fill some"]),
    "a name twice": (b"label,a,a\nx,1,2\n", ["2 columns are called 'a'", "rename"]),
    "nothing to learn from": (b"label,a\nx,1\ny,1\nx,1\n", ["'a' is constant", "vary"]),
    "too few rows": (b"label,a\nx,1\ny,2\nx,3\n", ["3 examples are too few", "give"]),
    "a missing image": (b"label,path\nx,1.png\ny,1.png\nx,2.png\n", ["no such file", "mend"]),
}


@pytest.mark.parametrize("wrong", BAD_TABLES)
def test_a_table_that_cannot_be_learned_from(refused, wrong):
    content, says = BAD_TABLES[wrong]
    Path("bad.csv").write_bytes(content)
    refused("train", "bad.csv", "-a", "ce", "--epochs", 1, "-q", says=says)
    spec = cross_entropy().model_copy(update={"data": DataSpec(source="table", path="bad.csv")})
    refused_in_python(spec, says=says)


def test_options_of_the_data_that_do_not_fit(refused):
    Path("good.csv").write_text("label,a\n" + "x,1\ny,2\n" * 6)
    for option, name in (("--label", "z"), ("--image", "z"), ("--id", "z"), ("--true-label", "z")):
        says = ["good.csv: no column 'z'", "columns: label, a"]
        refused("train", "good.csv", option, name, "-q", says=says)
    refused("train", "good.csv", "--size", 5000, "-q", says=["'size'", "1024, not 5000"])
    refused("train", "--label", "z", "-q", says=["'fashion' has no option 'label'", "drop it"])
    Path("empty").mkdir()
    refused("train", "empty", "-q", says=["empty: holds no folders", "a folder of images for each"])
    refused("train", "empty", "--skip-broken", "--id", "a", "-q", says=["has no option 'id'"])


@pytest.mark.parametrize("source", ["cifar10", "cifar100"])
def test_an_empty_folder_holds_no_cifar(refused, source):
    Path("here").mkdir()
    says = ["here: holds no cifar-10", "unpack the official archive there"]
    refused("train", f"{source}:here", "-q", says=says)
    refused_in_python(RunSpec(data=DataSpec(source=source, path="here")), says=says)
    says = ["nowhere: no such folder", "unpack the official archive there"]
    refused("train", f"{source}:nowhere", "-q", says=says)


@pytest.mark.usefixtures("good")
class TestUnknownNames:
    def test_algorithm(self, refused):
        says = ["unknown algorithm 'magic'", "known: ce, "]
        refused("train", "good.npz", "-a", "magic", "-q", says=says)
        refused_in_python(cross_entropy().model_copy(update={"algorithm": "magic"}), says=says)
        refused("algorithms", "magic", says=says)

    @pytest.mark.parametrize("name", ["magic", "magic:Net", ":", "json:loads", "json:decoder"])
    def test_network(self, refused, name):
        says = [f"network '{name}'"]
        refused("train", "good.npz", "--network", name, "-q", says=says)
        refused_in_python(cross_entropy(network=NetworkSpec(name=name)), says=says)

    def test_network_for_images(self, refused):
        says = ["'small_cnn' does not take inputs of shape (2,)", "use mlp"]
        refused("train", "good.npz", "--network", "small_cnn", "-q", says=says)
        refused_in_python(cross_entropy(network=NetworkSpec(name="small_cnn")), says=says)

    @pytest.mark.parametrize("name", ["magic", "magic:here", "good", "./good", "", "magic.xls"])
    def test_source(self, refused, name):
        refused("train", name, "-q", says=[f"{name}: no such file or folder", "give FILE.npz"])
        refused("noise", "out.json", "--data", name, says=[f"{name}: no such file or folder"])

    def test_kind_of_file(self, refused):
        Path("table.xls").touch()
        refused("train", "table.xls", "-q", says=["table.xls: unknown kind of data", ".csv"])

    def test_source_in_python(self):
        spec = RunSpec(data=DataSpec(source="magic"))
        refused_in_python(spec, says=["unknown data source 'magic'", "known: fashion, "])

    @pytest.mark.parametrize(
        ("typed", "says"),
        [
            ("magic:0.5", ["--noise: 'kind'", "'symmetric'", "not 'magic'"]),
            ("symmetric:much", ["--noise: 'rate'", "not 'much'"]),
            ("symmetric:2", ["--noise: 'rate'", "less than or equal to 1", "not '2'"]),
            ("matrix", ["--noise", "needs noise.matrix"]),
            ("file", ["--noise", "needs noise.file"]),
            ("file:none.json", ["none.json: no such file", "give a label file"]),
            ("asymmetric:0.4", ["these 2 classes", "use pair_flip or a matrix"]),
        ],
    )
    def test_noise(self, refused, typed, says):
        refused("train", "good.npz", "--noise", typed, "-q", says=says)

    def test_noise_in_python(self):
        for content in ({"kind": "magic"}, {"rate": 2}, {"kind": "matrix"}, {"kind": "file"}):
            with pytest.raises(ValueError, match="NoiseSpec"):
                NoiseSpec.model_validate(content)
        refused_in_python(
            cross_entropy(noise=NoiseSpec(kind="asymmetric")), says=["use pair_flip or a matrix"]
        )
        refused_in_python(
            cross_entropy(noise=NoiseSpec(kind="matrix", matrix=((1, 0), (1,)))),
            says=["different lengths", "make it 2 by 2"],
        )

    @pytest.mark.parametrize(
        ("typed", "says"),
        [
            ("magic:3", ["--imbalance: 'kind'", "'long_tail'", "not 'magic'"]),
            ("half:0.5", ["--imbalance: 'ratio'", "greater than or equal to 1", "not '0.5'"]),
            ("half:inf", ["--imbalance: 'ratio'", "finite number"]),
        ],
    )
    def test_imbalance(self, refused, typed, says):
        refused("train", "good.npz", "--imbalance", typed, "-q", says=says)
        with pytest.raises(ValueError, match="ImbalanceSpec"):
            ImbalanceSpec.model_validate(
                dict(zip(("kind", "ratio"), typed.split(":"), strict=True))
            )

    def test_device(self, refused):
        says = ["device 'magic' does not work here", "use cpu"]
        refused("train", "good.npz", "--device", "magic", "-q", says=says)
        with pytest.raises(InputError, match="use cpu"):
            train(cross_entropy(), "runs", device="magic")
        assert not Path("runs").exists()

    @pytest.mark.parametrize(
        ("typed", "options", "says"),
        [
            (
                "magic=1",
                {"magic": 1},
                ["unknown key 'magic'", "known here: batch_size, epoch_examples, sgd"],
            ),
            ("sgd.magic=1", {"sgd": {"magic": 1}}, ["unknown key 'sgd.magic'", "known here: "]),
            ("sgd.lr=fast", {"sgd": {"lr": "fast"}}, ["'sgd.lr'", "valid number", "not 'fast'"]),
            ("sgd.lr=0", {"sgd": {"lr": 0}}, ["'sgd.lr'", "greater than 0", "not 0"]),
            ("sgd=1", {"sgd": 1}, ["'sgd'", "valid dictionary", "not 1"]),
        ],
    )
    def test_option(self, refused, typed, options, says):
        says = ["options of ce", *says]
        refused("train", "good.npz", "-a", "ce", "--set", typed, "-q", says=says)
        spec = cross_entropy().model_copy(update={"options": options})
        refused_in_python(spec, says=says)

    def test_option_without_a_value(self, refused):
        says = ["--set batch_size", "give it as key=value"]
        refused("train", "good.npz", "--set", "batch_size", "-q", says=says)


BAD_SPECS = {
    "an unknown key": ("epoch = 3", ["unknown key 'epoch'", "epochs"]),
    "an unknown nested key": ("[noise]\nrates = 1", ["unknown key 'noise.rates'", "rate"]),
    "a value out of range": ("seed = -1", ["'seed'", "greater than or equal to 0, not -1"]),
    "malformed TOML": ("[noise\nrate = 1", ["not a readable TOML file", "mend or remove it"]),
    "no text": (b"\xff\xfe\x00", ["not a readable TOML file", "mend or remove it"]),
    "a ragged matrix": (
        '[data]\nsource = "npz"\npath = "good.npz"\n'
        '[noise]\nkind = "matrix"\nmatrix = [[1, 0], [1]]',
        ["noise.matrix", "make it 2 by 2"],
    ),
    "an unknown source": ('[data]\nsource = "magic"', ["unknown data source 'magic'", "known: "]),
    "an unknown algorithm": ('algorithm = "magic"', ["unknown algorithm 'magic'", "known: ce"]),
}


@pytest.mark.usefixtures("good")
@pytest.mark.parametrize("wrong", BAD_SPECS)
def test_a_spec_that_says_something_else(refused, wrong):
    content, says = BAD_SPECS[wrong]
    Path("bad.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
    refused("train", "--spec", "bad.toml", "-q", says=says)
    with pytest.raises(InputError) as caught:
        train(RunSpec.read(Path("bad.toml")), "runs")
    for words in says:
        assert words in str(caught.value)


def test_a_spec_that_is_not_there(refused):
    refused("train", "--spec", "bad.toml", "-q", says=["bad.toml: no such file", "give the path"])
    Path("here").mkdir()
    refused("train", "--spec", "here", "-q", says=["here: no regular file"])


@pytest.mark.usefixtures("good")
def test_a_place_that_cannot_be_written(refused):
    """The tests may run as root, whom no right stops: a file is where a folder should be."""
    Path("taken").write_text("mine")
    says = ["taken", "cannot be made", "choose another place with --out"]
    refused("train", "good.npz", "-a", "ce", "--out", "taken/runs", "-q", says=says)
    refused("train", "good.npz", "-a", "ce", "--out", "taken", "-q", says=says)
    with pytest.raises(InputError, match="choose another place"):
        train(cross_entropy(), "taken/runs")
    says = ["taken/labels.json", "cannot be written", "choose another place"]
    refused("noise", "taken/labels.json", "--data", "good.npz", says=says)
    says = ["missing/labels.json", "cannot be written", "choose another place"]
    refused("noise", "missing/labels.json", "--data", "good.npz", says=says)
    says = ["labels.csv", "unknown ending '.csv'", "use .json"]
    refused("noise", "labels.csv", "--data", "good.npz", says=says)


@pytest.mark.usefixtures("good")
def test_a_label_file_that_does_not_fit(refused):
    Path("labels.json").write_text(json.dumps([0, 1, 0]))
    says = ["labels.json: 3 labels for 12 examples", "give the file that belongs"]
    refused("train", "good.npz", "--noise", "file:labels.json", "-q", says=says)
    noise = NoiseSpec(kind="file", file="labels.json")
    refused_in_python(cross_entropy(noise=noise), says=says)
    Path("labels.json").write_text(json.dumps([0, 1] * 5 + [0, 7]))
    says = ["labels.json: row 11 has label 7, outside 0 to 1", "correct it"]
    refused("train", "good.npz", "--noise", "file:labels.json", "-q", says=says)
    refused_in_python(cross_entropy(noise=noise), says=says)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run of two epochs; not to be changed."""
    folder = tmp_path_factory.mktemp("trained")
    np.savez(folder / "good.npz", **toy())
    spec = cross_entropy(str(folder / "good.npz")).model_copy(update={"epochs": 2})
    return run(spec, folder, save_every=0.0).path


@pytest.fixture
def finished(trained):
    """A copy of it, here."""
    return Path(shutil.copytree(trained, trained.name))


@pytest.fixture
def unfinished(finished):
    """The same, killed before it could write its results."""
    kept = {"spec.toml", "environment.json", "data.json", "records.jsonl", "checkpoint.pt"}
    kept |= {"identity.json", "checksums.json"}
    for path in finished.iterdir():
        if path.name not in kept:
            path.unlink()
    return finished


def test_nothing_is_wrong_with_the_run_before_it_is_damaged(ulc, finished):
    assert ulc("show", finished) == (0, "")
    assert ulc("resume", finished, "-q") == (0, "")
    assert load_run(finished).model.predict_proba(np.zeros((1, 2))).shape == (1, 2)


@pytest.mark.parametrize("command", ["show", "resume"])
def test_what_is_no_run_folder(refused, command):
    says = ["not a run folder", "`ulc train` and `ulc audit` make one"]
    Path("here").mkdir()
    Path("file").touch()
    for name in ("here", "nowhere", "file", "."):
        refused(command, name, says=[f"ulc: {name}: ", *says])
        with pytest.raises(InputError, match="not a run folder"):
            load_run(name)


def test_an_unfinished_run_has_nothing_to_show_yet(refused, unfinished):
    says = ["summary.json is not there yet: the run is unfinished", f"ulc resume {unfinished}"]
    refused("show", unfinished, says=says)
    refused("show", unfinished, "--json", says=says)
    half = load_run(unfinished)
    for read in (lambda: half.summary, lambda: half.judgement, lambda: half.model):
        with pytest.raises(InputError, match="not there yet: the run is unfinished; go on with"):
            read()
    assert len(half.records) == 2


def test_an_unfinished_run_goes_on(ulc, unfinished, trained):
    assert ulc("resume", unfinished, "-q") == (0, "")
    resumed, unbroken = load_run(unfinished), load_run(trained)
    assert np.array_equal(resumed.judgement.prediction, unbroken.judgement.prediction)


def test_a_finished_run_that_lost_a_file(refused, finished):
    for name in ("judgement.npz", "summary.json"):
        (finished / name).unlink()
        refused("show", finished, says=[f"{name} is missing from the run", "with --fresh"])


def test_a_renamed_run_is_not_resumed(refused, unfinished):
    unfinished.rename("mine")
    says = ["mine: the folder was renamed", f"rename it to {unfinished.name} to resume"]
    refused("resume", "mine", says=says)


def drop_array(path):
    with np.load(path) as content:
        arrays = {name: content[name] for name in content.files if name != "given"}
    np.savez(path, **arrays)


def pickle_array(path):
    with np.load(path) as content:
        arrays = dict(content)
    np.savez(path, **arrays | {"given": np.array([Command()] * 12, object)})


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-40])


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "nonsense": lambda path: path.write_bytes(b"\x80\x04K\x01." * 60),
    "cut short": cut_short,
    "overwritten": damage,
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}
SAYS_DAMAGED = ["is damaged", "--fresh"]


@pytest.mark.parametrize("how", [*DAMAGES, "an array short", "pickled"])
def test_a_damaged_judgement(refused, finished, how):
    more = {"an array short": drop_array, "pickled": pickle_array}
    (DAMAGES | more)[how](finished / "judgement.npz")
    refused("show", finished, says=["judgement.npz", *SAYS_DAMAGED])
    with pytest.raises(InputError, match=r"judgement.npz is damaged"):
        _ = load_run(finished).judgement
    assert not Path("was-run").exists()


@pytest.mark.parametrize("how", ["empty", "nonsense", "cut short"])
def test_a_damaged_checkpoint(refused, unfinished, how):
    """The run does not start anew by the way, which would hide hours of lost work."""
    DAMAGES[how](unfinished / "checkpoint.pt")
    refused("resume", unfinished, "-q", says=["checkpoint.pt", *SAYS_DAMAGED])
    with pytest.raises(InputError, match=r"checkpoint.pt is damaged"):
        run(load_run(unfinished).spec, Path())


@pytest.mark.parametrize("how", ["empty", "nonsense", "cut short", "a folder"])
def test_a_damaged_model(finished, how):
    DAMAGES[how](finished / "model.safetensors")
    with pytest.raises(InputError, match=r"model.safetensors is damaged .*--fresh"):
        _ = load_run(finished).model


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b"[1]", b"3", b'{"format": 1}'])
def test_a_damaged_description_of_the_model(finished, content):
    (finished / "model.json").write_bytes(content)
    with pytest.raises(InputError, match=r"model.json"):
        _ = load_run(finished).model


@pytest.mark.parametrize("name", ["summary.json", "data.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"\xff"])
def test_damaged_results(refused, finished, name, content):
    (finished / name).write_bytes(content)
    refused("show", finished, says=[name, *SAYS_DAMAGED])


def test_damaged_records(finished):
    (finished / "records.jsonl").write_text('{"epoch": 0}\n{"epo')
    with pytest.raises(InputError, match=r"records.jsonl is damaged .*--fresh"):
        _ = load_run(finished).records


@pytest.mark.parametrize("command", ["show", "resume"])
def test_a_spec_that_was_edited(refused, finished, command):
    spec = finished / "spec.toml"
    spec.write_text(spec.read_text().replace("seed = 0", "seed = 1"))
    refused(command, finished, says=["spec.toml was changed after the run began", "undo the edit"])


@pytest.mark.parametrize("command", ["show", "resume"])
def test_a_damaged_spec(refused, finished, command):
    (finished / "spec.toml").write_text("epochs = ")
    (finished / "checksums.json").unlink()
    refused(command, finished, says=["spec.toml: not a readable TOML file", "mend or remove it"])


def test_a_run_that_another_process_trains(refused, unfinished):
    with RunFolder.open(unfinished).locked():
        says = [unfinished.name, "another process trains here", "wait for it"]
        refused("resume", unfinished, "-q", says=says)


def test_inputs_of_another_shape_for_a_model(finished):
    model = load_run(finished).model
    with pytest.raises(InputError, match=r"shape \(3,\), but the model learned \(2,\)"):
        model.predict_proba(np.zeros((4, 3)))
    with pytest.raises(InputError, match="prior"):
        model.predict_proba(np.zeros((4, 2)), prior=[1, 2, 3])


def test_the_bar_is_not_in_the_way_of_the_sentence(refused):
    refused("train", "bad.npz", says=["bad.npz: no such file"])


def test_the_installed_command_says_it_too():
    """In a process of its own: exit code, one line, no traceback."""
    code = "import ulc.cli; ulc.cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "show", "nowhere"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "ulc: nowhere: not a run folder (it does not exist); `ulc train` and `ulc audit` make one\n"
    )
