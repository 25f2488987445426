"""Ask every address and DOI of the report whether it answers."""

import os
import queue
import re
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from node import read_state, text_of, write

AT_A_TIME = 8
REQUEST_S = 5.0
ALL_S = 45.0  # the node is ended after 60 s
NO_SOURCE = "The report cites no web source."

URL = re.compile(r"""https?://[^\s)\]}>"']+""")
DOI = re.compile(r"\b10\.\d{4,9}/[-._;()/:A-Za-z0-9]+")
PUNCTUATION = ".,;)"
# Of servers that do not know HEAD.
METHOD_REFUSED = (405, 501)


class Source(NamedTuple):
    """What the report cites, and where that is."""

    url: str
    doi: str | None = None

    def line(self, answers: bool) -> str:
        """What the person reads of it."""
        name = f"DOI {self.doi} ({self.url})" if self.doi else self.url
        return f"  {'OK' if answers else 'UNREACHABLE'}  {name}"


def main() -> None:
    """Print one line for each source."""
    sources = cited(text_of(read_state(), "report"))
    if not sources:
        write(source_check=NO_SOURCE)
        return
    answering = asked(source.url for source in sources)
    lines = [source.line(source.url in answering) for source in sources]
    write(source_check="\n".join([f"Sources checked: {len(sources)}", *lines]))


def cited(report: str) -> list[Source]:
    """The distinct URLs, then the distinct DOIs that are none of these, each sorted."""
    urls = sorted({found.rstrip(PUNCTUATION) for found in URL.findall(report)})
    dois = sorted({_doi(found) for found in DOI.findall(report)})
    resolved = [Source(f"https://doi.org/{doi}", doi) for doi in dois]
    return [Source(url) for url in urls] + [each for each in resolved if each.url not in urls]


def _doi(text: str) -> str:
    """Without the punctuation of the sentence; a bracket that the DOI opened is its own."""
    while text[-1] in ".,;:)" and not (text[-1] == ")" and text.count("(") >= text.count(")")):
        text = text[:-1]
    return text


def asked(urls: Iterable[str]) -> set[str]:
    """Those that answer in time."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for url in urls:
        waiting.put(url)
    answering: set[str] = set()
    # Daemons: a resolver that hangs must not keep the script from ending.
    threads = [
        threading.Thread(target=_ask_all, args=(waiting, answering), daemon=True)
        for _ in range(min(AT_A_TIME, waiting.qsize()))
    ]
    ends_at = time.monotonic() + ALL_S
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, ends_at - time.monotonic()))
    return set(answering)


def _ask_all(waiting: "queue.SimpleQueue[str]", answering: set[str]) -> None:
    while True:
        try:
            url = waiting.get_nowait()
        except queue.Empty:
            return
        if _answers(url):
            answering.add(url)


def _answers(url: str) -> bool:
    # The engine's fetcher: it connects to public addresses only, unless the engine allows others.
    from sleipnir import web  # noqa: PLC0415  (found once the script has begun)

    try:
        status = web.fetch(web.Request(url, "HEAD"), timeout_s=REQUEST_S).status
        if status in METHOD_REFUSED:
            status = web.fetch(web.Request(url, "GET"), timeout_s=REQUEST_S).status
    except web.FetchError:
        return False
    return 200 <= status < 400


if __name__ == "__main__":
    # Where the engine keeps its library for tools.
    sys.path.insert(0, str(Path(os.environ["LLM_PROMPT_UTILS_FILE"]).parent))
    main()
