"""Lines of a batch: each is a request, or says in one line why it is none."""

from __future__ import annotations

import io
import json
from typing import TextIO

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from sleipnir.scheduler.batch.lines import BadLine, EmptyRow, Format, Line, request_of
from sleipnir.scheduler.batch.reading import read_lines
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.submit import Request
from tests.support.fuzzing import EXAMPLES, assert_one_line, fuzz, objects, rarely, scalars, texts


def json_lines() -> SearchStrategy[str]:
    entry = objects(
        id=st.sampled_from(["a", 1, "", "a\nb"]),
        prompt=texts(),
        state=st.dictionaries(texts(), scalars(), max_size=3),
        vars=st.dictionaries(st.just("who") | texts(), scalars(), max_size=2),
        answers=st.dictionaries(st.just("s") | texts(), st.lists(texts(), max_size=2), max_size=2),
    )
    return rarely(entry).map(json.dumps) | texts()


def inputs() -> SearchStrategy[tuple[str, Format]]:
    forms = st.sampled_from(["jsonl", "csv", "txt"])
    rows = st.lists(st.lists(texts(), max_size=3).map(",".join), max_size=4)
    quoted = st.lists(texts().map(lambda text: f'"{text}",x'), max_size=3)
    headed = st.tuples(st.sampled_from(["id,prompt", "prompt,a", "a,a", '"x', ","]), rows | quoted)
    lines = st.lists(json_lines(), max_size=4) | headed.map(lambda pair: [pair[0], *pair[1]])
    ends = st.sampled_from(["\n", "\r\n", "\r"])
    whole = st.tuples(lines, ends).map(lambda pair: pair[1].join(pair[0]))
    return st.tuples(whole, forms)


def as_stream(content: str) -> TextIO:
    """The input as files are read: what is no UTF-8 arrives as lone surrogates."""
    data = content.encode(errors="surrogatepass")
    return io.TextIOWrapper(
        io.BytesIO(data), encoding="utf-8", errors="surrogateescape", newline=""
    )


@EXAMPLES
def test_a_line_is_a_request_or_says_why_not(examples: int) -> None:
    def check(example: tuple[str, Format]) -> None:
        content, form = example
        try:
            for line in read_lines(as_stream(content), form, 10_000):
                _check_line(line)
        except SubmissionRefused as error:
            assert_one_line(str(error))

    fuzz(examples, inputs(), check)


def _check_line(line: Line | EmptyRow | BadLine) -> None:
    if isinstance(line, BadLine):
        assert_one_line(str(line))
    if not isinstance(line, Line):
        return
    assert line.id != ""
    assert len(line.digest()) == 16
    request = request_of(line.to_json(), Request())
    assert request.prompt == line.prompt
