"""A scripted OpenAI-compatible model server on the loopback interface.

In a test:

    with ModelServer(says("hello"), fails(429, "slow down", {"Retry-After": "2"})) as server:
        ...  # OPENAI_BASE_URL=server.base_url
    assert server.requests[0].prompt == "the user message"

For real processes, with the replies in a file of the form `Script.from_json` reads:

    python -m tests.support.model_server --script FILE.json --port-file FILE
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import signal
import socket
import struct
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Literal, TypeAlias

from sleipnir.records import dataclass
from tests.support.batch_provider import BatchProvider, prompt_of
from tests.support.loopback import Loopback

# Interval between the blanks of a dripping reply.
DRIP_INTERVAL_S = 0.02


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to one request."""

    text: str | None = None
    status: int = 200
    error: str = ""  # the server's message if `status` is not 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    prompt_tokens: int = 10
    completion_tokens: int = 5
    usage: Any = field(default_factory=dict)  # replaces these, or is added to them
    # Functions the model calls: {"name", "arguments", "id"?}; arguments other than strings are
    # encoded as JSON, and missing ids are made up.
    calls: Sequence[Mapping[str, Any]] = ()
    tier: str | None = None  # the service tier that the reply names
    finish: str | None = None  # why the reply ended; None: by itself
    said: Mapping[str, Any] = field(default_factory=dict)  # further fields of the message
    # What a stream says in the place of the message, a delta each.
    deltas: Sequence[Mapping[str, Any]] = ()
    # reset: the connection is reset; hang: nothing is ever sent; drip: the body never ends, one
    # blank after another, as gateways keep a line open; cut: only the beginning of a streamed reply
    # arrives; flood: `text` repeated as fast as possible until the client hangs up; garbled: `text`
    # is the whole body, or one event of it; raw: it is the whole body, with the headers given.
    fault: Literal["reset", "hang", "drip", "cut", "flood", "garbled", "raw"] | None = None
    packed: bool = False  # compressed, whether requested or not
    pause_s: float = 0.0  # between the pieces of a streamed reply


def says(text: str | None, **options: Any) -> Reply:
    """Return a completion with this text."""
    return Reply(text=text, **options)


def calls(*calls: tuple[str, Mapping[str, Any]], text: str | None = None) -> Reply:
    """Return a reply that calls functions, given as (name, arguments)."""
    made = tuple({"name": name, "arguments": arguments} for name, arguments in calls)
    return Reply(text=text, calls=made)


def fails(status: int, error: str, headers: Mapping[str, str] | None = None) -> Reply:
    """Return an HTTP error in OpenAI's format."""
    return Reply(status=status, error=error, headers=headers or {})


RESETS = Reply(fault="reset")
HANGS = Reply(fault="hang")
DRIPS = Reply(fault="drip")
EXHAUSTED = fails(500, "the model server's script has no reply left for this request")


@dataclass(frozen=True, slots=True)
class Request:
    """A request as received; header names in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body.get("messages", [])
        return messages

    @property
    def prompt(self) -> str:
        """The last message's text."""
        return str(self.messages[-1]["content"])

    @property
    def text(self) -> str:
        """All messages' texts, one per line."""
        return "\n".join(str(message.get("content") or "") for message in self.messages)


# A reply, or a function from a request to one.
Answer: TypeAlias = Reply | Callable[[Request], Reply]


@dataclass(slots=True)
class Rule:
    """Replies for the requests it matches, in order; the last one is repeated."""

    matches: Callable[[Request], bool]
    replies: deque[Answer]

    def next_reply(self) -> Answer:
        return self.replies.popleft() if len(self.replies) > 1 else self.replies[0]


