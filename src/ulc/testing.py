"""Laws that every algorithm must keep, and `check_algorithm` to test an algorithm of your own.

Each law is a function that raises an error if the algorithm breaks it. Each algorithm that a law
builds has data of its own, unless the law is about shared data.
"""

import copy
import io
import pickle
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
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
from ulc.data.torch_file import read_torch
from ulc.data.training import Batch, TensorData, TrainingData
from ulc.experiments.data_parallel import call_together
from ulc.labels.judgement import Judgement
from ulc.networks import network_maker
from ulc.training.pretended_device import can_pretend, pretended_device
from ulc.training.processes import leaves

Kind = Literal["image", "vector"]
KINDS: tuple[Kind, ...] = ("image", "vector")
SHAPES: dict[Kind, tuple[int, ...]] = {"image": (1, 8, 8), "vector": (6,)}
WIDTHS: dict[Kind, int] = {"image": 2, "vector": 8}
SIZES = (36, 15, 10)
EPOCHS = 3  # enough for every phase: with the values of SMALL, a phase takes one epoch
# Values of the options whose names end in these words.
SMALL = {"epochs": 1, "steps": 4, "batch_size": 16, "passes": 3, "tasks": 2}


def toy_data(
    kind: Kind, sizes: Sequence[int] = SIZES, *, wrong: float = 0.3, seed: int = 0
) -> TensorData:
    """Data with well-separated classes of unequal size, of which some labels are wrong.

    sizes: number of examples with each given label
    wrong: share of each given class, rounded down, whose inputs are drawn from another class

    The result does not say which labels are wrong.
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
        stored=preprocessing.stored(np.asarray(source.inputs)),
        given=torch.from_numpy(source.labels),
        num_classes=classes,
        seed=seed,
        preprocessing=preprocessing,
        augment=weak_augmentation(preprocessing.shape),
        strong=strong_augmentation(preprocessing.shape),
    )


def toy_images(shown: NDArray[Any], rng: np.random.Generator) -> NDArray[np.uint8]:
    """(N, C, H, W) dark images; the class `shown` decides which row is bright.

    Augmentation hardly moves this row.
    """
    channels, height, width = SHAPES["image"]
    images = rng.integers(0, 100, (len(shown), channels, height, width))
    images[np.arange(len(shown)), :, (2 * shown + 1) % height] += 150
    return images.astype(np.uint8)


def toy_vectors(shown: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float32]:
    """(N, D) vectors from one Gaussian for each class in `shown`, with a mean of its own."""
    centres = 3 * np.random.default_rng(0).normal(size=(int(shown.max()) + 1, *SHAPES["vector"]))
    return (centres[shown] + rng.normal(size=(len(shown), *SHAPES["vector"]))).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """An algorithm, its options, and the kind of toy data to test it on."""

    algorithm: type[Algorithm]
    kind: Kind
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> Spec:
        """The algorithm's config: `quick_options`, overridden by `options`."""
        config_class = self.algorithm.config_class
        options = quick_options(config_class) | dict(self.options)
        return configured(config_class, options, where=f"options of {self.algorithm.__name__}")

    def data(self, sizes: Sequence[int] = SIZES) -> TensorData:
        """New toy data; sizes: number of examples with each given label."""
        return toy_data(self.kind, sizes)

    def build(self, data: TrainingData) -> Algorithm:
        """A new algorithm on these data."""
        new_network = network_maker(
            NetworkSpec(width=WIDTHS[self.kind]),
            SHAPES[self.kind],
            data.num_classes,
            data.given.device,
        )
        return self.algorithm.build(self.config, data, new_network)

    def trained(self, data: TrainingData, epochs: int = EPOCHS) -> tuple[Algorithm, list[Record]]:
        """A new algorithm, trained for `epochs` epochs on these data, and its records."""
        algorithm = self.build(data)
        return algorithm, [algorithm.run_epoch(epoch) for epoch in range(epochs)]


