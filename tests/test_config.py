"""Specs go to TOML and back, and every difference makes another folder."""

import errno
import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from ulc.algorithms import ALGORITHMS, configure
from ulc.cli import parse
from ulc.config import (
    SGD,
    Adam,
    DataSpec,
    ImbalanceSpec,
    NetworkSpec,
    NoiseSpec,
    RunSpec,
    Spec,
    checked,
    configured,
    without_none,
)
from ulc.errors import InputError
from ulc.storage.files import write_whole
from ulc.storage.run_folder import RunFolder
from ulc.training.run import resolved

text = st.text(max_size=12)
value = st.one_of(
    st.booleans(),
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    text,
    st.lists(st.integers(0, 300), max_size=3),
)
options = st.dictionaries(
    text,
    value | st.dictionaries(text, value | st.dictionaries(text, value, max_size=2), max_size=3),
)
noise = st.one_of(
    st.builds(
        NoiseSpec,
        kind=st.sampled_from(["none", "symmetric", "symmetric_inclusive", "pair_flip"]),
        rate=st.floats(0, 1),
    ),
    st.builds(NoiseSpec, kind=st.just("file"), file=text, key=st.none() | text),
    st.builds(
        NoiseSpec,
        kind=st.just("matrix"),
        matrix=st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=3), max_size=3),
    ),
)
specs = st.builds(
    RunSpec,
    data=st.builds(DataSpec, source=text, path=st.none() | text),
    imbalance=st.builds(
        ImbalanceSpec, kind=st.sampled_from(["none", "half", "long_tail"]), ratio=st.floats(1, 1e6)
    ),
    noise=noise,
    network=st.builds(
        NetworkSpec,
        name=text.filter(lambda name: ":" not in name),
        width=st.none() | st.integers(1, 512),
    ),
    algorithm=text,
    options=options,
    epochs=st.integers(1, 1000),
    seed=st.integers(0, 2**63 - 1),
)


@pytest.mark.slow
@given(spec=specs)
@settings(max_examples=30, deadline=None)
def test_a_spec_is_what_its_toml_says(tmp_path_factory, spec):
    path = tmp_path_factory.getbasetemp() / "spec.toml"
    path.write_bytes(spec.write().encode())
    again = RunSpec.read(path)
    assert again == spec
    assert again.folder_name == spec.folder_name


@given(specs)
@settings(max_examples=60, deadline=None)
def test_a_folder_name_is_one_plain_name(spec):
    assert Path(spec.folder_name).name == spec.folder_name
    assert spec.folder_name.isascii()
    assert not set(spec.folder_name) & set(' /\\:*?"<>|\n')


@given(specs, specs)
@settings(max_examples=60, deadline=None)
def test_two_specs_share_a_folder_only_if_they_are_equal(first, second):
    assert first == second or first.folder_name != second.folder_name


OTHERWISE = {
    "compute": {"accumulate": 2},
    "data.source": "npz",
    "data.path": "here",
    "data.label": "class",
    "data.image": "path",
    "data.id": "id",
    "data.encoding": "cp1252",
    "data.sep": ";",
    "data.text": "t",
    "data.text_model": "m",
    "data.true": "truth",
    "data.verified": "seen",
    "data.features": ("a", "b"),
    "data.size": 32,
    "data.skip_broken": True,
    "data.lazy": True,
    "data.test": "there",
    "imbalance.kind": "half",
    "imbalance.ratio": 5.0,
    "noise.kind": "symmetric",
    "noise.rate": 0.25,
    "noise.matrix": ((1.0,),),
    "noise.file": "labels.json",
    "noise.key": "worse",
    "network.name": "mlp",
    "network.width": 7,
    "network.options": {"depth": 2},
    "network.weights": "imagenet",
    "algorithm": "ce",
    "options": {"passes": 3},
    "epochs": 299,
    "seed": 1,
    "held_out": 0.1,
}


def leaves(kind, before=""):
    for name, field in kind.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from leaves(field.annotation, f"{before}{name}.")
        else:
            yield before + name