class Script:
    """Chooses replies: by the first matching rule, else the next in order, else `otherwise`."""

    def __init__(self, *replies: Reply, otherwise: Reply = EXHAUSTED) -> None:
        self._in_order = deque(replies)
        self._rules: list[Rule] = []
        self._otherwise = otherwise
        self._lock = threading.Lock()

    @classmethod
    def from_json(cls, script: Mapping[str, Any]) -> Script:
        """Parse `{"replies": […], "rules": [{"contains": "…", "replies": […]}], "otherwise": …}`.

        A reply is an object with `Reply`'s fields, or a string that stands for its text. A rule
        matches if any message contains its text.
        """
        result = cls(
            *map(_reply_from_json, script.get("replies", [])),
            otherwise=_reply_from_json(script["otherwise"]) if "otherwise" in script else EXHAUSTED,
        )
        for rule in script.get("rules", []):
            result.when(_contains(rule["contains"]), *map(_reply_from_json, rule["replies"]))
        return result

    def when(self, matches: Callable[[Request], bool], *replies: Answer) -> None:
        """Add a rule; earlier rules take precedence."""
        self._rules.append(Rule(matches, deque(replies)))

    def add(self, *replies: Reply) -> None:
        """Append to the replies given in order."""
        self._in_order.extend(replies)

    def reply_to(self, request: Request) -> Reply:
        answer = self._answer_to(request)
        return answer if isinstance(answer, Reply) else answer(request)

    def _answer_to(self, request: Request) -> Answer:
        rule = next((rule for rule in self._rules if rule.matches(request)), None)
        with self._lock:
            if rule is not None:
                return rule.next_reply()
            return self._in_order.popleft() if self._in_order else self._otherwise


def _contains(text: str) -> Callable[[Request], bool]:
    return lambda request: text in request.text


def _reply_from_json(value: str | Mapping[str, Any]) -> Reply:
    return Reply(text=value) if isinstance(value, str) else Reply(**value)


