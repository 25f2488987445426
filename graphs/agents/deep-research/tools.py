"""What deep-research's models may ask about sources."""

from fnmatch import fnmatchcase

PREPRINTS = ("arxiv.org", "biorxiv.org", "medrxiv.org", "ssrn.com")
# Tier, what the model is told, and the hosts; the first that fits counts.
TIERS = (
    ("HIGH", "government", ("*.gov", "*.gov.*", "*.mil")),
    ("HIGH", "academic institution", ("*.edu", "*.edu.*", "*.ac.*")),
    (
        "PREPRINT",
        "preprint server: not peer reviewed, needs corroboration",
        tuple(f"{prefix}{host}" for host in PREPRINTS for prefix in ("", "*.")),
    ),
    (
        "TERTIARY",
        "encyclopedia: for orientation only, cite what it cites",
        ("wikipedia.org", "*.wikipedia.org"),
    ),
    ("MEDIUM", "organisation: mind its interests", ("*.org", "*.org.*")),
)


def classify_source(url: str) -> str:
    """Rate how credible a source is by its host alone.

    The tier is HIGH, PREPRINT, TERTIARY, MEDIUM, UNVERIFIED or UNKNOWN. It says what kind of place
    it is, not whether the page is right; nothing is fetched.

    Args:
        url: The address as it stands in the findings, beginning with http:// or https://.
    """
    host = _host(url)
    if not host:
        return "<none>: UNKNOWN - no host in the URL"
    for tier, text, patterns in TIERS:
        if any(fnmatchcase(host, pattern) for pattern in patterns):
            return f"{host}: {tier} - {text}"
    return f"{host}: UNVERIFIED - general web page: needs corroboration"


def _host(url: str) -> str:
    """What stands between `://` and the path, without user and port, in lower case."""
    place = url.strip().partition("://")[2]
    for end in "/?#":
        place = place.partition(end)[0]
    place = place.rpartition("@")[2].lower()
    # An IPv6 address has colons of its own.
    name = place.partition("]")[0] + "]" if place.startswith("[") else place.partition(":")[0]
    return name.rstrip(".")
