"""Cutting documents into chunks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sleipnir.graphs.knowledge.chunking import ChunkSizes, separators, split

MARKDOWN = "# A\n\nalpha beta\n\n## B\n\ngamma delta epsilon"
HEADED = "intro text here\n## Head\nbody one two\n## Next\nbody three"


@pytest.mark.parametrize(
    ("text", "ext", "sizes", "chunks"),
    [
        (
            "one two three four five six seven",
            "txt",
            ChunkSizes(12, 5),
            ["one two", "two three", "three four", "four five", "five six", "six seven"],
        ),
        (MARKDOWN, "md", ChunkSizes(20, 0), ["# A\n\nalpha beta", "## B", "gamma delta epsilon"]),
        (
            HEADED,
            "md",
            ChunkSizes(25, 0),
            ["intro text here", "## Head\nbody one two", "## Next\nbody three"],
        ),
        (
            HEADED,
            "txt",
            ChunkSizes(25, 0),
            ["intro text here\n## Head", "body one two\n## Next", "body three"],
        ),
        ("", "txt", ChunkSizes(10, 0), []),
        (" \n\n \t ", "md", ChunkSizes(10, 0), []),
        ("short", "md", ChunkSizes(1000, 50), ["short"]),
        ("abcdefgh", "txt", ChunkSizes(3, 1), ["abc", "cde", "efg", "gh"]),
        (
            "import os\n\nclass A:\n    x = 1\n\ndef f():\n    return 1\n",
            "py",
            ChunkSizes(24, 0),
            ["import os", "class A:\n    x = 1", "def f():\n    return 1"],
        ),
    ],
)
def test_a_text_becomes_these_chunks(
    text: str, ext: str, sizes: ChunkSizes, chunks: list[str]
) -> None:
    assert split(text, ext, sizes) == chunks


def test_an_unknown_extension_is_plain_text() -> None:
    assert separators("weird") == ("\n\n", "\n", " ", "")


def test_html_is_cut_at_tags_then_at_spaces() -> None:
    assert separators("html")[0] == "<body>"
    assert separators("html")[-2:] == (" ", "")


@settings(max_examples=200, deadline=None)
@given(
    st.text(alphabet="ab #\n`*<p>$", max_size=300),
    st.sampled_from(["txt", "md", "py", "html", "tex"]),
    st.integers(1, 40),
    st.integers(0, 39),
)
def test_no_chunk_is_too_long_and_no_character_is_lost(
    text: str, ext: str, size: int, overlap: int
) -> None:
    chunks = split(text, ext, ChunkSizes(size, min(overlap, size - 1)))

    assert all(0 < len(chunk) <= size for chunk in chunks if chunk.strip())
    kept, words = "".join(chunks), text.split()
    assert all(character in kept for word in words for character in word)
    if ext != "txt":  # else what stood between two pieces is put back once
        assert all(chunk in text for chunk in chunks)