def quick_options(config_class: type[Spec]) -> dict[str, Any]:
    """Options of an algorithm that make tests fast: small values for fields that end as in SMALL.

    The learning rate also falls in the last epoch, so that a test fails if a resumed run sets
    another rate.
    """
    options: dict[str, Any] = {
        name: small
        for name in config_class.model_fields
        for ending, small in SMALL.items()
        if f"_{name}".endswith(f"_{ending}")
    }
    falling = {"sgd": {"milestones": (EPOCHS - 1,)}, "adam": {"constant_epochs": EPOCHS - 1}}
    return options | {name: falling[name] for name in falling if name in config_class.model_fields}


def check_algorithm(
    cls: type[Algorithm], options: Mapping[str, Any] | None = None, *, processes: int = 1
) -> None:
    """Test every law on images and on vectors; raise an AssertionError that names a broken law.

    options: options that override `quick_options`; with them the algorithm should reach its last
        phase within `EPOCHS` epochs
    processes: 2 or more: also start so many processes, and test that they train together as one
        process alone; the algorithm must be in a module that they can import
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

    if processes > 1:
        check_processes([Case(cls, kind, options or {}) for kind in KINDS], processes)


def check_processes(cases: Sequence[Case], processes: int) -> None:
    """Check that processes which train together end as one alone, except for rounding.

    An algorithm breaks this law if it draws other random numbers in each process, or if it mixes
    rows inside the backbone, where each process has only its own rows.
    """
    name = cases[0].algorithm.__name__
    try:
        pickle.dumps(cases)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise AssertionError(
            f"{name} cannot be sent to other processes ({error}); define it in a module, at its "
            "top level"
        ) from None
    of_all, of_one = (
        call_together(partial(train_cases, cases), processes, "cpu"),
        train_cases(cases),
    )
    for rank, of_rank in enumerate(of_all):
        for case, found, alone in zip(cases, of_rank, of_one, strict=True):
            broken = first_difference(alone, found)
            require(
                broken is None,
                f"{name} breaks the law 'processes_agree' on {case.kind}s: after {EPOCHS} epochs "
                f"its {broken} in process {rank} of {processes} differs from that of one alone",
            )


Results = dict[str, list[NDArray[Any]]]


def train_cases(cases: Sequence[Case], *_: object) -> list[Results]:
    """All numbers that each case has after training, by the kind of result."""
    results = []
    for case in cases:
        algorithm, records = case.trained(case.data())
        content = {
            "record": records,
            "judgement": algorithm.judge().arrays(),
            "output": algorithm.outputs(),
            "state": algorithm.state_dict(),
        }
        results.append({name: numbers_in(each) for name, each in content.items()})
    return results


def numbers_in(content: Any) -> list[NDArray[Any]]:
    """All tensors, arrays and numbers in nested mappings and lists, as arrays of float64."""
    arrays = [
        np.asarray(each.detach().cpu() if isinstance(each, Tensor) else each)
        for each in leaves(content)
    ]
    return [each.astype(np.float64) for each in arrays if each.dtype.kind in "biuf"]


def first_difference(alone: Results, found: Results, relative: float = 0.01) -> str | None:
    """The kind of result in which an array differs; None: there is none.

    relative: largest allowed difference, relative to the largest number of the array
    """
    for name, arrays in alone.items():
        for one, other in zip(arrays, found[name], strict=True):
            largest = np.abs(np.nan_to_num(one)).max(initial=1e-6)
            if not np.allclose(other, one, rtol=0, atol=relative * largest, equal_nan=True):
                return name
    return None


def follows_the_contract(case: Case) -> None:
    """It has a config_class and learners, and does not override `run_epoch`."""
    cls = case.algorithm
    require(issubclass(cls, Algorithm), "it is not an Algorithm")
    require(issubclass(cls.config_class, Spec), "config_class is not a Spec")
    require(cls.run_epoch is Algorithm.run_epoch, "it overrides run_epoch")
    cls.config_class()
    algorithm = case.build(case.data())
    require(len(algorithm.learners()) > 0, "it has no Learner")
    require(0 < algorithm.threshold < 1, f"its threshold is {algorithm.threshold}")


def shares_no_memory(case: Case) -> None:
    """It shares no memory with the data or another algorithm, and hands over copies.

    Where two algorithms are built from the same data, training one must not affect the other.
    """
    data = case.data()
    first, second = case.build(data), case.build(data)
    before = copy.deepcopy(second.state_dict())
    others = {
        "the training data": storages([data.given, data.stored, data.verified]),
        "another algorithm": storages(second.state_dict()),
    }
    for epoch in range(EPOCHS):
        for name, addresses in others.items():
            shared = storages(first.state_dict()) & addresses
            require(not shared, f"a tensor of its state is memory of {name}; clone it")
        first.run_epoch(epoch)
    require_same(before, second.state_dict(), "training one algorithm changes another")
    after = copy.deepcopy(first.state_dict())
    for array in [*first.judge().arrays().values(), *first.outputs().values()]:
        if array.flags.writeable:
            array.fill(0)
    require_same(after, first.state_dict(), "its judgement or outputs are memory of its state")
    records = []
    with random_states_kept():
        for _ in range(2):
            seed_everything(0)  # another law is about global random numbers
            records.append(case.trained(case.data())[1])
    require(records[0] == records[1], "its class or module keeps state from an earlier algorithm")


def storages(content: Any) -> set[int]:
    """Addresses of the memory of all tensors in nested mappings and lists."""
    if isinstance(content, Tensor):
        storage = content.untyped_storage()
        return {storage.data_ptr()} if storage.nbytes() else set()
    if isinstance(content, Mapping):
        content = list(content.values())
    if isinstance(content, list | tuple):
        return set().union(*map(storages, content))
    return set()


def same_seed_same_run(case: Case) -> None:
    """The same seed gives the same records and state to the bit; another seed gives others."""
    with random_states_kept():
        seed_everything(1)
        first, first_records = case.trained(case.data())
        seed_everything(2)
        second, second_records = case.trained(case.data())
    require(first_records == second_records, f"{first_records} and then {second_records}")
    require_same(first.state_dict(), second.state_dict(), "the state differs")
    data = case.data()
    _, other_records = case.trained(replace(data, seed=data.seed + 1))
    require(first_records != other_records, "another seed gives the same run")


def resuming_changes_nothing(case: Case) -> None:
    """Stopped after any epoch, saved and loaded, it ends with the same bits as without a stop."""
    end = EPOCHS + 1  # so that one stop lies inside the last phase
    straight, records = case.trained(case.data(), end)
    for stop in range(1, end):
        stopped, _ = case.trained(case.data(), stop)
        resumed = case.build(case.data())
        resumed.load_state_dict(through_a_file(stopped.state_dict()))
        require_same(
            resumed.judge().arrays(), stopped.judge().arrays(), f"judgement loaded after {stop}"
        )
        again = [resumed.run_epoch(epoch) for epoch in range(stop, end)]
        require(again == records[stop:], f"stopped after {stop}: {again}, not {records[stop:]}")
        require_same(straight.state_dict(), resumed.state_dict(), f"stopped after {stop}")
    require_same(straight.outputs(), resumed.outputs(), "the outputs differ")


def judges_every_label(case: Case) -> None:
    """In every phase it judges each label, and its numbers are probabilities."""
    data = case.data()
    algorithm = case.build(data)
    check_judgement(algorithm.judge(), data)
    for epoch in range(EPOCHS):
        algorithm.run_epoch(epoch)
        check_judgement(algorithm.judge(), data)


def check_judgement(judgement: Judgement, data: TensorData) -> None:
    """Check shapes and ranges of a judgement."""
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


def predicting_changes_nothing(case: Case) -> None:
    """Predicting draws no random number and changes no state; rows do not affect each other."""
    for epochs in (0, 1, EPOCHS):
        data = case.data()
        inputs = next(data.in_order()).inputs
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


def networks_predict_like_the_algorithm(case: Case) -> None:
    """The networks, which a run saves, predict the same as the algorithm."""
    data = case.data()
    inputs = next(data.in_order()).inputs
    algorithm, _ = case.trained(data)
    networks = algorithm.networks()
    with torch.no_grad(), evaluating(*networks):
        kept = mean_prediction(networks, inputs)
    torch.testing.assert_close(kept, predict(algorithm, inputs), rtol=1e-4, atol=1e-6)


def judging_changes_nothing(case: Case) -> None:
    """Judging between epochs changes neither the state nor the epochs that follow."""
    _, records = case.trained(case.data())
    algorithm = case.build(case.data())
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


def works_with_a_class_of_one(case: Case) -> None:
    """It trains with a class that has a single example."""
    check_training(case, case.data((30, 9, 1)))


def works_with_an_empty_class(case: Case) -> None:
    """It trains with a class that has no example."""
    check_training(case, case.data((30, 12, 0)))


def works_with_any_number_of_examples(case: Case) -> None:
    """It trains where the last batch has few examples or one, and on less than one batch."""
    size = SMALL["batch_size"]
    for last in (1, 5):
        check_training(case, case.data((size, size - 4, 4 + last)))
    check_training(case, case.data((4, 3, 2)))


def check_training(case: Case, data: TensorData) -> None:
    """Train through all phases, and check records, judgement and measures of classes."""
    algorithm, records = case.trained(data)
    check_records(records)
    check_judgement(algorithm.judge(), data)
    check_class_measures(algorithm, data)


def does_not_change_the_data(case: Case) -> None:
    """It does not change given labels or stored inputs; its judgement holds copies of them."""
    data = case.data()
    given, stored = data.given.clone(), data.stored.clone()
    algorithm, _ = case.trained(data)
    predict(algorithm, next(data.in_order()).inputs)
    judgement = algorithm.judge()
    judgement.given[:] = 0  # must be a copy
    require(torch.equal(given, data.given), "the given labels changed")
    require(torch.equal(stored, data.stored), "the stored inputs changed")


def does_not_change_the_random_state(case: Case) -> None:
    """The global random states of torch, NumPy and Python stay as they are."""
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
    """It prints neither to stdout nor to stderr."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        algorithm, _ = case.trained(case.data())
        algorithm.judge()
        algorithm.outputs()
    require(not printed.getvalue(), f"it prints: {printed.getvalue()!r}")