def test_whatever_differs_makes_another_folder():
    """One spec for each field of the whole, with that field changed."""
    assert sorted(OTHERWISE) == sorted(leaves(RunSpec))
    names = {RunSpec().folder_name}
    for place, changed in OTHERWISE.items():
        section, _, name = place.rpartition(".")
        content = {section: {name: changed}} if section else {name: changed}
        if place == "network.options":  # only a network of one's own has options
            content["network"]["name"] = "module:Class"
        names.add(RunSpec.model_validate(content).folder_name)
    assert len(names) == 1 + len(OTHERWISE)


def test_a_folder_name_can_be_read():
    spec = RunSpec(
        data=DataSpec(source="cifar10"),
        imbalance=ImbalanceSpec(kind="long_tail", ratio=100),
        noise=NoiseSpec(kind="symmetric_inclusive", rate=0.2),
        seed=3,
    )
    assert spec.folder_name.startswith("cifar10-longtail100-symincl0.2-ulc-s3-")
    assert RunSpec().folder_name.startswith("fashion-balanced-clean-ulc-s0-")
    worse = RunSpec(noise=NoiseSpec(kind="file", file="/data/n.pt", key="worse/label"))
    assert worse.folder_name.startswith("fashion-balanced-worse_label-ulc-s0-")


def test_the_options_of_the_data_are_read_as_they_were_written():
    assert RunSpec().content["data"] == {"source": "fashion", "skip_broken": False}
    wanted = DataSpec(source="table", features=("a",), skip_broken=True)
    Path("spec.toml").write_text(RunSpec(data=wanted).write())
    assert RunSpec.read(Path("spec.toml")).data == wanted


def test_an_option_that_is_none_is_one_that_is_not_there():
    """TOML has no null, and a run must find its folder again."""
    spec = RunSpec(options={"width": None, "sgd": {"lr": 0.1, "nesterov": None}})
    assert spec.folder_name == RunSpec(options={"sgd": {"lr": 0.1}}).folder_name
    RunFolder.create(Path("run"), spec)
    assert RunFolder.create(Path("run"), spec).spec.options == {"sgd": {"lr": 0.1}}
    assert without_none([{"a": None, "b": 1}]) == [{"b": 1}]


def test_a_folder_takes_no_second_run():
    RunFolder.create(Path("run"), RunSpec())
    with pytest.raises(InputError, match="run: holds another run; choose another place with --out"):
        RunFolder.create(Path("run"), RunSpec(seed=1))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_resolved_spec_finds_itself_again(tmp_path, name):
    """With every option spelled out, defaults among them, written and read."""
    spec = resolved(RunSpec(algorithm=name))
    path = tmp_path / "spec.toml"
    path.write_text(spec.write())
    assert RunSpec.read(path).folder_name == spec.folder_name
    assert resolved(RunSpec.read(path)).folder_name == spec.folder_name


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nois = 1", "unknown key 'nois'; known here: algorithm, compute, data, epochs, "),
        (
            "[noise]\nrat = 0.5",
            "unknown key 'noise.rat'; known here: file, key, kind, matrix, rate",
        ),
        ("[data]\n[data.x]\ny = 1", "unknown key 'data.x'; known here: encoding, features, id"),
        ("epochs = 0", "'epochs': Input should be greater than or equal to 1, not 0"),
        ("[noise]\nrate = 1.5", "'noise.rate': .*less than or equal to 1, not 1.5"),
        ("[noise]\nrate = nan", "'noise.rate': .*finite number, not nan"),
        ("[noise]\nkind = 'symetric'", "'noise.kind': .*'symmetric', .*not 'symetric'"),
        ("[noise]\nkind = 'matrix'", "'noise': noise.kind = 'matrix' needs noise.matrix$"),
        ("[noise]\nkind = 'file'", "'noise': noise.kind = 'file' needs noise.file$"),
        ("noise = 3", "'noise': Input should be a valid dictionary .*not 3"),
        ("seed = 'x'", "'seed': Input should be a valid integer.*not 'x'"),
        ("epochs = ", "not a readable TOML file .*; mend or remove it"),
        ("epochs", "not a readable TOML file"),
    ],
)
def test_what_is_wrong_with_a_spec_is_named_with_its_path(content, message):
    Path("my.toml").write_text(content)
    with pytest.raises(InputError, match=rf"my\.toml: {message}") as caught:
        RunSpec.read(Path("my.toml"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_unknown_option_is_told_the_known_ones(name):
    section = "sgd" if hasattr(configure(name, {}), "sgd") else "adam"
    with pytest.raises(
        InputError, match=f"options of {name}: unknown key '{section}.rate'.* lr, .*weight_decay"
    ):
        configure(name, {section: {"rate": 0.1}})
    with pytest.raises(InputError, match=f"options of {name}: unknown key 'sdg'; ") as caught:
        configure(name, {"sdg": {"lr": 0.1}})
    assert {"batch_size", section} <= set(str(caught.value).split("known here: ")[1].split(", "))


@pytest.mark.parametrize("content", [[1], 3, "x", None])
def test_what_is_no_table_at_all_is_refused(content):
    with pytest.raises(InputError, match="here: Input should be a valid dictionary"):
        checked(SGD, content, where="here")


def test_the_rate_falls_at_each_milestone():
    sgd = SGD(lr=1.0, milestones=(2, 4), decay=0.1)
    rates = [sgd.learning_rate(epoch) for epoch in range(6)]
    assert rates == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])
    assert [sgd.settings(epoch) for epoch in range(6)] == [{"lr": rate} for rate in rates]


