"""scikit-learn's own laws for estimators, for every algorithm."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

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
}
SMALL = {"epochs": 8, "width": 32}
ESTIMATORS = [
    ULCClassifier(options=OPTIONS["ulc"], **SMALL),
    *(
        NoisyLabelClassifier(name, options=options, **SMALL)
        for name, options in OPTIONS.items()
        if name != "ulc"
    ),
]


def test_every_algorithm_is_checked():
    assert set(OPTIONS) == set(ALGORITHMS)


# scikit-learn warns that a column of labels should be flat: one of its checks wants it to.
@pytest.mark.filterwarnings("default")
@parametrize_with_checks(
    ESTIMATORS, expected_failed_checks=lambda _: EXPECTED_FAILED_CHECKS, xfail_strict=True
)
def test_scikit_learn_s_laws(estimator, check):
    check(estimator)
