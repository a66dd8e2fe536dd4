"""What NodeClaims and Nodes show by themselves: conditions, taints, and that they come and go."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.meta import Condition, ObjectMeta, kind_of
from karpenter.api.nodes import Node
from karpenter.dashboard.observed.sightings import Key, Sighting, seen
from karpenter.decision_log.record import Kind, Outcome
from karpenter.disruption.methods.expiration import expires_at
from karpenter.kube.events import Recent
from karpenter.model import labels
from karpenter.model.conditions import (
    AWAITING,
    DISRUPTION_REASON,
    DRAINED,
    INITIALIZED,
    LAUNCHED,
    REGISTERED,
    TRUE,
    find,
)
from karpenter.model.taints import DISRUPTED, matches
from karpenter.state.object_keys import uid_of

MOST_REMEMBERED: Final = 50_000
NODE: Final = kind_of(Node)
NODE_CLAIM: Final = kind_of(NodeClaim)
GOES: Final = "goes"
GONE: Final = "gone"
_BY_DELETION: Final = 5  # rank: an event says more
_LEGACY_VALUE: Final = "disrupting"


@dataclass(frozen=True, slots=True)
class Machine:
    """A NodeClaim, and the Node it has become, by their names."""

    uid: str
    claim: str
    node: str
    pool: str

    @property
    def name(self) -> str:
        """The name that people know it by."""
        return self.node or self.claim

    @property
    def objects(self) -> tuple[str, ...]:
        """Its objects as records name them."""
        node = (f"Node/{self.node}",) if self.node else ()
        return (*node, f"NodeClaim/{self.claim}")


class Machines:
    """The machines that were seen, also those that are gone; the oldest are forgotten."""

    def __init__(self) -> None:
        """Begin without any."""
        self._claims: Recent[Machine] = Recent(MOST_REMEMBERED)
        self._nodes: Recent[str] = Recent(MOST_REMEMBERED)  # name of a Node -> name of its claim

    def note(self, claim: NodeClaim) -> None:
        """Take over what a claim says."""
        machine = machine_of(claim)
        self._claims.put(machine.claim, machine)
        if machine.node:
            self._nodes.put(machine.node, machine.claim)

    def find(self, kind: str, name: str) -> Machine | None:
        """The machine of a Node or a NodeClaim."""
        claim = self._nodes.get(name) if kind == NODE else name
        return self._claims.get(claim) if claim is not None else None


def machine_of(claim: NodeClaim) -> Machine:
    """The machine of a claim."""
    node = claim.status.node_name
    return Machine(uid_of(claim), claim.metadata.name, node, pool_name(claim.metadata))


def pool_name(metadata: ObjectMeta) -> str:
    """The pool of a NodeClaim or a Node, by the label of old where there is no other."""
    held = metadata.labels
    return held.get(labels.NODEPOOL) or held.get(labels.PROVISIONER_NAME, "")


def step_key(kind: str, machine: Machine) -> Key:
    """The key of a step that every machine takes once: a condition's type."""
    return kind, machine.uid


def claim_sightings(claim: NodeClaim, now: datetime) -> Iterator[Sighting]:
    """What a claim shows to have happened to it so far."""
    machine = machine_of(claim)
    made = claim.metadata.creation_timestamp or now
    yield _step(
        machine,
        ("made", machine.uid),
        made,
        Kind.PROVISION,
        "Created",
        f"{machine.claim} of {machine.pool or 'no pool'} was asked for",
    )
    for condition in claim.status.conditions:
        at = condition.last_transition_time or made
        found = _of_condition(claim, machine, condition, at)
        if found is not None:
            yield found
    deleted = claim.metadata.deletion_timestamp
    if deleted is not None:
        yield _removed(claim, machine, deleted)


def claim_changes(old: NodeClaim | None, claim: NodeClaim, now: datetime) -> Iterator[Sighting]:
    """What happened to a claim between two of its versions."""
    known = {each.key for each in claim_sightings(old, now)} if old is not None else set()
    for each in claim_sightings(claim, now):
        if each.key not in known:
            yield each
    before, after = _disruption(old), _disruption(claim)
    if before is not None and after is None and claim.metadata.deletion_timestamp is None:
        machine = machine_of(claim)
        yield seen(
            ("stays", machine.uid, str(before.last_transition_time)),
            now,
            Kind.DISRUPT,
            Outcome.ABANDONED,
            before.reason,
            f"{machine.name} stays after all",
            objects=machine.objects,
            pool=machine.pool,
        )


def claim_gone(claim: NodeClaim, now: datetime) -> Sighting:
    """A claim that is there no more."""
    machine = machine_of(claim)
    had = " and its instance are" if claim.status.provider_id else " is"
    return _step(
        machine,
        (GONE, machine.uid),
        now,
        Kind.TERMINATE,
        "NodeClaimDeleted",
        f"{machine.claim}{had} gone",
        rank=-1,
    )


