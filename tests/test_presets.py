"""Settings per data set."""

import pytest

from ulc.algorithms import ALGORITHMS, configure
from ulc.config import DataSpec, NoiseSpec, RunSpec
from ulc.data.sources import SOURCES
from ulc.experiments.presets import with_preset
from ulc.experiments.variants import ABLATIONS, variant


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


def test_warm_up_is_the_papers():
    assert with_preset(spec("cifar10")).options["warmup_epochs"] == 30
    assert with_preset(spec("cifar100")).options["warmup_epochs"] == 40
    assert with_preset(spec("cifar10", algorithm="dividemix")).options["warmup_epochs"] == 10


def test_at_ninety_percent_the_threshold_rises_and_losses_are_averaged():
    options = with_preset(spec(rate=0.9)).options
    assert (options["threshold"], options["loss_history"]) == (0.6, 5)


def test_what_the_user_says_goes_first_and_epochs_scale():
    """30 warm-up epochs of 300 are 6 of 60; milestones likewise; a nested option keeps the rest."""
    found = with_preset(spec("fashion"), epochs=20, options={"sgd": {"lr": 0.1}})
    assert found.epochs == 20
    assert found.options["warmup_epochs"] == 5
    assert found.options["sgd"] == {"lr": 0.1, "milestones": [15]}
    short = with_preset(spec(), epochs=60).options
    assert (short["warmup_epochs"], short["sgd"]["milestones"]) == (6, [30])


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_is_one_value_away_from_ulc(name):
    whole = configure("ulc", variant(spec(), "ulc").options).model_dump()
    ablated = configure("ulc", variant(spec(), name).options).model_dump()
    assert sum(whole[key] != ablated[key] for key in whole) == 1