def test_adam_s_rate_falls_in_a_line_and_its_momentum_at_once():
    """Two epochs at 1, then 4/4, 3/4, 2/4, ¼ of it, and never nothing."""
    adam = Adam(lr=1.0, beta1=0.9, later_beta1=0.1, constant_epochs=2, falling_epochs=4)
    rates = [adam.learning_rate(epoch) for epoch in range(9)]
    assert rates == pytest.approx([1, 1, 1, 0.75, 0.5, 0.25, 0.25, 0.25, 0.25])
    told = [adam.settings(epoch) for epoch in range(9)]
    assert [each["lr"] for each in told] == rates
    assert [each["betas"] for each in told] == [(0.9, 0.999)] * 2 + [(0.1, 0.999)] * 7


@given(
    st.builds(
        Adam,
        lr=st.floats(1e-6, 10),
        constant_epochs=st.integers(0, 50),
        falling_epochs=st.integers(1, 50),
    )
)
@settings(max_examples=50, deadline=None)
def test_adam_s_rate_is_above_nought_and_never_rises(adam):
    rates = [adam.learning_rate(epoch) for epoch in range(120)]
    assert rates[0] == pytest.approx(adam.lr)
    assert min(rates) == pytest.approx(adam.lr / adam.falling_epochs)
    assert all(later <= earlier for earlier, later in pairwise(rates))


class Inner(Spec):
    """A section with defaults of its own."""

    lr: float = 1.0
    milestones: tuple[int, ...] = (1, 2)


class Outer(Spec):
    """Another default for the section than the section's own."""

    sgd: Inner = Inner(lr=5.0, milestones=(7,))
    adam: Adam = Adam(lr=0.25)
    steps: int = 3


def test_without_options_a_spec_is_its_defaults():
    assert configured(Outer, {}, where="here") == Outer()


def test_an_option_inside_a_section_leaves_the_rest_of_it_at_the_outer_default():
    """`checked` alone would set the rate back to the section's own 1."""
    found = configured(Outer, {"sgd": {"milestones": [4, 5]}, "adam": {"beta1": 0.5}}, where="here")
    assert found == Outer(
        sgd=Inner(lr=5.0, milestones=(4, 5)), adam=Adam(lr=0.25, beta1=0.5), steps=3
    )
    assert checked(Outer, {"sgd": {"milestones": [4, 5]}}, where="here").sgd.lr == 1


