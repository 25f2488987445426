"""What people and models write is shown as Markdown, and cannot do more than be read."""

from __future__ import annotations

import re

import pytest

from sleipnir.worker.monitor.pages.markdown import formatted

HOSTILE = """
# Pay?

<script>alert(1)</script> <b onclick=x>bold</b> ![](http://spy.example/pixel.png)
[a](javascript:alert(1)) [b](data:text/html,x) [c](https://ok.example/?a=1&b=2) <javascript:x>

| clause | risk |
|-------:|:----:|
| 4.2 | ~~low~~ **high** |

```python class="x"
print("<i>")
```
"""


def test_tables_lists_and_code_are_formatted() -> None:
    html = formatted([HOSTILE])[HOSTILE]

    assert "<h1>Pay?</h1>" in html
    assert "<td><s>low</s> <strong>high</strong></td>" in html
    assert '<pre class="code"><code>print(<span class="s">&quot;</span>' in html
    assert (
        '<a href="https://ok.example/?a=1&amp;b=2" rel="noopener noreferrer nofollow">c</a>' in html
    )


def test_nothing_but_text_and_links_to_sites_comes_of_it() -> None:
    html = formatted([HOSTILE])[HOSTILE]
    tags = set(re.findall(r"<(\w+)", html))
    attributes = set(re.findall(r"<[^>]*?\s(\w+)=", html))

    assert tags <= {
        *("h1", "p", "a", "br", "table", "thead", "tbody", "tr", "th", "td", "s", "strong"),
        *("pre", "code", "span"),
    }
    assert attributes == {"href", "class"}
    pages = ["http://spy.example/pixel.png", "https://ok.example/?a=1&amp;b=2"]  # no picture
    assert re.findall(r'href="([^"]*)"', html) == pages


@pytest.mark.parametrize(
    "text",
    [
        "Publish this?\nSay yes or no.",
        '{"snake_case_key": 2 * 3}',
        "",
        None,
        f"# {'x' * 32_768}",
        "|a" * 1_000 + "\n" + "|-" * 1_000 + "\n" + "x\n" * 10_000,  # cells are filled in
    ],
)
def test_plain_and_very_long_texts_are_left_as_they_are(text: str | None) -> None:
    assert formatted([text]) == {}


def test_a_page_formats_a_bounded_number_of_characters() -> None:
    texts = [f"*{number}* {'x' * 30_000}" for number in range(10)]

    assert list(formatted([*texts, "*short*"])) == [*texts[:4], "*short*"]


def test_characters_that_cannot_be_seen_are_shown() -> None:
    assert "\\x1b[31m" in formatted(["*a* \x1b[31mred"])["*a* \x1b[31mred"]


def test_json_is_laid_out_with_colours() -> None:
    text = '{"name": "Hooli <b>", "rows": [1, true]}'

    html = formatted([text])[text]

    assert html.startswith('<pre class="code"><code>{\n  <span class="a">&quot;name&quot;</span>: ')
    assert '<span class="s">&quot;Hooli &lt;b&gt;&quot;</span>' in html
    assert '<span class="m">1</span>,\n    <span class="k">true</span>' in html
    assert formatted(["[" * 30_000, "[not json](https://a.example)"]).keys() == {
        "[not json](https://a.example)"
    }
