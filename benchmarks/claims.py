"""Claims of the paper as tests on the records: effect, number of pairs, and a verdict by rule.

claims.toml has the claims. A verdict follows from the 95 % interval of the mean over all pairs:

- "more" and "less" hold if the interval has only values of that sign;
- "equal" holds if the interval is within ± `bound`, and does not if it is outside.

Without records, with one pair, or with any other interval nothing is shown.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field
from scipy.stats import t as student_t

from benchmarks.differences import Pair, pairs_of, records_of, show_mean
from benchmarks.grid_records import RESULTS, Record
from benchmarks.grid_settings import SETTINGS
from benchmarks.grid_table import format_table
from benchmarks.measures import find_measure
from ulc.config import Spec, checked, read_toml

CLAIMS = Path(__file__).with_name("claims.toml")
LEAST_MOVE = 0.1  # share by which a standard deviation of noise has changed if it has learned


class Claim(Spec):
    """A claim as a test of one measure.

    title: the claim; section: heading on the page that has the details
    paper: the paper's effect in its own experiments; "": it gives no number
    method: name, and changes behind slashes
    reference: the method that it is compared with; None: the measure itself is tested
    measure: see measures.py
    kind: what the claim says of the difference
    bound: "equal" means within ± bound, in points or %
    relative: whether the difference is a share of the reference
    settings: patterns of the settings that count
    against: patterns of other settings, whose differences are subtracted seed by seed; of each
        side the mean of its settings counts
    noise_alive: whether only trainings count in which the logit noise has learned
    """

    title: str
    section: str
    paper: str = ""
    method: str
    reference: str | None = None
    measure: str
    kind: Literal["more", "less", "equal"]
    bound: float = Field(1.0, gt=0)
    relative: bool = False
    settings: tuple[str, ...] = ("*",)
    against: tuple[str, ...] = ()
    noise_alive: bool = False


@dataclass(frozen=True)
class Evidence:
    """Differences in points or %, one for each setting and seed, and the settings they are of."""

    numbers: Sequence[float]
    settings: Sequence[str]

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean, by Student's t; two numbers at least."""
        count = len(self.numbers)
        error = float(np.std(self.numbers, ddof=1)) / count**0.5
        reach = error * float(student_t.ppf(0.975, count - 1))
        mean = float(np.mean(self.numbers))
        return mean - reach, mean + reach


def read_claims(path: Path = CLAIMS) -> list[Claim]:
    """Read all claims, in the order of the file."""
    return [checked(Claim, each, where=path.name) for each in read_toml(path)["claims"]]


def claim_table(claims: Sequence[Claim] | None = None, results: Path = RESULTS) -> str:
    """Return a table with the effect and verdict of each claim; claims: None: all of the file."""
    head = ["claim of the paper", "in the paper", "here", "n", "settings", "verdict"]
    rows = []
    for claim in read_claims() if claims is None else claims:
        evidence = find_evidence(claim, results)
        count, settings = len(evidence.numbers), len(evidence.settings)
        unit = " %" if claim.relative or claim.reference is None else ""
        shown = show_mean(evidence.numbers, test=False) + (unit if count else "")
        title = f"[{claim.title}](#{claim.section})"
        rows.append([title, claim.paper or "–", shown, str(count), str(settings),
                     judge(claim, evidence)])  # fmt: skip
    return "\n".join(format_table(head, rows))


def judge(claim: Claim, evidence: Evidence) -> str:
    """Return the verdict on a claim, by the rule of this module."""
    if not evidence.numbers:
        return "no records"
    if len(evidence.numbers) == 1:
        return "one pair, no test"
    low, high = evidence.interval
    if claim.kind == "equal":
        if -claim.bound <= low and high <= claim.bound:
            return f"**holds** (within ± {claim.bound:g})"
        outside = low > claim.bound or high < -claim.bound
        return "**does not hold**" if outside else "not shown"
    if claim.kind == "less":
        low, high = -high, -low
    if low > 0:
        return "**holds**"
    return "**the opposite**" if high < 0 else "not shown"


def find_evidence(claim: Claim, results: Path = RESULTS) -> Evidence:
    """Return the numbers of a claim in all its settings."""
    own = by_setting(claim, claim.settings, results)
    if not claim.against:
        return Evidence([each for seeds in own.values() for each in seeds.values()], list(own))
    other = by_setting(claim, claim.against, results)
    first, second = (mean_by_seed(each.values()) for each in (own, other))
    common = sorted(first.keys() & second.keys())
    known = [*own, *other] if common else []
    return Evidence([first[seed] - second[seed] for seed in common], known)


def by_setting(claim: Claim, patterns: Sequence[str], results: Path) -> dict[str, dict[int, float]]:
    """Return the numbers of a claim by setting and seed; settings without any are left out."""
    found = {
        name: dict(numbers_of(claim, results / f"{name}.jsonl"))
        for name in read_toml(SETTINGS)
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }
    return {name: numbers for name, numbers in found.items() if numbers}


def numbers_of(claim: Claim, path: Path) -> Iterator[tuple[int, float]]:
    """Yield seed and number for each training, or pair of trainings, in a file of records."""
    _, read = find_measure(claim.measure)
    if claim.reference is None:
        pairs: list[Pair] = [(each, each) for each in records_of(path, claim.method)]
    else:
        pairs = pairs_of(path, claim.method, claim.reference)
    for record, reference in pairs:
        one, other = read(record), read(reference)
        if one is None or other is None:
            continue
        if claim.noise_alive and not has_learned_noise(record):
            continue
        if claim.reference is None:
            yield record["seed"], 100 * one
        else:
            yield record["seed"], 100 * (one / other - 1 if claim.relative else one - other)


def has_learned_noise(record: Record) -> bool:
    """Tell whether instance or class noise has moved since the first epoch that has it."""
    moves = [find_measure(name)[1](record) for name in ("noise-moved", "class-noise-moved")]
    return any(abs(each or 0.0) >= LEAST_MOVE for each in moves)


def mean_by_seed(settings: Iterable[Mapping[int, float]]) -> dict[int, float]:
    """Return the mean over the settings for every seed that all of them have."""
    several = list(settings)
    seeds = set.intersection(*(set(each) for each in several)) if several else set()
    return {seed: float(np.mean([each[seed] for each in several])) for seed in seeds}
