"""How much a manifest may hold before it is refused.

A Kubernetes object is at most 1.5 MB in etcd and rarely nests deeper than 40 levels, so these
bounds only stop what is not a manifest, before it costs memory. YAML is read event by event, at
one or two megabytes per second; JSON, the format of recorded clusters, ten times as fast.
"""

MAX_YAML_BYTES = 32 * 2**20
MAX_YAML_VALUES = 2_000_000
MAX_JSON_BYTES = 256 * 2**20
MAX_JSON_VALUES = 16_000_000
MAX_DEPTH = 100
MAX_ALIASED_VALUES = 100_000


def too_deep() -> str:
    """The error of a value that is nested too deeply."""
    return f"lists and mappings are nested more than {MAX_DEPTH} levels deep"


def too_many_values(limit: int) -> str:
    """The error of a file with too many values."""
    return f"the file holds more than {limit:,} values; split it into several files"


def too_large(limit: int, form: str) -> str:
    """The error of a file that is too large for its format, YAML or JSON."""
    return f"the file is larger than the {limit // 2**20} MiB that {form} may have; split it"


def too_many_aliased(anchor: str) -> str:
    """The error of aliases that expand to too many values."""
    return (
        f"aliases such as `*{anchor}` repeat more than {MAX_ALIASED_VALUES:,} values; "
        "write out what is meant"
    )
