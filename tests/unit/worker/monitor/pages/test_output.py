"""What programs print is shown in their colours, and as nothing but text."""

from __future__ import annotations

import re

import pytest

from sleipnir.worker.monitor.pages.output import output_html


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("plain <b>", "plain &lt;b&gt;"),
        ("\x1b[31mred\x1b[0m & \x1b[1;92mgreen\x1b[m", '<span class="ansi-1">red</span> &amp; '),
        ("\x1b[38;5;196mred", '<span class="ansi-1">red</span>'),
        ("\x1b[38;2;10;10;250mblue", '<span class="ansi-4">blue</span>'),
        ("\x1b[1;4mtitle\x1b[0m", '<span class="ansi-bold ansi-underline">title</span>'),
        ("\x1b[41mon red", '<span class="ansi-marked">on red</span>'),
        ("\x1b[33mone\ntwo\x1b[0m", '<span class="ansi-3">one</span>\n<span class="ansi-3">two'),
        ("10 %\r50 %\r\x1b[32m100 %\x1b[0m", '<span class="ansi-2">100 %</span>'),
        ("12:00 ERROR no disk", '12:00 <b class="ansi-1">ERROR</b> no disk'),
        ("WARNING errors", '<b class="ansi-3">WARNING</b> errors'),
    ],
)
def test_colours_and_levels_become_classes(printed: str, shown: str) -> None:
    assert shown in output_html(printed)


def test_nothing_but_spans_with_classes_comes_of_it() -> None:
    hostile = (
        "\x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\ \x1b[2J\x1b[999m<script> \x07\u202e"
    )

    html = output_html(hostile + '\x1b[31m"><img src=x onerror=alert(1)>')

    assert set(re.findall(r"<(\w+)", html)) <= {"span"}
    assert "\x1b" not in html
    assert "javascript" not in html
    assert "\\u202e" in html
