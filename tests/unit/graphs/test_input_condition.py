"""The condition of an input node."""

import pytest

from sleipnir.graphs.input_condition import Condition, parse_validation


@pytest.mark.parametrize(
    ("text", "accepted", "refused"),
    [
        ("len(input) > 2", "abc", "ab"),
        ("len(input) >= 2", "ab", "a"),
        ("len(input) < 2", "a", "ab"),
        ("len(input) <= 2", "ab", "abc"),
        ("len(input) == 2", "ab", "abc"),
        ("  len(input)==02 \n", "ab", ""),
    ],
)
def test_each_operator_bounds_the_length(text: str, accepted: str, refused: str) -> None:
    condition = parse_validation(text)

    assert condition.accepts(accepted)
    assert not condition.accepts(refused)


def test_length_counts_code_points() -> None:
    condition = Condition("==", 1)

    assert condition.accepts("😀")
    assert not condition.accepts("e\N{COMBINING ACUTE ACCENT}")


@pytest.mark.parametrize(
    "text",
    [
        *("", "len(input)", "len(input) > ", "len(input) != 2", "len(input) = 2", "2 < len(input)"),
        *("len( input ) > 2", "Len(input) > 2", "len(input) > -1", "len(input) > 2.0"),
        *("len(input) > 2 and 1", "len(input) > ٢", "len (input) > 2", "len(input) > = 2"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="validation must be"):
        parse_validation(text)