def test_a_whole_section_or_a_plain_option_takes_the_place_of_the_default():
    options = {"sgd": {"lr": 2.0, "milestones": ()}, "steps": 9}
    expected = Outer(sgd=Inner(lr=2.0, milestones=()), steps=9)
    assert configured(Outer, options, where="here") == expected
    assert options == {"sgd": {"lr": 2.0, "milestones": ()}, "steps": 9}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sgd": {"rate": 1}}, "here: unknown key 'sgd.rate'; known here: lr, milestones"),
        ({"sdg": {}}, "here: unknown key 'sdg'; known here: adam, sgd, steps"),
        ({"sgd": 3}, "here: 'sgd': .*, not 3"),
        ({"adam": {"lr": -1}}, "here: 'adam.lr': .* greater than 0, not -1"),
    ],
)
def test_a_wrong_option_is_named_with_its_section(options, message):
    with pytest.raises(InputError, match=message):
        configured(Outer, options, where="here")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["passes=3"], {"passes": 3}),
        (["sgd.lr=0.05", "sgd.decay=1"], {"sgd": {"lr": 0.05, "decay": 1}}),
        (["per_class=false"], {"per_class": False}),
        (["logit_noise=off"], {"logit_noise": "off"}),
        (["logit_noise='off'"], {"logit_noise": "off"}),
        (["sgd.milestones=[3, 5]"], {"sgd": {"milestones": [3, 5]}}),
        (["key=a=b"], {"key": "a=b"}),
        (["passes=3", "passes=4"], {"passes": 4}),
        (["key="], {"key": ""}),
    ],
)
def test_settings_are_typed_as_in_toml(typed, expected):
    assert parse.settings(typed) == expected


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["passes"], "--set passes: give it as key=value, such as sgd.lr=0.05"),
        (["=3"], "--set =3: give it as key=value"),
        (["sgd=3", "sgd.lr=1"], "--set sgd.lr=1: 'sgd' is set already; drop one of the two"),
        (["a.b=3", "a.b.c=1"], "--set a.b.c=1: 'b' is set already"),
    ],
)
def test_settings_that_say_nothing_are_refused(typed, message):
    with pytest.raises(InputError, match=message):
        parse.settings(typed)


def test_data_noise_and_imbalance_are_typed_in_a_word():
    here = Path.cwd()
    assert parse.data("fashion") == DataSpec()
    assert parse.data("toy.npz") == DataSpec(source="npz", path=str(here / "toy.npz"))
    assert parse.data("cifar10:c") == DataSpec(source="cifar10", path=str(here / "c"))
    for name in ("a.csv", "a.tsv", "a.PARQUET"):
        assert parse.data(name) == DataSpec(source="table", path=str(here / name))
    Path("photos").mkdir()
    assert parse.data("photos") == DataSpec(source="folder", path=str(here / "photos"))
    Path("photos/state.json").touch()
    assert parse.data("photos") == DataSpec(source="huggingface", path=str(here / "photos"))
    assert parse.data("folder:photos").source == "folder"
    assert parse.data("a.csv", label="c").label == "c"
    assert parse.noise("none") == NoiseSpec()
    assert parse.noise("symmetric:0.2") == NoiseSpec(kind="symmetric", rate=0.2)
    assert parse.noise("file:n.pt#worse_label") == NoiseSpec(
        kind="file", file=str(here / "n.pt"), key="worse_label"
    )
    assert parse.noise("file:n.json").key is None
    assert parse.imbalance("half:5") == ImbalanceSpec(kind="half", ratio=5)


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    return path


def test_a_file_is_written_whole(old):
    write_whole(old, b"new")
    assert old.read_bytes() == b"new"
    assert list(old.parent.iterdir()) == [old]


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
def test_a_full_disk_leaves_the_old_content_and_nothing_else(old, monkeypatch, step):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(step, full)
    with pytest.raises(InputError, match=r"file: cannot be written \(No space left on device\)"):
        write_whole(old, b"new")
    assert old.read_bytes() == b"old"
    assert list(old.parent.iterdir()) == [old]


def test_an_interrupt_leaves_the_old_content_and_nothing_else(old, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(old, b"new")
    assert old.read_bytes() == b"old"
    assert list(old.parent.iterdir()) == [old]


def test_a_file_has_the_rights_that_the_user_s_mask_gives(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_the_user_s_mask_is_not_changed_while_a_file_is_written(tmp_path, monkeypatch):
    """The mask is one for the whole process: another thread's files would get the wrong rights."""
    monkeypatch.setattr("os.umask", lambda _: pytest.fail("os.umask was called"))
    write_whole(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("place", ["missing/file", "old/file", "folder"])
def test_where_nothing_can_be_written_is_said_by_name(tmp_path, place):
    (tmp_path / "old").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=f"{place}: cannot be written .*; choose another place"):
        write_whole(tmp_path / place, b"new")
    assert sorted(tmp_path.rglob("*")) == before
