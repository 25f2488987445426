"""Pictures of graphs: what each format says, and that no name breaks it."""

import re
import struct
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest

from sleipnir.graphs import drawing
from sleipnir.graphs.drawing import NoFonts, Outline, Progress, native, outline_of, with_progress
from sleipnir.graphs.drawing.layout import Framed, Placed, place
from sleipnir.graphs.drawing.outline import TIMES
from sleipnir.graphs.schema import Graph, Route, Switch
from tests.support.graphs import make_graph

SVG = "{http://www.w3.org/2000/svg}"


Reached = dict[str, Progress] | None


def drawn(graph: Graph, progress: Reached) -> Outline:
    outline = outline_of(graph)
    return outline if progress is None else with_progress(outline, progress)


def to_mermaid(graph: Graph, progress: Reached = None) -> str:
    return drawing.to_mermaid(drawn(graph, progress))


def to_dot(graph: Graph, progress: Reached = None) -> str:
    return drawing.to_dot(drawn(graph, progress))


def to_svg(graph: Graph, progress: Reached = None) -> str:
    return drawing.to_svg(drawn(graph, progress), native)


def graph(nodes: dict[str, dict[str, Any]], start: str = "a") -> Graph:
    return make_graph({"name": "test", "start": start, "nodes": nodes})


def script(**fields: Any) -> dict[str, Any]:
    return {"type": "script", "script": "x.py", **fields}


EVERY_TYPE = graph(
    {
        "a": script(next=["think", "look_up"], fallback="ask"),
        "ask": {"type": "input", "question": "?", "next": "each_one"},
        "think": {"type": "llm", "prompt": "x", "next": "each_one"},
        "look_up": {"type": "rag", "documents": ["d"], "next": "each_one"},
        "each_one": {
            "type": "map",
            "over": "{{items}}",
            "as": "item",
            "branch": "one",
            "collect_into": "all",
            "next": "delegate",
        },
        "one": {"type": "llm", "prompt": "x"},
        "delegate": {"type": "agent", "agent": "helper", "prompt": "x", "next": "confirm"},
        "confirm": {
            "type": "approval",
            "question": "?",
            "options": ["yes", "sure", "no"],
            "routes": {"yes": "good", "sure": "good", "no": "bad"},
            "on_other": "bad",
        },
        "good": {"type": "end"},
        "bad": {"type": "end"},
    }
)
NASTY = ['"quoted"', "<b>&amp;", "end", "dæmon记录", "a]](b}}", "#1;", "$x`y`", "--> x"]


def nasty_graph() -> Graph:
    """Names and answers that hold the syntax of every format."""
    # A node id holds neither blanks nor slashes.
    names = ["a", *(name.replace(" ", "") for name in NASTY)]
    nodes = {name: script(next=after) for name, after in pairwise(names)}
    nodes[names[-1]] = {
        "type": "approval",
        "question": "?",
        "options": NASTY,
        "routes": dict.fromkeys(NASTY, "last"),
        "on_other": "last",
    }
    return graph({**nodes, "last": {"type": "end"}})


def mermaid_lines(**pictured: Any) -> list[str]:
    return [line.strip() for line in to_mermaid(EVERY_TYPE, **pictured).splitlines()]


def svg_texts(svg: str) -> list[str]:
    return [text for text in ElementTree.fromstring(svg).itertext() if text.strip()]


def test_each_type_has_its_shape_in_mermaid() -> None:
    text = to_mermaid(EVERY_TYPE)

    assert text.startswith("flowchart TD\n")
    for shape in ('n0["a', 'n1[/"ask', 'n2("think', 'n3[("look_up', 'n4{{"each_one'):
        assert shape in text
    for shape in ('n6[["delegate', 'n7{"confirm', 'n8(["good'):
        assert shape in text


def test_edges_say_why_they_are_taken() -> None:
    lines = mermaid_lines()

    assert "start(( )) --> n0" in lines
    assert "n0 ==> n2" in lines
    assert "n0 ==> n3" in lines
    assert 'n0 -.->|"fallback"| n1' in lines
    assert 'n4 -.->|"each"| n5' in lines
    assert "n4 --> n6" in lines


def test_answers_with_the_same_route_share_an_arrow() -> None:
    lines = mermaid_lines()

    assert 'n7 -->|"yes / sure"| n8' in lines
    assert 'n7 -->|"no"| n9' in lines
    assert 'n7 -.->|"other"| n9' in lines


def test_routes_that_scripts_choose_are_dashed_and_loops_are_counted() -> None:
    looping = graph({"a": script(next="b"), "b": script(next="z"), "z": {"type": "end"}})
    outline = outline_of(looping, [("b", "a"), ("b", "z")])
    taken = {("a", "b"): 4, ("b", "a"): 3, ("b", "z"): 1}

    lines = drawing.to_mermaid(outline).splitlines()
    counted = drawing.to_mermaid(with_progress(outline, {}, taken)).splitlines()

    assert [line.strip() for line in lines if "n1" in line][1:] == [
        "n0 --> n1",
        "n1 --> n2",
        'n1 -.->|"_next"| n0',
    ]
    assert f'    n0 -->|"{TIMES}4"| n1' in counted
    assert f'    n1 -.->|"_next {TIMES}3"| n0' in counted
    assert "    n1 --> n2" in counted
    assert '"b" -> "a" [label="_next", style=dashed];' in drawing.to_dot(outline)
    assert f"_next {TIMES}3" in drawing.to_svg(with_progress(outline, {}, taken), native)