def needs_only_the_protocol(case: Case) -> None:
    """It uses nothing of the training data but the protocol `TrainingData`."""
    only, records = case.trained(OnlyProtocol(case.data()))
    only.judge()
    only.outputs()
    require(records == case.trained(case.data())[1], "its records differ")


def records_finite_floats(case: Case) -> None:
    """The record of each epoch maps names to finite floats."""
    check_records(case.trained(case.data())[1])


def check_records(records: Sequence[Record]) -> None:
    """Check that each record is a non-empty mapping from names to finite floats."""
    for epoch, record in enumerate(records):
        require(bool(record), f"epoch {epoch} records nothing")
        for name, value in record.items():
            fine = type(value) is float and bool(np.isfinite(value))
            require(fine, f"epoch {epoch}: {name} is {value!r}")


def measures_every_class(case: Case) -> None:
    """Each of its `class_measures` has one finite number for each class."""
    data = case.data()
    check_class_measures(case.build(data), data)


def check_class_measures(algorithm: Algorithm, data: TensorData) -> None:
    """Check shape and values of the measures of classes."""
    for name, values in algorithm.class_measures().items():
        require(values.shape == (data.num_classes,), f"{name} has shape {values.shape}")
        require(bool(np.isfinite(values).all()), f"{name} has a value that is not finite")


