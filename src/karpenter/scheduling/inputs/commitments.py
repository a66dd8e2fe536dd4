"""Commitment objects as the ledger takes them, and what is wrong with each of the others.

An object that the CRD's rules would refuse, one that has expired and one whose requirements
contradict each other cover nothing; the plan goes on without it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from karpenter.admission.schemas.engine import builtin
from karpenter.api.codec import to_plain
from karpenter.api.karpenter import Commitment, CommitmentSpec
from karpenter.model.conditions import timestamp
from karpenter.model.requirement import RequirementError
from karpenter.model.requirements import Requirements
from karpenter.scheduling.commitments import Book, Terms, Unit

SAVINGS_PLAN: Final = "SavingsPlan"
RESERVED_INSTANCE: Final = "ReservedInstance"
EXPIRED: Final = "Expired"
INVALID: Final = "Invalid"
NO_OFFERINGS: Final = "NoMatchingOfferings"
UNKNOWN_TYPES: Final = "UnknownInstanceTypes"
INVALID_COMMITMENT: Final = "InvalidCommitment"  # the reason of an event
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class RefusedCommitment:
    """A commitment that covers nothing, or less than it says: the condition's reason, and why."""

    name: str
    reason: str
    detail: str


def read_commitments(
    commitments: Iterable[Commitment],
    *,
    now: datetime,
    problem_of: Callable[[Commitment], str] | None = None,
) -> tuple[list[Terms], list[RefusedCommitment]]:
    """The terms of those that can be counted on now, and the others with what is wrong.

    ``problem_of``: a cache of ``commitment_problem``, which takes long for many rates.
    """
    problem_of = problem_of or commitment_problem
    found: list[Terms] = []
    refused: list[RefusedCommitment] = []
    for commitment in sorted(commitments, key=lambda each: each.metadata.name):
        name, expires = commitment.metadata.name, commitment.spec.expires
        problem = problem_of(commitment)
        if problem:
            refused.append(RefusedCommitment(name, INVALID, problem))
        elif expires is not None and expires <= now:
            refused.append(RefusedCommitment(name, EXPIRED, f"it expired at {timestamp(expires)}"))
        else:
            found.append(_terms(name, commitment.spec))
    return found, refused


def commitment_problem(commitment: Commitment) -> str:
    """What is wrong with a commitment by itself, or nothing."""
    rules = builtin(Commitment.api_version, "Commitment")
    assert rules is not None
    plain = to_plain(commitment)
    plain.pop("status", None)  # ours; an empty message of a condition is left out of it
    errors = rules.admit(plain).errors
    if errors:
        return "; ".join(map(str, errors))
    try:
        wanted = Requirements.from_wire(commitment.spec.requirements)
    except RequirementError as error:
        return f"spec.requirements: {error}"
    absent = {
        entry.key for entry in commitment.spec.requirements if entry.operator == "DoesNotExist"
    }
    for entry in wanted:
        if not entry.complement and not entry.values and entry.key not in absent:
            return (
                f"spec.requirements: those on {entry.key} contradict each other, so it would cover"
                " nothing; keep one of them"
            )
    return ""


def unmatched(book: Book) -> list[RefusedCommitment]:
    """The commitments that no offering matches, and those with rates of unknown types."""
    found = []
    for terms in sorted(book.terms, key=lambda each: each.name):
        missing = book.unknown_types[terms.name]
        if not book.matched[terms.name]:
            detail = "no on-demand offering of any pool matches its requirements"
            found.append(RefusedCommitment(terms.name, NO_OFFERINGS, detail))
        elif missing:
            more = len(missing) - _MOST_NAMED
            named = ", ".join(missing[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
            detail = f"spec.rates: no pool has the instance types {named}; the others count"
            found.append(RefusedCommitment(terms.name, UNKNOWN_TYPES, detail))
    return found


def declared_over(
    declared: Mapping[str, Commitment], read: Iterable[Commitment]
) -> Mapping[str, Commitment]:
    """Commitments that users declare, and those a cloud reports; a declared one of a name wins."""
    return {each.metadata.name: each for each in read} | dict(declared)


def _terms(name: str, spec: CommitmentSpec) -> Terms:
    share = _percentage(spec.share) if spec.share is not None else 1.0
    wanted = Requirements.from_wire(spec.requirements)
    if spec.hourly is not None:
        return Terms(
            name,
            Unit.DOLLARS,
            float(spec.hourly) * share,
            wanted,
            discount=_percentage(spec.discount) if spec.discount is not None else 0.0,
            rates={kind: float(rate) for kind, rate in spec.rates.items()},
        )
    if spec.units is not None:
        return Terms(name, Unit.UNITS, float(spec.units) * share, wanted)
    return Terms(name, Unit.INSTANCES, float(spec.instances or 0) * share, wanted)


def _percentage(text: str) -> float:
    return float(text.removesuffix("%")) / 100
