"""The change of a what-if: what a person asks for, checked as ``plan`` checks its input.

Nothing is written anywhere. Of the input either everything is used or nothing, and every mistake is
named with its line and field.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import Resource, kind_of
from karpenter.api.nodes import Node
from karpenter.console.manifest_files import Finding
from karpenter.dashboard.answers.world import World
from karpenter.dashboard.contract import Problem, WhatIfRequest
from karpenter.dashboard.questions import BadQuestionError, TooLargeError
from karpenter.inquiry import offline
from karpenter.inquiry.files import Change, read_change
from karpenter.inquiry.names import no_such, no_such_key
from karpenter.inquiry.overlay import WORKLOADS, overlaid, pods_of
from karpenter.pass_settings import disruption_settings
from karpenter.scheduling.inputs.scheduler_config import SchedulerConfigError
from karpenter.settings import SettingError, with_assignments
from karpenter.state.object_keys import Identity, identity_of, key_of, namespace_of
from karpenter.state.owners import controller_of

MOST_BYTES: Final = 1024 * 1024
MOST_OBJECTS: Final = 200
INPUT: Final = "input"  # in place of the name of a file
_GATES: Final = "FEATURE_GATES"
_NAMESPACE: Final = "Namespace"
_UNKNOWN_FIELD: Final = "unknown field"  # as Kubernetes words it


def changed(world: World, request: WhatIfRequest) -> tuple[World, list[Resource]]:
    """The cluster with what is asked for, and the objects that were applied to it.

    Raises:
        BadQuestionError: something is wrong with what is asked.
        TooLargeError: it is too much.
    """
    if not (request.drain or request.apply or request.delete or request.set):
        raise BadQuestionError("nothing is asked: name at least one of drain, apply, delete, set")
    count = len(request.drain) + len(request.delete)
    count += len(request.apply) if isinstance(request.apply, list) else 0
    if count > MOST_OBJECTS:
        raise _too_many(count)
    world = _with_settings(world, request.set)
    applied: list[Resource] = []
    if request.apply:
        change = _read(request.apply, world.supply.facts.name)
        applied = change.objects
        laid = overlaid(world.objects, applied)
        _refuse(change.findings(laid.problems))
        world = world.after(laid)
    going = set(_machines(world, request.drain, "drain"))
    for named in request.delete:
        world, more = _without(world, named)
        going |= more
    return replace(world, going=frozenset(going)), applied


def _with_settings(world: World, assignments: Mapping[str, str]) -> World:
    if not assignments:
        return world
    names = {name.upper().replace("-", "_") for name in assignments}
    terms = world.terms
    try:
        settings = with_assignments(terms.settings, assignments)
        disruption_settings(settings)  # validates them
    except (SettingError, SchedulerConfigError) as error:
        raise BadQuestionError(f"set: {error}", [Problem(str(error), field="set")]) from error
    gates_are_set = terms.gates_are_set or _GATES in names
    return replace(world, terms=replace(terms, settings=settings, gates_are_set=gates_are_set))


def _read(apply: Sequence[Mapping[str, Any]] | str, provider: str) -> Change:
    """The objects of manifests, or of their YAML."""
    has_lines = isinstance(apply, str)
    if isinstance(apply, str):
        data = apply.encode()
    else:
        data = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": apply})
    if len(data) > MOST_BYTES:
        raise TooLargeError(f"{INPUT}: {len(data):,} bytes are more than {MOST_BYTES:,}")
    change, found = read_change(data, INPUT, provider=provider or offline.DEFAULT)
    # An unknown field is dropped by an API server, and would leave a what-if without effect
    wrong = [each for each in found if each.is_error or _UNKNOWN_FIELD in each.text]
    _refuse(wrong, has_lines=has_lines)
    if len(change.objects) > MOST_OBJECTS:
        raise _too_many(len(change.objects))
    if not change.objects:
        raise BadQuestionError(f"{INPUT}: there is no object in it that a plan depends on")
    return change


def _refuse(found: Sequence[Finding], *, has_lines: bool = True) -> None:
    """Refuse the input where anything is wrong with it."""
    if not found:
        return
    problems = [
        Problem(
            text=each.text if has_lines else _without_line(each),
            line=each.line if has_lines else None,
            field=each.field,
        )
        for each in found
    ]
    raise BadQuestionError(problems[0].text, problems)


def _without_line(found: Finding) -> str:
    """What is said of a manifest that came as JSON, so that lines mean nothing."""
    return found.text.replace(f"{INPUT}:{found.line}:", f"{INPUT}:", 1)


def _too_many(count: int) -> BadQuestionError:
    return BadQuestionError(
        f"{INPUT}: {count:,} objects are more than the {MOST_OBJECTS} that one question may bring"
    )


def _machines(world: World, names: Iterable[str], field: str) -> list[str]:
    """The machines of Nodes or NodeClaims."""
    found = []
    for name in names:
        machine = world.snapshot.node(name)
        if machine is None:
            text = no_such("node", name, [each.name for each in world.snapshot.nodes])
            raise BadQuestionError(text, [Problem(text, field=field)])
        found.append(machine.name)
    return found


def _without(world: World, named: str) -> tuple[World, set[str]]:
    """The cluster without an object and what depends on it, and the machines that are drained."""
    target = _find(world, named)
    if isinstance(target, Node | NodeClaim):
        # Both have finalizers, so that deleting them begins with a drain
        return world, set(_machines(world, [target.metadata.name], "delete"))
    going = set()
    if isinstance(target, NodePool):
        # Its NodeClaims belong to it, and go with it
        machines = world.snapshot.claimed_for(target.metadata.name)
        going = {each.name for each in machines}
    gone = _dependents(world.objects, target)
    left = [each for each in world.objects if identity_of(each) not in gone]
    return world.with_objects(left), going


def _find(world: World, named: str) -> Resource:
    kind, _, name = named.partition("/")
    if not kind or not name:
        text = f"delete: {named!r} is not of the form Kind/name or Kind/namespace/name"
        raise BadQuestionError(text, [Problem(text, field="delete")])
    alike = [each for each in world.objects if kind_of(type(each)).lower() == kind.lower()]
    is_namespaced = any(each.namespaced for each in alike)
    key = f"default/{name}" if is_namespaced and "/" not in name else name
    found = next((each for each in alike if key_of(each) == key), None)
    if found is None:
        known = [key_of(each) for each in alike]
        text = (no_such_key if is_namespaced else no_such)(kind, name, sorted(known))
        raise BadQuestionError(text, [Problem(text, field="delete")])
    return found


def _dependents(objects: Sequence[Resource], target: Resource) -> set[Identity]:
    """An object with all that is deleted with it: what it owns, or all of its namespace."""
    gone = {identity_of(target)}
    if kind_of(type(target)) == _NAMESPACE:
        name = target.metadata.name
        gone |= {identity_of(x) for x in objects if x.namespaced and namespace_of(x) == name}
        return gone
    if isinstance(target, WORKLOADS):
        gone |= {identity_of(pod) for pod in pods_of(target, objects)}
    owners = {_name_as_owner(target)}
    while owners:
        owned = [
            each
            for each in objects
            if identity_of(each) not in gone
            and not isinstance(each, Node | NodeClaim)
            and (above := controller_of(each)) is not None
            and (above.kind, namespace_of(each), above.name) in owners
        ]
        gone |= {identity_of(each) for each in owned}
        owners = {_name_as_owner(each) for each in owned}
    return gone


def _name_as_owner(resource: Resource) -> tuple[str, str, str]:
    return kind_of(type(resource)), namespace_of(resource), resource.metadata.name
