"""Reading objects the short way gives the objects, errors and lines of the long way.

The long way decodes every object into plain values and walks over them; the short one recognises
good objects by their text. Good objects are spoilt here and there, at random, in JSON and in YAML.
"""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stderr
from copy import deepcopy
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
import typer
import yaml

from helpers.hostile_objects import hostile
from helpers.wire_samples import samples
from karpenter.api.codec import is_known
from karpenter.api.meta import Resource
from karpenter.inquiry.files import load_change
from karpenter.inquiry.valid_objects import ValidObjects
from karpenter.manifests import jsonitems

WORKLOADS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
# What a field may hold by mistake
ODD_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 1.0, 0.5, 1e3, 2**31, 2**63, 2**64, -(2**63) - 1, 1e300),
    *("", " ", "Not Valid", "-dash", "é", 'quo"te\\', "100m", "1Gi", "-1Gi", "a" * 300, "1" * 25),
    *([], {}, [None], {"a": None}, {"a": 1}, {"a/b/c": "d"}, ["a"], [{}], {"items": []}),
)
ODD_KEYS: Final = ("nodeSelecter", "Labels", "x", "", "a/b/c", 'k"', "\\", "kind", "items", "é")


@dataclass(frozen=True)
class Read:
    """What came of a file: the objects, or None if it was refused, and what was said."""

    objects: list[Resource] | None
    said: str


def workload(kind: str, number: int) -> dict[str, Any]:
    labels = {"app": f"app-{number}", "example.com/tier": "web"}
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {"app": f"app-{number}"}},
        "template": {
            "metadata": {"labels": labels, "creationTimestamp": None},
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": f"registry.example/app:{number}",
                        "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}},
                    }
                ],
                "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
            },
        },
    }
    if kind != "DaemonSet":
        spec["replicas"] = number
    if kind == "StatefulSet":
        spec["serviceName"] = "web"
    metadata = {"name": f"{kind.lower()}-{number}", "namespace": "default", "uid": f"uid-{number}"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def pod(number: int) -> dict[str, Any]:
    made = workload("ReplicaSet", number)
    template = made["spec"]["template"]
    metadata = {
        "name": f"pod-{number}",
        "generateName": "pod-",
        "namespace": "default",
        **({"uid": f"pod-{number}"} if number % 2 else {}),
        "labels": template["metadata"]["labels"],
        "annotations": {"example.com/note": 'said "so"\\'},
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {".": {}}}}],
    }
    spec = {**template["spec"], "nodeName": f"node-{number}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a value: what holds it, and its key or index there."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(entries):
        yield value, key
        if isinstance(inner, dict | list):
            yield from places(inner)


def spoil(rng: random.Random, obj: dict[str, Any]) -> None:
    """Put something odd in one place of an object, or take something away."""
    holder, key = rng.choice(list(places(obj)))
    match rng.randrange(5):
        case 0:
            holder[key] = deepcopy(rng.choice(ODD_VALUES))
        case 1:
            del holder[key]
        case 2 if isinstance(holder, dict):
            holder[rng.choice(ODD_KEYS)] = deepcopy(rng.choice(ODD_VALUES))
        case 3 if isinstance(holder, list):
            holder.append(deepcopy(rng.choice(holder)))
        case _:
            other, its_key = rng.choice(list(places(obj)))
            holder[key] = deepcopy(other[its_key])


def objects(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """Objects of which some are good, some spoilt and some hostile."""
    known = [each for each in samples() if is_known(each["apiVersion"], each["kind"])]
    made = []
    for number in range(count):
        choice = rng.randrange(4)
        if choice == 0:
            obj = hostile(rng, rng.choice(known), name=f"hostile-{number}")
        elif choice == 1:
            obj = pod(number)
        elif choice == 2:
            obj = workload(rng.choice(WORKLOADS), number)
        else:
            obj = deepcopy(rng.choice(known))
            obj.setdefault("metadata", {})["name"] = f"sample-{number}"
        for _ in range(rng.choice((0, 0, 0, 1, 2))):
            spoil(rng, obj)
        made.append(obj)
    return made


def in_json(rng: random.Random, listed: list[dict[str, Any]]) -> str:
    envelope = {"apiVersion": "v1", "kind": "List", "items": listed}
    text = json.dumps(envelope, indent=rng.choice((None, 2)), ensure_ascii=rng.random() < 0.5)
    return text.replace("Infinity", "1e999")


def in_typed_json(rng: random.Random, listed: list[dict[str, Any]]) -> str:
    """A list as a server answers it: the items do not say their kind."""
    pods = [{k: v for k, v in each.items() if k not in ("apiVersion", "kind")} for each in listed]
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods})


def in_yaml(rng: random.Random, listed: list[dict[str, Any]]) -> str:
    return yaml.safe_dump_all(listed)


def read(file: Path, *, the_long_way: bool) -> Read:
    said = StringIO()
    with ExitStack() as stack:
        if the_long_way:
            stack.enter_context(patch.object(jsonitems, "split", return_value=None))
            stack.enter_context(patch.object(ValidObjects, "resource", return_value=None))
        stack.enter_context(redirect_stderr(said))
        try:
            found = load_change([str(file)], recursive=False, provider="kwok")
        except typer.Exit:
            return Read(None, said.getvalue())
    return Read(found.objects, said.getvalue())


@pytest.mark.parametrize("form", [in_json, in_yaml])
@pytest.mark.parametrize("seed", range(25))
def test_the_short_way_and_the_long_way_agree(
    seed: int, form: Callable[[random.Random, list[dict[str, Any]]], str], tmp_path: Path
) -> None:
    rng = random.Random(seed)
    file = tmp_path / f"in.{form.__name__.removeprefix('in_')}"
    file.write_text(form(rng, objects(rng, rng.choice((1, 1, 2, 8, 30)))), "utf-8")

    assert read(file, the_long_way=True) == read(file, the_long_way=False)


@pytest.mark.parametrize("seed", range(10))
def test_the_items_of_a_typed_list_agree_as_well(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    pods = [pod(number) for number in range(10)]
    for _ in range(rng.randrange(3)):
        spoil(rng, rng.choice(pods))
    file = tmp_path / "in.json"
    file.write_text(in_typed_json(rng, pods), "utf-8")

    assert read(file, the_long_way=True) == read(file, the_long_way=False)


def test_good_objects_take_the_short_way(tmp_path: Path) -> None:
    made = [pod(1), pod(2), *(workload(kind, number=3) for kind in WORKLOADS)]
    for form in (in_json, in_yaml):
        file = tmp_path / "in"
        file.write_text(form(random.Random(0), made), "utf-8")
        with patch("karpenter.inquiry.files._taken_in") as long_way:
            found = read(file, the_long_way=False)

        assert (len(made), "") == (len(found.objects or ()), found.said)
        long_way.assert_not_called()
