"""Options of a command that trains several runs: where they run."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ulc.errors import InputError

if TYPE_CHECKING:
    from ulc.experiments.launchers import Launcher

LauncherName = Annotated[
    str,
    typer.Option(
        help="Where runs are trained: local (processes of this machine), ray (Ray) or slurm (jobs "
        "of SLURM)."
    ),
]
AuditLauncher = Annotated[
    str | None,
    typer.Option(
        help="Where both models are trained, side by side: local (two processes of this machine), "
        "ray (Ray) or slurm (jobs of SLURM). Default: one after the other, in this process."
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Of a Ray cluster, such as HOST:6379. Default: Ray is started on this machine."
    ),
]
Slurm = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Option of SLURM's jobs, once for each: partition, account, qos, constraint, time "
        "(minutes, default 240), gpus, cpus, memory (GB).",
    ),
]


def chosen_launcher(name: str, address: str | None, slurm: "Sequence[str]") -> "Launcher | None":
    """The launcher of the options; None: local."""
    from ulc.experiments.launchers import find_launcher

    if name == "ray":  # its notices would go to stdout, where the table goes
        os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    options: dict[str, str] = {}
    for text in slurm:
        key, equals, value = text.partition("=")
        if not equals or not value:
            raise InputError(f"--slurm {text}: give KEY=VALUE, such as partition=gpu")
        options[key] = value
    return find_launcher(name, address=address, slurm=options)