def reports_every_epoch(case: Case) -> None:
    """It calls `on_step` in every epoch, and that does not change the records."""
    algorithm = case.build(case.data())
    calls: list[Averages] = []
    algorithm.on_step = calls.append
    for epoch, record in enumerate(case.trained(case.data())[1]):
        calls.clear()
        require(algorithm.run_epoch(epoch) == record, f"with on_step, epoch {epoch} differs")
        require(len(calls) > 0, f"epoch {epoch} does not call on_step; use self.averages()")


def works_on_another_device(case: Case) -> None:
    """It trains, judges, predicts, stops and resumes if the data are not on the CPU.

    The device is a GPU if there is one, else a pretended one (`training/pretended_device.py`).
    """
    with another_device() as device:
        if device is None:
            return
        data = data_on(device, case.data((12, 6, 4)))
        algorithm, _ = case.trained(data)
        algorithm.judge()
        algorithm.outputs()
        algorithm.class_measures()
        predict(algorithm, next(data.in_order()).inputs)
        resumed = case.build(data)
        resumed.load_state_dict(through_a_file(algorithm.state_dict()))
        resumed.run_epoch(EPOCHS)


@contextmanager
def another_device() -> Iterator[torch.device | None]:
    """Context manager: a device that is not the CPU; None: this torch can pretend none."""
    if torch.cuda.is_available():
        yield torch.device("cuda")
    elif can_pretend():
        with pretended_device() as pretended:
            yield pretended.device
    else:
        yield None


