"""SVG drawings: elements, scales, axes. Text is escaped; the style sheet holds the colours."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from ulc.typing import Floats

ROOT_TICKS = (0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)


def element(name: str, *children: str, **attributes: object) -> Markup:
    """An SVG element; `class_` becomes class, `text_anchor` becomes text-anchor."""
    pairs = [
        f' {key.rstrip("_").replace("_", "-")}="{escape(short(value))}"'
        for key, value in attributes.items()
    ]
    return Markup(f"<{name}{''.join(pairs)}>{''.join(map(escape, children))}</{name}>")


def short(value: object) -> object:
    """A float as text with at most one decimal; other values as they are."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value


def drawing(label: str, width: int, height: int, *children: str) -> Markup:
    """An SVG image with a label for screen readers."""
    return element(
        "svg",
        *children,
        class_="plot",
        role="img",
        aria_label=label,
        viewBox=f"0 0 {width} {height}",
    )


@dataclass(frozen=True)
class Plot:
    """A plot area with two scales, from data to pixels.

    x_range, y_range: data shown; width, height: of the drawing in pixels
    left, right, top, bottom: margins in pixels
    root: whether heights are on a square-root scale, so that small values are visible
    """

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    width: int = 340
    height: int = 210
    left: int = 42
    right: int = 8
    top: int = 10
    bottom: int = 36
    root: bool = False

    def x(self, value: float) -> float:
        """Position of a value on the horizontal axis, in pixels from the left."""
        low, high = self.x_range
        inner = self.width - self.left - self.right
        return float(self.left + inner * (value - low) / (high - low or 1))

    def y(self, value: float) -> float:
        """Position of a value on the vertical axis, in pixels from the top."""
        low, high = self.y_range
        if self.root:
            value, low, high = math.sqrt(max(value, 0)), 0.0, math.sqrt(high)
        inner = self.height - self.top - self.bottom
        return float(self.height - self.bottom - inner * (value - low) / (high - low or 1))

    def line(self, x: Iterable[float], y: Iterable[float], class_: str) -> Markup:
        """A line through points in data units."""
        points = [f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in zip(x, y, strict=True)]
        return element("polyline", points=" ".join(points), class_=f"line {class_}")

    def bar(self, x: tuple[float, float], y: tuple[float, float], class_: str) -> Markup:
        """A bar between two values on each axis, in data units."""
        left, right, top, bottom = self.x(x[0]), self.x(x[1]), self.y(y[1]), self.y(y[0])
        return element(
            "rect",
            x=left + 0.5,
            y=top,
            width=max(right - left - 1, 0.5),
            height=max(bottom - top, 0.0),
            class_=class_,
        )

    def axes(self, x_title: str, y_title: str, *, percent: bool = False) -> Markup:
        """Ticks, grid lines and titles; percent: whether the heights are shares."""
        base = self.height - self.bottom
        parts = []
        for value in self.y_ticks():
            at = self.y(value)
            text = f"{100 * value:g} %" if percent else f"{value:g}"
            parts += [
                element(
                    "line", x1=self.left, x2=self.width - self.right, y1=at, y2=at, class_="grid"
                ),
                element("text", text, x=self.left - 5, y=at + 3.5, text_anchor="end"),
            ]
        for value in ticks(*self.x_range):
            at = self.x(value)
            parts.append(element("text", f"{value:g}", x=at, y=base + 14, text_anchor="middle"))
        end = self.width - self.right
        parts += [
            element("line", x1=self.left, x2=end, y1=base, y2=base, class_="axis"),
            element(
                "text", x_title, x=(self.left + end) / 2, y=self.height - 5.0, text_anchor="middle"
            ),
            element("text", y_title, x=self.left, y=self.top - 1.0, class_="title"),
        ]
        return Markup("").join(parts)

    def y_ticks(self) -> list[float]:
        """Heights of the grid lines, in data units."""
        return (
            [v for v in ROOT_TICKS if v <= self.y_range[1]] if self.root else ticks(*self.y_range)
        )


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """About `about` round numbers from low to high, in steps of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / about
    if not rough > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = min(
        (each * power for each in (1, 2, 5, 10)), key=lambda each: abs(math.log(each / rough))
    )
    first = math.ceil(low / step - 1e-9)
    return [round(place * step, 10) for place in range(first, math.floor(high / step + 1e-9) + 1)]


def spread(values: Sequence[float] | Floats) -> tuple[float, float]:
    """A range that holds zero and all values, with 5 % more above; (0, 1) if all are zero."""
    low = min(0.0, *map(float, values)) if len(values) else 0.0
    top = max(0.0, *map(float, values)) if len(values) else 0.0
    return low, top + 0.05 * (top - low) if top > low else low + 1.0
