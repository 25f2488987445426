"""A model server that always gives the same reply.

`python -m sleipnir.worker.bench.model_server PORT_FILE` starts it. A model's name is the time it
takes, in ms.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

_COMPLETION = {
    "id": "bench",
    "object": "chat.completion",
    "created": 0,
    "model": "bench",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Nothing."},
        }
    ],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
}
_BODY = json.dumps(_COMPLETION).encode()
_REPLY = (
    f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(_BODY)}\r\n\r\n"
).encode() + _BODY


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection, request after request."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
            request = json.loads(await reader.readexactly(int(fields["content-length"])))
            await asyncio.sleep(int(request["model"]) / 1000)
            writer.write(_REPLY)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _main(port_file: Path) -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, backlog=1024)
    partial = port_file.with_suffix(".partial")
    partial.write_text(str(server.sockets[0].getsockname()[1]))
    partial.replace(port_file)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