def node_changes(
    old: Node | None, node: Node, claim: NodeClaim | None, now: datetime
) -> Iterator[Sighting]:
    """What happened to a Node of Karpenter between two of its versions."""
    was, is_tainted = old is not None and _is_tainted(old), _is_tainted(node)
    if was is is_tainted or (was and node.metadata.deletion_timestamp is not None):
        return
    disruption = _disruption(claim)
    at = now
    if is_tainted and old is None and claim is not None:
        # The taint carries no time, and was there before anybody looked
        since = disruption.last_transition_time if disruption is not None else None
        at = since or claim.metadata.deletion_timestamp or now
    outcome = Outcome.BEGUN if is_tainted else Outcome.ABANDONED
    yield seen(
        ("drain", outcome.value, uid_of(node), str(at)),
        at,
        Kind.DRAIN,
        outcome,
        disruption.reason if disruption is not None else "Disrupted",
        f"{node.metadata.name} takes {'no new pods' if is_tainted else 'new pods again'}",
        objects=_objects_of(node, claim),
        pool=pool_name(node.metadata),
    )


def node_gone(node: Node, claim: NodeClaim | None, now: datetime) -> Sighting:
    """A Node that is there no more."""
    return seen(
        ("node gone", uid_of(node)),
        now,
        Kind.TERMINATE,
        Outcome.DONE,
        "NodeDeleted",
        f"{node.metadata.name} is gone",
        objects=_objects_of(node, claim),
        pool=pool_name(node.metadata),
    )


def step(machine: Machine, kind: str, at: datetime, bought: str = "", *, rank: int) -> Sighting:
    """A condition of a claim that has become true: it is launched, registered or initialized."""
    name = machine.claim
    says = {
        LAUNCHED: (Kind.LAUNCH, f"{name} launched{bought}"),
        REGISTERED: (Kind.REGISTER, f"{name} has joined the cluster"),
        INITIALIZED: (Kind.INITIALIZE, f"{name} is ready for pods"),
        DRAINED: (Kind.DRAIN, f"{machine.name} has no pods left"),
    }
    record, text = says[kind]
    return _step(machine, step_key(kind, machine), at, record, kind, text, rank=rank)


STEPS: Final = (LAUNCHED, REGISTERED, INITIALIZED, DRAINED)


def _of_condition(
    claim: NodeClaim, machine: Machine, condition: Condition, at: datetime
) -> Sighting | None:
    kind, is_true = condition.type, condition.status == TRUE
    if kind in STEPS and is_true:
        return step(machine, kind, at, _bought(claim) if kind == LAUNCHED else "", rank=0)
    if kind == DISRUPTION_REASON and is_true:
        reason = condition.reason
        return seen(
            ("disrupt", machine.uid, reason, str(at)),
            at,
            Kind.DISRUPT,
            Outcome.BEGUN,
            reason,
            f"{machine.name} is to go: {_in_words(reason)}",
            objects=machine.objects,
            pool=machine.pool,
        )
    if kind == LAUNCHED and condition.reason not in ("", kind, AWAITING):
        return seen(
            ("not launched", machine.uid, condition.reason),
            at,
            Kind.LAUNCH,
            Outcome.FAILED,
            condition.reason,
            f"{machine.claim} not launched: {condition.message or condition.reason}",
            objects=machine.objects,
            pool=machine.pool,
        )
    return None


def _removed(claim: NodeClaim, machine: Machine, at: datetime) -> Sighting:
    disruption = _disruption(claim)
    expiry = expires_at(claim)
    kind, outcome = Kind.TERMINATE, Outcome.BEGUN
    reason, text = "Deleted", "is being removed"
    if disruption is not None:
        kind, outcome, reason = Kind.DISRUPT, Outcome.DONE, disruption.reason
        text = f"has been asked to go: {_in_words(reason)}"
    elif expiry is not None and expiry <= at:
        kind, reason, text = Kind.DISRUPT, "Expired", "goes: its expireAfter has passed"
    return seen(
        (GOES, machine.uid),
        at,
        kind,
        outcome,
        reason,
        f"{machine.name} {text}",
        objects=machine.objects,
        pool=machine.pool,
        rank=_BY_DELETION,
    )


def _step(
    machine: Machine, key: Key, at: datetime, kind: Kind, reason: str, text: str, rank: int = 0
) -> Sighting:
    objects, pool = tuple(reversed(machine.objects)), machine.pool
    return seen(key, at, kind, Outcome.DONE, reason, text, objects=objects, pool=pool, rank=rank)


def _disruption(claim: NodeClaim | None) -> Condition | None:
    if claim is None:
        return None
    found = find(claim.status.conditions, DISRUPTION_REASON)
    return found if found is not None and found.status == TRUE else None


def _bought(claim: NodeClaim) -> str:
    """What was bought, as far as the claim says."""
    held = claim.metadata.labels
    kinds = filter(None, (held.get(key) for key in (labels.INSTANCE_TYPE, labels.CAPACITY_TYPE)))
    what, zone = ", ".join(kinds), held.get(labels.ZONE, "")
    return (f": {what}" if what else "") + (f" in {zone}" if zone else "")


def _is_tainted(node: Node) -> bool:
    """Whether a node takes no more pods because Karpenter is about to remove it."""
    return any(
        matches(each, DISRUPTED)
        or (each.key == labels.LEGACY_DISRUPTION and each.value == _LEGACY_VALUE)
        for each in node.spec.taints
    )


def _objects_of(node: Node, claim: NodeClaim | None) -> tuple[str, ...]:
    also = (f"NodeClaim/{claim.metadata.name}",) if claim is not None else ()
    return (f"Node/{node.metadata.name}", *also)


def _in_words(reason: str) -> str:
    return reason[:1].lower() + reason[1:]
