"""A stack machine that executes pickles of plain values; nothing in the pickle is called.

A pickle is a program for a stack machine. Python's own unpickler runs it with real classes: a
forged type description then makes NumPy read bytes of the file as pointers, and a forged memo
number takes gigabytes. This one executes only the instructions that lists, dictionaries, texts and
numbers need; its subclasses make arrays and tensors of known types themselves.
"""

import pickletools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from ulc.storage.memory import check_memory

# Instructions, and values of all lists; the largest official file, of CIFAR-100, has 400,000.
MOST_STEPS = 5_000_000
VALUE_BYTES = 256  # of memory that a value of a copied list or dictionary takes at most
MARK = object()


class PickleError(ValueError):
    """The file holds something other than plain arrays; the message says what."""


@dataclass(frozen=True)
class Name:
    """A function or class that the pickle names, as one of the values of `NAMES`."""

    kind: str


@dataclass
class Machine:
    """The stack and the memo of a pickle that is being read.

    No value of the pickle is shown in an error or hashed before its type is known: a list of lists
    that hold each other twice takes exponential time.

    file: its name, for errors about the bound of memory
    copied: bytes of memory that calls have taken so far; one value can be copied many times
    """

    file: str = "the pickle"
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)
    copied: int = 0

    def most_steps(self) -> int:
        """Return how many instructions a pickle may have."""
        return MOST_STEPS

    def steps(self) -> Mapping[str, Callable[["Machine", Any], Any]]:
        """Return the instructions that are executed, by name."""
        return STEPS

    def find_named(self) -> None:
        """Replace the module and the name on top of the stack by what they name."""
        name, module = self.pop(), self.pop()
        if not isinstance(module, str) or not isinstance(name, str):
            raise PickleError("a name is no text")
        self.stack.append(self.find(module, name))

    def find(self, module: str, name: str) -> Any:
        """Return what stands for a function or class that the pickle names."""
        raise PickleError(f"it asks for {module[:50]}.{name[:50]}")

    def reducer(self, kind: str) -> Callable[..., Any]:  # noqa: ARG002 (for subclasses)
        """Return what a call of the name of this kind does."""
        raise PickleError("it calls something")

    def build(self) -> None:
        """Give the state on top of the stack to the object below it."""
        raise PickleError("it sets the state of an object")

    def is_key(self, value: Any) -> bool:
        """Whether a value may be a key; nested tuples not: their hash takes exponential time."""
        return isinstance(value, str)

    def pop(self) -> Any:
        """Take the topmost value from the stack."""
        if not self.stack or self.stack[-1] is MARK:
            raise PickleError("a value is missing")
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        """Take all values above the last mark, and the mark, from the stack."""
        place = next((i for i in range(len(self.stack) - 1, -1, -1) if self.stack[i] is MARK), None)
        if place is None:
            raise PickleError("a mark is missing")
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    def top(self, *kinds: type[Any]) -> Any:
        """Return the topmost value, which must be of one of these classes."""
        if not self.stack or type(self.stack[-1]) not in kinds:
            raise PickleError(f"no {kinds[0].__name__} where one belongs")
        return self.stack[-1]

    def append(self, values: list[Any]) -> None:
        """Append values to the list on top of the stack."""
        self.top(list).extend(values)

    def set_items(self, values: list[Any]) -> None:
        """Put keys and values, in turn, into the dictionary on top of the stack."""
        keys = values[::2]
        if len(values) % 2 or not all(map(self.is_key, keys)):
            raise PickleError("a key is no text")
        self.top(dict, OrderedDict).update(zip(keys, values[1::2], strict=True))

    def make_dict(self) -> None:
        """Replace the keys and values above the last mark by a dictionary."""
        values = self.pop_to_mark()
        self.stack.append({})
        self.set_items(values)

    def remember(self, number: int) -> None:
        """Put the topmost value into the memo."""
        value = self.pop()
        self.stack.append(value)
        self.memo[number] = value

    def reduce(self) -> None:
        """Replace a named function and its arguments by what it would return."""
        arguments, name = self.pop(), self.pop()
        if not isinstance(name, Name) or not isinstance(arguments, tuple):
            raise PickleError("it calls something")
        self.charge(arguments)
        self.stack.append(self.reducer(name.kind)(*arguments))

    def charge(self, values: tuple[Any, ...]) -> None:
        """Count copies of these values; raise an InputError if all copies exceed the bound."""
        for value in values:
            if isinstance(value, str | bytes | bytearray):
                self.copied += len(value)
            elif isinstance(value, list | tuple | dict):
                self.copied += VALUE_BYTES * len(value)
        check_memory(self.copied, f"{self.file}: its content")


CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "MARK": lambda: MARK,
}
VALUES = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "STRING", "BINSTRING",
    "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES",
    "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
}  # fmt: skip
STEPS: dict[str, Callable[[Machine, Any], Any]] = {
    "PROTO": lambda *_: None,
    "FRAME": lambda *_: None,
    "TUPLE": lambda m, _: m.stack.append(tuple(m.pop_to_mark())),
    "TUPLE1": lambda m, _: m.stack.append((m.pop(),)),
    "TUPLE2": lambda m, _: m.stack.append((m.pop(), m.pop())[::-1]),
    "TUPLE3": lambda m, _: m.stack.append((m.pop(), m.pop(), m.pop())[::-1]),
    "LIST": lambda m, _: m.stack.append(m.pop_to_mark()),
    "DICT": lambda m, _: m.make_dict(),
    "APPEND": lambda m, _: m.append([m.pop()]),
    "APPENDS": lambda m, _: m.append(m.pop_to_mark()),
    "SETITEM": lambda m, _: m.set_items([m.pop(), m.pop()][::-1]),
    "SETITEMS": lambda m, _: m.set_items(m.pop_to_mark()),
    "POP": lambda m, _: m.pop(),
    "GLOBAL": lambda m, name: m.stack.append(m.find(*name.split(" ", 1))),
    "STACK_GLOBAL": lambda m, _: m.find_named(),
    "REDUCE": lambda m, _: m.reduce(),
    "BUILD": lambda m, _: m.build(),
    "MEMOIZE": lambda m, _: m.remember(len(m.memo)),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), Machine.remember),
    **dict.fromkeys(
        ("GET", "BINGET", "LONG_BINGET"), lambda m, number: m.stack.append(m.memo[number])
    ),
    **dict.fromkeys(VALUES, lambda m, value: m.stack.append(value)),
}


def run_pickle(content: bytes | BinaryIO, machine: Machine) -> Any:
    """Return the object that a pickle describes; raise if it needs more than plain values.

    content: a stream is read to the end of the pickle
    machine: what executes the instructions
    """
    most, steps = machine.most_steps(), machine.steps()
    for count, (step, argument, _) in enumerate(pickletools.genops(content)):
        if count >= most:
            raise PickleError(f"it has more than {most:,} instructions")
        if step.name == "STOP":
            return check_values(machine.pop(), most)
        if step.name in CONSTANTS:
            machine.stack.append(CONSTANTS[step.name]())
        elif step.name in steps:
            steps[step.name](machine, argument)
        else:
            raise PickleError(f"it uses {step.name}")
    raise PickleError("it has no end")


def check_values(content: Any, most: int) -> Any:
    """Return the content; raise a PickleError if all its lists have more values than `most`.

    A list counts each time that it is part of another one, as for a function that walks through
    all of them. So lists that hold each other twice, or themselves, are refused.
    """
    left, count = [content], 0
    while left:
        value = left.pop()
        if isinstance(value, dict | list | tuple):
            count += len(value)
            if count > most:
                raise PickleError(f"its lists have more than {most:,} values")
            left.extend(value.values() if isinstance(value, dict) else value)
    return content
