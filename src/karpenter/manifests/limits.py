"""How much a manifest may hold before it is refused.

A Kubernetes object is at most 1.5 MB in etcd and rarely nests deeper than 40 levels, so these
bounds only stop what is not a manifest, before it costs memory. YAML is read event by event, at
one or two megabytes per second; JSON, which recorded clusters come in, ten times as fast.
"""

MAX_YAML_BYTES = 32 * 2**20
MAX_YAML_VALUES = 2_000_000
MAX_JSON_BYTES = 256 * 2**20
MAX_JSON_VALUES = 16_000_000
MAX_DEPTH = 100
MAX_ALIASED_VALUES = 100_000


def too_deep() -> str:
    """Say that a value is nested too deeply."""
    return f"lists and mappings are nested more than {MAX_DEPTH} levels deep"


def too_many_values(limit: int) -> str:
    """Say that a file holds too many values."""
    return f"the file holds more than {limit:,} values; split it into several files"


def too_large(limit: int, form: str) -> str:
    """Say that a file is too large for its form, YAML or JSON."""
    return f"the file is larger than the {limit // 2**20} MiB that {form} may have; split it"


def too_many_aliased(anchor: str) -> str:
    """Say that aliases repeat too much."""
    return (
        f"aliases such as `*{anchor}` repeat more than {MAX_ALIASED_VALUES:,} values; "
        "write out what is meant"
    )
