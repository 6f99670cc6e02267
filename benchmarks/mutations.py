"""Mutants of Python source: each has one small change, which a test should notice."""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div, ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.MatMult: ast.Mult,
}  # fmt: skip
# Their values say how strictly something is checked, or how it is shown; no result depends on them.
SKIPPED_KEYWORDS = ("strict", "stacklevel", "indent", "repr", "compare", "timeout")


@dataclass(frozen=True)
class Mutant:
    """A file with one change.

    path: of the file, below the folder of the package
    line: number of the changed line; place: number of the change in the file, from 0 on
    change: what is changed, such as `a < b → a <= b`
    """

    path: str
    line: int
    place: int
    change: str


def list_mutants(root: Path, path: str) -> list[Mutant]:
    """Return all mutants of a file."""
    tree = ast.parse((root / path).read_text(encoding="utf-8"))
    return [
        Mutant(path, node.lineno, place, f"{ast.unparse(node)} → {ast.unparse(change.new)}")
        for place, (node, change) in enumerate(changes(tree))
    ]


def mutated(root: Path, mutant: Mutant) -> ast.Module:
    """Return the changed source as a syntax tree."""
    tree = ast.parse((root / mutant.path).read_text(encoding="utf-8"))
    for place, (_, change) in enumerate(changes(tree)):
        if place == mutant.place:
            change.apply()
            break
    return ast.fix_missing_locations(tree)


def changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, "Replacement"]]:
    """Yield each node that can be changed and its replacement, in the order of the file."""
    for parent, field, position, node in places(tree):
        for new in variants(node):
            yield node, Replacement(parent, field, position, new)


@dataclass(frozen=True)
class Replacement:
    """Puts a new node into its parent; position: in a list of nodes, None: a single node."""

    parent: ast.AST
    field: str
    position: int | None
    new: ast.AST

    def apply(self) -> None:
        if self.position is None:
            setattr(self.parent, self.field, self.new)
        else:
            getattr(self.parent, self.field)[self.position] = self.new


def places(parent: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.expr | ast.stmt]]:
    """Yield every expression and statement that a run executes, with its place in its parent."""
    for field, value in ast.iter_fields(parent):
        if field in ("annotation", "returns", "decorator_list", "type_params") or skipped(parent):
            continue
        for position, child in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(child, ast.expr | ast.stmt):
                yield parent, field, position if isinstance(value, list) else None, child
            if isinstance(child, ast.AST):
                yield from places(child)


def skipped(node: ast.AST) -> bool:
    """Whether a node is not changed: imports, types, texts, blocks for type checkers."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Raise):
        return True
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.keyword):
        return node.arg in SKIPPED_KEYWORDS
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in ("cast", "TypeVar")
    return isinstance(node, ast.Assign) and is_type(ast.unparse(node.targets[0]))


def is_type(name: str) -> bool:
    """Whether a variable is named as types are."""
    return name[:1].isupper() and not name.isupper()


def variants(node: ast.expr | ast.stmt) -> Iterator[ast.AST]:
    """Yield changed copies of a node; they share its other parts."""
    new = copy.copy(node)
    if isinstance(new, ast.Compare) and type(new.ops[0]) in COMPARED:
        new.ops = [COMPARED[type(new.ops[0])](), *new.ops[1:]]
    elif isinstance(new, ast.BinOp | ast.AugAssign) and type(new.op) in COMPUTED:
        new.op = COMPUTED[type(new.op)]()
    elif isinstance(new, ast.BoolOp):
        new.op = ast.And() if isinstance(new.op, ast.Or) else ast.Or()
    elif isinstance(new, ast.UnaryOp) and isinstance(new.op, ast.Not | ast.Invert | ast.USub):
        yield new.operand
        return
    elif isinstance(new, ast.Constant) and isinstance(new.value, bool | int | float):
        new.value = not new.value if isinstance(new.value, bool) else new.value + 1
    elif isinstance(new, ast.Return) and new.value and ast.unparse(new.value) != "None":
        new.value = ast.Constant(None)
    else:
        return
    yield new
