"""The colours of states can be read, and told apart by people who see fewer colours."""

from __future__ import annotations

import re
from itertools import combinations
from math import sqrt
from pathlib import Path

import pytest

import sleipnir.worker.monitor as monitor

STATES = ("queued", "running", "waiting", "succeeded", "failed", "cancelled", "timed_out")
TEXTS = ("ink", "quiet", "link")
SHEET = (Path(monitor.__path__[0]) / "static" / "monitor.css").read_text(encoding="utf-8")
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


def palette(selector: str) -> dict[str, Colour]:
    block = SHEET[SHEET.index(selector) :].partition("}")[0]
    return {name: linear(value) for name, value in re.findall(r"--(\w+): (#[0-9a-f]{6});", block)}


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


@pytest.mark.parametrize("selector", [":root {", ':root[data-theme="dark"] {'])
def test_states_and_texts_have_contrast(selector: str) -> None:
    colours = palette(selector)

    weak = {
        (name, ground): round(found, 2)
        for ground, names in (("ground", (*STATES, *TEXTS)), ("panel", TEXTS))
        for name in names
        if (found := contrast(colours[name], colours[ground])) < 4.5
    }

    assert weak == {}


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("selector", [":root {", ':root[data-theme="dark"] {'])
def test_states_can_be_told_apart(selector: str, vision: str) -> None:
    colours = {name: lab(palette(selector)[name], vision) for name in STATES}

    alike = {
        pair: round(found, 1)
        for pair in combinations(STATES, 2)
        if (found := distance(colours[pair[0]], colours[pair[1]])) < 12
    }

    assert alike == {}


def test_the_dark_colours_are_the_same_whoever_asks_for_them() -> None:
    assert palette(':root[data-theme="dark"] {') == palette(":root:not([data-theme]) {")
