"""What is no expression, and what the message says; what a parsed one is known to read."""

from __future__ import annotations

import inspect
import json
import random
import sys

import pytest

from sleipnir.graphs.expressions.errors import BadExpression, ExpressionFailed
from sleipnir.graphs.expressions.parser import parse

REFUSED = [
    ("", "the expression is empty, at character 1 of ''", None),
    ("  ", "the expression is empty, at character 3 of ''", None),
    ("{{score}} > 1", "unexpected '{', at character 1 of", "write score, not {{score}}"),
    ("a = 1", "unexpected '=', at character 3 of 'a = 1'", "=="),
    ("a & b", "unexpected '&', at character 3", "&&"),
    ("a | b", "unexpected '|', at character 3", "||"),
    ("a and b", "unexpected 'and', at character 3", "&&"),
    ("a or b", "unexpected 'or', at character 3", "||"),
    ("not a", "unexpected 'a', at character 5", "!"),
    ("not(a)", "unknown function 'not', at character 1", "!"),
    ("a < b < c", "comparisons do not chain, at character 7", "write a < b && b < c"),
    ("a == b == true", "comparisons do not chain", "write a == b && b == true"),
    ("siez(a)", "unknown function 'siez', at character 1", "did you mean 'size'?"),
    ("a.contain('x')", "unknown method 'contain', at character 3", "did you mean 'contains'?"),
    ("a.size()", "unknown method 'size'", "write size(x)"),
    ("contains(a, b)", "unknown function 'contains'", "write x.contains(…)"),
    ("zzz(a)", "unknown function 'zzz'", None),
    ("(a", "'(' is not closed, at character 1", "quote the whole expression"),
    ("a[1", "'[' is not closed, at character 2", "quote the whole expression"),
    ("size(a", "'(' is not closed, at character 5", "quote the whole expression"),
    ("[1, 2", "'[' is not closed, at character 1", "quote the whole expression"),
    ("'a", "the text is not closed, at character 1", "quote the whole expression"),
    ("\"a'", "the text is not closed, at character 1", "quote the whole expression"),
    ("a)", "unexpected ')', at character 2", None),
    ("a b", "unexpected 'b', at character 3", None),
    ("a.", "the expression ends too early, at character 3", None),
    ("a.1", "unexpected '1', expected a name, at character 3", None),
    ("a +", "the expression ends too early, at character 4", None),
    ("a ? b", "the expression ends too early, at character 6", None),
    ("in", "unexpected 'in', at character 1", None),
    ("a in", "the expression ends too early", None),
    ("01", "not a number of JSON, at character 1", None),
    ("1.", "not a number of JSON", None),
    ("1x", "not a number of JSON", None),
    (".5", "unexpected '.'", None),
    ("1e999", "the number is too large, at character 1", None),
    ("a # b", "unexpected '#', at character 3", None),
    ("ä", "unexpected 'ä', at character 1", None),
    (r"'\x41'", "the text has an escape that JSON does not have, at character 1", None),
    (r"'\ud800'", "the text has an escape that JSON does not have", None),
    ("size()", "size takes 1 argument, got 0, at character 1", None),
    ("size(a, b)", "size takes 1 argument, got 2", None),
    ("a.trim(1)", "trim takes no argument, got 1, at character 3", None),
    ("a.contains()", "contains takes 1 argument, got 0", None),
    ("has(1)", "has takes a path, like a.b[0], at character 5", None),
    ("has(size(a))", "has takes a path", None),
    ("has(a.trim())", "has takes a path", None),
    ("has(true)", "has takes a path", None),
    ("has(a + b)", "unexpected '+', expected ')'", None),
    ("a.exists(x > 0)", "exists takes a name and a condition, like exists(x, x > 0)", None),
    ("a.all(1, true)", "all takes a name and a condition", None),
    ("a.all(true, true)", "all takes a name and a condition", None),
    ("a.all(x)", "all takes a name and a condition", None),
    ("a" * 2001, "longer than 2,000 characters, at character 2001 of '" + "a" * 80 + "'", None),
    ("(" * 65 + "a" + ")" * 65, "nested more than 64 deep", None),
    ("!" * 65 + "a", "nested more than 64 deep", None),
    ("a ? a : " * 65 + "a", "nested more than 64 deep", None),
    ("x" * 100 + " = " + "y" * 100, "at character 102 of '" + "x" * 39 + " = " + "y" * 38, "=="),
]


