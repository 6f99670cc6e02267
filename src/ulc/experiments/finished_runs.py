"""Finished runs of any folders: which method, data and settings each has."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ulc.algorithms import ALGORITHMS, configure
from ulc.config import NoiseSpec, RunSpec
from ulc.errors import InputError
from ulc.experiments.paper.grids import TITLES, paper_grid
from ulc.networks import built_name
from ulc.settings.presets import find_preset
from ulc.settings.variants import VARIANTS
from ulc.storage.run_folder import RunFolder
from ulc.training.model import ModelSpec

Changes = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Method:
    """An algorithm and the options by which it is a variant of it, sorted by name."""

    algorithm: str
    changes: Changes = ()

    @property
    def name(self) -> str:
        """The name of the algorithm or variant, else the algorithm with its changes."""
        for name, (algorithm, own) in VARIANTS.items():
            if (algorithm, tuple(sorted(own.items()))) == (self.algorithm, self.changes):
                return name
        return self.algorithm + described(self.changes)


@dataclass(frozen=True)
class FinishedRun:
    """A finished run; what it holds is read from its files."""

    folder: RunFolder

    @cached_property
    def spec(self) -> RunSpec:
        """All settings of the run."""
        return self.folder.spec

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Mean scores of the last epochs, and scores of the best epoch."""
        content: dict[str, Any] = self.folder.read_json("summary.json")
        return content

    @cached_property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.folder.read_json("data.json")["class_names"])

    @cached_property
    def network(self) -> str:
        """The name of the network that was built."""
        if self.spec.network.name != "auto":
            return self.spec.network.name
        model = ModelSpec.read(self.folder)
        return built_name(model.network, model.preprocessing.input_shape)

    @cached_property
    def method(self) -> Method:
        """The method of the run."""
        return method_of(self.spec)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings but the seed, by names with dots."""
        return flat(self.spec.model_copy(update={"seed": 0}).content)

    @property
    def ends_after_warm_up(self) -> bool:
        """Whether training ends with the first epoch after the warm-up (figures 1 and 2)."""
        warm_up = self.spec.options.get("warmup_epochs")
        return isinstance(warm_up, int) and self.spec.epochs == warm_up + 1


def find_runs(paths: Sequence[Path]) -> tuple[list[FinishedRun], int]:
    """The finished runs in run folders, or in folders of run folders; and how many are unfinished.

    Raise an InputError for a folder without a run.
    """
    finished, unfinished = [], 0
    for path in paths:
        folders = [path] if (path / "spec.toml").is_file() else runs_inside(path)
        for each in folders:
            folder = RunFolder.open(each)
            if folder.done:
                finished.append(FinishedRun(folder))
            else:
                unfinished += 1
    if not finished:
        raise InputError(
            f"{', '.join(map(str, paths))}: no finished run; `ulc sweep` and `ulc train` make them"
        )
    return finished, unfinished


def runs_inside(path: Path) -> list[Path]:
    """The run folders inside a folder, by name; raise an InputError if there are none."""
    found = sorted(each.parent for each in path.glob("*/spec.toml"))
    if not found:
        raise InputError(f"{path}: no run folder, and none inside; give --out of `ulc sweep`")
    return found


def method_of(spec: RunSpec) -> Method:
    """The method of a spec: options that variants set count where they differ from the preset.

    Code that the spec names (module:Class) is not imported.
    """
    if spec.algorithm not in ALGORITHMS:
        return Method(spec.algorithm)
    usual = configure(spec.algorithm, {}).model_dump(mode="json") | find_preset(spec).options
    mine = configure(spec.algorithm, spec.options).model_dump(mode="json")
    keys = {
        key for algorithm, own in VARIANTS.values() if algorithm == spec.algorithm for key in own
    }
    changed = sorted((key, mine[key]) for key in keys if mine[key] != usual[key])
    return Method(spec.algorithm, tuple(changed))


def named_method(name: str, options: Mapping[str, Any]) -> Method:
    """The method of this name with these options, which count where they differ from defaults."""
    algorithm, own = VARIANTS.get(name, (name, {}))
    usual = configure(algorithm, {}).model_dump(mode="json")
    changed = {key: value for key, value in {**own, **options}.items() if value != usual[key]}
    return Method(algorithm, tuple(sorted(changed.items())))


def differing(settings: Iterable[Mapping[str, Any]]) -> list[str]:
    """The sorted names of the settings that are not the same in all."""
    several = list(settings)
    names = sorted({name for each in several for name in each})
    return [name for name in names if len({json.dumps(each.get(name)) for each in several}) > 1]


def described(changes: Iterable[tuple[str, Any]]) -> str:
    """Settings in brackets behind a name; empty without any."""
    text = ", ".join(f"{key.removeprefix('options.')} = {value}" for key, value in changes)
    return f" ({text})" if text else ""


def flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested content by names with dots."""
    found: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


def check_seeds(runs: Sequence[FinishedRun]) -> None:
    """Raise an InputError if two runs of the same settings have the same seed."""
    seen: dict[int, FinishedRun] = {}
    for run in runs:
        other = seen.setdefault(run.spec.seed, run)
        if other is not run:
            raise InputError(
                f"{run.folder.path} and {other.folder.path} have the same settings and seed; "
                "give only one of them"
            )


def data_title(run: FinishedRun) -> str:
    """The name of the data of a run: of the data set, else of its file or folder."""
    data = run.spec.data
    return TITLES.get(data.source) or Path(data.path or data.source).name


def setting_of(run: FinishedRun) -> str:
    """Data, noise and imbalance of a run, in words."""
    return ", ".join(part for part in setting_parts(run) if part)


def setting_parts(run: FinishedRun) -> tuple[str, str, str]:
    """Data, noise and imbalance of a run in words; "": none is injected."""
    noise, uneven = by_name(run.spec.noise), run.spec.imbalance
    rate = f" {100 * noise.rate:g} %" if noise.kind not in ("none", "matrix", "file") else ""
    kind = noise.tag if noise.kind == "file" else noise.kind.replace("_", " ")
    ratio = f"1:{uneven.ratio:g}" + (" long tail" if uneven.kind == "long_tail" else "")
    return (
        data_title(run),
        "" if noise.kind == "none" else kind + rate,
        "" if uneven.kind == "none" else ratio,
    )


def by_name(noise: NoiseSpec) -> NoiseSpec:
    """The noise that a matrix stands for at the scale `cpu`; any other noise itself."""
    columns = (column for column in paper_grid("table1").columns if column.cpu_noise is not None)
    return next((column.noise for column in columns if column.cpu_noise == noise), noise)


def whole_trainings(runs: Sequence[FinishedRun]) -> list[FinishedRun]:
    """The runs without those that end right after warm-up, if there are others of their kind."""
    longest: dict[tuple[str, str], int] = {}
    for run in runs:
        key = (setting_of(run), run.method.name)
        longest[key] = max(longest.get(key, 0), run.spec.epochs)
    return [
        run
        for run in runs
        if not run.ends_after_warm_up
        or longest[setting_of(run), run.method.name] == run.spec.epochs
    ]