def data_on(device: torch.device, data: TensorData) -> TensorData:
    """The same data on another device."""
    return replace(data, stored=data.stored.to(device), given=data.given.to(device))


# Laws on which other laws rely come first, so that `check_algorithm` names the right one.
LAWS: dict[str, Callable[[Case], None]] = {
    law.__name__: law
    for law in (
        follows_the_contract,
        shares_no_memory,
        does_not_change_the_data,
        same_seed_same_run,
        resuming_changes_nothing,
        judges_every_label,
        judging_changes_nothing,
        predicting_changes_nothing,
        networks_predict_like_the_algorithm,
        works_with_a_class_of_one,
        works_with_an_empty_class,
        works_with_any_number_of_examples,
        does_not_change_the_random_state,
        prints_nothing,
        needs_only_the_protocol,
        records_finite_floats,
        measures_every_class,
        reports_every_epoch,
        works_on_another_device,
    )
}


class OnlyProtocol:
    """Training data that have nothing but the protocol `TrainingData`."""

    def __init__(self, data: TensorData) -> None:
        self.__data = data

    @property
    def num_classes(self) -> int:
        """Number K of classes."""
        return self.__data.num_classes

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.__data.seed

    @property
    def given(self) -> Tensor:
        """(N,) given labels."""
        return self.__data.given

    @property
    def verified(self) -> Tensor | None:
        """(N,) mask of the labels that a person has checked, or None."""
        return self.__data.verified

    @property
    def first_copy(self) -> Tensor:
        """(N,) position of the first row with the same inputs."""
        return self.__data.first_copy

    def __len__(self) -> int:
        return len(self.__data)

    def batches(
        self, size: int, *, views: int = 1, strong: int = 0, among: Tensor | None = None
    ) -> Iterator[Batch]:
        """One shuffled pass over the data, or over the positions in `among`."""
        return self.__data.batches(size, views=views, strong=strong, among=among)

    def in_order(self, size: int = 1024, *, among: Tensor | None = None) -> Iterator[Batch]:
        """One pass over the data in order, without augmentation."""
        return self.__data.in_order(size, among=among)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"it uses '{name}' of the data, which is not in TrainingData")


def require(condition: bool, message: str) -> None:
    """Raise an AssertionError with the message unless the condition holds, also in `python -O`."""
    if not condition:
        raise AssertionError(message)


def require_same(first: Any, second: Any, message: str) -> None:
    """Check that nested tensors, arrays and numbers are equal to the bit."""
    torch.testing.assert_close(
        first, second, rtol=0, atol=0, equal_nan=True, msg=lambda found: f"{message}: {found}"
    )


def check_distributions(values: NDArray[Any], shape: tuple[int, int], name: str) -> None:
    """Check that every row of an array is a probability distribution."""
    require(values.shape == shape, f"{name} has shape {values.shape}, not {shape}")
    require(bool((values >= 0).all()), f"{name} has negative or undefined entries")
    require(
        bool(np.allclose(values.sum(1), 1, rtol=0, atol=1e-5)), f"rows of {name} do not sum to 1"
    )


def predict(algorithm: Algorithm, inputs: Tensor) -> Tensor:
    """The algorithm's prediction in evaluation mode."""
    with torch.no_grad(), evaluating(algorithm):
        return algorithm.predict_proba(inputs)


def modes_of(algorithm: Algorithm) -> list[bool]:
    """Training or evaluation mode of each module."""
    return [part.training for part in algorithm.modules()]


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """The state after it was saved and loaded like a checkpoint."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = read_torch(file, "the state")
    return loaded


# NumPy's global generator is used here only to check that an algorithm does not use it.


def random_states() -> dict[str, bytes]:
    """The states of the global random generators."""
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": pickle.dumps(np.random.get_state()),  # noqa: NPY002
        "python": pickle.dumps(random.getstate()),
    }


def seed_everything(seed: int) -> None:
    """Seed the global random generators."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)


@contextmanager
def random_states_kept() -> Iterator[None]:
    """Context manager: restore the states of the global random generators at the end."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