@pytest.mark.parametrize(("text", "message", "hint"), REFUSED)
def test_a_text_that_is_no_expression_is_refused(text: str, message: str, hint: str | None) -> None:
    with pytest.raises(BadExpression) as refusal:
        parse(text)

    assert message in str(refusal.value)
    assert refusal.value.hint == hint


@pytest.mark.parametrize(
    "text",
    [
        "(" * 64 + "a" + ")" * 64,
        "!" * 64 + "a",
        " + ".join(["1"] * 499),
        " && ".join(["yes"] * 280),
        "true || a" + ".b" * 900,
        "t" + ".trim()" * 280,
        "a" * 2000,
    ],
)
def test_a_chain_of_one_operator_is_not_nested(text: str) -> None:
    expression = parse(text)

    expression.evaluate({"yes": True, "t": " a ", "a": True, "a" * 2000: 1})


@pytest.mark.parametrize(
    ("text", "names", "paths"),
    [
        ("score >= 0.8", {"score"}, ["score"]),
        ("a.b[0].c == a.b[0].c", {"a"}, ["a.b[0].c"]),
        ("has(x) && items[i].ok", {"x", "items", "i"}, ["x", "i", "items[i].ok"]),
        ("label.trim().lower() == 'a'", {"label"}, ["label"]),
        ("l.exists(v, v.x > most && w[v].y)", {"l", "most", "w"}, ["l", "most"]),
        ("l.exists(v, true) || v", {"l", "v"}, ["l", "v"]),
        ("size + size(a)", {"size", "a"}, ["size", "a"]),
        ("true ? 1 : 'a'", set(), []),
    ],
)
def test_it_tells_what_it_reads(text: str, names: set[str], paths: list[str]) -> None:
    expression = parse(text)

    assert expression.names == names
    assert [path.text for path in expression.paths] == paths


def test_it_tells_the_values_of_what_it_reads() -> None:
    read = parse("a.b > n && missing.c").values_of_paths({"a": {"b": 2}, "n": None})

    assert read == {"a.b": 2, "n": None}


_PARTS = [
    *("a", "b.c", "l[0]", "l", "t", "1", "2.5", "'x'", "true", "null", "[1, a]", "missing", "o"),
    *("(", ")", "[", "]", ".", ",", "?", ":", "!", "-", "+", "*", "/", "%", "&&", "||"),
    *("==", "!=", "<", ">=", "in", "has(a)", "size(l)", ".exists(v, v > 1)", ".contains('x')"),
    *(".all(v, v.exists(w, w == a))", ".lower()", "number(t)", "text(o)", "o['k']", "{{", "'"),
]
_VALUES = [None, True, False, 0, 3, -1.5, 2**80, "", "x", "12", [], [1, 2, [3]], {"k": [1]}, {}]


def _text(rng: random.Random, depth: int) -> str:
    """Return a random expression; about one in four is none."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(_PARTS[:13])
    left, right = _text(rng, depth - 1), _text(rng, depth - 1)
    shapes = [
        f"{left} {rng.choice(_PARTS)} {right}",
        f"({left}) {rng.choice(_PARTS[22:35])} ({right})",
        f"({left}) ? {right} : {left}",
        f"!({left}) || -({right}) > 1",
        f"({left}){rng.choice(_PARTS[37:42])}",
        f"size({left}) + number({right})",
        f"[{left}, {right}].exists(v, v == {left})",
    ]
    return rng.choice(shapes)


def test_any_text_on_any_state_is_refused_fails_or_has_a_json_value() -> None:
    rng = random.Random(20)
    evaluated = 0
    messages: set[bool] = set()
    for _ in range(10_000):
        text = _text(rng, 4)
        state = {name: rng.choice(_VALUES) for name in "abclot" if rng.random() < 0.9}
        try:
            value = parse(text).evaluate(state)
            evaluated += 1
        except (BadExpression, ExpressionFailed) as refusal:
            messages.add(bool(str(refusal)))
        else:
            json.dumps(value, allow_nan=False)

    assert evaluated > 500
    assert messages == {True}


@pytest.mark.parametrize(
    "text",
    [
        "(" * 64 + "yes" + ")" * 64,
        "!" * 64 + "yes",
        "l.exists(v," * 63 + "yes" + ")" * 63,
        "no||yes&&l.exists(v," * 62 + "yes" + ")" * 62,
    ],
)
def test_deep_expressions_need_few_nested_calls(text: str) -> None:
    """Whoever parses or evaluates one is deep in calls already, of which Python allows 1,000."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 500)
    try:
        value = parse(text).evaluate({"yes": True, "no": False, "l": [1]})
    finally:
        sys.setrecursionlimit(before)

    assert value is True
