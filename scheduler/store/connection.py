"""Connects to Redis, and refuses servers on which runs would not be safe."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    RedisError,
    ResponseError,
)
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.errors import EngineUnfit, EngineUnreachable
from sleipnir.scheduler.process.data_format import DATA_FORMAT
from sleipnir.scheduler.process.packing import ENCODING_ERRORS
from sleipnir.scheduler.store.clients.credentials import credentials_of
from sleipnir.scheduler.store.clients.tls import SCHEME as TLS
from sleipnir.scheduler.store.clients.tls import UNCHECKED, certificate_hint, is_unchecked
from sleipnir.scheduler.store.clients.transient import (
    RetryWhileUnavailable,
    is_transient,
    message_of,
)
from sleipnir.scheduler.store.cluster import groups
from sleipnir.scheduler.store.cluster.url import ClusterUrl, is_cluster
from sleipnir.scheduler.store.keys import BUNDLES, FORMAT, LAYOUT, PROBE
from sleipnir.scheduler.store.sentinels import SentinelUrl, is_sentinel

# Most engines have a single server.
with lazy_imports():
    from sleipnir.scheduler.store.cluster import client as cluster

RedisClient: TypeAlias = redis.Redis


def describe(error: RedisError) -> str:
    """Return what an error of Redis means to a person, and what to do about it."""
    message = message_of(error)
    if isinstance(error, OutOfMemoryError):
        return f"Redis is full ({message}); make room, or raise its maxmemory, and try again"
    if isinstance(error, NoPermissionError):
        return (
            f"the Redis user lacks a permission: {message}; "
            "`sleipnir doctor` prints the rule for a user with the required permissions"
        )
    if is_transient(error):
        return f"Redis cannot serve requests now: {message}; try again later"
    return f"unexpected reply from Redis: {message}"


# Workers survive an outage of ten leases; a person at a terminal wants to know at once.
RETRY_OUTAGE = RetryWhileUnavailable(ExponentialWithJitterBackoff(cap=2.0, base=0.05), 120)
# Timeouts are not retried: each one takes 15 s.
RETRY_BRIEFLY = Retry(
    ExponentialWithJitterBackoff(cap=0.2, base=0.02),
    2,
    supported_errors=(ConnectionError, BusyLoadingError),
)

_SILENT_TRIES = 5


class _AnnouncedBackoff(ExponentialWithJitterBackoff):
    """A backoff that announces the first long pause."""

    def __init__(self, announce: Callable[[], None]) -> None:
        super().__init__(cap=1.0, base=0.05)
        self._announce = announce

    def compute(self, failures: int) -> float:
        if failures == _SILENT_TRIES:
            self._announce()
        return float(super().compute(failures))


def retry_aloud(announce: Callable[[], None]) -> RetryWhileUnavailable:
    """Return a retry that covers outages of a minute or two.

    `announce` is called once it takes long.
    """
    return RetryWhileUnavailable(_AnnouncedBackoff(announce), 120)


# Up to the last @: a password may contain any character, percent-encoded or not.
_PASSWORD = re.compile(r"^([^:]*+://[^:/@]*+):.*@")
_PASSWORD_OPTION = re.compile(r"([?&](?:sentinel_|ssl_)?password=)[^&]*")

# Longer than any blocking read, yet short enough to notice a connection that has gone silent.
SOCKET_TIMEOUT_S = 15.0

# Unlimited: each thread may need one, and redis-py refuses the 101st by default.
_CONNECTIONS = 2**31

_OLDEST = (6, 2)
_USE_CLUSTER_URL = "this server is in cluster mode; use redis+cluster://HOST:PORT"
_MOST_RANGES = 5


def masked(url: str) -> str:
    """Return a URL with its password masked, for display."""
    url = _PASSWORD.sub(r"\1:***@", url)
    return _PASSWORD_OPTION.sub(r"\1***", url)


def kombu_url(url: str) -> str:
    """Return a Redis URL in kombu's format, which differs from ours for sockets and Sentinel.

    Options of TLS are left out: `tls_options` returns them.

    Raises:
        EngineUnreachable: the URL is not valid.
    """
    if is_sentinel(url):
        return sentinel_url(url).kombu_url
    if is_cluster(url):  # for display: the transport takes the whole URL from its options
        return f"cluster://{ClusterUrl.parse(url).first}"
    if url.startswith("unix://"):
        path, _, query = url.removeprefix("unix://").partition("?")
        options = dict(pair.split("=", 1) for pair in query.split("&") if "=" in pair)
        if "password" in options:
            path = f"{options.get('username', '')}:{options['password']}@{path}"
        return f"redis+socket://{path}?virtual_host={options.get('db', '0')}"
    return url.partition("?")[0] if url.startswith(TLS) else url


def transport_options(url: str) -> dict[str, Any]:
    """Return kombu's transport options for a URL; they may hold passwords, so never show them."""
    if is_cluster(url):
        return {"cluster_url": url}
    options = sentinel_url(url).kombu_options if is_sentinel(url) else {}
    return options | credentials_of(url)


