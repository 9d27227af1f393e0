"""Numbers with their units, as pages show them: "2,048", "4.61 kB"."""

from __future__ import annotations

_WHOLE = 100_000  # counts below it are shown with all digits
_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def short_count(number: int) -> str:
    """A count: "2,048", "318 k", "25.6 M"."""
    return f"{number:,}" if number < _WHOLE else in_units(number, "").rstrip()


def in_units(number: float, unit: str) -> str:
    """A number in its largest unit that keeps it at 1 or more: "512 B", "4.61 kB", "159 MFLOP"."""
    for scale, prefix in _SCALES:
        if number >= scale:
            size = number / scale
            return f"{size:,.{2 if size < 10 else 1 if size < 100 else 0}f} {prefix}{unit}"
    return f"{number:,.0f} {unit}"
