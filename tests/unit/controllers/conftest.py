"""What holds for every write of every controller, checked in all their tests.

A merge replaces a list as a whole, so a controller that names one must also name the version it
has read: else it undoes what others have put there since. The deadline of a claim is no list, but
of two who write it the earlier one counts.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from karpenter.kube.client import Client
from karpenter.model.labels import TERMINATION_TIMESTAMP


@pytest.fixture(autouse=True)
def writes_are_locked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test in which a list or a deadline is written over whatever stands there."""
    blind: list[str] = []
    patch = Client.patch

    async def watched(
        client: Client, kind: type[Any], name: str, body: Mapping[str, Any], *more: Any, **how: Any
    ) -> Any:
        if _needs_lock(body) and "resourceVersion" not in body.get("metadata", {}):
            blind.append(f"{kind.__name__} {name}: {body}")
        return await patch(client, kind, name, body, *more, **how)

    monkeypatch.setattr(Client, "patch", watched)
    yield
    assert [] == blind


def _needs_lock(body: Any) -> bool:
    if isinstance(body, Mapping):
        return TERMINATION_TIMESTAMP in body or any(map(_needs_lock, body.values()))
    return isinstance(body, list | tuple)
