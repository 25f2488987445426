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


@pytest.mark.parametrize(
    ("exts", "words"),
    [
        ("c cc cpp", "class void int float double if for while switch case"),
        ("go", "func var const type if for switch case"),
        ("java", "class public protected private static if for while switch case"),
        ("js mjs cjs", "function const let var class if for while switch case default"),
        ("php", "function class if foreach while do switch case"),
        ("proto", "message service enum option import syntax"),
        ("rb", "def class if unless while for do begin rescue"),
        ("rs", "fn const let if while for loop match"),
        ("scala", "class object def val var if for while match case"),
        ("swift", "func class struct enum if for while do switch case"),
        (
            "sol",
            "pragma using contract interface library constructor type function event modifier "
            "error struct enum if for while do_while assembly",
        ),
        ("md mkd", "## ### #### ##### ######"),
        ("py", "class def \tdef"),
        ("txt weird", ""),
    ],
)
def test_a_text_is_cut_first_before_lines_that_begin_with_these_words(
    exts: str, words: str
) -> None:
    first = [f"\n{word.replace('_', ' ')} " for word in words.split(" ") if word]
    more = ["```\n\n", "\n\n***\n\n", "\n\n---\n\n", "\n\n___\n\n"] if "md" in exts else []

    for ext in exts.split():
        assert separators(ext) == (*first, *more, "\n\n", "\n", " ", "")


def test_tex_and_rst_are_cut_at_their_sections_and_blocks() -> None:
    sections = [f"\n\\{name}{{" for name in ["chapter", "section", "subsection", "subsubsection"]]
    names = [
        *("enumerate", "itemize", "description", "list", "quote", "quotation", "verse"),
        *("verbatim", "align"),
    ]
    blocks = [f"\n\\begin{{{name}}}" for name in names]

    assert separators("tex") == (*sections, *blocks, "$$", "$", "\n\n", "\n", " ", "")
    assert separators("rst")[:4] == ("\n===\n", "\n---\n", "\n***\n", "\n.. ")


@pytest.mark.parametrize("ext", ["htm", "html"])
def test_html_is_cut_at_tags_then_at_spaces(ext: str) -> None:
    tags = (
        "body div p br li h1 h2 h3 h4 h5 h6 span table tr td th ul ol header footer nav head "
        "style script meta title"
    )
    assert separators(ext) == (*(f"<{tag}>" for tag in tags.split()), " ", "")


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