LONG = "size(output) > 280 && !output.contains(order_id)"
CHOOSING = graph(
    {
        "work": script(next="gate"),
        "gate": {
            "type": "set",
            "next": [
                Route(when="score < 0.8", to="work", max=3),
                Route(when=LONG, to=["left", "right"], max=2),
                Route(when="n == 2", to="sort"),
                Route(to="sort"),
            ],
        },
        "left": {"type": "set", "next": "sort"},
        "right": {"type": "set", "next": "gate"},
        "sort": {
            "type": "set",
            "next": Switch(switch="label", cases={"billing": "z", "": "left"}, default="z"),
        },
        "z": {"type": "end"},
    },
    "work",
)
SHORT = "size(output) > 280 &….contains(order_id), max 2"


def test_conditions_and_cases_are_labels_and_loops_are_dashed() -> None:
    lines = [line.strip() for line in to_mermaid(CHOOSING).splitlines()]
    dot = to_dot(CHOOSING)

    assert "n0 --> n1" in lines
    assert 'n1 -.->|"score #60; 0.8, max 3"| n0' in lines
    assert 'n1 -->|"n == 2 / else"| n4' in lines
    assert 'n4 -->|"billing / else"| n5' in lines
    assert "n3 -.-> n1" in lines
    assert '"gate" -> "work" [label="score < 0.8, max 3", style=dashed];' in dot
    assert '"sort" -> "left" [style=dashed];' in dot


def test_a_long_condition_is_cut_but_its_title_is_not_nor_its_limit() -> None:
    dot = to_dot(CHOOSING).replace("&amp;", "&")
    svg = ElementTree.fromstring(to_svg(CHOOSING))

    labelled = f'label="{SHORT}", labeltooltip="{LONG}, max 2"'
    assert f'"gate" -> "left" [{labelled}, style=solid, penwidth=2.2];' in dot
    labels = [text for text in svg.iter(f"{SVG}text") if SHORT in "".join(text.itertext())]
    assert [text.findtext(f"{SVG}title") for text in labels] == [f"{LONG}, max 2"] * 2


def test_no_class_of_mermaid_is_called_end() -> None:
    # Mermaid would take it for the end of a subgraph, and refuse the text.
    assert re.search(r":::end$|classDef end ", to_mermaid(EVERY_TYPE), re.MULTILINE) is None


def test_no_name_reaches_mermaid_as_syntax() -> None:
    text = to_mermaid(nasty_graph())

    for quoted in re.findall(r'"([^"]*)"', text):
        plain = quoted.replace("<br/><small>", "").replace("</small>", "")
        assert re.search(r"[<>&`\[\]{}|$\"]|#(?!\d+;)", plain) is None
    assert "dæmon记录" in text


def test_what_does_not_exist_is_left_out() -> None:
    broken = graph({"a": script(next="gone", fallback="b"), "b": {"type": "end"}}, start="nowhere")

    text = to_mermaid(broken)

    assert "gone" not in text
    assert "start" not in text
    assert 'n0 -.->|"fallback"| n1' in text


def test_dot_quotes_names_and_styles_edges() -> None:
    text = to_dot(EVERY_TYPE)

    assert text.startswith('digraph "test" {\n')
    assert '"a" -> "think" [style=solid, penwidth=2.2];' in text
    assert '"a" -> "ask" [label="fallback", style=dashed];' in text
    assert '"each_one" -> "one" [label="each", style=dotted, penwidth=1.6];' in text
    assert '"delegate" [label="delegate\\nagent: helper", shape=box' in text


def test_no_name_reaches_dot_as_syntax() -> None:
    text = to_dot(nasty_graph())

    without_strings = re.sub(r'"(?:[^"\\]|\\.)*"', "S", text)
    assert re.search(r'["<&#`$]|record', without_strings) is None
    assert '"\\"quoted\\"" [label="\\"quoted\\"\\nscript"' in text
    assert 'label="<b>&amp;amp;\\nscript"' in text


def test_svg_shows_every_node_with_its_type() -> None:
    texts = svg_texts(to_svg(EVERY_TYPE))

    for name in EVERY_TYPE.nodes:
        assert name in texts
    assert {"agent: helper", "map: items", "yes / sure", "fallback", "each", "other"} <= set(texts)


def test_no_name_breaks_svg() -> None:
    texts = svg_texts(to_svg(nasty_graph()))

    assert '"quoted"' in texts
    assert "<b>&amp;" in texts
    assert "dæmon记录" in texts


