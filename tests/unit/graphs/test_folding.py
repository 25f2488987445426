"""Large graphs: nodes in a row are one box, and no way between boxes is lost."""

from __future__ import annotations

from sleipnir.graphs.drawing import native
from sleipnir.graphs.drawing.folding import folded
from sleipnir.graphs.drawing.outline import Arrow, outline_of
from sleipnir.graphs.drawing.page import lay_out
from tests.support.graphs import make_graph


def test_nodes_in_a_row_are_one_box() -> None:
    nodes = {f"n{n}": {"type": "script", "script": "x.py", "next": f"n{n + 1}"} for n in range(6)}
    nodes["n2"] |= {"next": ["n3", "side"]}
    nodes["side"] = {"type": "script", "script": "x.py", "next": "n6"}
    nodes["n6"] = {"type": "script", "script": "x.py", "next": "z"}
    nodes["z"] = {"type": "end"}
    outline = outline_of(make_graph({"name": "test", "start": "n0", "nodes": nodes}))

    shown, rows = folded(outline, most=3)

    assert rows == {"n0": ["n0", "n1", "n2"], "n3": ["n3", "n4", "n5"]}
    assert [box.id for box in shown.boxes] == ["n0", "n3", "side", "n6", "z"]
    assert (shown.boxes[0].caption, shown.start) == ("3 nodes, to n2", "n0")
    assert shown.arrows == (
        Arrow("n0", "n3", "parallel"),
        Arrow("n0", "side", "parallel"),
        Arrow("n3", "n6", "usual"),
        Arrow("side", "n6", "usual"),
        Arrow("n6", "z", "usual"),
    )
    assert folded(outline) == (outline, {})


def test_a_row_that_leads_back_to_its_beginning_stays_a_loop() -> None:
    nodes = {f"n{n}": {"type": "script", "script": "x.py", "next": f"n{n + 1}"} for n in range(3)}
    nodes["n3"] = {
        "type": "approval",
        "question": "Again?",
        "options": ["yes", "no"],
        "routes": {"yes": "n0", "no": "z"},
        "on_other": "z",
    }
    nodes["z"] = {"type": "end"}
    outline = outline_of(make_graph({"name": "test", "start": "n0", "nodes": nodes}))

    shown, rows = folded(outline, most=1)

    assert rows == {"n0": ["n0", "n1", "n2", "n3"]}
    assert {(arrow.source, arrow.target) for arrow in shown.arrows} == {("n0", "n0"), ("n0", "z")}
    assert len(lay_out(shown, native).boxes) == 2


def test_what_many_nodes_fall_back_to_says_so_without_arrows() -> None:
    nodes = {
        f"n{n}": {"type": "llm", "prompt": "x", "fallback": "sorry", "next": f"n{n + 1}"}
        for n in range(200)
    }
    nodes |= {"n200": {"type": "end"}, "sorry": {"type": "end"}}
    outline = outline_of(
        make_graph({"name": "test", "model": "openai:x", "start": "n0", "nodes": nodes})
    )

    shown, _ = folded(outline)
    picture = lay_out(shown, native)

    assert shown.boxes[-1].caption == "end, from 200 nodes"
    assert {arrow.kind for arrow in shown.arrows} == {"usual"}
    assert len(picture.boxes) == 202
