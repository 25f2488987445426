"""Splits a document into chunks, at headings, functions and paragraphs before splitting words.

Recursive character splitting; all lengths are in characters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sleipnir.records import dataclass

_COMMON = ("\n\n", "\n", " ", "")
_HTML_TAGS = (
    "body div p br li h1 h2 h3 h4 h5 h6 span table tr td th ul ol header footer nav head style "
    "script meta title"
)
_TEX_BLOCKS = "enumerate itemize description list quote quotation verse verbatim align"


def _words(text: str) -> tuple[str, ...]:
    """Return separators for lines that begin with one of the words."""
    return tuple(f"\n{word} " for word in text.split())


_C = _words("class void int float double if for while switch case")
_JAVASCRIPT = _words("function const let var class if for while switch case default")
_MARKDOWN = (
    *(f"\n{'#' * level} " for level in range(2, 7)),
    "```\n\n",
    *(f"\n\n{rule}\n\n" for rule in ("***", "---", "___")),
)
_HTML = (*(f"<{tag}>" for tag in _HTML_TAGS.split()), " ", "")

# Where a document of that kind is split first; all but HTML continue with the common four.
_BOUNDARIES: dict[str, tuple[str, ...]] = {
    "md": _MARKDOWN,
    "mkd": _MARKDOWN,
    "py": ("\nclass ", "\ndef ", "\n\tdef "),
    "c": _C,
    "cc": _C,
    "cpp": _C,
    "go": _words("func var const type if for switch case"),
    "java": _words("class public protected private static if for while switch case"),
    "js": _JAVASCRIPT,
    "mjs": _JAVASCRIPT,
    "cjs": _JAVASCRIPT,
    "php": _words("function class if foreach while do switch case"),
    "proto": _words("message service enum option import syntax"),
    "rb": _words("def class if unless while for do begin rescue"),
    "rs": _words("fn const let if while for loop match"),
    "scala": _words("class object def val var if for while match case"),
    "swift": _words("func class struct enum if for while do switch case"),
    "sol": (
        *_words(
            "pragma using contract interface library constructor type function event modifier "
            "error struct enum if for while"
        ),
        "\ndo while ",
        "\nassembly ",
    ),
    "tex": (
        *(f"\n\\{name}{{" for name in ("chapter", "section", "subsection", "subsubsection")),
        *(f"\n\\begin{{{name}}}" for name in _TEX_BLOCKS.split()),
        "$$",
        "$",
    ),
    "rst": ("\n===\n", "\n---\n", "\n***\n", "\n.. "),
}


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """The size of chunks, and the overlap of two neighbours, at most; in characters."""

    size: int
    overlap: int


def separators(ext: str) -> tuple[str, ...]:
    """Return where a document with that extension may be split, best places first."""
    if ext in ("htm", "html"):
        return _HTML
    return (*_BOUNDARIES.get(ext, ()), *_COMMON)


def split(text: str, ext: str, sizes: ChunkSizes) -> list[str]:
    """Split a text into chunks, in order; a blank text has none."""
    between = separators(ext)
    keeps = any(separator.strip() for separator in between)
    return list(_split(text, between, sizes, keeps=keeps))


def _split(text: str, between: Sequence[str], sizes: ChunkSizes, *, keeps: bool) -> Iterator[str]:
    used = next(index for index, separator in enumerate(between) if separator in text)
    separator, finer = between[used], between[used + 1 :]
    joint = "" if keeps else separator
    gathered: list[str] = []
    for piece in _pieces(text, separator, keeps=keeps):
        if len(piece) < sizes.size:
            gathered.append(piece)
            continue
        yield from _merge(gathered, joint, sizes)
        gathered = []
        if finer:
            yield from _split(piece, finer, sizes, keeps=keeps)
        else:
            yield piece
    yield from _merge(gathered, joint, sizes)


def _pieces(text: str, separator: str, *, keeps: bool) -> list[str]:
    """Split a text at a separator, which is kept in front of the next piece, or dropped."""
    if not separator:
        return list(text)
    first, *others = text.split(separator)
    if keeps:
        others = [separator + piece for piece in others]
    return [piece for piece in (first, *others) if piece]


def _merge(pieces: Sequence[str], joint: str, sizes: ChunkSizes) -> Iterator[str]:
    """Merge small pieces into chunks that fit; each begins with the end of the one before."""
    held: list[str] = []
    first, total = 0, 0  # of `held`, which also keeps the pieces dropped

    def fits(piece: str) -> bool:
        return total + len(piece) + (len(held) - first) * len(joint) <= sizes.size

    for piece in pieces:
        if not fits(piece) and len(held) > first:
            if chunk := joint.join(held[first:]).strip():
                yield chunk
            while total > sizes.overlap or (total > 0 and not fits(piece)):
                total -= len(held[first])
                first += 1
            held, first = held[first:], 0
        held.append(piece)
        total += len(piece)
    if chunk := joint.join(held[first:]).strip():
        yield chunk
