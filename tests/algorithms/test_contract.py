"""The laws of `ulc.testing`: every algorithm keeps them, and each law can be broken."""

from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from ulc.algorithms import ALGORITHMS
from ulc.algorithms.base import Algorithm
from ulc.algorithms.cross_entropy import CrossEntropy
from ulc.algorithms.ulc import ULC
from ulc.algorithms.ulc_plus import ULCPlus
from ulc.labels.judgement import Judgement
from ulc.testing import KINDS, LAWS, Case, check_algorithm, toy_data
from ulc.training.pretended_device import can_pretend

UNUSUAL = {
    "dropout_place": "last_stage",
    "logit_noise": "shared",
    "doubt": "mutual_information",
    "doubt_scaling": "range",
    "sgd": {"cosine_epochs": 3, "average_epochs": 0.5},
    "adam": {"average_epochs": 0.5},
    "refinement": "batch",
    "one_component_guard": True,
    "loss_history": 3,
    "prior_weight": 0.5,
    "mixture": "beta",
    "semi_supervised": "fixmatch",
    "bootstrapping": "dynamic",
    "second_order": True,
    "refine_labels": True,
    "forget_rate": 0.3,
    "warmup_entropy": 0.5,
    "class_guard": "anchored",
    "folds": 3,
    "cross_fitted": False,
    "anchored": False,
    "weighted": False,
    "balanced": False,
}


# A guess of a toy network is seldom sure, so FixMatch's counts from less.
EVERY = {name: (cls, {}) for name, cls in ALGORITHMS.items()} | {
    "ulc-fixmatch": (ULC, {"semi_supervised": "fixmatch", "confidence": 0.4}),
    "ulc-guarded": (ULC, {"class_guard": "anchored"}),
    "ulc_plus-crossing": (ULCPlus, {"cross_epochs": 3}),
}


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("ulc-guarded", "ulc_plus-crossing")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", [*ALGORITHMS, "ulc-fixmatch", *SLOW])
def test_every_algorithm_keeps(name, law, kind):
    cls, options = EVERY[name]
    LAWS[law](Case(cls, kind, options))


