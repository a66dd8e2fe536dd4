"""Liveness and readiness: named checks, and the response to a probe.

A replica that does not lead is ready as well: it serves requests and can take over.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import kind_of
from karpenter.clock import Clock
from karpenter.controllers.mirrors import Mirrors
from karpenter.kube.client import Kube
from karpenter.kube.errors import KubeError, NotFoundError

# Returns what is wrong in a few words; empty when nothing is
Check: TypeAlias = Callable[[], Awaitable[str]]
Checks: TypeAlias = Mapping[str, Check]

_OK: Final = 200
_NOT_FOUND: Final = 404
_FAILED: Final = 500
# A little less than the timeout of probes, so that they get the list of failed checks
_PATIENCE_SECONDS: Final = 25.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to a probe."""

    status: int
    text: str


def liveness() -> Checks:
    """Whether the process answers at all."""
    return {"healthz": _well}


def readiness(mirrors: Mirrors, kube: Kube, clock: Clock) -> Checks:
    """Whether the process could work: its mirrors are synced, and the CRDs are installed."""

    async def manager() -> str:
        try:
            await clock.wait_for(mirrors.synced(), seconds=_PATIENCE_SECONDS)
        except TimeoutError:
            return f"not seen yet: {', '.join(mirrors.missing)}"
        return ""

    async def crd() -> str:
        for kind in (NodePool, NodeClaim):
            try:
                await kube.page(kind, limit=1)
            except NotFoundError:
                return f"the API server does not know the kind {kind_of(kind)}"
            except KubeError as error:
                return f"{kind_of(kind)}: {error}"
        return ""

    return {"manager": manager, "crd": crd, "readyz": _well}


async def answer(
    endpoint: str,
    checks: Checks,
    *,
    only: str = "",
    excluded: Sequence[str] = (),
    is_verbose: bool = False,
) -> Answer:
    """Run checks and report their results.

    Args:
        endpoint: what the checks are called together, such as ``readyz``.
        checks: the checks by name.
        only: the one check to run.
        excluded: checks that are not run.
        is_verbose: list the checks although all is well.
    """
    if only:
        return await _answer_one(only, checks)
    wanted = [name for name in checks if name not in excluded]
    problems = dict(zip(wanted, await asyncio.gather(*(checks[n]() for n in wanted)), strict=True))
    is_well = not any(problems.values())
    if is_well and not is_verbose:
        return Answer(_OK, "ok")
    lines = [_line(name, problems.get(name)) for name in checks]
    unknown = [name for name in excluded if name not in checks]
    if unknown:
        lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
    lines.append(f"{endpoint} check {'passed' if is_well else 'failed'}")
    return Answer(_OK if is_well else _FAILED, "\n".join(lines) + "\n")


async def _answer_one(name: str, checks: Checks) -> Answer:
    check = checks.get(name)
    if check is None:
        return Answer(_NOT_FOUND, f"there is no check called {name}\n")
    problem = await check()
    return Answer(_FAILED, f"internal server error: {problem}\n") if problem else Answer(_OK, "ok")


def _line(name: str, problem: str | None) -> str:
    if problem is None:
        return f"[+]{name} excluded: ok"
    return f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok"


async def _well() -> str:
    return ""
