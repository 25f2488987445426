"""Variables that look like settings and are none."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.config.unknown_variables import unknown_variables


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "SLEIPNIR_REDIS_ULR",
            "SLEIPNIR_REDIS_ULR has no effect: there is no such setting; "
            "did you mean SLEIPNIR_REDIS_URL?",
        ),
        ("SLEIPNIR_MOON", "SLEIPNIR_MOON has no effect: there is no such setting"),
    ],
)
def test_a_variable_that_nothing_reads_is_named_with_what_was_meant(name: str, line: str) -> None:
    assert unknown_variables({name: "x"}) == [line]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLEIPNIR_REDIS_URL", "redis://db"),
        ("SLEIPNIR_DATA_DIR", "/data"),
        ("SLEIPNIR_RUN_ID", "0123456789abcdef"),
        ("SLEIPNIR_SERVICE_HOST", "10.0.0.7"),
        ("SLEIPNIR_PORT", "tcp://10.0.0.7:6379"),
        ("SLEIPNIR_PORT_6379_TCP_ADDR", "10.0.0.7"),
        ("MOON", "full"),
    ],
)
def test_others_are_no_matter(name: str, value: str) -> None:
    assert unknown_variables({name: value}) == []
