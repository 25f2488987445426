"""What expressions evaluate to, and how they fail: their grammar and semantics as one table."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.graphs.expressions.errors import ExpressionFailed
from sleipnir.graphs.expressions.parser import parse

STATE: dict[str, Any] = {
    "score": 0.9,
    "n": 3,
    "whole": 3.0,
    "big": 2**70,
    "yes": True,
    "no": False,
    "nothing": None,
    "label": "billing",
    "empty": "",
    "size": 7,
    "list": [1, 2.5, "a", None, True, [1], {"k": 1}],
    "numbers": [3, 1, 2],
    "none": [],
    "review": {"score": 0.5, "null": None, "in": 1, "true": 2, "notes": ["x", {"by": "Ann"}]},
    "rows": [{"id": 1, "ok": True}, {"id": 2, "ok": False}],
    "key": "score",
    "ä": 1,
    "i": 1,
    "two words": 1,
}

VALUES = [
    # literals
    ("1", 1),
    ("1.5", 1.5),
    ("2.0", 2),
    ("1e3", 1000),
    ("0.1e1", 1),
    ("'a'", "a"),
    ('"a"', "a"),
    ("''", ""),
    (r'"\n\u00e4\"\\\/"', '\nä"\\/'),
    (r"'it\'s'", "it's"),
    (r"""'say "a"'""", 'say "a"'),
    (r'''"it's"''', "it's"),
    (r'"\ud83d\ude00"', "😀"),
    ("'a\nb'", "a\nb"),
    ("'{{score}}'", "{{score}}"),
    ("true", True),
    ("false", False),
    ("null", None),
    ("[]", []),
    ("[1, 'a', [n]]", [1, "a", [3]]),
    # names and paths
    ("n", 3),
    ("review.score", 0.5),
    ("review['score']", 0.5),
    ("review[key]", 0.5),
    ("review.notes[0]", "x"),
    ("review.notes[1].by", "Ann"),
    ("review . notes [ 1 ] [ 'by' ]", "Ann"),
    ("review.in", 1),
    ("review.true", 2),
    ("review.null", None),
    ("numbers[i]", 1),
    ("numbers[1.0]", 1),
    ("numbers[n - 1]", 2),
    ("[4, 5][1]", 5),
    ("(review).score", 0.5),
    ("size", 7),
    ("size + size(numbers)", 10),
    ("rows[0]\n  .ok", True),
    # arithmetic
    ("1 + 2", 3),
    ("1 + 2 * 3", 7),
    ("(1 + 2) * 3", 9),
    ("10 - 3 - 2", 5),
    ("2 * 3 % 4", 2),
    ("7 / 2", 3.5),
    ("6 / 2", 3),
    ("6 / 4 * 2", 3),
    ("0.5 + 0.5", 1),
    ("0.1 + 0.2", 0.30000000000000004),
    ("big + 1", 2**70 + 1),
    ("big * big", 2**140),
    ("big / 2", 2**69),
    ("-n", -3),
    ("--n", 3),
    ("-2.0", -2),
    ("1 - -1", 2),
    ("7 % 3", 1),
    ("-7 % 3", 2),
    ("7 % -3", -2),
    ("7.0 % 4", 3),
    ("0 * -1.5", 0),
    ("1e300 * 10", 1e301),
    ("'a' + 'b'", "ab"),
    ("[1] + [2]", [1, 2]),
    ("none + []", []),
    # comparison
    ("1 == 1.0", True),
    ("n == whole", True),
    ("1 != 2", True),
    ("'a' == 'a'", True),
    ("'a' == 'b'", False),
    ("true == true", True),
    ("null == null", True),
    ("nothing == null", True),
    ("n == null", False),
    ("null != 'a'", True),
    ("numbers == [3, 1, 2]", True),
    ("numbers == [3, 1]", False),
    ("[1, '1'] == ['1', 1]", False),
    ("[true] == [1]", False),
    ("[null] == [0]", False),
    ("[1] == [1.0]", True),
    ("rows[0] == rows[0]", True),
    ("rows[0] == rows[1]", False),
    ("[review] == [review]", True),
    ("[[1, [2]]] == [[1, [2]]]", True),
    ("9007199254740993 == 9007199254740992.0", False),
    ("big > 1.5", True),
    ("score >= 0.8", True),
    ("score < 0.9", False),
    ("score <= 0.9", True),
    ("2 > 10", False),
    ("'2' > '10'", True),
    ("'Z' < 'a'", True),
    ("'a' < 'ä'", True),
    ("'a' <= 'a'", True),
    # in
    ("2.5 in list", True),
    ("'a' in list", True),
    ("null in list", True),
    ("1 in [true]", False),
    ("[1] in list", True),
    ("'x' in list", False),
    ("n in none", False),
    ("'score' in review", True),
    ("'missing' in review", False),
    ("label in ['billing', 'other']", True),
    ("!('x' in list)", True),
    # logic
    ("yes && no", False),
    ("yes || no", True),
    ("no || no || yes", True),
    ("yes && yes && no", False),
    ("no && missing", False),
    ("yes || missing", True),
    ("no && 1", False),
    ("no || yes && no", False),
    ("(no || yes) && yes", True),
    ("!no", True),
    ("!!yes", True),
    ("!no && yes", True),
    ("n > 1 && n < 5", True),
    ("yes ? 1 : missing", 1),
    ("no ? missing : 2", 2),
    ("no ? 1 : no ? 2 : 3", 3),
    ("yes ? no ? 1 : 2 : 3", 2),
    ("n == 3 ? 'three' : 'other'", "three"),
    ("n > 2 || missing > 2 ? 1 : 0", 1),
    # functions
    ("size('äö😀')", 3),
    ("size(list)", 7),
    ("size(review)", 5),
    ("size ( '' )", 0),
    ("has(n)", True),
    ("has(missing)", False),
    ("has(review.score)", True),
    ("has(review.null)", True),
    ("has(nothing)", True),
    ("has(review.missing.deep)", False),
    ("has(review.notes[0])", True),
    ("has(review.notes[2])", False),
    ("has(numbers[-1])", False),
    ("has(numbers[missing])", False),
    ("has(n.a)", False),
    ("has(missing) && missing > 3", False),
    ("number(3)", 3),
    ("number('3')", 3),
    ("number('-3.50')", -3.5),
    ("number('2.0')", 2),
    ("number('1e2')", 100),
    ("text(5)", "5"),
    ("text(1.5)", "1.5"),
    ("text(true)", "true"),
    ("text(null)", "null"),
    ("text('a')", "a"),
    ("text([1, 'ä'])", '[1,"ä"]'),
    ("text(2.0)", "2"),
    ("label.contains('ill')", True),
    ("label.contains('')", True),
    ("label.startsWith('bill')", True),
    ("label.endsWith('bill')", False),
    ("'ÄB'.lower()", "äb"),
    ("'  a b\n'.trim()", "a b"),
    ("' A '.trim().lower() == 'a'", True),
    ("('a' + label).contains('ab')", True),
    # quantifiers
    ("numbers.exists(x, x > 2)", True),
    ("numbers.exists(x, x > 5)", False),
    ("numbers.all(x, x > 0)", True),
    ("numbers.all(x, x > 1)", False),
    ("none.exists(x, x)", False),
    ("none.all(x, missing)", True),
    ("rows.exists(r, r.ok && r.id == 1)", True),
    ("rows.all(n, n.id < 3)", True),
    ("rows.exists(r, numbers.exists(k, k == r.id))", True),
    ("numbers.exists(x, x == n)", True),
    ("[1, 2].exists(n, n == 1) && n == 3", True),
    ("list.exists(x, x != null)", True),
    ("rows.all(r, has(r.ok))", True),
]

FAILURES = [
    ("missing", "'missing' is not set"),
    ("review.missing", "'review.missing' is not set"),
    ("review.score.deep", "'review.score.deep' is not set"),
    ("missing.a.b", "'missing' is not set"),
    ("numbers[3]", "'numbers[3]' is not set"),
    ("numbers[-1]", "'numbers[-1]' is not set"),
    ("numbers[0.5]", "'numbers[0.5]' is not set"),
    ("numbers['a']", "'numbers['a']' is not set"),
    ("numbers[true]", "'numbers[true]' is not set"),
    ("numbers[n]", "'numbers[n]' is not set"),
    ("numbers[missing]", "'missing' is not set"),
    ("review[1]", "'review[1]' is not set"),
    ("nothing.a", "'nothing.a' is not set"),
    ("label[0]", "'label[0]' is not set"),
    ("rows.exists(r, r.missing)", "'r.missing' is not set"),
    ("[1].exists(x, true) && x", "'x' is not set"),
    ("'5' > 3", ">: text and number"),
    ("5 > '3'", ">: number and text"),
    ("null < 1", "<: null and number"),
    ("true >= false", ">=: boolean and boolean"),
    ("[] <= []", "<=: list and list"),
    ("1 == '1'", "==: number and text"),
    ("true != 1", "!=: boolean and number"),
    ("review == numbers", "==: object and list"),
    ("!label", "!: text"),
    ("n && yes", "&&: number"),
    ("yes && n", "&&: number"),
    ("no || null", "||: null"),
    ("nothing ? 1 : 2", "?:: null"),
    ("size(3)", "size: number"),
    ("size(null)", "size: null"),
    ("label.contains(3)", "contains: text and number"),
    ("n.startsWith('a')", "startsWith: number and text"),
    ("null.trim()", "trim: null"),
    ("numbers.exists(x, x)", "exists: number"),
    ("label.exists(x, true)", "exists: text"),
    ("review.all(x, true)", "all: object"),
    ("'a' + 1", "+: text and number"),
    ("1 + true", "+: number and boolean"),
    ("[1] + 'a'", "+: list and text"),
    ("review + review", "+: object and object"),
    ("'a' - 'b'", "-: text and text"),
    ("-label", "-: text"),
    ("-true", "-: boolean"),
    ("[] * 2", "*: list and number"),
    ("null / 2", "/: null and number"),
    ("1 in 2", "in: number and number"),
    ("'ill' in label", "in: text and text"),
    ("1 in review", "in: number and object"),
    ("1 / 0", "/: division by zero"),
    ("1.5 / 0.0", "/: division by zero"),
    ("1 % 0", "%: division by zero"),
    ("1.5 % 1", "%: takes whole numbers"),
    ("1e308 * 10", "*: the result is not finite"),
    ("1e300 * 1e300", "*: the result is not finite"),
    ("number('a')", "number: text that is not a number"),
    ("number(' 1')", "number: text that is not a number"),
    ("number('+1')", "number: text that is not a number"),
    ("number('01')", "number: text that is not a number"),
    ("number('NaN')", "number: text that is not a number"),
    ("number('1e999')", "number: text of a number that is too large"),
    ("number(true)", "number: boolean"),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_it_has_this_value(text: str, value: Any) -> None:
    result = parse(text).evaluate(STATE)

    assert (type(result), result) == (type(value), value)


@pytest.mark.parametrize(("text", "message"), FAILURES)
def test_it_fails_and_says_where(text: str, message: str) -> None:
    with pytest.raises(ExpressionFailed) as failure:
        parse(text).evaluate(STATE)

    assert str(failure.value) == message


def test_numbers_are_exact_up_to_their_limit() -> None:
    largest = {"x": 10**4299}

    assert parse("x + 1").evaluate(largest) == 10**4299 + 1
    with pytest.raises(ExpressionFailed, match=r"\*: an integer of more than 4,300 digits"):
        parse("x * 10").evaluate(largest)
    with pytest.raises(ExpressionFailed, match=r"/: the result is not finite"):
        parse("x / 3.5").evaluate(largest)


@pytest.mark.parametrize("text", ["x + x", "'b' + x"])
def test_what_it_makes_is_no_larger_than_a_value_may_be(text: str) -> None:
    state = {"x": "a" * 60}

    assert len(parse(text).evaluate(state)) > 60
    with pytest.raises(ExpressionFailed, match=r"\+: a text of more than 50 bytes \(value_limit_"):
        parse(text).evaluate(state, value_bytes=50)


def test_a_list_counts_with_all_that_is_in_it() -> None:
    with pytest.raises(ExpressionFailed, match=r"result: a list of more than 100 bytes"):
        parse("[x, x]").evaluate({"x": "a" * 60}, value_bytes=100)


def test_a_value_is_nested_no_deeper_than_one_from_outside() -> None:
    value: Any = []
    for _ in range(200):
        value = parse("[x]").evaluate({"x": value})

    with pytest.raises(ExpressionFailed, match="result: a list nested more than 200 deep"):
        parse("[x]").evaluate({"x": value})


@pytest.mark.parametrize(
    "text",
    [
        "rows.all(a, rows.all(b, rows.all(c, true)))",
        "rows.exists(a, a in rows && false)",
        "rows == rows && rows.all(a, rows == rows)",
        "rows.all(a, big.contains('b') || true)",
    ],
)
def test_an_evaluation_ends_after_so_many_steps(text: str) -> None:
    state = {"rows": list(range(2_000)), "big": "a" * 1_000_000}

    with pytest.raises(ExpressionFailed, match=r"^more than 100,000 steps$"):
        parse(text).evaluate(state)