def sentinel_url(url: str) -> SentinelUrl:
    """Parse a Sentinel URL.

    Raises:
        EngineUnreachable: the URL is not valid.
    """
    try:
        return SentinelUrl.parse(url)
    except ValueError as error:
        raise EngineUnreachable(f"cannot use the URL {masked(url)}: {error}") from error


def is_private(url: str) -> bool:
    """Return whether only this machine can reach that Redis."""
    return url.startswith("unix:")


def client_options(url: str) -> dict[str, Any]:
    """Return the options of clients for a URL, on threads and on asyncio."""
    options: dict[str, Any] = {
        "decode_responses": True,
        # Keep lone surrogates that scripts or models put into texts, and packed values.
        "encoding_errors": ENCODING_ERRORS,
        "retry_on_error": [ConnectionError, BusyLoadingError],
        "health_check_interval": 30,
        "socket_timeout": SOCKET_TIMEOUT_S,
        "max_connections": _CONNECTIONS,
        # Announcing the driver would read package metadata, and cost two commands a connection.
        "driver_info": None,
    }
    if not is_private(url):
        options["socket_keepalive"] = True
    return options | credentials_of(url)


def connect(url: str, *, retry_outage: bool = False) -> redis.Redis:
    """Connect, and wait for a first reply: of a cluster, from each primary.

    Args:
        retry_outage: retry through outages of a minute or two, and other transient errors.

    Raises:
        EngineUnreachable: nothing answers there, or it is not Redis.
        EngineUnfit: it is a cluster and the URL is not one of a cluster, or the reverse; or one
            that does not serve all slots.
    """
    options = client_options(url) | {"retry": RETRY_OUTAGE if retry_outage else RETRY_BRIEFLY}
    client: redis.Redis | None = None
    try:
        if is_cluster(url):
            client = cluster.ClusterClient.connect(url, **options)
        elif is_sentinel(url):
            client = sentinel_url(url).client(**options)
        else:
            client = redis.Redis.from_url(url, **options)
        client.ping()
    except AuthenticationError as error:
        raise EngineUnreachable(
            f"Redis authentication failed at {masked(url)}: set the password in the URL, as in "
            "redis://USER:PASSWORD@HOST:6379, with special characters written as %XX"
        ) from error
    except (ValueError, TypeError) as error:  # TypeError: an unknown option
        raise EngineUnreachable(
            f"cannot reach Redis at {masked(url)}: {error}; correct the URL, SLEIPNIR_REDIS_URL or "
            "--redis, or unset it to use the embedded engine"
        ) from error
    except (RedisError, OSError) as error:
        if isinstance(error, ResponseError) and (unfit := _other_mode(error)):
            raise EngineUnfit(unfit) from error
        if client is not None:
            _require_all_slots(client, has_failed=True)
        if isinstance(error, (ResponseError, BusyLoadingError)) and is_transient(error):
            raise EngineUnreachable(
                f"Redis at {masked(url)} cannot serve requests now: {error}; try again later"
            ) from error
        if isinstance(error, MasterNotFoundError):
            reason = sentinel_url(url).describe_failure()
        else:
            reason = str(error).removesuffix(".")
        raise EngineUnreachable(
            f"cannot reach Redis at {masked(url)}: {reason}{certificate_hint(url, reason)}; start "
            "it, or set SLEIPNIR_REDIS_URL (or --redis) to the right address, or unset it to use "
            "the embedded engine"
        ) from error
    return client


class OwnConnection(threading.local):
    """Gives each thread a client that keeps its own connection.

    Checking a connection out of the pool tests whether it is alive, for every command; that took
    a tenth of a node's time.
    """

    def __init__(self, shared: redis.Redis) -> None:
        self.client = shared
        if not groups.is_grouped(shared):  # a cluster takes one for each node
            self.client = type(shared)(
                connection_pool=shared.connection_pool, single_connection_client=True
            )


