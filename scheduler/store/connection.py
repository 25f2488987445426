"""Connects to Redis, and refuses one in which runs would not be safe."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)
from redis.retry import Retry

from sleipnir.scheduler.errors import EngineUnfit, EngineUnreachable
from sleipnir.scheduler.store.keys import PROBE
from sleipnir.scheduler.store.sentinels import SCHEME as SENTINEL
from sleipnir.scheduler.store.sentinels import SentinelUrl

# Refusals that redis-py has classes for, ...
_MOODS = (ClusterDownError, MasterDownError, OutOfMemoryError, ReadOnlyError, TryAgainError)
# ... and the codes of all, as they stand in an error of its own or, with Redis 6.2, of a script.
_MOOD = re.compile(
    r"(?:^|: -?)(?:BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY|TRYAGAIN"
    r"|UNBLOCKED) "
)

T = TypeVar("T")

RedisClient: TypeAlias = redis.Redis


def is_transient(error: BaseException) -> bool:
    """Whether what Redis lacks may come back: it is away, loads, is busy, full or no primary.

    A command that was refused so did nothing, a script neither: it is refused before it begins,
    or at its first write.
    """
    if isinstance(error, AuthenticationError):
        return False
    if isinstance(error, (ConnectionError, TimeoutError, *_MOODS)):
        return True
    return isinstance(error, ResponseError) and _MOOD.search(_said(error)) is not None


def describe(error: RedisError) -> str:
    """What an error of Redis means to a person, and what to do about it."""
    said = _said(error)
    if isinstance(error, OutOfMemoryError):
        return f"Redis is full ({said}); make room, or raise its maxmemory, and try again"
    if isinstance(error, NoPermissionError):
        return (
            f"the Redis user lacks a permission: {said}; "
            "`sleipnir doctor` prints the rule for a user with the required permissions"
        )
    if is_transient(error):
        return f"Redis cannot serve requests now: {said}; try again later"
    return f"unexpected reply from Redis: {said}"


def _said(error: BaseException) -> str:
    """What Redis said: a pipeline puts the command before it, and that may hold anything."""
    return str(error).rpartition(" of pipeline caused error: ")[2]


class RetryWhileUnavailable(Retry):
    """Has a client repeat its commands while Redis is away, or refuses what it may do later."""

    def __init__(self, backoff: ExponentialWithJitterBackoff, retries: int) -> None:
        super().__init__(backoff, retries, (ConnectionError, TimeoutError, ResponseError))

    def call_with_retry(
        self,
        do: Callable[[], T],
        fail: Callable[..., Any],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,
    ) -> T:
        """As redis-py calls it; `is_retryable` is for us to say."""
        return super().call_with_retry(do, fail, is_transient, with_failure_count)


# A worker outlives an outage of ten leases; a person at a terminal wants to know at once.
RETRY_OUTAGE = RetryWhileUnavailable(ExponentialWithJitterBackoff(cap=2.0, base=0.05), 120)
# It does not try again where one waited for an answer already: that takes 15 s a time.
RETRY_BRIEFLY = Retry(
    ExponentialWithJitterBackoff(cap=0.2, base=0.02),
    2,
    supported_errors=(ConnectionError, BusyLoadingError),
)

_SILENT_TRIES = 5


class _AnnouncedBackoff(ExponentialWithJitterBackoff):
    """Pauses between tries; the first long one is announced."""

    def __init__(self, announce: Callable[[], None]) -> None:
        super().__init__(cap=1.0, base=0.05)
        self._announce = announce

    def compute(self, failures: int) -> float:
        if failures == _SILENT_TRIES:
            self._announce()
        return float(super().compute(failures))


def retry_aloud(announce: Callable[[], None]) -> RetryWhileUnavailable:
    """Rides out an outage of a minute or so; `announce` is called when it takes long."""
    return RetryWhileUnavailable(_AnnouncedBackoff(announce), 120)


# To the last @: a password may hold any character, encoded as it should be or not.
_PASSWORD = re.compile(r"^([^:]*+://[^:/@]*+):.*@")
_PASSWORD_OPTION = re.compile(r"([?&](?:sentinel_)?password=)[^&]*")

# Longer than any blocking read, and a connection that has gone silent is still noticed.
SOCKET_TIMEOUT_S = 15.0

# As many as there are threads that need one; redis-py would refuse the 101st.
_CONNECTIONS = 2**31

_OLDEST = (6, 2)


def masked(url: str) -> str:
    """Return a URL fit for people's eyes: its password replaced."""
    url = _PASSWORD.sub(r"\1:***@", url)
    return _PASSWORD_OPTION.sub(r"\1***", url)


