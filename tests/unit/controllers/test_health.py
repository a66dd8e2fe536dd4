"""Probes: what they are told while all is well, while something is not, and about one check."""

import asyncio
from collections.abc import Sequence

import pytest

from helpers.autoscaler import bench
from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodePool
from karpenter.controllers.health import Answer, Checks, answer, liveness, readiness
from karpenter.kube.errors import ForbiddenError, NotFoundError


async def fine() -> str:
    return ""


async def broken() -> str:
    return "it hurts"


CHECKS: Checks = {"manager": fine, "crd": broken, "readyz": fine}
WELL: Checks = {"manager": fine, "crd": fine}


@pytest.mark.parametrize(
    ("checks", "only", "excluded", "is_verbose", "expected"),
    [
        pytest.param(WELL, "", (), False, Answer(200, "ok"), id="all is well"),
        pytest.param(
            WELL,
            "",
            (),
            True,
            Answer(200, "[+]manager ok\n[+]crd ok\nreadyz check passed\n"),
            id="all is well, in full",
        ),
        pytest.param(
            CHECKS,
            "",
            (),
            False,
            Answer(
                500,
                "[+]manager ok\n[-]crd failed: it hurts\n[+]readyz ok\nreadyz check failed\n",
            ),
            id="one check fails",
        ),
        pytest.param(CHECKS, "", ("crd",), False, Answer(200, "ok"), id="it is left out"),
        pytest.param(
            CHECKS,
            "",
            ("crd",),
            True,
            Answer(200, "[+]manager ok\n[+]crd excluded: ok\n[+]readyz ok\nreadyz check passed\n"),
            id="it is left out, in full",
        ),
        pytest.param(
            WELL,
            "",
            ("nobody",),
            True,
            Answer(
                200,
                "[+]manager ok\n[+]crd ok\nwarn: some health checks cannot be excluded:"
                " no matches for ['nobody']\nreadyz check passed\n",
            ),
            id="a check nobody knows is left out",
        ),
        pytest.param(CHECKS, "manager", (), False, Answer(200, "ok"), id="one check that is well"),
        pytest.param(
            CHECKS,
            "crd",
            (),
            False,
            Answer(500, "internal server error: it hurts\n"),
            id="one check that fails",
        ),
        pytest.param(
            CHECKS,
            "nobody",
            (),
            False,
            Answer(404, "there is no check called nobody\n"),
            id="one check nobody knows",
        ),
    ],
)
async def test_answers(
    checks: Checks, only: str, excluded: Sequence[str], is_verbose: bool, expected: Answer
) -> None:
    given = await answer("readyz", checks, only=only, excluded=excluded, is_verbose=is_verbose)

    assert expected == given


async def test_a_process_that_answers_is_alive() -> None:
    given = await answer("healthz", liveness(), is_verbose=True)

    assert Answer(200, "[+]healthz ok\nhealthz check passed\n") == given


@in_virtual_time
async def test_a_process_that_knows_the_cluster_is_ready() -> None:
    async with bench() as at_work:
        world = at_work.world
        given = await answer(
            "readyz", readiness(world.mirrors, world.kube, world.clock), is_verbose=True
        )

    expected = "[+]manager ok\n[+]crd ok\n[+]readyz ok\nreadyz check passed\n"
    assert Answer(200, expected) == given


@in_virtual_time
async def test_readiness_waits_for_what_is_not_known_yet() -> None:
    async with bench() as at_work:
        world = at_work.world
        pools = world.mirror(NodePool)
        pools.synced.clear()
        checks = readiness(world.mirrors, world.kube, world.clock)
        began = world.clock.monotonic()

        late = await checks["manager"]()
        waited = world.clock.monotonic() - began
        waiting = asyncio.ensure_future(checks["manager"]())
        await world.clock.sleep(5)
        pools.synced.set()
        in_time = await waiting

    assert "not seen yet: NodePool" == late
    assert 20 < waited <= 30
    assert "" == in_time


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            NotFoundError(404, "no such kind"),
            "the API server does not know the kind NodePool",
            id="a kind is missing",
        ),
        pytest.param(
            ForbiddenError(403, "not for you"), "NodePool: not for you", id="it may not be read"
        ),
    ],
)
def test_kinds_must_be_there(error: Exception, expected: str) -> None:
    class Refusing:
        async def page(self, *_: object, **__: object) -> object:
            raise error

    @in_virtual_time
    async def run() -> None:
        async with bench() as at_work:
            world = at_work.world
            checks = readiness(world.mirrors, Refusing(), world.clock)  # type: ignore[arg-type]

            assert expected == await checks["crd"]()

    run()
