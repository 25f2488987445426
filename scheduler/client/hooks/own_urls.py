"""URLs that a submission names for events of its own run."""

from __future__ import annotations

from sleipnir.scheduler.client.hooks.wanted import require_hook_url
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.hooks.model import DEFAULT_HOOK
from sleipnir.scheduler.store.run_store import RunStore


def require_webhook(store: RunStore, url: str) -> None:
    """Check that events of a run can be sent to a URL, signed with the default hook's secret.

    Raises:
        SubmissionRefused: the URL is not valid, or there is no such hook.
    """
    require_hook_url(url, allow_private=store.settings.allow_private_addresses)
    hook = store.hooks.read(DEFAULT_HOOK)
    about = f"a webhook of a run is signed with the secret of the hook '{DEFAULT_HOOK}'"
    if hook is None:
        raise SubmissionRefused(
            f"{about}: make it with `sleipnir hook create {DEFAULT_HOOK} https://…`"
        )
    if hook.disabled is not None:
        raise SubmissionRefused(
            f"{about}, which is disabled: `sleipnir hook edit {DEFAULT_HOOK} --enable`"
        )
