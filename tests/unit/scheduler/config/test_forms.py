"""The forms of settings agree with their types."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.scheduler.config.checking import checked
from sleipnir.scheduler.config.settings import FIELDS, Settings
from sleipnir.scheduler.errors import WrongValue

WRITTEN = [
    *("", "a", "a:b", "a, b,", "openai:m", "true", "off", "null", "[1]", '["a"]', '{"a": "b"}'),
    *("0", "1", "007", "123456", "2.5", "1.", "-1", "+1", "1e3", "1_0", " 1", "inf", "nan"),
    *("9" * 15, "9" * 16),
    *(0, 1, 2.5, -1, 10**13, float("inf"), float("nan"), True, None, [], ["a"], {"a": "b"}),
]


@pytest.mark.parametrize("name", FIELDS)
def test_what_needs_no_check_would_pass_it(name: str) -> None:
    about = FIELDS[name].metadata
    valid = 0
    for written in WRITTEN:
        value, is_valid = about["form"].value_of(written, about["bounds"])
        if is_valid:
            assert checked(Settings, name, value) == value
            valid += 1

    assert (valid > 0) is (about["form"].plain is not None)


@pytest.mark.parametrize("name", FIELDS)
def test_a_form_reads_what_its_type_takes(name: str) -> None:
    about = FIELDS[name].metadata

    def accepts(written: Any) -> bool:
        value, is_valid = about["form"].value_of(written, about["bounds"])
        try:
            return is_valid or checked(Settings, name, value) is not None
        except WrongValue:
            return False

    assert any(
        accepts(written)
        for written in ("5", "1", "123456", "true", "auto", "all", "text", "info", "a", "{}", "[]")
    )
