"""Laws that every algorithm keeps, so that you can check one of your own.

`check_algorithm(MyAlgorithm)` raises an AssertionError that names the law that is broken.
"""

import copy
import io
import pickle
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ulc.algorithms.base import Algorithm
from ulc.blocks.averages import Averages, Record
from ulc.blocks.learner import evaluating, mean_prediction
from ulc.config import NetworkSpec, Spec, configured
from ulc.data.augment import strong_augmentation, weak_augmentation
from ulc.data.preprocessing import Preprocessing
from ulc.data.sources.source import Source
from ulc.data.training import Batch, TensorData, TrainingData
from ulc.labels.judgement import Judgement
from ulc.networks import network_maker

Kind = Literal["image", "vector"]
KINDS: tuple[Kind, ...] = ("image", "vector")
SHAPES: dict[Kind, tuple[int, ...]] = {"image": (1, 8, 8), "vector": (6,)}
WIDTHS: dict[Kind, int] = {"image": 2, "vector": 8}
SIZES = (36, 15, 10)
EPOCHS = 3  # enough for every phase, with one epoch to each but the last
SMALL = {"epochs": 1, "steps": 4, "batch_size": 16, "passes": 3, "tasks": 2}


def toy_data(
    kind: Kind, sizes: Sequence[int] = SIZES, *, wrong: float = 0.3, seed: int = 0
) -> TensorData:
    """Classes that are easy to tell apart, of uneven size, with wrong labels.

    `sizes` says how many examples are given each label; of each class the share `wrong`, rounded
    down, shows another one. The labels that are wrong are not told.
    """
    rng = np.random.default_rng(seed)
    classes = len(sizes)
    given = np.repeat(np.arange(classes), sizes)
    within = np.concatenate([np.arange(size) for size in sizes])
    moved = within < np.floor(wrong * np.asarray(sizes))[given]
    shown = np.where(moved, (given + rng.integers(1, classes, len(given))) % classes, given)
    order = rng.permutation(len(given))
    inputs = toy_images(shown, rng) if kind == "image" else toy_vectors(shown, rng)
    names = tuple(map(str, range(classes)))
    source = Source(name="toy", inputs=inputs[order], labels=given[order], class_names=names)
    preprocessing = Preprocessing.fit(source)
    return TensorData(
        stored=preprocessing.stored(source.inputs),
        given=torch.from_numpy(source.labels),
        num_classes=classes,
        seed=seed,
        preprocessing=preprocessing,
        augment=weak_augmentation(preprocessing.shape),
        strong=strong_augmentation(preprocessing.shape),
    )


