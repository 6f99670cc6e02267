"""scikit-learn's own laws for estimators: all of them for two, some for every algorithm."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from ulc.algorithms import ALGORITHMS
from ulc.estimators.classifier import EXPECTED_FAILED_CHECKS, NoisyLabelClassifier, ULCClassifier

# Some checks want to see that it learns, in the few steps that a test can wait for.
QUICK = {"batch_size": 64, "sgd": {"lr": 0.2}}
PAIRED = {**QUICK, "warmup_batch_size": 64, "warmup_epochs": 5}
OPTIONS = {
    "ce": QUICK,
    "coteaching_plus": {"batch_size": 64, "adam": {"lr": 0.02}},
    "pencil": {**QUICK, "backbone_epochs": 4, "correcting_epochs": 2, "final_epochs": 2},
    "meta_learning": {
        **QUICK,
        "tasks": 1,
        "pretrain_epochs": 1,
        "early_average": 0.8,
        "average": 0.8,
    },
    "m_correction": {**QUICK, "warmup_epochs": 5},
    "dividemix": PAIRED,
    "elr_plus": {**QUICK, "average": 0.8},
    "ulc": {**PAIRED, "passes": 2},
    "ulc_plus": {**QUICK, "warmup_epochs": 3, "cross_epochs": 5, "passes": 2},
}
SMALL = {"epochs": 8, "width": 32}
OTHERS = [
    NoisyLabelClassifier(name, options=options, **SMALL)
    for name, options in OPTIONS.items()
    if name not in ("ulc", "ce")
]
# What may differ from algorithm to algorithm: what it learns and keeps. Whatever comes before and
# after (inputs, labels, parameters, names) is the same code for all.
BY_ALGORITHM = {
    "check_classifiers_one_label",
    "check_classifiers_train",
    "check_estimators_pickle",
    "check_fit_idempotent",
    "check_methods_subset_invariance",
}


def check_name(check):
    return getattr(check, "func", check).__name__


def checks_by_algorithm():
    every = [pair for each in OTHERS for pair in estimator_checks_generator(each)]
    chosen = [(estimator, check) for estimator, check in every if check_name(check) in BY_ALGORITHM]
    assert {check_name(check) for _, check in chosen} == BY_ALGORITHM
    return [pytest.param(*pair, id=f"{pair[0].algorithm}-{check_name(pair[1])}") for pair in chosen]


def test_every_algorithm_is_checked():
    assert set(OPTIONS) == set(ALGORITHMS)


# scikit-learn warns that a column of labels should be flat: one of its checks wants it to.
@pytest.mark.filterwarnings("default")
@parametrize_with_checks(
    [
        ULCClassifier(options=OPTIONS["ulc"], **SMALL),
        NoisyLabelClassifier("ce", options=OPTIONS["ce"], **SMALL),
    ],
    expected_failed_checks=lambda _: EXPECTED_FAILED_CHECKS,
)
def test_scikit_learn_s_laws(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("estimator", "check"), checks_by_algorithm())
def test_what_an_algorithm_may_break(estimator, check):
    check(estimator)
