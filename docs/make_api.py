"""Write docs/api.md from the library's own docstrings.

python docs/make_api.py
"""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("api.md")
# What the public functions take and give back, beside what `ulc` itself names.
HANDED_OVER = (
    "ulc.api.Run",
    "ulc.storage.run_folder.RunFolder",
    "ulc.training.model.Model",
    "ulc.training.model.Uncertainty",
    "ulc.applying.apply.Applied",
    "ulc.training.loop.TrainingProgress",
    "ulc.auditing.AuditProgress",
    "ulc.auditing.Choice",
    "ulc.testing.check_algorithm",
)
SPECS = (
    "RunSpec", "DataSpec", "ImbalanceSpec", "NoiseSpec", "NetworkSpec", "SGD", "Adam",
)  # fmt: skip
WIDEST = 100

BEGINNING = """# Library reference

Made by `python docs/make_api.py` from the docstrings; a test holds it to them. Signatures are
as in the source. Names are loaded when they are first used, so `import ulc` is quick. Shapes:
N examples, K classes, D features ([glossary.md](glossary.md)).
"""


def page() -> str:
    """The whole page."""
    import ulc

    parts = [BEGINNING, "## Public names"]
    parts += [entry(f"ulc.{name}", getattr(ulc, name)) for name in ulc.__all__]
    parts.append("## What these take and hand over")
    parts += [entry(path, found(path)) for path in HANDED_OVER]
    parts.append(
        "## Specs\n\nWhat decides a run, in TOML, at the command, or in Python; an unknown key is "
        "an error."
    )
    parts += [spec_entry(name, found(f"ulc.config.{name}")) for name in SPECS]
    parts.append("What decides an audit (`ulc.audit(data, **settings)`):")
    parts.append(spec_entry("AuditSpec", found("ulc.auditing.AuditSpec")))
    parts.append(
        "## Options of the algorithms\n\nAs `options` of a RunSpec or an estimator, or "
        "`--set NAME=VALUE`. Presets (`ulc.with_preset`) set some of them by the data."
    )
    parts += [
        spec_entry(name, each.config_class, doc(each)) for name, each in ulc.ALGORITHMS.items()
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def found(path: str) -> Any:
    """What has this full name."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def entry(title: str, value: Any) -> str:
    """A function, a class with its public methods, or a dict of classes."""
    heading = f"### `{title}`"
    if isinstance(value, dict):
        names = ", ".join(f"[`{name}`](#{name})" for name in value)
        return f"{heading}\n\nA dict from names to classes: {names}."
    if not inspect.isclass(value):
        return f"{heading}\n\n{fenced([signature(value)])}\n\n{doc(value)}"
    parts = [heading, *constructor(value), doc(value)]
    parts += [member(name, each) for name, each in members(value)]
    return "\n\n".join(parts)


def constructor(cls: type) -> list[str]:
    """How it is made, where it has a constructor of its own."""
    if "__init__" not in vars(cls) or "__dataclass_fields__" in vars(cls) or is_spec(cls):
        return []
    return [fenced([signature(vars(cls)["__init__"], name=cls.__name__, bound=True)])]


def is_spec(cls: type) -> bool:
    """Whether its fields are in a table further down."""
    return hasattr(cls, "model_fields")


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that are its own, in the order of the source."""
    for name, each in vars(cls).items():
        plain = each.__func__ if isinstance(each, classmethod | staticmethod) else each
        kind = inspect.isfunction(plain) or isinstance(plain, property)
        if kind and not name.startswith("_") and getter(plain).__module__.startswith("ulc"):
            yield name, each


def getter(value: Any) -> Callable[..., Any]:
    """The function behind a property, or the function itself."""
    return value.fget if isinstance(value, property) else value


def member(name: str, value: Any) -> str:
    """A method as an item of a list."""
    plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    function = getter(plain)
    if isinstance(plain, property):
        gives = parsed(function).returns
        head = name if gives is None else f"{name}: {written(gives)}"
    else:
        head = signature(function, bound=not isinstance(value, staticmethod))
        head = f"@classmethod\n{head}" if isinstance(value, classmethod) else head
    lines = [fenced([head]), doc(function)]
    return textwrap.indent("\n\n".join(lines), "  ").replace("  ", "- ", 1)


def parsed(function: Callable[..., Any]) -> ast.FunctionDef:
    """A function's source."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    node = tree.body[0]
    if not isinstance(node, ast.FunctionDef):
        raise TypeError(f"{function} is no function")
    return node


def signature(function: Callable[..., Any], *, name: str | None = None, bound: bool = False) -> str:
    """As in the source, which unlike `inspect.signature` is the same in every Python."""
    node = parsed(function)
    arguments = list(argument_texts(node.args))[1 if bound else 0 :]
    gives = f" -> {written(node.returns)}" if node.returns is not None and name is None else ""
    line = f"{name or node.name}({', '.join(arguments)}){gives}"
    if len(line) <= WIDEST:
        return line
    inner = "".join(f"    {argument},\n" for argument in arguments)
    return f"{name or node.name}(\n{inner}){gives}"


def argument_texts(arguments: ast.arguments) -> Iterator[str]:
    """Each argument with its type and default, and the bare star."""
    plain = [*arguments.posonlyargs, *arguments.args]
    missing = [None] * (len(plain) - len(arguments.defaults))
    yield from map(argument_text, plain, [*missing, *arguments.defaults])
    if arguments.vararg is not None:
        yield "*" + argument_text(arguments.vararg, None)
    elif arguments.kwonlyargs:
        yield "*"
    yield from map(argument_text, arguments.kwonlyargs, arguments.kw_defaults)
    if arguments.kwarg is not None:
        yield "**" + argument_text(arguments.kwarg, None)


def argument_text(argument: ast.arg, default: ast.expr | None) -> str:
    """One argument."""
    typed = "" if argument.annotation is None else f": {written(argument.annotation)}"
    if default is None:
        return argument.arg + typed
    return f"{argument.arg}{typed}{' = ' if typed else '='}{ast.unparse(default)}"


def written(annotation: ast.expr) -> str:
    """A type as it is written, without the quotes that put off its import."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return ast.unparse(annotation)


def fenced(lines: Iterable[str]) -> str:
    """Code."""
    return "```python\n" + "\n".join(lines) + "\n```"


def doc(value: Any) -> str:
    """A docstring, with its lines `name: meaning` as a list."""
    text = inspect.cleandoc(value.__doc__ or "")
    if not text:
        raise ValueError(f"{value} has no docstring")
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        named = re.match(r"([a-z_][\w, ]*): ", line)
        if named and not inside and lines and lines[-1]:
            lines.append("")
        if named:
            names = ", ".join(f"`{name}`" for name in named[1].split(", "))
            line = f"- {names}: {line[named.end() :]}"
        elif inside and line.startswith(" "):
            line = f"  {line.strip()}"
        inside = bool(named) or (inside and line.startswith(" "))
        lines.append(line)
    return "\n".join(lines)


def spec_entry(title: str, spec: type, about: str | None = None) -> str:
    """The fields of a spec as a table."""
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    types = field_types(spec)
    for name, field in spec.model_fields.items():  # type: ignore[attr-defined]
        default = "needed" if field.is_required() else f"`{shown(field)}`"
        cells = (f"`{name}`", f"`{types[name]}`", default, meaning(field))
        rows.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return f"### `{title}`\n\n{about or doc(spec)}\n\n" + "\n".join(rows)


def meaning(field: Any) -> str:
    """What is said of a field; of a section without a word, what it is."""
    if field.description is None and is_spec(field.annotation):
        return doc(field.annotation).splitlines()[0]
    return field.description or ""


def field_types(spec: type) -> dict[str, str]:
    """Each field's type as it is written."""
    types: dict[str, str] = {}
    for cls in reversed(spec.__mro__):
        if not cls.__module__.startswith("ulc"):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
        for node in ast.iter_child_nodes(body):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                types[node.target.id] = written(node.annotation)
    return types


def shown(field: Any) -> str:
    """A default, in short."""
    value = field.get_default(call_default_factory=True)
    if hasattr(value, "model_dump"):
        said = value.model_dump(mode="json", exclude_defaults=True)
        inner = ", ".join(f"{name}={json.dumps(each)}" for name, each in said.items())
        return f"{type(value).__name__}({inner})"
    return "None" if value is None else json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