def require_ready(client: redis.Redis, *, allow_unsafe: bool = False) -> list[str]:
    """Do the checks of `require_fit`, and check that this Redis accepts writes.

    Raises:
        EngineUnfit: as `require_fit`.
        RedisError: it is unreachable, full or a replica.
    """
    warnings = require_fit(client, allow_unsafe=allow_unsafe)
    client.set(PROBE, "", px=1)
    return warnings


def require_fit(client: redis.Redis, *, allow_unsafe: bool = False) -> list[str]:
    """Check that this Redis does not lose what it stores, and what it holds; return warnings.

    Raises:
        EngineUnfit: it is too old, a replica, in another mode than the URL says, a cluster that
            does not serve all slots, evicts keys when memory runs out, or holds data of another
            format or layout.
    """
    warnings: dict[str, None] = {}
    for node in groups.nodes_of(client):
        info = node.info()
        if info.get("cluster_enabled") and not groups.is_grouped(client):
            # Scripts and queues of one group touch keys of several slots: runs would be stored, and
            # never executed.
            raise EngineUnfit(_USE_CLUSTER_URL)
        warnings |= dict.fromkeys(_warnings_of(info, allow_unsafe=allow_unsafe))
    _require_all_slots(client, has_failed=False)
    _require_format(client)
    if is_unchecked(client.connection_pool.connection_kwargs):
        warnings = {UNCHECKED: None} | warnings
    return list(warnings)


def _warnings_of(info: dict[str, Any], *, allow_unsafe: bool) -> list[str]:
    version = tuple(int(part) for part in str(info["redis_version"]).split(".")[:2])
    if version < _OLDEST:
        raise EngineUnfit(f"Redis {info['redis_version']} is too old; 6.2 or newer is needed")
    if info.get("role") == "slave":
        raise EngineUnfit("this Redis is a replica; use the URL of the primary")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and not allow_unsafe:
        raise EngineUnfit(
            f"this Redis may evict runs: its maxmemory-policy is {policy}; set it to noeviction "
            "(CONFIG SET maxmemory-policy noeviction), or allow it with "
            "SLEIPNIR_ALLOW_UNSAFE_REDIS=true"
        )
    if info.get("aof_enabled") or allow_unsafe:
        return []
    return [
        "this Redis has no append-only file: runs are lost when it restarts; set `appendonly yes`"
    ]


def _require_format(client: redis.Redis) -> None:
    # redis-py types every answer as a union of its sync and async forms.
    redis_: Any = client
    with redis_.pipeline(transaction=False) as pipe:
        pipe.get(FORMAT)
        pipe.hget(LAYOUT, "groups")
        for tag in groups.tags_of(client):
            pipe.exists(f"{tag}{BUNDLES}")
        found, layout, *bundles = pipe.execute()
    holds_runs = any(bundles)
    if holds_runs and found != str(DATA_FORMAT):
        raise EngineUnfit(
            "this Redis holds runs of another version of Sleipnir (data format "
            f"{found or '5 or older'}, this version needs {DATA_FORMAT}): finish them with that "
            "version, or use another database, as in redis://HOST:6379/1"
        )
    if layout is None and holds_runs:  # of before there was another one
        layout = "1"
    expected = str(len(groups.tags_of(client)))
    if layout not in (None, expected):
        raise EngineUnfit(
            f"this Redis holds runs in {layout} groups, and this URL needs {expected}: "
            "runs of a single server cannot be used on a cluster, nor the reverse"
        )


def _other_mode(error: ResponseError) -> str | None:
    """Return how an error shows that the URL is for another mode of Redis, if it does."""
    text = str(error).lower()
    if "cluster support disabled" in text:
        return "this server is not in cluster mode; use redis://HOST:PORT"
    return _USE_CLUSTER_URL if "not allowed in cluster mode" in text else None


def _require_all_slots(client: redis.Redis, *, has_failed: bool) -> None:
    """Check that a cluster serves all slots, by nodes that answer if a command has failed."""
    if not groups.is_grouped(client):
        return
    if missing := groups.missing_slots(client, asks=has_failed):
        ranges = ", ".join(f"{first}-{last}" for first, last in missing[:_MOST_RANGES])
        more = f" and {len(missing) - _MOST_RANGES} more ranges" if missing[_MOST_RANGES:] else ""
        raise EngineUnfit(
            f"this cluster does not serve the slots {ranges}{more} (cluster_state:fail); it may "
            "recover: processes that are running wait for it, and new ones can be started then"
        )