def kombu_url(url: str) -> str:
    """A Redis URL as we take it, in the form kombu takes: they differ for sockets, and Sentinel.

    Raises:
        EngineUnreachable: it is no URL that could be used.
    """
    if url.startswith(SENTINEL):
        return sentinel_url(url).kombu_url
    if url.startswith("unix://"):
        path, _, query = url.removeprefix("unix://").partition("?")
        options = dict(pair.split("=", 1) for pair in query.split("&") if "=" in pair)
        if "password" in options:
            path = f"{options.get('username', '')}:{options['password']}@{path}"
        return f"redis+socket://{path}?virtual_host={options.get('db', '0')}"
    return url


def transport_options(url: str) -> dict[str, Any]:
    """What kombu has to know besides the URL; not for people's eyes, nor for the wire."""
    return sentinel_url(url).kombu_options if url.startswith(SENTINEL) else {}


def sentinel_url(url: str) -> SentinelUrl:
    """Return a Sentinel URL, taken apart.

    Raises:
        EngineUnreachable: it is not of that form.
    """
    try:
        return SentinelUrl.parse(url)
    except ValueError as error:
        raise EngineUnreachable(f"cannot use the URL {masked(url)}: {error}") from error


def is_private(url: str) -> bool:
    """Return whether only this machine can reach that Redis."""
    return url.startswith("unix:")


def client_options(url: str) -> dict[str, Any]:
    """Return how clients of that URL talk to Redis, on threads and on asyncio."""
    options: dict[str, Any] = {
        "decode_responses": True,
        # Lone surrogates that scripts or models put into texts come back as they were.
        "encoding_errors": "surrogatepass",
        "retry_on_error": [ConnectionError, BusyLoadingError],
        "health_check_interval": 30,
        "socket_timeout": SOCKET_TIMEOUT_S,
        "max_connections": _CONNECTIONS,
        # What it says of itself takes the reading of a package's metadata, and two commands.
        "driver_info": None,
    }
    if not is_private(url):
        options["socket_keepalive"] = True
    return options


def connect(url: str, *, retry_outage: bool = False) -> redis.Redis:
    """Return a client that has answered once.

    Args:
        retry_outage: ride out an outage of a minute or two, and other moods of Redis for as long.

    Raises:
        EngineUnreachable: if nothing answers there, or it is no Redis.
    """
    options = client_options(url) | {"retry": RETRY_OUTAGE if retry_outage else RETRY_BRIEFLY}
    try:
        if url.startswith(SENTINEL):
            client = sentinel_url(url).client(**options)
        else:
            client = redis.Redis.from_url(url, **options)
        client.ping()
    except AuthenticationError as error:
        raise EngineUnreachable(
            f"Redis authentication failed at {masked(url)}: set the password in the URL, as in "
            "redis://USER:PASSWORD@HOST:6379, with special characters written as %XX"
        ) from error
    except (RedisError, OSError, ValueError) as error:
        if isinstance(error, (ResponseError, BusyLoadingError)) and is_transient(error):
            raise EngineUnreachable(
                f"Redis at {masked(url)} cannot serve requests now: {error}; try again later"
            ) from error
        raise EngineUnreachable(
            f"cannot reach Redis at {masked(url)}: {error}; start it, or set SLEIPNIR_REDIS_URL "
            "(or --redis) to the right address, or unset it to use the embedded engine"
        ) from error
    return client


class OwnConnection(threading.local):
    """Of each thread that asks: `client` keeps its connection.

    Otherwise every command checks one out of the pool, which looks whether it still lives; that
    took a tenth of a node's time.
    """

    def __init__(self, shared: redis.Redis) -> None:
        self.client = type(shared)(
            connection_pool=shared.connection_pool, single_connection_client=True
        )


def require_ready(client: redis.Redis, *, allow_unsafe: bool = False) -> list[str]:
    """Check that this Redis takes what it is given, and keeps it, as `require_fit`.

    Raises:
        EngineUnfit: as `require_fit`.
        RedisError: it is away, full or a replica.
    """
    client.set(PROBE, "", px=1)
    return require_fit(client, allow_unsafe=allow_unsafe)


def require_fit(client: redis.Redis, *, allow_unsafe: bool = False) -> list[str]:
    """Check that this Redis keeps what it is given; returns warnings.

    Raises:
        EngineUnfit: if it is too old, a replica, or evicts keys when memory runs out.
    """
    info = client.info()
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
    if not info.get("aof_enabled") and not allow_unsafe:
        return [
            "this Redis has no append-only file: runs are lost when it restarts; "
            "set `appendonly yes`"
        ]
    return []