def test_control_characters_in_answers_do_not_break_svg() -> None:
    nodes: dict[str, dict[str, Any]] = {
        "a": {
            "type": "approval",
            "question": "?",
            "options": ["yes\x00\x1b\nplease"],
            "routes": {"yes\x00\x1b\nplease": "b"},
            "on_other": "b",
        },
        "b": {"type": "end"},
    }

    assert "yes please" in svg_texts(to_svg(graph(nodes)))


def test_long_names_are_cut_and_kept_as_a_tooltip() -> None:
    name = "a_very_long_name_of_a_node_" * 4
    root = ElementTree.fromstring(to_svg(graph({name: script(), "b": {"type": "end"}}, name)))

    shown = [tspan.text or "" for tspan in root.iter(f"{SVG}tspan")]
    assert max(map(len, shown)) == 40
    assert name in [title.text for title in root.iter(f"{SVG}title")]


def overlap(one: Placed, other: Placed | Framed) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


def test_boxes_lie_apart_and_inside_the_picture() -> None:
    picture = place(outline_of(EVERY_TYPE), native)

    left, top, right, bottom = picture.bounds
    for number, placed in enumerate(picture.boxes):
        assert left <= placed.x
        assert placed.x + placed.width <= right
        assert top <= placed.y
        assert placed.y + placed.height <= bottom
        assert not any(overlap(placed, other) for other in picture.boxes[:number])


CHAIN = graph(
    {
        "a": {
            **{"type": "map", "over": "{{items}}", "as": "item", "branch": "b"},
            **{"collect_into": "all", "next": "z"},
        },
        "b": script(next="c", fallback="d"),
        "c": {"type": "llm", "prompt": "x", "next": "d"},
        "d": script(),
        "z": {"type": "end"},
    }
)


def test_the_nodes_of_a_chain_lie_in_a_frame_named_like_the_map() -> None:
    picture = place(outline_of(CHAIN), native)

    (frame,) = picture.frames
    inside = [each.box.id for each in picture.boxes if overlap(each, frame)]
    assert (frame.name, inside) == ("a", ["b", "c", "d"])
    assert ">a</text>" in to_svg(CHAIN)


def test_a_chain_is_a_subgraph_with_all_of_its_edges() -> None:
    mermaid, dot = to_mermaid(CHAIN), to_dot(CHAIN)

    inside = mermaid.partition('subgraph g0 ["a"]')[2].partition("    end\n")[0]
    assert re.findall(r"(n\d)\W", inside) == ["n1", "n2", "n3"]
    assert [line for line in mermaid.splitlines() if re.match("    n[123] [-=]", line)] == [
        "    n1 --> n2",
        '    n1 -.->|"fallback"| n3',
        "    n2 --> n3",
    ]
    assert 'label="a"' in dot.partition("subgraph cluster_0")[2]


def test_labelled_arrows_have_a_place_for_the_label() -> None:
    routes = place(outline_of(EVERY_TYPE), native).routes

    assert [route for route in routes if route.label and route.anchor is None] == []


def test_arrows_turn_at_right_angles_only() -> None:
    for route in place(outline_of(EVERY_TYPE), native).routes:
        for one, other in pairwise(route.points):
            assert one.x == other.x or one.y == other.y


def test_the_same_graph_always_looks_the_same() -> None:
    assert to_svg(EVERY_TYPE) == to_svg(EVERY_TYPE)


PROGRESS: dict[str, Progress] = {
    "a": "done",
    "think": "running",
    "confirm": "waiting",
    "one": "failed",
}


def test_progress_colours_the_nodes_it_names_and_pales_the_rest() -> None:
    lines = mermaid_lines(progress=PROGRESS)

    assert 'n0["a<br/><small>script · done</small>"]:::doneNode' in lines
    assert 'n2("think<br/><small>llm · running</small>"):::runningNode' in lines
    assert 'n8(["good<br/><small>end</small>"]):::untouchedNode' in lines
    assert not any(line.startswith("classDef script") for line in lines)


@pytest.mark.parametrize("draw", [to_mermaid, to_dot, to_svg])
def test_progress_is_told_in_words_as_well_as_colours(draw: Any) -> None:
    text = draw(EVERY_TYPE, PROGRESS)

    for words in ("script · done", "llm · running", "approval · waiting", "llm · failed"):
        assert words in text


def test_a_run_that_has_not_begun_is_pale_altogether() -> None:
    assert to_svg(EVERY_TYPE, {}) != to_svg(EVERY_TYPE)


def test_png_is_an_image_of_twice_the_svg_size() -> None:
    try:
        png = drawing.to_png(outline_of(EVERY_TYPE), native)
    except NoFonts as error:  # what a machine without fonts has to say instead
        assert "font" in str(error)  # noqa: PT017 - both outcomes are right, each on its machine
        return
    root = ElementTree.fromstring(to_svg(EVERY_TYPE))

    assert png.startswith(b"\x89PNG\r\n")
    width, height = struct.unpack(">II", png[16:24])
    assert width == pytest.approx(2 * float(root.attrib["width"]), abs=2)
    assert height == pytest.approx(2 * float(root.attrib["height"]), abs=2)
