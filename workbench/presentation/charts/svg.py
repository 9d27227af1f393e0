"""Shapes of drawings as SVG, legible on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

TINTS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")  # Tol's, for the colour-blind
INK = "#888888"  # the colour of lines
_INK = ".wb-ink {fill: #24262b} @media (prefers-color-scheme: dark) {.wb-ink {fill: #f0f1f3}}"


def svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    """A drawing of these parts, in pixels; `label` says to a screen reader what it is."""
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}"><style>{_INK}</style>'
    return f"{head}{''.join(parts)}</svg>"


def rectangle(x: float, y: float, width: float, height: float, colour: str) -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {where} fill="{colour}" fill-opacity="0.45" stroke="{colour}" stroke-width="1.5"/>'


def text(x: float, y: float, words: str, size: float, anchor: str, bold: bool = False) -> str:
    weight = ' font-weight="700"' if bold else ""
    where = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:.1f}" text-anchor="{anchor}"{weight}'
    return f'<text {where} class="wb-ink" font-family="sans-serif">{escape(words)}</text>'


def line(x: float, y: float, to_x: float, to_y: float) -> str:
    where = f'x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"'
    return f'<line {where} stroke="{INK}" stroke-width="1.5"/>'


def circle(x: float, y: float, radius: float, colour: str) -> str:
    """Filled with a tint of the colour over the page's background, so that lines end at its edge."""
    where = f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"'
    return f'<circle {where} fill="{colour}" fill-opacity="0.55" stroke="{colour}" stroke-width="2"/>'
