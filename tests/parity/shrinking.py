"""Make a problem smaller while both sides still decide it differently."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from parity.problems import Json, Problem


def shrunk(problem: Problem, still: Callable[[Problem], bool], most: int = 600) -> Problem:
    """The smallest problem found that still shows what ``still`` looks for, in so many tries."""
    tries, smallest, progress = 0, problem, True
    while progress and tries < most:
        progress = False
        for smaller in _smaller(smallest):
            tries += 1
            if _holds(smaller, still):
                smallest, progress = smaller, True
                break
            if tries >= most:
                break
    return smallest


def _holds(problem: Problem, still: Callable[[Problem], bool]) -> bool:
    try:
        return still(problem)
    except Exception:  # noqa: BLE001 - what cannot be asked is no smaller problem
        return False


def _smaller(problem: Problem) -> Iterator[Problem]:
    yield from _without_objects(problem)
    yield from _without_types(problem)
    yield from _without_details(problem)


def _without_objects(problem: Problem) -> Iterator[Problem]:
    size = max(1, len(problem.objects) // 2)
    while True:
        for start in range(0, len(problem.objects), size):
            gone = problem.objects[start : start + size]
            names = {each["metadata"]["name"] for each in gone if each["kind"] == "Node"}
            fewer = copy.deepcopy(problem)
            fewer.objects = [
                copy.deepcopy(each)
                for number, each in enumerate(problem.objects)
                if not start <= number < start + size and not _belongs(each, names)
            ]
            # without any pool there is nothing to decide, which the peer does not say pod by pod
            if len(fewer.objects) < len(problem.objects) and any(fewer.of_kind("NodePool")):
                yield fewer
        if size == 1:
            return
        size //= 2


def _belongs(each: Json, nodes: set[str]) -> bool:
    """Whether an object makes no sense without one of these nodes."""
    if each["kind"] == "NodeClaim":
        return each["metadata"]["name"].removeprefix("claim-") in nodes
    return each["kind"] == "Pod" and each["spec"].get("nodeName") in nodes


def _without_types(problem: Problem) -> Iterator[Problem]:
    for pool, listed in problem.instance_types.items():
        for number, kind in enumerate(listed):
            if len(listed) > 1:
                fewer = copy.deepcopy(problem)
                del fewer.instance_types[pool][number]
                yield fewer
            for way in range(len(kind["offerings"])):
                if len(kind["offerings"]) > 1:
                    fewer = copy.deepcopy(problem)
                    del fewer.instance_types[pool][number]["offerings"][way]
                    yield fewer


def _without_details(problem: Problem) -> Iterator[Problem]:
    for number, each in enumerate(problem.objects):
        for path in _optional(each):
            fewer = copy.deepcopy(problem)
            _drop(fewer.objects[number], path)
            yield fewer


def _optional(each: Json) -> Iterator[tuple[str | int, ...]]:
    """Where an object says something that it need not say."""
    match each["kind"]:
        case "Pod":
            for field in each["spec"]:
                if field not in ("containers", "nodeName"):
                    yield ("spec", field)
        case "NodePool":
            template = ("spec", "template", "spec")
            for field in ("requirements", "taints", "startupTaints"):
                for number in range(len(each["spec"]["template"]["spec"][field])):
                    yield (*template, field, number)
            for field in ("limits", "weight"):
                if field in each["spec"]:
                    yield ("spec", field)


def _drop(each: Any, path: tuple[str | int, ...]) -> None:
    for step in path[:-1]:
        each = each[step]
    del each[path[-1]]
