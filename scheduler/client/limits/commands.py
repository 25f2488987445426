"""Commands of people on limits: change, pause, resume; they also wake the waiting calls."""

from __future__ import annotations

from collections.abc import Callable

from sleipnir.scheduler.config.models import ModelSettings
from sleipnir.scheduler.errors import ActionRefused
from sleipnir.scheduler.limits.records import visit_of
from sleipnir.scheduler.limits.rules import SCOPES, Rules, known_name, parse_change, parse_place
from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from sleipnir.scheduler.store.run_store import RunStore

_AT_ONCE = 500
# Keeps a hundred thousand visits from resuming at once.
_APART_S = 0.005
# Workers learn of changes once a second. A call that came back sooner would be judged by the old
# limits, and could then rest for minutes.
_KNOWN_AFTER_S = 1.5


class LimitCommands:
    """Changes the limits of all workers on one Redis.

    Args:
        sleep: waits until all workers know of a change.
    """

    def __init__(self, store: RunStore, sleep: Callable[[float], object] | None = None) -> None:
        self._store = store
        self._sleep = sleep or pause
        self._settings: ModelSettings = store.settings.models
        self.limiter = RateLimiter(store.client, store.clock, kept_s=store.settings.retention_s)

    def rules(self) -> Rules:
        """Return this machine's configuration with the live changes applied."""
        return Rules(self._settings, self.limiter.notices().changes)

    def spent(self, budget: str) -> tuple[float, int]:
        """Return the dollars and tokens spent of a budget, as `LimitQueries.spent`."""
        return self.limiter.queries.spent(budget)

    def set(self, text: str) -> None:
        """Apply `NAME.SETTING=VALUE`; calls that wait for it try again.

        Raises:
            SettingInvalid: unknown setting, or invalid value.
        """
        name, setting, value = parse_change(text, self._settings)
        self.limiter.set(name, setting, value)
        self._sleep(_KNOWN_AFTER_S)
        self.send_for(name)

    def unset(self, text: str) -> None:
        """Return to the configured `NAME.SETTING`.

        Raises:
            SettingInvalid: unknown setting.
            ActionRefused: it was not changed.
        """
        name, setting = parse_place(text, self._settings)
        if not self.limiter.unset(name, setting):
            raise ActionRefused(f"{name}.{setting} is not set with --set")
        self._sleep(_KNOWN_AFTER_S)
        self.send_for(name)

    def pause(self, name: str, reason: str) -> None:
        """Stop the calls of a provider or model until `resume`.

        Raises:
            SettingInvalid: there is no such name.
            ActionRefused: it is the name of a budget.
        """
        if known_name(name, self._settings) in SCOPES:
            raise ActionRefused(
                f"'{name}' is a budget; pause a provider or a model, or lower it with --set"
            )
        self.limiter.pause(known_name(name, self._settings), reason)

    def resume(self, name: str) -> int:
        """End the pause of a provider or model, or grant a budget once more.

        Returns:
            the number of calls that were waiting.

        Raises:
            ActionRefused: nothing of that name is paused.
        """
        if name.partition(":")[0] in SCOPES:
            self._require_budget(name)
            self.limiter.grant_again(name)
            return self.send_for(name)
        name = known_name(name, self._settings)
        if not self.limiter.resume(name):
            raise ActionRefused(f"{name} is not paused; `sleipnir limits` shows what is")
        return self.send_for(name)

    def _require_budget(self, name: str) -> None:
        scope, _, owner = name.partition(":")
        if (scope == "day") == bool(owner):
            raise ActionRefused(
                f"'{name}' is not a valid budget; use `day`, `run:ID` and `batch:NAME`"
            )
        if not any(budget.scope == scope for budget in self.rules().budgets):
            raise ActionRefused(f"there is no budget for a {scope}; set one in config.yaml")

    def send_for(self, name: str) -> int:
        """Let calls that wait for a name, or for any budget of a scope, try again now."""
        waiting = [name]
        if name in ("run", "batch"):
            known = self.limiter.queries.waited_for()
            waiting = [each for each in known if each.startswith(f"{name}:")]
        return sum(self._wake(each) for each in waiting)

    def _wake(self, name: str) -> int:
        sent = 0
        while calls := self.limiter.wake(name, _AT_ONCE):
            for call in calls:
                self._store.parking.wake(*visit_of(call), sent * _APART_S)
                sent += 1
        return sent
