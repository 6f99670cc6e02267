"""Signs that data are not what they should be, found before anything is trained."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from ulc.data.sources.source import Source
from ulc.labels.duplicates import find_copies

FEW_ROWS = 50
FEW_ROWS_A_CLASS = 5  # on average
SHOWN = 3  # names in a warning
COPIES = "copies of one another"
LIST = re.compile(r"\s*[\[({].*[\])}]\s*", re.DOTALL)  # a list as Python writes it
SEPARATOR = re.compile(r"\s*[;|,]\s*")  # between the classes of a list without brackets


def find_warnings(source: Source) -> tuple[str, ...]:
    """Return warnings about the rows and labels, each a sentence that names the first cases."""
    return (
        *warn_of_few_rows(source),
        *warn_of_single_rows(source),
        *warn_of_empty_rows(source),
        *warn_of_lists(source.class_names),
        *warn_of_similar_names(source.class_names),
        *warn_of_copies(source),
    )


def warn_of_few_rows(source: Source) -> Iterator[str]:
    """Warn if there are so few rows that scores mean little."""
    rows, classes = len(source.labels), len(source.class_names)
    if rows < FEW_ROWS:
        yield f"only {rows} rows: too few to judge labels by; scores mean little"
    elif rows < FEW_ROWS_A_CLASS * classes:
        what = f"{rows} rows for {classes} classes"
        yield f"only {what}: too few to judge labels by; scores mean little"


def warn_of_single_rows(source: Source) -> Iterator[str]:
    """Warn of classes that have one row."""
    sizes = np.bincount(source.labels, minlength=len(source.class_names))
    single = [source.class_names[k] for k in np.flatnonzero(sizes == 1)]
    if single:
        what = "1 class has" if len(single) == 1 else f"{len(single)} classes have"
        yield f"{what} a single row ({name_some(single)}): nothing can be learned about it"


def warn_of_empty_rows(source: Source) -> Iterator[str]:
    """Warn of rows that have hardly any value."""
    rows = np.flatnonzero(() if source.nearly_empty is None else source.nearly_empty)
    if len(rows):
        names = [str(row if source.ids is None else source.ids[row]) for row in rows]
        what = "1 row has" if len(rows) == 1 else f"{len(rows)} rows have"
        yield f"{what} hardly any values ({name_some(names)}): these labels cannot be judged"


def warn_of_lists(names: Sequence[str]) -> Iterator[str]:
    """Warn of labels that look like lists of classes, because a row has one class here."""
    several = [name for name in names if LIST.fullmatch(name) and SEPARATOR.search(name)]
    if not several:
        parts = {name: SEPARATOR.split(name) for name in names if SEPARATOR.search(name)}
        times = Counter(part for name in names for part in set(parts.get(name, [name])))
        several = [name for name in parts if all(times[part] > 1 for part in parts[name])]
    if several:
        yield (
            f"labels such as {name_some(several)} look like lists of classes; each is taken for a "
            "class of its own, because a row has one class"
        )


def warn_of_similar_names(names: Sequence[str]) -> Iterator[str]:
    """Warn of class names that differ only in upper and lower case or in spaces."""
    alike = defaultdict(list)
    for name in names:
        alike["".join(name.casefold().split())].append(name)
    groups = [each for each in alike.values() if len(each) > 1]
    if groups:
        first = " and ".join(f"'{name}'" for name in groups[0])
        more = f", and {len(groups) - 1} more such groups" if len(groups) > 1 else ""
        yield (
            f"the classes {first} differ only in upper and lower case or in spaces{more}; "
            "make them one class if they mean the same"
        )


def warn_of_copies(source: Source) -> Iterator[str]:
    """Warn of identical rows that have different labels."""
    inputs = source.inputs if isinstance(source.inputs, np.ndarray) else source.inputs.digests
    copies = find_copies(inputs, source.nearly_empty)
    conflicts = np.flatnonzero(copies.in_conflict(source.labels))
    if len(conflicts) == 0:
        return
    rows = copies.group(int(conflicts[0]))
    other = rows[np.argmax(source.labels[rows] != source.labels[rows[0]])]
    first, second = (
        f"'{row if source.ids is None else source.ids[row]}' is "
        f"{source.class_names[source.labels[row]]}"
        for row in (rows[0], other)
    )
    count = int(copies.sizes[conflicts].sum())
    more = ", …" if count > 2 else ""
    yield f"{count} rows are {COPIES} with different labels ({first}, {second}{more})"


def name_some(names: Sequence[str]) -> str:
    """Return the first names in quotes."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(f"'{name}'" for name in names[:SHOWN]) + more
