"""Learn from wrong labels on uneven classes.

The public names are imported when they are first used, so that `import ulc` is fast.
"""

from importlib import import_module
from importlib.metadata import version
from typing import Any

__version__ = version("ulc")

_PLACES = {
    "ALGORITHMS": "ulc.algorithms",
    "Accepting": "ulc.applying.apply",
    "InputError": "ulc.errors",
    "Judgement": "ulc.labels.judgement",
    "NoisyLabelClassifier": "ulc.estimators.classifier",
    "RayLauncher": "ulc.experiments.ray_launcher",
    "RunSpec": "ulc.config",
    "SlurmLauncher": "ulc.experiments.slurm_launcher",
    "ULCClassifier": "ulc.estimators.classifier",
    "apply_decisions": "ulc.api",
    "audit": "ulc.api",
    "compare": "ulc.experiments.comparison",
    "find_label_issues": "ulc.estimators.issues",
    "load_run": "ulc.api",
    "paper_sweep": "ulc.experiments.paper.cells",
    "sweep": "ulc.experiments.sweep",
    "train": "ulc.api",
    "with_preset": "ulc.settings.presets",
}
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'ulc' has no attribute '{name}'; it has {', '.join(__all__)}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__