def toy_images(shown: NDArray[Any], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Each class a bright row of a dark image: flips and small shifts keep it apart."""
    channels, height, width = SHAPES["image"]
    images = rng.integers(0, 100, (len(shown), channels, height, width))
    images[np.arange(len(shown)), :, (2 * shown + 1) % height] += 150
    return images.astype(np.uint8)


def toy_vectors(shown: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float32]:
    """Each class a Gaussian around a point of its own."""
    centres = 3 * np.random.default_rng(0).normal(size=(int(shown.max()) + 1, *SHAPES["vector"]))
    return (centres[shown] + rng.normal(size=(len(shown), *SHAPES["vector"]))).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """An algorithm with options that make it quick, on one kind of toy data."""

    algorithm: type[Algorithm]
    kind: Kind
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> Spec:
        """The options, on top of small values."""
        config_class = self.algorithm.config_class
        options = quick_options(config_class) | dict(self.options)
        return configured(config_class, options, where=f"options of {self.algorithm.__name__}")

    def data(self, sizes: Sequence[int] = SIZES) -> TensorData:
        """The toy to learn from."""
        return toy_data(self.kind, sizes)

    def build(self, data: TrainingData) -> Algorithm:
        """The algorithm as it begins."""
        new_network = network_maker(
            NetworkSpec(width=WIDTHS[self.kind]),
            SHAPES[self.kind],
            data.num_classes,
            torch.device("cpu"),
        )
        return self.algorithm.build(self.config, data, new_network)

    def trained(self, data: TrainingData, epochs: int = EPOCHS) -> tuple[Algorithm, list[Record]]:
        """The algorithm after some epochs, and what it recorded."""
        algorithm = self.build(data)
        return algorithm, [algorithm.run_epoch(epoch) for epoch in range(epochs)]


def quick_options(config_class: type[Spec]) -> dict[str, Any]:
    """Small values by a field's last words: few epochs reach every phase, a batch is small.

    The learning rate falls in the last of them, so a resumed run has to find the right one.
    """
    options: dict[str, Any] = {
        name: small
        for name in config_class.model_fields
        for ending, small in SMALL.items()
        if f"_{name}".endswith(f"_{ending}")
    }
    falling = {"sgd": {"milestones": (EPOCHS - 1,)}, "adam": {"constant_epochs": EPOCHS - 1}}
    return options | {name: falling[name] for name in falling if name in config_class.model_fields}


def check_algorithm(cls: type[Algorithm], options: Mapping[str, Any] | None = None) -> None:
    """Try every law on images and on vectors; raise AssertionError naming the one broken.

    `options` are options of the algorithm. They should let it reach its last phase within
    `EPOCHS` epochs; fields that end in a word of `SMALL` are small as it is.
    """
    for kind in KINDS:
        case = Case(cls, kind, options or {})
        for name, law in LAWS.items():
            try:
                law(case)
            except Exception as error:
                raise AssertionError(
                    f"{cls.__name__} breaks the law '{name}' on {kind}s: "
                    f"{type(error).__name__}: {error}"
                ) from error


def keeps_to_the_contract(case: Case) -> None:
    """It names its config, lets `run_epoch` alone, and learns with learners."""
    cls = case.algorithm
    require(issubclass(cls, Algorithm), "it is not an Algorithm")
    require(issubclass(cls.config_class, Spec), "config_class is not a Spec")
    require(cls.run_epoch is Algorithm.run_epoch, "it overrides run_epoch")
    cls.config_class()
    algorithm = case.build(case.data())
    require(len(algorithm.learners()) > 0, "it has no Learner")
    require(0 < algorithm.threshold < 1, f"its threshold is {algorithm.threshold}")


def same_seed_same_run(case: Case) -> None:
    """Records and weights to the bit, whatever the user's random state; another seed differs."""
    data = case.data()
    with random_states_kept():
        seed_everything(1)
        first, first_records = case.trained(data)
        seed_everything(2)
        second, second_records = case.trained(data)
    require(first_records == second_records, f"{first_records} and then {second_records}")
    require_same(first.state_dict(), second.state_dict(), "the state differs")
    _, other_records = case.trained(replace(data, seed=data.seed + 1))
    require(first_records != other_records, "another seed gives the same run")


def resuming_changes_nothing(case: Case) -> None:
    """Stopped after any epoch, saved, loaded and gone on with, it ends in the same bits."""
    data = case.data()
    end = EPOCHS + 1  # so that one stop lies inside the last phase
    straight, records = case.trained(data, end)
    for stop in range(1, end):
        stopped, _ = case.trained(data, stop)
        resumed = case.build(data)
        resumed.load_state_dict(through_a_file(stopped.state_dict()))
        require_same(
            resumed.judge().arrays(), stopped.judge().arrays(), f"judgement loaded after {stop}"
        )
        again = [resumed.run_epoch(epoch) for epoch in range(stop, end)]
        require(again == records[stop:], f"stopped after {stop}: {again}, not {records[stop:]}")
        require_same(straight.state_dict(), resumed.state_dict(), f"stopped after {stop}")
    require_same(straight.outputs(), resumed.outputs(), "the outputs differ")


def judges_every_example(case: Case) -> None:
    """In every phase: one opinion a label, all of it probabilities."""
    data = case.data()
    algorithm = case.build(data)
    check_judgement(algorithm.judge(), data)
    for epoch in range(EPOCHS):
        algorithm.run_epoch(epoch)
        check_judgement(algorithm.judge(), data)


def check_judgement(judgement: Judgement, data: TensorData) -> None:
    """Shapes and ranges of a judgement."""
    count, classes = len(data), data.num_classes
    require(np.array_equal(judgement.given, data.given.numpy()), "given labels differ")
    clean = judgement.clean_probability
    require(clean.shape == (count,), f"clean_probability has shape {clean.shape}")
    require(bool(((clean >= 0) & (clean <= 1)).all()), "clean_probability leaves [0, 1]")
    check_distributions(judgement.prediction, (count, classes), "prediction")
    check_distributions(judgement.corrected, (count, classes), "corrected")
    check_distributions(judgement.class_prior[None], (1, classes), "class_prior")
    for name, highest in (("epistemic", 1.0), ("aleatoric", np.inf)):
        column = getattr(judgement, name)
        require(column.shape == (count,), f"{name} has shape {column.shape}")
        inside = np.isnan(column) | ((column >= 0) & (column <= highest))
        require(bool(inside.all()), f"{name} leaves [0, {highest}]")


def predicts_without_a_trace(case: Case) -> None:
    """Rows of probabilities; no random number, no change, no influence of the other rows."""
    data = case.data()
    inputs = next(data.in_order()).inputs
    for epochs in (0, 1, EPOCHS):
        algorithm, _ = case.trained(data, epochs)
        before, modes = copy.deepcopy(algorithm.state_dict()), modes_of(algorithm)
        states = random_states()
        probability = predict(algorithm, inputs)
        check_distributions(probability.numpy(), (len(data), data.num_classes), "predict_proba")
        require(states == random_states(), "predict_proba draws a random number")
        require_same(before, algorithm.state_dict(), "predict_proba changes the state")
        require(modes == modes_of(algorithm), "predict_proba changes a module's mode")
        require_same(probability, predict(algorithm, inputs), "it predicts otherwise next time")
        alone = predict(algorithm, inputs[:1])
        torch.testing.assert_close(alone, probability[:1], rtol=1e-4, atol=1e-5)


def kept_networks_predict_alike(case: Case) -> None:
    """What a run saves, its networks, predicts as the algorithm does."""
    data = case.data()
    inputs = next(data.in_order()).inputs
    algorithm, _ = case.trained(data)
    networks = algorithm.networks()
    with torch.no_grad(), evaluating(*networks):
        kept = mean_prediction(networks, inputs)
    torch.testing.assert_close(kept, predict(algorithm, inputs), rtol=1e-4, atol=1e-6)


def judges_without_a_trace(case: Case) -> None:
    """Judging, handing over and predicting between epochs changes neither state nor course."""
    data = case.data()
    _, records = case.trained(data)
    algorithm = case.build(data)
    for epoch in range(EPOCHS):
        record = algorithm.run_epoch(epoch)
        require(record == records[epoch], f"judged, epoch {epoch} gives {record}")
        before, modes = copy.deepcopy(algorithm.state_dict()), modes_of(algorithm)
        first, outputs = algorithm.judge(), algorithm.outputs()
        require_same(first.arrays(), algorithm.judge().arrays(), "a second judgement differs")
        require_same(before, algorithm.state_dict(), "judge changes the state")
        require(modes == modes_of(algorithm), "judge changes a module's mode")
        for name, values in outputs.items():
            plain = isinstance(values, np.ndarray) and values.dtype != object
            require(plain, f"output {name} is not an array that can be stored")


def takes_a_class_of_one(case: Case) -> None:
    """A class with a single example."""
    learns(case, case.data((30, 9, 1)))


def takes_a_class_of_none(case: Case) -> None:
    """A class that no label names."""
    learns(case, case.data((30, 12, 0)))


def takes_any_number_of_examples(case: Case) -> None:
    """Batches that do not divide N, of which the last may be of one; more batch than data."""
    size = SMALL["batch_size"]
    for last in (1, 5):
        learns(case, case.data((size, size - 4, 4 + last)))
    learns(case, case.data((4, 3, 2)))


def learns(case: Case, data: TensorData) -> None:
    """All phases, ending in finite records and a full judgement."""
    algorithm, records = case.trained(data)
    check_records(records)
    check_judgement(algorithm.judge(), data)
    check_norms(algorithm, data)


def leaves_the_data_alone(case: Case) -> None:
    """Given labels and stored inputs stay as they came."""
    data = case.data()
    given, stored = data.given.clone(), data.stored.clone()
    algorithm, _ = case.trained(data)
    predict(algorithm, next(data.in_order()).inputs)
    judgement = algorithm.judge()
    judgement.given[:] = 0  # what is handed over is the receiver's own
    require(torch.equal(given, data.given), "the given labels changed")
    require(torch.equal(stored, data.stored), "the stored inputs changed")


def leaves_random_state_alone(case: Case) -> None:
    """Torch's, NumPy's and Python's random state are the user's."""
    data = case.data()
    states = random_states()
    algorithm = case.build(data)
    require(states == random_states(), "build changes the random state")
    for epoch in range(EPOCHS):
        algorithm.run_epoch(epoch)
        require(states == random_states(), f"run_epoch({epoch}) changes the random state")
        algorithm.judge()
        require(states == random_states(), "judge changes the random state")


def prints_nothing(case: Case) -> None:
    """Neither to stdout nor to stderr."""
    heard = io.StringIO()
    with redirect_stdout(heard), redirect_stderr(heard):
        algorithm, _ = case.trained(case.data())
        algorithm.judge()
        algorithm.outputs()
    require(not heard.getvalue(), f"it prints: {heard.getvalue()!r}")


def needs_only_the_protocol(case: Case) -> None:
    """Training data that has nothing but `TrainingData` is enough, and gives the same run."""
    data = case.data()
    only, records = case.trained(OnlyProtocol(data))
    only.judge()
    only.outputs()
    require(records == case.trained(data)[1], "it learns otherwise")


def records_finite_floats(case: Case) -> None:
    """What an epoch returns is names and finite floats."""
    check_records(case.trained(case.data())[1])


def check_records(records: Sequence[Record]) -> None:
    """Each a non-empty mapping from names to finite floats."""
    for epoch, record in enumerate(records):
        require(bool(record), f"epoch {epoch} records nothing")
        for name, value in record.items():
            fine = type(value) is float and bool(np.isfinite(value))
            require(fine, f"epoch {epoch}: {name} is {value!r}")


def norms_of_every_class(case: Case) -> None:
    """`weight_norms` has one number for each class."""
    data = case.data()
    check_norms(case.build(data), data)


def check_norms(algorithm: Algorithm, data: TensorData) -> None:
    """Shape and sign of the weight norms."""
    norms = algorithm.weight_norms()
    require(norms.shape == (data.num_classes,), f"weight_norms has shape {norms.shape}")
    require(bool((norms >= 0).all()), "weight_norms has a negative or undefined norm")


def tells_who_watches(case: Case) -> None:
    """In every epoch whoever watches is told, and that changes nothing."""
    data = case.data()
    algorithm = case.build(data)
    told: list[Averages] = []
    algorithm.on_step = told.append
    for epoch, record in enumerate(case.trained(data)[1]):
        told.clear()
        require(algorithm.run_epoch(epoch) == record, f"watched, epoch {epoch} differs")
        require(len(told) > 0, f"epoch {epoch} tells nothing: use self.averages()")


LAWS: dict[str, Callable[[Case], None]] = {
    law.__name__: law
    for law in (
        keeps_to_the_contract,
        same_seed_same_run,
        resuming_changes_nothing,
        judges_every_example,
        judges_without_a_trace,
        predicts_without_a_trace,
        kept_networks_predict_alike,
        takes_a_class_of_one,
        takes_a_class_of_none,
        takes_any_number_of_examples,
        leaves_the_data_alone,
        leaves_random_state_alone,
        prints_nothing,
        needs_only_the_protocol,
        records_finite_floats,
        norms_of_every_class,
        tells_who_watches,
    )
}


class OnlyProtocol:
    """Training data of which nothing can be had but what `TrainingData` promises."""

    def __init__(self, data: TensorData) -> None:
        self.__data = data

    @property
    def num_classes(self) -> int:
        """K."""
        return self.__data.num_classes

    @property
    def seed(self) -> int:
        """Of the run."""
        return self.__data.seed

    @property
    def given(self) -> Tensor:
        """(N,) labels as they came."""
        return self.__data.given

    @property
    def verified(self) -> Tensor | None:
        """(N,) labels that somebody checked."""
        return self.__data.verified

    def __len__(self) -> int:
        return len(self.__data)

    def batches(
        self, size: int, *, views: int = 1, strong: int = 0, among: Tensor | None = None
    ) -> Iterator[Batch]:
        """One shuffled pass."""
        return self.__data.batches(size, views=views, strong=strong, among=among)

    def in_order(self, size: int = 1024) -> Iterator[Batch]:
        """One pass in order."""
        return self.__data.in_order(size)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"it asks the training data for '{name}', which is not promised")


