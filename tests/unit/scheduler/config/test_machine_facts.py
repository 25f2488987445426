"""What prompts may say of the machine of a submission."""

from __future__ import annotations

import re

import pytest

from sleipnir.scheduler.config.machine_facts import machine_facts


@pytest.mark.parametrize(
    ("environment", "tag"),
    [
        ({"LANG": "en_US.UTF-8"}, "en-US"),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "pt_BR"}, "pt-BR"),
        ({"LANG": "de"}, "de"),
        ({"LANG": "sr_RS@latin"}, "sr-RS"),
        ({"LANG": "C.UTF-8"}, ""),
        ({"LC_ALL": "POSIX", "LANG": "en_US"}, ""),
        ({}, ""),
    ],
)
def test_a_locale_is_a_language_tag(environment: dict[str, str], tag: str) -> None:
    assert machine_facts(environment)["__locale__"] == tag


def test_the_rest() -> None:
    facts = machine_facts({"SHELL": "/bin/fish"})

    assert facts["__shell__"] == "fish"
    assert (facts["__os__"], facts["__os_family__"]) == ("linux", "unix")
    assert facts["__os_distro__"].endswith(" (linux)")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", facts["__now__"])
