"""The operations that both clusters are asked to do, read from YAML files.

A file is a scenario: a namespace and a list of operations that run in order. An operation is either
a ``send`` (an HTTP request) or a ``kubectl`` (a command). ``${name}`` in it stands for something
that an earlier operation saved from its answer, so each cluster sees its own resource versions.

* ``body`` is sent as JSON, ``text`` and ``base64`` as they stand; ``type`` names the content type.
* ``repeat`` says which ``${name}`` stands for a text, and how many times over.
* ``save`` keeps parts of the answer, by path.
* ``pick`` compares only one part of the answer, by path.
* ``only`` compares only the printed lines that match an expression.
* ``until`` repeats the operation until a part of the answer has a value.
* ``unordered`` compares lines or items without their order.
* ``differs`` names known differences, and the paths at which each of them shows.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

FOLDER: Final = Path(__file__).parents[1] / "e2e" / "operations"
DIFFERENCES: Final = FOLDER.parent / "differences.yaml"


class Operation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One request or command."""

    id: str
    send: str = ""
    kubectl: str = ""
    body: Any = None
    text: str | None = None
    base64: str | None = None
    type: str = ""
    headers: dict[str, str] = {}
    input: str = ""  # what kubectl reads from its standard input
    repeat: dict[str, tuple[str, int]] = {}
    save: dict[str, str] = {}
    pick: str = ""
    only: str = ""
    until: dict[str, Any] = {}
    unordered: bool = False
    differs: dict[str, list[str]] = {}


class KnownDifference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why the sandbox is allowed to differ, and where it does so in many answers."""

    reason: str
    everywhere: list[str] = []


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Operations that run in order, in a namespace of their own."""

    about: str
    operations: list[Operation]
    namespace: str = ""

    def names_are_distinct(self) -> bool:
        """Whether every operation can be told from the others."""
        return len({each.id for each in self.operations}) == len(self.operations)


def scenarios(folder: Path = FOLDER) -> Mapping[str, Scenario]:
    """All scenarios by the name of their file, in the order of their names."""
    return {path.stem: _read(path) for path in sorted(folder.glob("*.yaml"))}


def known_differences() -> Mapping[str, KnownDifference]:
    """Every difference that is admitted, by name."""
    return msgspec.yaml.decode(DIFFERENCES.read_bytes(), type=dict[str, KnownDifference])


def differences_in_use() -> set[str]:
    """The names of the differences that an operation shows, or many do."""
    named = {
        name
        for scenario in scenarios().values()
        for operation in scenario.operations
        for name in operation.differs
    }
    return named | {name for name, known in known_differences().items() if known.everywhere}


def _read(path: Path) -> Scenario:
    scenario = msgspec.yaml.decode(path.read_bytes(), type=Scenario)
    assert scenario.names_are_distinct(), f"{path.name} has two operations of one name"
    return scenario