def require(condition: bool, message: str) -> None:
    """Assert, also where Python is told to skip assertions."""
    if not condition:
        raise AssertionError(message)


def require_same(first: Any, second: Any, message: str) -> None:
    """Nested tensors, arrays and numbers are equal to the bit."""
    torch.testing.assert_close(
        first, second, rtol=0, atol=0, equal_nan=True, msg=lambda found: f"{message}: {found}"
    )


def check_distributions(values: NDArray[Any], shape: tuple[int, int], name: str) -> None:
    """Every row of an array is a probability distribution."""
    require(values.shape == shape, f"{name} has shape {values.shape}, not {shape}")
    require(bool((values >= 0).all()), f"{name} has negative or undefined entries")
    require(bool(np.allclose(values.sum(1), 1, rtol=0, atol=1e-5)), f"rows of {name} miss 1")


def predict(algorithm: Algorithm, inputs: Tensor) -> Tensor:
    """What the algorithm predicts, asked as the trainer asks."""
    with torch.no_grad(), evaluating(algorithm):
        return algorithm.predict_proba(inputs)


def modes_of(algorithm: Algorithm) -> list[bool]:
    """Training or evaluation mode of each module."""
    return [part.training for part in algorithm.modules()]


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """The state as a checkpoint gives it back, without trusting any pickle."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded


# NumPy's old global generator is what is checked here: an algorithm must not use it.


def random_states() -> dict[str, bytes]:
    """Where the global random generators stand."""
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": pickle.dumps(np.random.get_state()),  # noqa: NPY002
        "python": pickle.dumps(random.getstate()),
    }


def seed_everything(seed: int) -> None:
    """Set the global random generators."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)


@contextmanager
def random_states_kept() -> Iterator[None]:
    """Whatever happens inside, the global random generators stand where they stood."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