@pytest.mark.parametrize("law", ["same_seed_same_run", "resuming_changes_nothing"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_with_every_switch_the_other_way_an_algorithm_still_keeps(name, law):
    known = ALGORITHMS[name].config_class.model_fields
    options = {key: value for key, value in UNUSUAL.items() if key in known}
    LAWS[law](Case(ALGORITHMS[name], "vector", options))


def test_check_algorithm_tries_them_all():
    check_algorithm(CrossEntropy, {"batch_size": 20})


class Counts(CrossEntropy):
    """Remembers something that no checkpoint holds."""

    epochs = 0

    def train_epoch(self, epoch):
        self.epochs += 1
        return {**super().train_epoch(epoch), "epochs": float(self.epochs)}


class Sharpens(CrossEntropy):
    """Predicts otherwise than its networks."""

    def predict_proba(self, inputs):
        return (2 * self.learner(inputs).logits).softmax(1)


class Drops(CrossEntropy):
    """Draws a random number to predict."""

    def predict_proba(self, inputs):
        logits = self.learner(inputs).logits
        return nn.functional.dropout(logits, 0.5, training=True).softmax(1)


class Normalises(CrossEntropy):
    """Predicts in training mode, so that the other rows and the next time matter."""

    def predict_proba(self, inputs):
        self.learner.train()
        probability = super().predict_proba(inputs.repeat(2, *[1] * (inputs.ndim - 1)))
        self.learner.eval()
        return probability[: len(inputs)]


class Exaggerates(CrossEntropy):
    """Believes in probabilities beyond one."""

    def judge(self):
        judgement = super().judge()
        return Judgement.of(2 * judgement.prediction, judgement.given)


class Stumbles(CrossEntropy):
    """Cannot do with small classes or a last batch of one."""

    def train_epoch(self, epoch):
        if self.data.given.bincount(minlength=self.data.num_classes).min() < 2:
            raise RuntimeError("a class is too small")
        if len(self.data) % 16 == 1:
            raise RuntimeError("a batch of one")
        return super().train_epoch(epoch)


class Relabels(CrossEntropy):
    """Writes into the user's labels."""

    def train_epoch(self, epoch):
        self.data.given[epoch] = (self.data.given[epoch] + 1) % self.data.num_classes
        return super().train_epoch(epoch)


class Aliases(CrossEntropy):
    """Keeps the user's labels instead of a copy, and corrects them in place."""

    def __init__(self, config, data, new_network):
        super().__init__(config, data, new_network)
        self.register_buffer("labels", data.given)

    def train_epoch(self, epoch):
        self.labels[epoch] = (self.labels[epoch] + 1) % self.data.num_classes
        return super().train_epoch(epoch)


class Loads(CrossEntropy):
    """Keeps the user's labels, and changes them only when a state is loaded."""

    def __init__(self, config, data, new_network):
        super().__init__(config, data, new_network)
        self.register_buffer("labels", data.given)


class Accumulates(CrossEntropy):
    """Keeps state in the class, where all its instances find it."""

    losses: ClassVar[list[float]] = []

    def train_epoch(self, epoch):
        record = super().train_epoch(epoch)
        self.losses.append(record["loss"])
        return {**record, "epochs": float(len(self.losses))}


class HandsOver(CrossEntropy):
    """Hands over its own buffer as an output."""

    def __init__(self, config, data, new_network):
        super().__init__(config, data, new_network)
        self.register_buffer("scores", torch.ones(len(data)))

    def outputs(self):
        return {"scores": self.scores.numpy()}


class Gambles(CrossEntropy):
    """Uses NumPy's global random numbers."""

    def train_epoch(self, epoch):
        return {**super().train_epoch(epoch), "luck": float(np.random.rand())}  # noqa: NPY002


class Talks(CrossEntropy):
    """Prints."""

    def train_epoch(self, epoch):
        print(epoch)  # noqa: T201
        return super().train_epoch(epoch)


class Peeks(CrossEntropy):
    """Uses more of the data than the protocol has."""

    def train_epoch(self, epoch):
        assert len(self.data.stored)
        return super().train_epoch(epoch)


class Records(CrossEntropy):
    """Records a tensor that is not a number, and does not call on_step."""

    def train_epoch(self, epoch):
        self.on_step = None
        return super().train_epoch(epoch) | {"loss": torch.tensor(torch.nan)}


class Weighs(CrossEntropy):
    """Gives one norm in all."""

    def class_measures(self):
        return {"norm": super().class_measures()["weight_norm"].mean(keepdims=True)}


class StaysBehind(CrossEntropy):
    """Makes a tensor on the CPU, wherever the data are."""

    def train_epoch(self, epoch):
        torch.eye(self.data.num_classes, device="cpu")[self.data.given]
        return super().train_epoch(epoch)


class RunsAlone(CrossEntropy):
    """Overrides what seeds it, and so is not seeded."""

    def run_epoch(self, epoch):
        return self.train_epoch(epoch)


BREACHES = [
    (RunsAlone, "follows_the_contract"),
    (Aliases, "shares_no_memory"),
    (Loads, "shares_no_memory"),
    (Accumulates, "shares_no_memory"),
    (HandsOver, "shares_no_memory"),
    (RunsAlone, "same_seed_same_run"),
    (RunsAlone, "does_not_change_the_random_state"),
    (Counts, "resuming_changes_nothing"),
    (Exaggerates, "judges_every_label"),
    (Normalises, "judging_changes_nothing"),
    (Normalises, "predicting_changes_nothing"),
    (Drops, "predicting_changes_nothing"),
    (Drops, "does_not_change_the_random_state"),
    (Sharpens, "networks_predict_like_the_algorithm"),
    (Stumbles, "works_with_a_class_of_one"),
    (Stumbles, "works_with_an_empty_class"),
    (Stumbles, "works_with_any_number_of_examples"),
    (Relabels, "does_not_change_the_data"),
    (Gambles, "same_seed_same_run"),
    (Gambles, "does_not_change_the_random_state"),
    (Talks, "prints_nothing"),
    (Peeks, "needs_only_the_protocol"),
    (Records, "records_finite_floats"),
    (Records, "reports_every_epoch"),
    (Weighs, "measures_every_class"),
    (StaysBehind, "works_on_another_device"),
]


@pytest.mark.parametrize(("cls", "law"), BREACHES)
def test_a_breach_is_found(cls, law):
    if law == "works_on_another_device" and not can_pretend():
        pytest.skip("this torch registers no device")
    with pytest.raises((AssertionError, RuntimeError)):
        LAWS[law](Case(cls, "vector"))


def test_every_law_has_a_breach():
    assert {law for _, law in BREACHES} == set(LAWS)


def test_check_algorithm_names_algorithm_law_and_kind():
    with pytest.raises(
        AssertionError, match="Weighs breaks the law 'works_with_a_class_of_one' on"
    ):
        check_algorithm(Weighs)


@pytest.mark.parametrize(
    ("cls", "law"),
    [
        (Aliases, "shares_no_memory"),
        (Loads, "shares_no_memory"),
        (Accumulates, "shares_no_memory"),
        (HandsOver, "shares_no_memory"),
        (Relabels, "does_not_change_the_data"),
        (Gambles, "same_seed_same_run"),
        (Counts, "resuming_changes_nothing"),
    ],
)
def test_check_algorithm_names_the_law_that_is_broken_and_not_one_that_suffers_from_it(cls, law):
    with pytest.raises(AssertionError, match=f"breaks the law '{law}'"):
        check_algorithm(cls)


def test_toy_data_has_the_sizes_asked_for_and_wrong_labels():
    """Of 36, 15 and 10 labels 30 % are wrong: floor gives 10 + 4 + 3.

    The classes lie far apart, so an example is nearest to the centre of the class it shows.
    """
    data, clean = toy_data("vector"), toy_data("vector", wrong=0.0)
    assert data.given.bincount().tolist() == [36, 15, 10]
    centres = torch.stack([clean.stored[clean.given == k].mean(0) for k in range(3)])
    raw = data.stored * data.preprocessing.std[0] + torch.tensor(data.preprocessing.mean)
    raw_centres = centres * clean.preprocessing.std[0] + torch.tensor(clean.preprocessing.mean)
    shown = torch.cdist(raw.float(), raw_centres.float()).argmin(1)
    assert int((shown != data.given).sum()) == 17


def test_the_toy_is_learnable():
    case = Case(CrossEntropy, "image")
    data = toy_data("image", wrong=0.0)
    algorithm, _ = case.trained(data, epochs=10)
    right = algorithm.judge().prediction.argmax(1) == data.given.numpy()
    assert right.mean() > 0.9


def test_an_algorithm_must_say_how_it_learns_and_predicts():
    with pytest.raises(TypeError, match="abstract"):
        Algorithm(toy_data("vector"))
