"""Model calls, with all that lies between a node and the provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from threading import Thread

from sleipnir.graphs.attachments import kind_of
from sleipnir.graphs.models import standard_model
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.model_keys import ModelKeys
from sleipnir.scheduler.config.model_table import (
    lacks_attachments,
    lacks_functions,
    takes_schemas,
)
from sleipnir.scheduler.runs.model import Usage
from sleipnir.scheduler.store.cached_replies import CachedReplies
from sleipnir.scheduler.store.recordings import Recordings
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.llm.attachments import documents_in
from sleipnir.worker.llm.caller import Caller
from sleipnir.worker.llm.chain import NO_FAILURES, Failures, first_reply
from sleipnir.worker.llm.client import (
    Embedded,
    Endpoint,
    FileRefused,
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
from sleipnir.worker.llm.prompt_caching import told_to_cache
from sleipnir.worker.llm.provider.endpoints import Endpoints
from sleipnir.worker.llm.provider.openai_servers import is_elsewhere
from sleipnir.worker.llm.recording import rerankings
from sleipnir.worker.llm.recording.cache import ReplyCache
from sleipnir.worker.llm.recording.recorder import Recorder
from sleipnir.worker.llm.recording.replay import Replay

# Lazy: it imports numpy, which only knowledge bases need.
with lazy_imports():
    from sleipnir.worker.llm.recording import embeddings

# Lazy: few runs wait for batches of providers.
with lazy_imports():
    from sleipnir.worker.llm.economy import courier, joining


class Models:
    """The models as one worker process calls them; thread-safe."""

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
        self._cache = ReplyCache(CachedReplies(store.client, store.clock), store.parking.wake)
        self._recorder = Recorder(recordings)
        self._replay = Replay(recordings)

    def endpoints(self, model: str | None) -> Sequence[Endpoint]:
        """Return the endpoints of a model and its fallbacks that this machine can call."""
        name = model or self.default
        chain = self._chain(name) if name else ()
        return [self._endpoints.of(one) for one in chain if self._endpoints.is_known(one)]

    def prepare(self, models: Iterable[str | None]) -> None:
        """Do what first calls would do, slow imports included, in the background.

        Models that cannot be called from here are skipped; None is the engine's default model.
        """
        endpoints = [endpoint for model in models for endpoint in self.endpoints(model)]
        if endpoints:
            Thread(target=prepare, args=[endpoints], name="prepare", daemon=True).start()

    def end(self) -> None:
        """Tell limits and budgets what calls have used that they do not know of yet."""
        self._gate.end()

    def lacks_functions(self, model: str) -> bool:
        """Return whether a model and all its fallbacks are known not to support function calls."""
        return lacks_functions(self._settings, model)

    def count_tokens(self, request: ModelRequest) -> int:
        """Count a prompt's tokens where possible, and estimate them otherwise."""
        endpoints = self.endpoints(request.model)
        counted = count_tokens(request.messages, endpoints[0]) if endpoints else None
        return prompt_tokens(request) if counted is None else counted

    def known_reply(self, request: ModelRequest, caller: Caller) -> Reply | None:
        """Return the reply if it is known without asking a model: replayed, cached or shared.

        Raises:
            ModelCallFailed: the run replays a recording, which has a failure or nothing.
            MustWait: an equal call is under way, whose reply may serve for this one too.
        """
        if caller.replay is not None:
            return self._replay.reply_to(request, caller, caller.replay)
        reply = self._cache.find(self._resolved(request), caller)
        if reply is not None:
            self._recorder.replied(request, caller, reply)
        return reply

    @cached_property
    def batched(self) -> joining.BatchedCalls:
        """Calls that wait for batches of their providers."""
        return joining.BatchedCalls(
            self._settings,
            self._endpoints.of,
            self._gate,
            self._cache,
            self._recorder,
            self._for_model,
            self._resolved,
        )

    def courier(self, store: RunStore) -> courier.Courier:
        """Return who carries requests to providers in batches."""
        return courier.Courier(store, self._endpoints.of, self._gate)

    def ask(
        self,
        request: ModelRequest,
        caller: Caller,
        timeout_s: float | None,
        failed: Failures = NO_FAILURES,
    ) -> Reply:
        """Ask a model, or its fallbacks, and return the reply.

        Args:
            failed: those of them that have failed already and are not asked.

        Raises:
            ModelCallFailed: for any failure, `timeout_s` included.
            MustWait: a limit delays the call.
        """
        with self._cache.asking(self._resolved(request), caller) as keep:
            try:
                ask = partial(self._ask_one, request, caller)
                reply = first_reply(self._chain(request.model), ask, timeout_s, failed)
            except NotCalled:
                raise  # not recorded: no model was asked
            except ModelCallFailed as failure:
                self._recorder.failed(request, caller, failure)
                raise
            keep(reply)
        self._recorder.replied(request, caller, reply)
        return reply

    def embed(
        self, model: str, texts: Sequence[str], caller: Caller, timeout_s: float | None
    ) -> Embedded:
        """Return the vectors of texts; limits and budgets apply as for replies.

        Raises:
            ModelCallFailed: for any failure, `timeout_s` included.
            MustWait: a limit delays the call.
        """
        name = standard_model(model)
        if caller.replay is not None:
            return embeddings.replay_embeddings(self._replay, name, texts, caller, caller.replay)
        endpoint, permit = self._endpoints.of(name), self._reserve(name, texts, caller)
        ask = partial(embed, texts, timeout_s, endpoint, caller.cancellation)
        return permit.make(ask, caller)

    def rerank(
        self,
        model: str,
        query: str,
        texts: Sequence[str],
        top_n: int,
        caller: Caller,
        timeout_s: float | None,
    ) -> Reranked:
        """Return the best texts for a query; limits, budgets and recording apply as for replies.

        Raises:
            ModelCallFailed: for any failure, `timeout_s` included.
            MustWait: a limit delays the call.
        """
        name = standard_model(model)
        request = rerankings.request_of(name, query, texts, top_n, caller)
        if caller.replay is not None:
            return rerankings.replay_reranking(self._replay, request, caller, caller.replay)
        endpoint, permit = self._endpoints.of(name), self._reserve(name, (query, *texts), caller)
        ask = partial(rerank, query, texts, top_n, timeout_s, endpoint, caller.cancellation)
        reranked = permit.make(ask, caller)
        rerankings.record_reranking(self._recordings, request, reranked, caller)
        return reranked

    def record_embeddings(
        self, model: str, vectors: Mapping[str, Sequence[float]], caller: Caller, usage: Usage
    ) -> None:
        """Record vectors if the run's calls are recorded, including those known without a call."""
        if caller.recorded:
            name = standard_model(model)
            embeddings.record_embeddings(self._recordings, name, vectors, caller, usage)

    def _reserve(self, model: str, texts: Sequence[str], caller: Caller) -> Permit:
        messages = [{"role": "user", "content": text} for text in texts]
        # Numbers come back, not a text: providers charge what they are given.
        return self._gate.reserve(ModelRequest(model, messages, max_tokens=0), caller)

    def _resolved(self, request: ModelRequest) -> ModelRequest:
        """Replace aliases by the models themselves, as an alias may mean others tomorrow.

        So it is with the form of its schema, which also depends on what servers refuse today.
        """
        chain = self._chain(request.model)
        if any(self._is_native(request, model) for model in chain):
            request = request.native()
        return replace(request, model=",".join(chain))

    def _is_native(self, request: ModelRequest, model: str) -> bool:
        """Return whether a model is told the schema of its reply, if any, in a field."""
        schema = request.schema
        return schema is not None and (schema.required or self._takes_schemas(model))

    def _takes_schemas(self, model: str) -> bool:
        provider = model.partition(":")[0]
        configured = self._settings.providers.get(provider)
        if is_elsewhere(provider) and (configured is None or configured.structured is None):
            return False
        return takes_schemas(self._settings, model)

    def _require_taken(self, request: ModelRequest) -> None:
        """Check that a model takes the files in a request, as far as it is known.

        Raises:
            FileRefused: it takes none of such.
        """
        provider = request.model.partition(":")[0]
        configured = self._settings.providers.get(provider)
        if is_elsewhere(provider) and (configured is None or configured.attach is None):
            return
        lacks = lacks_attachments(self._settings, request.model)
        for each in documents_in(request.messages):
            if (kind := kind_of(each["type"])) in lacks:
                them = "PDF" if kind == "pdf" else "images"
                raise FileRefused(
                    f"cannot attach '{each['name']}': {request.model} takes no {them}"
                )

    def _for_model(self, request: ModelRequest, model: str) -> ModelRequest:
        """Return a request to one model, with its schema in the form that this model takes.

        Raises:
            FileRefused: it takes none of the files in it.
        """
        request = replace(request, model=model)
        if request.attachments:
            self._require_taken(request)
        return request if self._is_native(request, model) else replace(request, schema=None)

    def _ask_one(
        self,
        request: ModelRequest,
        caller: Caller,
        model: str,
        next_model: bool,
        timeout_s: float | None,
    ) -> Reply:
        request = self._for_model(request, model)
        endpoint = self._endpoints.of(model)
        permit = self._gate.reserve(request, caller, next_model=next_model)
        if (tokens := permit.grant.reply_tokens) is not None:
            request = replace(request, max_tokens=tokens)
            caller.on_limited(tokens, permit.grant.limited_by)
        request = told_to_cache(request)
        ask = partial(
            complete,
            request,
            timeout_s,
            endpoint,
            caller.listener,
            caller.cancellation,
            self._reply_limit_bytes,
            self._stall_s,
        )
        return replace(permit.make(ask, caller), limited_by=permit.grant.limited_by)