class ModelServer(Loopback):
    """Serves a script until its `with` block ends, and keeps every request received."""

    def __init__(self, *replies: Reply, script: Script | None = None, port: int = 0) -> None:
        self.script = script or Script(*replies)
        self.requests: list[Request] = []
        self.flooded_bytes: list[int] = []  # bytes sent by each flood, once it is over
        self.batches = BatchProvider(self._complete)
        super().__init__(_HTTPServer(("127.0.0.1", port), self))

    def _complete(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and body of the reply to a request in a batch."""
        messages = [{"role": "user", "content": prompt_of(body)}]
        request = Request("/v1/batch", {}, {**body, "messages": messages})
        reply = self.script.reply_to(request)
        if reply.status == 200:
            return 200, _completion(reply, request)
        return reply.status, {"error": {"message": reply.error, "type": "scripted"}}

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def when(self, matches: str | Callable[[Request], bool], *replies: Reply) -> None:
        """Add replies for requests that a predicate accepts, or that contain a text."""
        self.script.when(_contains(matches) if isinstance(matches, str) else matches, *replies)


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    # Hundreds of clients may connect at once.
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], owner: ModelServer) -> None:
        self.owner = owner
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a client that disconnects is part of many tests."""


class _Handler(BaseHTTPRequestHandler):
    server: _HTTPServer
    protocol_version = "HTTP/1.1"
    # One packet per reply: otherwise Nagle's algorithm and delayed ACKs add 40 ms to every call.
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Print nothing: tests read `requests`."""

    def do_GET(self) -> None:
        """Return at `/requests` what was received, for tests in another process."""
        owner = self.server.owner
        place, _, query = self.path.removeprefix("/v1").partition("?")
        if place == "/requests":
            self._send(200, [asdict(request) for request in owner.requests])
        elif place == "/bill":
            self._send(200, owner.batches.bill)
        elif place.startswith("/messages/batches"):
            self._message_batches(place.removeprefix("/messages/batches"), query)
        elif place == "/batches":
            after = query.partition("after=")[2]
            self._send(200, owner.batches.list(after))
        elif place.startswith("/batches/"):
            self._send(*owner.batches.poll(place.split("/")[2]))
        elif place.startswith("/files/"):
            self._send_data(owner.batches.content(place.split("/")[2]))
        else:
            self._send(404, {"error": "not found"})

    def _message_batches(self, place: str, query: str) -> None:
        batches = self.server.owner.batches
        base = f"{self.server.owner.base_url}/messages"
        if not place:
            page = batches.list(query.partition("after_id=")[2])
            shown = [batches.message_batch(each["id"]) for each in page["data"]]
            self._send(200, {"data": shown, "has_more": page["has_more"]})
        elif place.endswith("/results"):
            self._send_data(batches.message_results(place.split("/")[1]))
        else:
            status, answer = batches.poll(place[1:])
            self._send(status, batches.message_batch(place[1:], base) if status == 200 else answer)

    def do_DELETE(self) -> None:
        self._send(200, self.server.owner.batches.delete(self.path.rpartition("/")[2]))

    def _of_batches(self, place: str) -> None:
        """Answer a request about files and batches."""
        batches = self.server.owner.batches
        content = self._content()
        if not batches.has_interface:
            self._send(404, {"error": {"message": "no such address"}})
        elif place == "/files":
            self._send(200, batches.upload(_file_in(content)))
        elif place in ("/batches", "/messages/batches"):
            create = batches.create if place == "/batches" else batches.create_messages
            status, answer = create(json.loads(content))
            if answer is None:
                self._reset()
            else:
                self._send(status, answer)
        else:
            self._send(200, batches.cancel(place.split("/")[-2]))

    def _content(self) -> bytes:
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def do_POST(self) -> None:
        place = self.path.removeprefix("/v1")
        if place.startswith(("/files", "/batches", "/messages/batches")):
            self._of_batches(place)
            return
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, body)
        owner = self.server.owner
        owner.requests.append(request)
        reply = owner.script.reply_to(request)
        if reply.delay_s:
            owner.stopping.wait(reply.delay_s)
        match reply.fault:
            case None | "cut":
                self._answer(reply, request)
            case "reset":
                self._reset()
            case "hang":
                owner.stopping.wait()
                self.close_connection = True
            case "drip":
                self._drip()
            case "flood":
                self._flood(reply, request)
            case "raw":
                self._raw((reply.text or "").encode(), reply.headers)
            case "garbled":
                self._garbled(reply.text or "", request)

    def _answer(self, reply: Reply, request: Request) -> None:
        if reply.status == 200 and request.body.get("stream"):
            self._stream(reply, request)
        elif reply.status == 200 and request.path.endswith("/embeddings"):
            self._send(200, _embeddings(request))
        elif reply.status == 200 and request.path.endswith("/rerank"):
            self._send(200, _reranked(request))
        elif reply.status == 200:
            self._send(200, _completion(reply, request), reply.headers, reply.packed)
        else:
            error = {"message": reply.error, "type": "scripted", "code": str(reply.status)}
            self._send(reply.status, {"error": error}, reply.headers)

    def _send(
        self,
        status: int,
        value: Any,
        headers: Mapping[str, str] | None = None,
        packed: bool = False,
    ) -> None:
        data = json.dumps(value).encode()
        if packed:
            data = gzip.compress(data)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if packed:
            self.send_header("Content-Encoding", "gzip")
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def _send_data(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, reply: Reply, request: Request) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, piece in enumerate(_pieces(_completion(reply, request), request, reply)):
            self._send_chunk(f"data: {json.dumps(piece)}\n\n")
            if reply.fault == "cut" and number == 1:
                self.close_connection = True
                return
            if reply.pause_s:
                self.server.owner.stopping.wait(reply.pause_s)
        self._send_chunk("data: [DONE]\n\n")
        self._send_chunk("")

    def _send_chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _reset(self) -> None:
        # Closing with a linger time of zero sends RST instead of FIN.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        socket.close(self.connection.detach())
        self.close_connection = True

    def _drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while not self.server.owner.stopping.wait(DRIP_INTERVAL_S):
            self.wfile.write(b"1\r\n \r\n")
            self.wfile.flush()

    def _flood(self, reply: Reply, request: Request) -> None:
        streamed = request.body.get("stream")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if streamed else "application/json")
        if reply.packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        piece = {"id": "flood", "object": "chat.completion.chunk", "created": 0, "model": "m"}
        said = {"index": 0, "delta": {"content": reply.text}, "finish_reason": None}
        event = f"data: {json.dumps({**piece, 'choices': [said]})}\n\n"
        data = event if streamed else 1_000 * (reply.text or "")
        packing = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
        sent = 0
        try:
            while not self.server.owner.stopping.is_set():
                out = packing.compress(data.encode()) if reply.packed else data.encode()
                self.connection.sendall(out)
                sent += len(out)
        except OSError:
            self.server.owner.flooded_bytes.append(sent)

    def _raw(self, data: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(200)
        for name, text in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def _garbled(self, text: str, request: Request) -> None:
        streamed = request.body.get("stream")
        data = (f"data: {text}\n\ndata: [DONE]\n\n" if streamed else text).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if streamed else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _file_in(form: bytes) -> bytes:
    """Return the file of a form."""
    boundary = form.partition(b"\r\n")[0]
    parts = form.split(boundary)
    (file,) = (part for part in parts if b"filename=" in part)
    return file.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")


def _embeddings(request: Request) -> dict[str, Any]:
    """Return vectors of letter counts, so that similar texts are near; in reverse order."""
    data = [
        {"index": index, "embedding": [text.lower().count(letter) for letter in ascii_lowercase]}
        for index, text in enumerate(request.body["input"])
    ]
    usage = {"prompt_tokens": len(data) * 10, "total_tokens": len(data) * 10}
    return {"object": "list", "data": data[::-1], "model": request.body["model"], "usage": usage}


def _reranked(request: Request) -> dict[str, Any]:
    """Rank the last documents first."""
    count = len(request.body["documents"])
    results = [{"index": index, "relevance_score": index / count} for index in range(count)][::-1]
    tokens = {"input_tokens": count * 10, "output_tokens": 0}
    meta = {"billed_units": {"search_units": 1}, "tokens": tokens}
    return {"id": "rerank-scripted", "results": results[: request.body["top_n"]], "meta": meta}


def _completion(reply: Reply, request: Request) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text, **reply.said}
    if reply.calls:
        turn = len(request.messages)
        message["tool_calls"] = [
            _tool_call(call, f"call_{turn}_{position}") for position, call in enumerate(reply.calls)
        ]
    reason = reply.finish or ("tool_calls" if reply.calls else "stop")
    usage = {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
    }
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": request.body.get("model", ""),
        **({"service_tier": reply.tier} if reply.tier else {}),
        "choices": [{"index": 0, "finish_reason": reason, "message": message}],
        "usage": {**usage, **reply.usage} if isinstance(reply.usage, dict) else reply.usage,
    }


def _pieces(whole: dict[str, Any], request: Request, reply: Reply) -> Iterator[dict[str, Any]]:
    """Yield a completion as it is streamed: a word at a time, arguments of calls in halves."""
    common = {**whole, "object": "chat.completion.chunk"}
    usage = common.pop("usage")
    (choice,) = whole["choices"]

    def piece(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield piece({"role": "assistant", "content": "", **reply.said})
    yield from map(piece, map(dict, reply.deltas))
    for word in re.findall(r"\s*\S+\s*$|\s*\S+", choice["message"]["content"] or ""):
        yield piece({"content": word})
    for index, call in enumerate(choice["message"].get("tool_calls", ())):
        function, middle = call["function"], len(call["function"]["arguments"]) // 2
        first = {**function, "arguments": function["arguments"][:middle]}
        second = {"arguments": function["arguments"][middle:]}
        yield piece({"tool_calls": [{**call, "index": index, "function": first}]})
        yield piece({"tool_calls": [{"index": index, "function": second}]})
    yield piece({}, choice["finish_reason"])
    if request.body.get("stream_options", {}).get("include_usage"):
        yield {**common, "choices": [], "usage": usage}


def _tool_call(call: Mapping[str, Any], made_up_id: str) -> dict[str, Any]:
    arguments = call["arguments"]
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    function = {"name": call["name"], "arguments": text}
    return {"id": call.get("id", made_up_id), "type": "function", "function": function}


def main() -> None:
    """Serve a script from a file until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.model_server")
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--port-file", type=Path, required=True, help="gets the port once ready")
    arguments = parser.parse_args()
    script = Script.from_json(json.loads(arguments.script.read_text()))
    terminated = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: terminated.set())
    with ModelServer(script=script) as server:
        # Renamed into place, so that a reader never sees half of it.
        partial = arguments.port_file.with_suffix(".partial")
        partial.write_text(str(server.port))
        partial.replace(arguments.port_file)
        terminated.wait()


if __name__ == "__main__":
    main()
