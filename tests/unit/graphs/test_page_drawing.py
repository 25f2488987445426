"""Graphs on pages: left to right, in boxes of which no name sticks out."""

from __future__ import annotations

import pytest

from sleipnir.graphs.drawing import native, outline_of
from sleipnir.graphs.drawing.page import NAME, NodeMark, lay_out, to_page_svg
from sleipnir.graphs.drawing.text import width_of
from tests.support.graphs import make_graph

FAMILY = "\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL}"
NAMES = (
    "a",
    "transform_customers_of_all_shops",
    "M" * 128,
    "very_" * 25 + "end",
    "مرحبا-بالعالم-" * 5,
    FAMILY * 20,
)
CHAIN = {
    name: {"type": "script", "script": "x.sh", "next": target}
    for name, target in zip(NAMES, [*NAMES[1:], "z"], strict=True)
} | {"z": {"type": "end"}}
OUTLINE = outline_of(make_graph({"name": "test", "start": "a", "nodes": CHAIN}))


def test_a_row_leads_left_to_right_or_top_to_bottom() -> None:
    ways = {direction: lay_out(OUTLINE, native, direction).boxes for direction in ("lr", "tb")}

    for direction, axis in (("lr", "x"), ("tb", "y")):
        places = [getattr(box, axis) for box in ways[direction]]
        assert places == sorted(places)
        assert len(set(places)) == len(places)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_has_two_lines_at_most_and_stays_in_its_box(name: str) -> None:
    box = next(each for each in lay_out(OUTLINE, native).boxes if each.box.id == name)

    assert 152 <= box.width <= 220
    assert box.height == 44 + 16 * (len(box.texts) - 1)
    assert len(box.texts) <= 2
    assert all(width_of(text, NAME) <= box.width - 47.9 for text in box.texts)
    shown = "".join(box.texts)
    assert shown == name or (shown[:10], shown[-3:]) == (name[:10], name[-3:])


def test_arrows_say_which_nodes_they_join_and_grow_with_their_count() -> None:
    marks = {"a": NodeMark("done", "✓ 1.3 s", "?node=a", visits=1_404)}

    svg = to_page_svg(lay_out(OUTLINE, native), "test", marks, {("a", NAMES[1]): 1_404})

    assert 'class="arrow arrow-usual is-taken wide-4" data-ends="0 1" data-taken="1404"' in svg
    assert svg.count(">×1,404</t") == 2  # noqa: RUF001 - at the node, and at its arrow
    assert 'data-ends=" 0"' in svg  # from the start


def test_nodes_of_a_group_stand_in_a_frame_with_its_name() -> None:
    phases = {name: {**node, "x-group": "Phase 1"} for name, node in list(CHAIN.items())[:2]}
    alone = {"z": {**CHAIN["z"], "x-group": "Alone"}}
    odd = {NAMES[3]: {**CHAIN[NAMES[3]], "x-group": 3}}
    graph = make_graph({"name": "test", "start": "a", "nodes": {**CHAIN, **phases, **alone, **odd}})

    picture = lay_out(outline_of(graph), native)

    (frame,) = picture.frames
    inside = [
        placed.box.id
        for placed in picture.boxes
        if frame.x <= placed.x and placed.x + placed.width <= frame.x + frame.width
    ]
    assert (frame.name, inside) == ("Phase 1", ["a", NAMES[1]])
