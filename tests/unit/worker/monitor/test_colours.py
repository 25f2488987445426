"""The colours of states can be read, and told apart by people who see fewer colours."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations, product
from math import sqrt
from pathlib import Path

import pytest

import sleipnir.worker.monitor as monitor

STATES = ("queued", "running", "waiting", "succeeded", "failed", "cancelled", "timed_out")
GROUNDS = ("bg", "surface", "sunken")
TEXTS = ("ink", "ink-2", "ink-3", "accent", "danger")
SERIES = tuple(f"series-{number}" for number in range(1, 7))
STATIC = Path(monitor.__path__[0]) / "static"
SHEET = (STATIC / "tokens.css").read_text(encoding="utf-8")
THEMES = {"light": 0, "dark": 1}
Colour = tuple[float, float, float]  # linear red, green, blue; 0 to 1

# How it is seen: Machado, Oliveira, Fernandes 2009, for full dichromacy.
VISIONS = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritan": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


def palette(theme: str) -> dict[str, Colour]:
    pairs = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", SHEET)
    return {name: linear(both[THEMES[theme]]) for name, *both in pairs}


def linear(text: str) -> Colour:
    values = (int(text[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values)
    return red, green, blue


def luminance(colour: Colour) -> float:
    red, green, blue = colour
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Colour, other: Colour) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def lab(colour: Colour, vision: str) -> Colour:
    seen = [
        min(1.0, max(0.0, sum(factor * part for factor, part in zip(row, colour, strict=True))))
        for row in VISIONS[vision]
    ]
    x = (0.4124 * seen[0] + 0.3576 * seen[1] + 0.1805 * seen[2]) / 0.95047
    y = 0.2126 * seen[0] + 0.7152 * seen[1] + 0.0722 * seen[2]
    z = (0.0193 * seen[0] + 0.1192 * seen[1] + 0.9505 * seen[2]) / 1.08883
    fx, fy, fz = (
        value ** (1 / 3) if value > 216 / 24389 else (24389 / 27 * value + 16) / 116
        for value in (x, y, z)
    )
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def distance(one: Colour, other: Colour) -> float:
    return sqrt(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)))


def weak(theme: str, least: float, pairs: Iterable[tuple[str, str]]) -> dict[str, float]:
    colours = palette(theme)
    return {
        f"{name} on {ground}": round(found, 2)
        for name, ground in pairs
        if (found := contrast(colours[name], colours[ground])) < least
    }


@pytest.mark.parametrize("theme", THEMES)
def test_texts_and_borders_have_contrast(theme: str) -> None:
    on_grounds = [*product((*TEXTS, *STATES), GROUNDS)]
    on_fills = [("on-accent", "accent"), ("on-danger", "danger")]
    in_pills = [(state, f"{state}-tint") for state in STATES]

    assert weak(theme, 4.7, [*on_grounds, *on_fills]) == {}
    assert weak(theme, 5.2, in_pills) == {}
    assert weak(theme, 5.0, product(SERIES, ["surface"])) == {}
    assert weak(theme, 3.0, product(["line-strong"], ["surface"])) == {}


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("theme", THEMES)
def test_states_can_be_told_apart(theme: str, vision: str) -> None:
    colours = {name: lab(palette(theme)[name], vision) for name in STATES}

    alike = {
        pair: round(found, 1)
        for pair in combinations(STATES, 2)
        if (found := distance(colours[pair[0]], colours[pair[1]])) < 12
    }

    assert alike == {}


def test_no_other_sheet_names_a_colour() -> None:
    """Else a theme would miss it, and no test would know."""
    sheets = [file for file in STATIC.glob("*.css") if file.name != "tokens.css"]

    named = {
        f"{file.name}: {found}"
        for file in sheets
        for found in re.findall(r"#[0-9a-f]{3,8}\b|rgba?\(", file.read_text(encoding="utf-8"))
    }

    assert sheets
    assert named == set()
