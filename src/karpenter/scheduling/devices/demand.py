"""What a class of pods demands of devices: claims that are allocated, and claims that are not."""

from dataclasses import dataclass

from karpenter.api.pods import Pod
from karpenter.scheduling.devices.claims import ClaimDirectory, PodClaim, Standing
from karpenter.scheduling.devices.reach import NodeTerm, terms_of
from karpenter.scheduling.devices.requests import CompiledClaim, Compiler, UnservableClaimError


@dataclass(frozen=True, slots=True)
class Served:
    """A claim that has its devices, and where they can be reached."""

    entry: str
    terms: tuple[NodeTerm, ...]  # alternatives


@dataclass(frozen=True, slots=True)
class Wanted:
    """A claim that needs devices."""

    entry: str  # its name in the pod's spec
    key: str | None  # names it when other pods need the same one
    compiled: CompiledClaim


@dataclass(frozen=True, slots=True)
class Demand:
    """What every pod of a class demands."""

    problem: str = ""  # why no device anywhere can serve it; empty when that depends on the place
    served: tuple[Served, ...] = ()
    wanted: tuple[Wanted, ...] = ()


def demand_of(pod: Pod, directory: ClaimDirectory, compiler: Compiler) -> Demand:
    """Work out what a pod demands."""
    served: list[Served] = []
    wanted: list[Wanted] = []
    for found in directory.of(pod):
        if found.claim is None:
            return Demand(
                f"ResourceClaim {found.key}, which the pod calls {found.entry}, does not exist"
            )
        allocation = found.claim.status.allocation
        if found.standing is Standing.SERVED and allocation is not None:
            if allocation.node_selector is not None:
                served.append(Served(found.entry, terms_of(allocation.node_selector)))
            continue
        try:
            compiled = compiler.compiled_claim(found.claim.spec)
        except UnservableClaimError as error:
            return Demand(f"its claim {found.entry}: {error}")
        wanted.append(Wanted(found.entry, _shared_key(found), compiled))
    return Demand(served=tuple(served), wanted=tuple(wanted))


def _shared_key(found: PodClaim) -> str | None:
    return found.key if found.standing is Standing.SHARED else None
