"""Runs a shell command."""

# @meta require-tools bash

import subprocess
import sys
import threading

from sleipnir.programs import argument
from sleipnir.tool import guard

MAX_BYTES = 8 * 1024 * 1024
# What programs left in the background may still print once the command itself has ended.
AFTERMATH_S = 0.5


def run(command: str) -> str:
    """Run a shell command with bash in the working directory and return what it prints.

    The command ends at the first step that fails. Do not create or change files this way: use
    fs_write and fs_patch for that.

    Args:
        command: The command line, as for `bash -c`.
    """
    argument(command)
    guard(f"run this command?\n{command}")
    process = subprocess.Popen(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output = bytearray()
    reader = threading.Thread(target=_collect, args=(process, output), daemon=True)
    reader.start()
    status = process.wait()
    reader.join(AFTERMATH_S)
    if len(output) > MAX_BYTES:
        raise SystemExit(f"stopped: it printed more than {MAX_BYTES // 1024 // 1024} MiB")
    text = bytes(output).decode("utf-8", errors="replace")
    if status == 0:
        return text
    sys.stdout.write(text)
    ended = f"signal {-status}" if status < 0 else f"exit status {status}"
    raise SystemExit(f"the command ended with {ended}")


def _collect(process: "subprocess.Popen[bytes]", output: bytearray) -> None:
    """Take what is printed as it comes; the command is ended when that gets too much."""
    while len(output) <= MAX_BYTES:
        chunk = process.stdout.read1(65536)
        if not chunk:
            return
        output += chunk
    process.kill()
