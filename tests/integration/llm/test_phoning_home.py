"""What asks models talks to nobody but the server it is asked to."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.model_server import ModelServer, calls, says

# Hooks of `sys.addaudithook` see all look-ups and connections, those of C code in `socket` too.
PROGRAM = """
import sys

def tell(event, arguments):
    if event == "socket.connect":
        print(*arguments[1])
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        print(event, *arguments)

sys.addaudithook(tell)
from sleipnir.worker.llm.client import Endpoint, ModelRequest, complete, prepare
from sleipnir.worker.llm.provider import gateway
if "litellm" in sys.argv:
    gateway.is_asked_directly = lambda *_: False
prepare([Endpoint("openai/gpt-4o-mini")])
print("imported")

class Nobody:
    def on_text(self, text): pass
    def end(self): pass

tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
request = ModelRequest("openai:gpt-4o-mini", [{"role": "user", "content": "hello"}], [tool])
complete(request)
complete(request, listener=Nobody())
print("replied")
print("litellm" in sys.modules)
"""


@pytest.mark.parametrize("client", ["direct", "litellm"])
def test_neither_loading_it_nor_a_call_reaches_anybody_else(client: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LITELLM")}
    with ModelServer(says("hi"), calls(("f", {"x": 1}), text="hi")) as server:
        program = subprocess.run(
            [sys.executable, "-c", PROGRAM, client],
            env={
                **environment,
                "OPENAI_BASE_URL": server.base_url,
                "OPENAI_API_KEY": "sk-only-for-this-test",
            },
            capture_output=True,
            text=True,
            check=True,
        )

    lines = program.stdout.splitlines()
    told = [line for line in lines if not line.startswith("socket.getaddrinfo 127.0.0.1 ")]
    assert told[0] == "imported"
    assert set(told[1:-2]) == {f"127.0.0.1 {server.port}"}
    assert told[-2:] == ["replied", str(client == "litellm")]
