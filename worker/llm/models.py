"""A model call with all that stands between a node and the provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import Thread

from sleipnir.graphs.models import standard_model
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.model_keys import ModelKeys
from sleipnir.scheduler.config.model_table import lacks_functions
from sleipnir.scheduler.runs.model import Usage
from sleipnir.scheduler.store.cached_replies import CachedReplies
from sleipnir.scheduler.store.recordings import Recordings
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.llm.caller import Caller
from sleipnir.worker.llm.chain import first_reply
from sleipnir.worker.llm.client import (
    Embedded,
    Endpoint,
    ModelCallFailed,
    ModelRequest,
    NotCalled,
    Reply,
    Reranked,
    complete,
    count_tokens,
    embed,
    prepare,
    rerank,
)
from sleipnir.worker.llm.limits.estimate import prompt_tokens
from sleipnir.worker.llm.limits.gate import Gate, Permit
from sleipnir.worker.llm.provider.endpoints import Endpoints
from sleipnir.worker.llm.recording import rerankings
from sleipnir.worker.llm.recording.cache import ReplyCache
from sleipnir.worker.llm.recording.recorder import Recorder
from sleipnir.worker.llm.recording.replay import Replay

# It imports numpy, which only knowledge bases need.
with lazy_imports():
    from sleipnir.worker.llm.recording import embeddings


class Models:
    """The models as one worker process reaches them; may be used from many threads at once."""

    def __init__(self, store: RunStore, gate: Gate) -> None:
        settings = store.settings
        self.default = settings.model
        self._reply_limit_bytes = settings.reply_limit_bytes
        self._stall_s = settings.model_stall_s
        self._settings = settings.models
        self._chain = settings.models.chain
        self._endpoints = Endpoints(ModelKeys(settings.models, settings.secrets))
        self._recordings = recordings = Recordings(store.client, settings.retention_s)
        self._gate = gate
        self._cache = ReplyCache(CachedReplies(store.client))
        self._recorder = Recorder(recordings)
        self._replay = Replay(recordings)

    def endpoints(self, model: str | None) -> Sequence[Endpoint]:
        """Where a model, or those that stand in for it, can be asked from this machine."""
        name = model or self.default
        chain = self._chain(name) if name else ()
        return [self._endpoints.of(one) for one in chain if self._endpoints.is_known(one)]

    def prepare(self, models: Iterable[str | None]) -> None:
        """Do what first calls take, imports of seconds included, in the background.

        Models that cannot be asked from here are passed over; None is the engine's own.
        """
        endpoints = [endpoint for model in models for endpoint in self.endpoints(model)]
        if endpoints:
            Thread(target=prepare, args=[endpoints], name="prepare", daemon=True).start()

    def lacks_functions(self, model: str) -> bool:
        """Whether a model, and all that stand in for it, are known not to call functions."""
        return lacks_functions(self._settings, model)

    def count_tokens(self, request: ModelRequest) -> int:
        """The tokens of a prompt, counted where that is possible, else estimated."""
        endpoints = self.endpoints(request.model)
        counted = count_tokens(request.messages, endpoints[0]) if endpoints else None
        return prompt_tokens(request) if counted is None else counted

    def known_reply(self, request: ModelRequest, caller: Caller) -> Reply | None:
        """The reply that is known without asking a model: replayed, or kept from before.

        Raises:
            ModelCallFailed: the run replays a recording, and that has a failure or nothing.
        """
        if caller.replay is not None:
            return self._replay.reply_to(request, caller, caller.replay)
        reply = self._cache.find(self._resolved(request), caller)
        if reply is not None:
            self._recorder.replied(request, caller, reply)
        return reply

    def ask(self, request: ModelRequest, caller: Caller, timeout_s: float | None) -> Reply:
        """The model's reply.

        Raises:
            ModelCallFailed: for whatever went wrong, `timeout_s` included.
            MustWait: a limit stands against the call for now.
        """
        try:
            ask = partial(self._ask_one, request, caller)
            reply = first_reply(self._chain(request.model), ask, timeout_s)
        except NotCalled:
            raise  # what we refuse is not a reply
        except ModelCallFailed as failure:
            self._recorder.failed(request, caller, failure)
            raise
        self._cache.keep(self._resolved(request), caller, reply)
        self._recorder.replied(request, caller, reply)
        return reply

    def embed(
        self, model: str, texts: Sequence[str], caller: Caller, timeout_s: float | None
    ) -> Embedded:
        """Vectors of texts; limits and budgets hold as for replies.

        Raises:
            ModelCallFailed: for whatever went wrong, `timeout_s` included.
            MustWait: a limit stands against the call for now.
        """
        name = standard_model(model)
        if caller.replay is not None:
            return embeddings.replay_embeddings(self._replay, name, texts, caller, caller.replay)
        endpoint, permit = self._endpoints.of(name), self._reserve(name, texts, caller)
        try:
            embedded = embed(texts, timeout_s, endpoint, caller.cancellation)
        except ModelCallFailed as failure:
            permit.failed(failure)
            raise
        permit.record_usage(embedded.usage)
        return embedded

    def rerank(
        self,
        model: str,
        query: str,
        texts: Sequence[str],
        top_n: int,
        caller: Caller,
        timeout_s: float | None,
    ) -> Reranked:
        """The best texts for a query; limits, budgets and recording as for replies.

        Raises:
            ModelCallFailed: for whatever went wrong, `timeout_s` included.
            MustWait: a limit stands against the call for now.
        """
        name = standard_model(model)
        request = rerankings.request_of(name, query, texts, top_n, caller)
        if caller.replay is not None:
            return rerankings.replay_reranking(self._replay, request, caller, caller.replay)
        endpoint, permit = self._endpoints.of(name), self._reserve(name, (query, *texts), caller)
        try:
            reranked = rerank(query, texts, top_n, timeout_s, endpoint, caller.cancellation)
        except ModelCallFailed as failure:
            permit.failed(failure)
            raise
        permit.record_usage(reranked.usage)
        rerankings.record_reranking(self._recordings, request, reranked, caller)
        return reranked

    def record_embeddings(
        self, model: str, vectors: Mapping[str, Sequence[float]], caller: Caller, usage: Usage
    ) -> None:
        """Record vectors, those that were known without asking too, if calls of the run are."""
        if caller.recorded:
            name = standard_model(model)
            embeddings.record_embeddings(self._recordings, name, vectors, caller, usage)

    def _reserve(self, model: str, texts: Sequence[str], caller: Caller) -> Permit:
        messages = [{"role": "user", "content": text} for text in texts]
        return self._gate.reserve(ModelRequest(model, messages), caller)

    def _resolved(self, request: ModelRequest) -> ModelRequest:
        """The request with the models themselves, as an alias may stand for others tomorrow."""
        return replace(request, model=",".join(self._chain(request.model)))

    def _ask_one(
        self,
        request: ModelRequest,
        caller: Caller,
        model: str,
        next_model: bool,
        timeout_s: float | None,
    ) -> Reply:
        request = replace(request, model=model)
        endpoint = self._endpoints.of(model)
        permit = self._gate.reserve(request, caller, next_model=next_model)
        try:
            reply = complete(
                request,
                timeout_s,
                endpoint,
                caller.listener,
                caller.cancellation,
                self._reply_limit_bytes,
                self._stall_s,
            )
        except ModelCallFailed as failure:
            permit.failed(failure)
            raise
        permit.record_usage(reply.usage)
        return reply
