"""Carries requests to providers in groups, and their replies back: one worker for each provider."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from contextlib import suppress

from sleipnir.scheduler.config.models import ModelSettings
from sleipnir.scheduler.errors import TransitionRefused
from sleipnir.scheduler.limits.records import Used
from sleipnir.scheduler.process.periodic import repeat
from sleipnir.scheduler.store.economy.groups import Groups
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.llm.client import Endpoint, ModelRequest, NotCalled
from sleipnir.worker.llm.economy.anthropic_batches import AnthropicBatches
from sleipnir.worker.llm.economy.batch_api import BatchApi
from sleipnir.worker.llm.economy.carrying import Carrier
from sleipnir.worker.llm.economy.openai_batches import OpenAiBatches
from sleipnir.worker.llm.limits.gate import Gate
from sleipnir.worker.llm.provider import gateway
from sleipnir.worker.llm.provider.openai_servers import address_of

logger = logging.getLogger("sleipnir.worker")

_RENEWALS_PER_LEASE = 3
# A line of a file of results has a reply as JSON text.
_LINE_PER_REPLY = 2
_BUDGETS = "budgets"  # the lease of who tells budgets what requests have used


class Courier:
    """The courier of one worker process.

    Args:
        endpoint_of: returns where a model is called; raises NotCalled without its key.
    """

    def __init__(self, store: RunStore, endpoint_of: Callable[[str], Endpoint], gate: Gate) -> None:
        self._store = store
        self._settings: ModelSettings = store.settings.models
        self._endpoint_of = endpoint_of
        self._gate = gate
        self._groups = Groups(store)
        self._token = secrets.token_hex(8)
        self._held: set[str] = set()
        self._anthropics: dict[Endpoint, BatchApi] = {}

    def start(self) -> None:
        """Renew leases in the background: uploads and results may take minutes."""
        every_s = self._store.settings.lease_s / _RENEWALS_PER_LEASE
        repeat(self._renew, every_s, "courier leases")

    def turn(self) -> None:
        """Do what is due, for all providers that this worker can call."""
        if self._groups.is_idle():
            return
        collections = self._groups.collections()
        found = {name.partition(":")[0]: name for name in collections}
        for group in self._groups.all():
            found.setdefault(group.provider, group.collection)
        for provider, model in sorted(found.items()):
            with suppress(NotCalled):  # another worker has the key
                api = self._api(model)
                if self._lease(provider):
                    self._carry(provider, api, collections)
        if self._lease(_BUDGETS):
            self._settle()

    def _carry(self, provider: str, api: BatchApi, collections: list[str]) -> None:
        mine = [name for name in collections if name.partition(":")[0] == provider]
        carrier = Carrier(
            self._store,
            self._groups,
            provider,
            api,
            self._settings,
            self._endpoint_of,
            self._token,
            self._gate.pause_of,
        )
        try:
            carrier.carry(mine)
        except TransitionRefused:
            self._held.discard(provider)  # another worker carries on

    def _api(self, model: str) -> BatchApi:
        endpoint = self._endpoint_of(model)
        line_bytes = _LINE_PER_REPLY * self._store.settings.reply_limit_bytes
        if gateway.is_anthropic(endpoint):
            return self._anthropic(model, endpoint, line_bytes)
        address = address_of(endpoint)
        if address is None:
            raise NotCalled(f"{model} has no batches here")
        return OpenAiBatches(address, line_bytes)

    def _anthropic(self, model: str, endpoint: Endpoint, line_bytes: int) -> BatchApi:
        """Return Anthropic's batches, at the address and with the key of its live calls."""
        known = self._anthropics.get(endpoint)
        if known is None:
            asked = ModelRequest(model, [{"role": "user", "content": "-"}], max_tokens=1)
            live = gateway.live_request(asked, endpoint)
            names = ("x-api-key", "authorization", "anthropic-version", "anthropic-beta")
            headers = {name: live.headers[name] for name in names if name in live.headers}
            known = AnthropicBatches(str(live.url), headers, line_bytes)
            self._anthropics[endpoint] = known
        return known

    # ---- leases

    @property
    def _lease_ms(self) -> int:
        return self._store.lease_ms

    def _lease(self, provider: str) -> bool:
        held = self._groups.take_lease(provider, self._token, self._lease_ms)
        (self._held.add if held else self._held.discard)(provider)
        return held

    def _renew(self) -> None:
        for provider in list(self._held):
            with suppress(RedisError):
                if not self._groups.renew_lease(provider, self._token, self._lease_ms):
                    self._held.discard(provider)

    # ---- budgets

    def _settle(self) -> None:
        """Tell budgets what requests have used that are done."""
        for settled in self._store.requests.settled():
            used = Used(settled.tokens, settled.nano_usd / 1e9)
            self._gate.settle(settled.hold, used, settled.name.replace(" ", "-"))
            self._store.requests.forget_settled(settled)
