"""Settings and methods of the grid, and the spec of each of its cells."""

import argparse
import os
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ulc.algorithms import ALGORITHMS
from ulc.cli import parse
from ulc.config import NoiseSpec, RunSpec, checked, merge, read_toml
from ulc.errors import InputError
from ulc.settings.presets import known_options
from ulc.settings.variants import VARIANTS, variant
from ulc.training.run import resolved

SETTINGS = Path(__file__).with_name("grid.toml")
CEILING = "ceiling"  # cross entropy on the true labels
METHODS = (*ALGORITHMS, *VARIANTS, CEILING)
FILES = {  # name in grid.toml and of the option: environment variable and content
    "features": ("ULC_FEATURES", "npz of frozen features of CIFAR-10"),
    "features100": ("ULC_FEATURES100", "npz of frozen features of CIFAR-100"),
    "human": ("ULC_CIFAR10N", "npz or pt with the labels of CIFAR-10N"),
    "cifar": ("ULC_CIFAR10", "folder of CIFAR-10"),
    "cifar_part": ("ULC_CIFAR10_PART", "folder that `part_of_cifar10` has written"),
}


@dataclass(frozen=True)
class Setting:
    """Data, imbalance and noise by name; `base` is the spec without a method.

    searched: the setting whose search chose options for this one; None: there is no search
    options: options for every method that has them
    own_options: further options, by the name of an algorithm
    """

    name: str
    base: RunSpec
    searched: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    own_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """One training: a method with a seed in a setting.

    changes: epochs and options that differ from the preset, as `key=value`
    searched: whether a search has chosen them
    """

    setting: str
    method: str
    seed: int
    spec: RunSpec = field(repr=False)
    changes: tuple[str, ...] = ()
    searched: bool = False

    @property
    def name(self) -> str:
        return " ".join([self.setting, self.method, *self.changes, f"seed {self.seed}"])


def add_setting_options(parser: argparse.ArgumentParser) -> None:
    """Add options for the settings, and for each file that they need."""
    parser.add_argument(
        "settings", metavar="SETTING[,SETTING]", help=f"of {', '.join(read_toml(SETTINGS))}"
    )
    parser.add_argument("--grid", type=Path, default=SETTINGS, help="another file of settings")
    for name, (variable, content) in FILES.items():
        about = f"{content}, or ${variable}"
        parser.add_argument(f"--{name}", default=os.environ.get(variable) or None, help=about)


def find_settings(options: argparse.Namespace) -> list[Setting]:
    """Return the settings that the options name."""
    files = {name: getattr(options, name) for name in FILES}
    table = read_toml(options.grid)
    names = parse.names(options.settings, "SETTING") or []
    return [find_setting(name, files, table) for name in names]


def find_setting(
    name: str,
    files: Mapping[str, str | None],
    table: Mapping[str, dict[str, Any]],
    *,
    must_exist: bool = True,
) -> Setting:
    """Return a setting with its files; raise if it is unknown or a file is missing.

    files: paths by the names of FILES; None: not given
    table: all settings, as `read_toml` reads them
    must_exist: whether a path without a file is an error
    """
    if name not in table:
        raise InputError(f"no setting is called '{name}'; known: {', '.join(table)}")
    texts = {"imbalance": "none", "noise": "none", "network": "auto"} | table[name]

    def with_files(text: str) -> str:
        return put_files(text, files, name, must_exist=must_exist)

    noise = texts["noise"]  # as on the command line, or a section: a matrix
    base = RunSpec(
        data=parse.data(with_files(texts["data"])),
        imbalance=parse.imbalance(texts["imbalance"]),
        noise=parse.noise(with_files(noise))
        if isinstance(noise, str)
        else checked(NoiseSpec, noise, where=name),
        network=parse.network(texts["network"], {}),
        **{key: texts[key] for key in ("epochs", "compute") if key in texts},
    )
    own = texts.get("options", {}), texts.get("own_options", {})
    return Setting(name, base, texts.get("searched"), *own)


def put_files(text: str, files: Mapping[str, str | None], setting: str, *, must_exist: bool) -> str:
    """Replace the names in braces by the paths of files."""
    for _, name, _, _ in string.Formatter().parse(text):
        path = files.get(name) if name else ""
        if path is None:
            variable, content = FILES[str(name)]
            raise InputError(f"the setting '{setting}' needs --{name} or ${variable}: {content}")
        if must_exist and path and not Path(path).exists():
            raise InputError(f"--{name} {path}: no such file or folder; correct the path")
    return text.format_map({name: path or "" for name, path in files.items()})


def make_cell(setting: Setting, method: str, seed: int, changes: Sequence[str] = ()) -> Cell:
    """Return the cell with the spec of its training, with the value of every option.

    changes: `key=value` as after --set; `epochs=N` sets the number of epochs
    """
    if method not in METHODS:
        raise InputError(f"no method is called '{method}'; known: {', '.join(METHODS)}")
    algorithm = algorithm_of(method)
    own = setting.own_options.get(algorithm, {})
    shared = merge(known_options(algorithm, setting.options), own)
    options = merge(shared, parse.settings(list(changes)))
    epochs = {"epochs": options.pop("epochs")} if "epochs" in options else {}
    # Only values that are set override those of the preset.
    content = setting.base.model_dump(exclude_unset=True) | epochs | {"seed": seed}
    base = checked(RunSpec, content, where="--set")
    if method == CEILING:
        spec = variant(base, "ce", options=options).model_copy(update={"noise": NoiseSpec()})
    else:
        spec = variant(base, method, options=options)
    return Cell(setting.name, method, seed, resolved(spec), tuple(changes))


def algorithm_of(method: str) -> str:
    """Return the name of the algorithm that a method trains."""
    algorithm, _ = VARIANTS.get(method, ("ce" if method == CEILING else method, {}))
    return algorithm
