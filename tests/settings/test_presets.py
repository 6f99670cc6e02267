"""Settings per data set."""

import pytest

from ulc.algorithms import ALGORITHMS, configure
from ulc.config import DataSpec, NetworkSpec, NoiseSpec, RunSpec
from ulc.data.sources import SOURCES
from ulc.errors import InputError
from ulc.settings.presets import find_preset, with_preset
from ulc.settings.variants import VARIANTS, variant


def spec(source="cifar10", kind="symmetric", rate=0.5, algorithm="ulc"):
    return RunSpec(
        data=DataSpec(source=source), noise=NoiseSpec(kind=kind, rate=rate), algorithm=algorithm
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_has_settings_that_every_algorithm_takes(source, algorithm):
    found = with_preset(spec(source, algorithm=algorithm))
    configure(algorithm, found.options)


@pytest.mark.parametrize(
    ("source", "kind", "rate", "weight"),
    [
        ("cifar10", "symmetric", 0.2, 0),
        ("cifar10", "symmetric_inclusive", 0.5, 25),
        ("cifar10", "symmetric", 0.8, 25),
        ("cifar10", "symmetric", 0.9, 50),
        ("cifar10", "asymmetric", 0.4, 0),
        ("cifar100", "symmetric", 0.2, 25),
        ("cifar100", "symmetric", 0.5, 150),
    ],
)
def test_lambda_u_is_that_of_dividemix_table_7(source, kind, rate, weight):
    assert with_preset(spec(source, kind, rate)).options["doubtful_weight"] == weight


def test_cifar_has_the_papers_network_unless_the_user_names_another():
    for source in ("cifar10", "cifar100"):
        assert with_preset(spec(source)).network.name == "preact_resnet18"
    narrow = spec().model_copy(update={"network": NetworkSpec(width=8)})
    assert with_preset(narrow).network == NetworkSpec(name="preact_resnet18", width=8)
    small = spec().model_copy(update={"network": NetworkSpec(name="small_cnn")})
    assert with_preset(small).network.name == "small_cnn"
    assert with_preset(spec("npz")).network.name == "auto"


def test_warm_up_is_the_papers():
    assert with_preset(spec("cifar10")).options["warmup_epochs"] == 30
    assert with_preset(spec("cifar100")).options["warmup_epochs"] == 40
    assert with_preset(spec("cifar10", algorithm="dividemix")).options["warmup_epochs"] == 10


def test_at_ninety_percent_the_threshold_rises_and_losses_are_averaged():
    options = with_preset(spec(rate=0.9)).options
    assert (options["threshold"], options["loss_history"]) == (0.6, 5)


def test_what_the_user_says_goes_first_and_epochs_scale():
    """30 warm-up epochs of 300 are 6 of 60; schedules likewise; a nested option keeps the rest.

    Weights are averaged over one epoch in a training of any length.
    """
    found = with_preset(spec("fashion"), epochs=20, options={"sgd": {"lr": 0.1}})
    assert found.epochs == 20
    assert found.options["warmup_epochs"] == 5
    assert found.options["sgd"] == {"lr": 0.1, "cosine_epochs": 20, "average_epochs": 1.0}
    short = with_preset(spec(), epochs=60).options
    assert (short["warmup_epochs"], short["sgd"]["milestones"]) == (6, [30])


@pytest.mark.parametrize(
    ("source", "image", "like"),
    [
        ("folder", None, "fashion"),
        ("table", None, "npz"),
        ("table", "path", "fashion"),
        ("huggingface", None, "npz"),
        ("huggingface", "photo", "fashion"),
    ],
)
def test_own_data_take_the_settings_of_their_kind(source, image, like):
    own = spec(source).model_copy(update={"data": DataSpec(source=source, image=image)})
    expected = with_preset(spec(like))
    assert (with_preset(own).epochs, with_preset(own).options) == (
        expected.epochs,
        expected.options,
    )


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_one_value_away_from_its_algorithm(name):
    algorithm, _ = VARIANTS[name]
    whole = configure(algorithm, variant(spec(), algorithm).options).model_dump()
    ablated = configure(algorithm, variant(spec(), name).options).model_dump()
    assert sum(whole[key] != ablated[key] for key in whole) == 1


@pytest.mark.parametrize(
    ("source", "algorithm", "epochs"),
    [
        ("cifar10", "coteaching_plus", 200),
        ("cifar10", "pencil", 320),
        ("cifar10", "meta_learning", 130),
        ("cifar10", "m_correction", 300),
        ("cifar10", "elr_plus", 200),
        ("cifar100", "elr_plus", 250),
        ("cifar10", "ulc", 300),
    ],
)
def test_each_algorithm_trains_as_long_as_its_authors_did(source, algorithm, epochs):
    assert with_preset(spec(source, algorithm=algorithm)).epochs == epochs


def test_a_rival_s_schedule_scales_with_the_epochs():
    """32 of PENCIL's 320 epochs; 20 of ELR+'s 200, whose steps count too."""
    pencil = with_preset(spec(algorithm="pencil"), epochs=32).options
    stages = ("backbone_epochs", "correcting_epochs", "final_epochs")
    assert [pencil[name] for name in stages] == [7, 13, 12]
    assert (
        with_preset(spec(algorithm="elr_plus"), epochs=20).options["average_rampup_steps"] == 4000
    )


@pytest.mark.parametrize("source", ["fashion", "cifar10", "cifar100", "clothing1m", "npz"])
@pytest.mark.parametrize("algorithm", ["pencil", "m_correction", "meta_learning", "ulc_plus"])
def test_every_stage_of_a_rival_has_room(source, algorithm):
    found = with_preset(spec(source, algorithm=algorithm))
    options = found.options
    first = {
        "pencil": options.get("backbone_epochs", 0) + options.get("correcting_epochs", 0),
        "m_correction": options.get("warmup_epochs", 0) + options.get("dynamic_epochs", 0),
        "meta_learning": options.get("pretrain_epochs", 0) + options.get("rampup_epochs", 0),
        "ulc_plus": options.get("cross_epochs", 0),
    }[algorithm]
    assert 0 < first < found.epochs


def test_elr_plus_has_its_authors_settings():
    hundred = configure("elr_plus", with_preset(spec("cifar100", algorithm="elr_plus")).options)
    assert (hundred.memory, hundred.penalty, hundred.refine_labels) == (0.9, 7.0, True)
    paired = configure(
        "elr_plus", with_preset(spec("cifar10", "asymmetric", 0.4, "elr_plus")).options
    )
    assert (paired.memory, paired.penalty) == (0.9, 1.0)


def test_m_correction_takes_the_variant_that_was_best_in_its_paper():
    """M-DYR-H on CIFAR-10 up to 80 % and on CIFAR-100 at 80 %; MD-DYR-SH elsewhere."""
    found = {
        (source, rate): configure(
            "m_correction", with_preset(spec(source, rate=rate, algorithm="m_correction")).options
        ).bootstrapping
        for source in ("cifar10", "cifar100")
        for rate in (0.2, 0.5, 0.8, 0.9)
    }
    hard = {key for key, value in found.items() if value == "hard"}
    assert hard == {("cifar10", 0.2), ("cifar10", 0.5), ("cifar10", 0.8), ("cifar100", 0.8)}


def test_epochs_and_options_of_the_spec_go_before_the_preset():
    """The preset's cosine of 36 epochs has 20; its learning rate gives way."""
    own = RunSpec(epochs=20, options={"warmup_epochs": 2, "sgd": {"lr": 0.1}})
    found = with_preset(own)
    assert found.epochs == 20
    assert found.options["warmup_epochs"] == 2
    assert found.options["rampup_epochs"] == 2  # 4 of 36 epochs
    assert found.options["sgd"] == {"lr": 0.1, "cosine_epochs": 20, "average_epochs": 1.0}


def test_epochs_that_equal_the_default_count_as_set():
    assert with_preset(RunSpec(epochs=RunSpec().epochs)).epochs == RunSpec().epochs
    assert with_preset(RunSpec()).epochs != RunSpec().epochs


def test_arguments_go_before_the_spec():
    own = RunSpec(epochs=20, options={"sgd": {"lr": 0.1}, "passes": 3})
    found = with_preset(own, epochs=10, options={"sgd": {"lr": 0.2}})
    assert found.epochs == 10
    assert (found.options["sgd"]["lr"], found.options["passes"]) == (0.2, 3)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("epochs", [None, 20])
def test_a_preset_applied_twice_is_the_preset_applied_once(algorithm, epochs):
    once = with_preset(spec("fashion", algorithm=algorithm), epochs=epochs)
    assert with_preset(once) == once


def test_a_variant_keeps_what_the_spec_sets():
    own = RunSpec(epochs=20, options={"passes": 3})
    found = variant(own, "ulc-without-csm")
    assert found.epochs == 20
    assert (found.options["passes"], found.options["per_class"]) == (3, False)


def test_an_option_that_would_undo_a_variant_is_refused():
    message = "'ulc-without-eum' sets doubt_weight = 0.0; drop doubt_weight .* algorithm 'ulc'"
    with pytest.raises(InputError, match=message):
        variant(RunSpec(), "ulc-without-eum", options={"doubt_weight": 0.3})


OWN = """
from ulc.algorithms.cross_entropy import Config, CrossEntropy
from ulc.config import SGD, Spec

class Default(CrossEntropy):
    pass

class Chosen(CrossEntropy):
    class config_class(Config):
        threshold: float = 0.3
        sgd: SGD = SGD(lr=0.3)

class Another(CrossEntropy):
    class config_class(Spec):
        sgd: float = 0.3

class Required(CrossEntropy):
    class config_class(Spec):
        sgd: SGD
"""


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Default", {"sgd": {"lr": 0.05, "cosine_epochs": 36, "average_epochs": 1.0}}),
        ("Chosen", {"sgd": {"cosine_epochs": 36, "average_epochs": 1.0}}),
        ("Another", {}),
        ("Required", {}),
    ],
)
def test_an_algorithm_of_one_s_own_gets_epochs_and_schedule_of_the_data_set(
    tmp_path, monkeypatch, name, options
):
    """What its author chose stays: a learning rate, or another meaning of `sgd`."""
    (tmp_path / "own_of_presets.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    found = find_preset(spec("fashion", algorithm=f"own_of_presets:{name}"))
    assert (found.epochs, found.options, found.tuned) == (36, options, False)
    assert find_preset(spec("fashion")).tuned


def test_an_unknown_source_is_told_the_known_ones():
    with pytest.raises(InputError, match=r"unknown data source 'mnist'; known: .*cifar10"):
        find_preset(spec("mnist"))
