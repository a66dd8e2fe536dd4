"""By when the steps of a restart must have happened, and when none is asked for at all."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from helpers.autoscaler import FakeCloud, JsonObject, bench
from helpers.clusters import in_virtual_time
from helpers.disruption_objects import TYPES
from helpers.provisioning import FACTS
from karpenter.api.codec import convert_as
from karpenter.api.karpenter import NodeClaim
from karpenter.clock import EPOCH
from karpenter.controllers.disruption.reboot.request import Reboot, reboot_of, request_reboot
from karpenter.model import labels
from unit.controllers.disruption.disruption_bench import machine, pool, true

REQUESTED = true("Rebooting", "RebootRequested", since=100)
ISSUED = true("Rebooting", "RebootIssued", since=100)
AWAITED = {**true("Initialized", "Rebooting", since=160), "status": "Unknown"}


def restart(*conditions: JsonObject, grace: str | None = None) -> Reboot:
    held = {labels.REBOOT_GRACE_PERIOD: grace} if grace is not None else {}
    claim, _ = machine("n1", conditions=conditions, claim_annotations=held)
    return reboot_of(convert_as(claim, NodeClaim))


def after(seconds: float) -> Any:
    return EPOCH + timedelta(seconds=seconds)


@pytest.mark.case("V15-D34")
def test_recovery_is_counted_from_the_moment_the_machine_was_awaited() -> None:
    found = restart(ISSUED, AWAITED)

    assert (after(100), after(160 + 1200)) == (found.requested_at, found.recovery_deadline)


@pytest.mark.parametrize(
    ("grace", "seconds"),
    [
        pytest.param("5m", 300, id="V15-D29 from the request"),
        pytest.param("1s", 5, id="never less than pods need to appear"),
        pytest.param(None, None, id="without a bound never"),
    ],
)
def test_the_drain_ends(grace: str | None, seconds: float | None) -> None:
    expected = None if seconds is None else after(100 + seconds)

    assert expected == restart(REQUESTED, grace=grace).drain_deadline


@pytest.mark.parametrize(
    ("since", "has_node", "seconds"),
    [
        pytest.param(None, True, None, id="never while pods leave"),
        pytest.param(None, False, 400, id="from the request without a node"),
        pytest.param(900, True, 1200, id="V15-D32 from the first time the cloud was asked"),
    ],
)
def test_issuing_takes_too_long(since: float | None, has_node: bool, seconds: float | None) -> None:
    asked = None if since is None else after(since)
    expected = None if seconds is None else after(seconds)

    assert expected == restart(REQUESTED).issuing_deadline(asked, has_node=has_node)


@in_virtual_time
async def test_no_restart_is_asked_of_a_claim_that_is_gone() -> None:
    claim, _ = machine("n1")
    gone = SimpleNamespace(claim=convert_as(claim, NodeClaim))
    async with bench(pool(), cloud=FakeCloud(facts=FACTS, types=TYPES)) as at_work:
        command = cast(Any, SimpleNamespace(candidates=(gone,)))

        assert await request_reboot(at_work.world, command) is False
