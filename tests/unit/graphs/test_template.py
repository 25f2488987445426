"""Interpolation, row by row of the language's tables."""

from typing import Any

import pytest

from sleipnir.graphs.errors import MissingReference, TextTooLong
from sleipnir.graphs.state import Snapshot
from sleipnir.graphs.template import (
    MISSING,
    evaluate_lenient,
    evaluate_strict,
    is_identifier,
    references,
    render_lenient,
    render_strict,
    resolve,
)

STATE: dict[str, Any] = {
    "name": "Ada",
    "n": 5,
    "f": 1.0,
    "t": True,
    "z": None,
    "e": "",
    "user": {"name": "Bo", "0": "zero"},
    "arr": ["x", ["y", "w"]],
    "tpl": "{{name}}",
    "a.b": 1,
    "ключ": "v",
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{n}} {{f}} {{t}} {{z}} [{{e}}]", "5 1.0 true null []"),
        ("{{user}}", '{"name":"Bo","0":"zero"}'),
        ("{{arr}}", '["x",["y","w"]]'),
        ("{{user.name}}", "Bo"),
        ("{{arr[1][0]}}", "y"),
        ("{{user.0}}", "zero"),
        ("{{arr[01]}}", '["y","w"]'),
        ("{{{name}}}", "{Ada}"),
        ("{{name}}}", "Ada}"),
        ("{{{{name}}}}", "{{Ada}}"),
        ("\\{{name}}", "\\Ada"),
        ("{{tpl}}", "{{name}}"),
        ("{{name}}{{name}}", "AdaAda"),
        ("", ""),
        ("plain", "plain"),
    ],
)
def test_present_references_render_alike_at_strict_and_lenient_sites(
    template: str, expected: str
) -> None:
    assert render_strict(template, STATE) == expected
    assert render_lenient(template, STATE) == expected


@pytest.mark.parametrize(
    "template",
    [
        *("{{ name }}", "{{arr[-1]}}", "{{my-key}}", "{{ключ}}", "{{name|upper}}"),
        *("{{}}", "{name}", "{{name}", "{ {name}}", "{{na\nme}}"),
    ],
)
def test_what_the_scanner_does_not_take_stays_literal(template: str) -> None:
    assert render_strict(template, STATE) == template
    assert references(template) == ()


@pytest.mark.parametrize(
    "path",
    [
        *("arr[9]", "arr.0", "user[0]", "NAME", "name[0]", "name.x", "z.x", "n.x", "a.b"),
        "t[0]",
        "arr[2]",
        f"arr[{'9' * 5000}]",
    ],
)
def test_paths_that_lead_nowhere_are_missing(path: str) -> None:
    template = f"<{{{{{path}}}}}>"

    with pytest.raises(MissingReference) as caught:
        render_strict(template, STATE)

    assert caught.value.references == (path,)
    assert render_lenient(template, STATE) == "<>"


@pytest.mark.parametrize(
    "inside",
    ["user..name", "user.", ".user", "arr[]", "arr[x]", "arr[0", "[0]", "arr]0[", "arr[0]x"],
)
def test_malformed_references_are_taken_and_always_missing(inside: str) -> None:
    template = f"{{{{{inside}}}}}"

    (reference,) = references(template)

    assert (reference.text, reference.path, reference.root) == (inside, None, None)
    assert render_lenient(template, STATE) == ""
    with pytest.raises(MissingReference):
        evaluate_strict(template, STATE)


def test_a_strict_error_names_every_missing_reference_once() -> None:
    with pytest.raises(MissingReference) as caught:
        render_strict("{{gone}}/{{arr[9]}}/{{gone}}", STATE)

    assert caught.value.references == ("gone", "arr[9]")
    assert render_lenient("{{gone}}/{{arr[9]}}", STATE) == "/"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{n}}", 5),
        ("{{l}}", [1]),
        ("{{o.k}}", 1),
        (" {{o}}\n", {"k": 1}),
        ("n={{n}}", "n=5"),
        ("{{n}}{{n}}", "55"),
        ("5", "5"),
        ("{{gone}}", ""),
        (" {{gone}} ", ""),
        ("<{{gone}}>", "<>"),
        (" ", " "),
    ],
)
def test_only_a_sole_reference_keeps_its_type(template: str, expected: Any) -> None:
    state = {"n": 5, "l": [1], "o": {"k": 1}, "s": "a"}

    value = evaluate_lenient(template, state)

    assert value == expected
    assert type(value) is type(expected)


def test_null_and_booleans_pass_through_a_sole_reference() -> None:
    assert evaluate_strict("{{z}}", STATE) is None
    assert evaluate_strict("{{t}}", STATE) is True


def test_a_sole_strict_reference_that_is_missing_raises() -> None:
    with pytest.raises(MissingReference, match="'gone'"):
        evaluate_strict("{{gone}}", STATE)


def test_the_first_layer_that_holds_the_root_key_wins() -> None:
    scoped = {"output": {"a": 1}}
    state = Snapshot.of({"output": {"b": 2}, "n": 3})

    assert render_lenient("{{output.a}} {{n}}", scoped, state) == "1 3"
    # The layer below is not asked for the rest of the path.
    assert resolve(("output", "b"), (scoped, state)) is MISSING


@pytest.mark.parametrize(
    ("value", "text"),
    [(10**40, str(10**40)), (1e20, "1e+20"), ({"ж": ["é"]}, '{"ж":["é"]}'), (False, "false")],
)
def test_values_render_as_compact_json(value: Any, text: str) -> None:
    assert render_strict("{{v}}", {"v": value}) == text


def test_references_tell_their_place_and_root() -> None:
    first, second = references("a {{x.y[2]}}{{b}}")

    assert (first.path, first.start, first.end, first.root) == (("x", "y", 2), 2, 12, "x")
    assert (second.path, second.start, second.root) == (("b",), 12, "b")


def test_a_long_run_of_open_braces_is_scanned_in_linear_time() -> None:
    text = "{{a" * 100_000

    assert render_lenient(text, {}) == text


def test_identifiers_are_what_a_path_can_name() -> None:
    assert is_identifier("Key_1")
    assert is_identifier("0")
    assert not any(map(is_identifier, ["", "my-key", "a.b", "ключ", "a\n"]))


@pytest.mark.parametrize(
    "fill_in", [render_strict, render_lenient, evaluate_strict, evaluate_lenient]
)
def test_a_text_ends_at_its_limit_before_it_is_put_together(fill_in: Any) -> None:
    layer = {"x": "x" * 10, "n": 12_345}

    assert len(fill_in("{{x}} {{n}}", layer, limit=16)) == 16
    with pytest.raises(TextTooLong, match="more than 15 characters"):
        fill_in("{{x}} {{n}}", layer, limit=15)
    with pytest.raises(TextTooLong):
        fill_in("{{x}}," * 10**6, {"x": "x" * 10**6}, limit=10**7)
