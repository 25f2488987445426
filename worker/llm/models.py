"""A model call with all that stands between a node and the provider."""

from __future__ import annotations

from worker.llm.caller import Caller
from worker.llm.client import Reply, Request, complete


class Models:
    """The models as one worker process reaches them; may be used from many threads at once."""

    def ask(self, request: Request, caller: Caller, timeout_s: float | None) -> Reply:
        """The model's reply.

        Raises:
            ModelCallFailed: for whatever went wrong, `timeout_s` included.
            MustWait: a limit stands against the call for now.
        """
        return complete(request, timeout_s)
