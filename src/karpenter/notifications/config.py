"""The configuration of notifications: one YAML file, checked as a whole.

Secrets are not in it: addresses and keys are in files that it names. Whatever is wrong is one
sentence with the file, the line and the field.
"""

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NoReturn, TypeVar

from karpenter.decision_log.record import Kind, Severity
from karpenter.manifests import reader
from karpenter.manifests.errors import ManifestError
from karpenter.manifests.positions import Path
from karpenter.manifests.reader import Document
from karpenter.model import durations
from karpenter.notifications.matching import Match
from karpenter.notifications.template import Template, TemplateError, parse_template

MOST_BYTES: Final = 256 * 1024
MOST_SINKS: Final = 50
_LONGEST_TEMPLATE: Final = 2000
_LONGEST_DIGEST: Final = 3600.0
_SHORTEST_DIGEST: Final = 1.0
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_TOPIC: Final = re.compile(r"arn:(aws[a-z-]*):sns:([a-z0-9-]+):\d{12}:[A-Za-z0-9_-]{1,256}")

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


class SinkType(StrEnum):
    """Where notifications can go."""

    SLACK = "slack"
    WEBHOOK = "webhook"
    SNS = "sns"


# The fields of each type beside name, type, match and digest; the first is needed
_FIELDS: Final[Mapping[SinkType, tuple[str, ...]]] = {
    SinkType.SLACK: ("urlFile", "template"),
    SinkType.WEBHOOK: ("urlFile", "secretFile"),
    SinkType.SNS: ("topicArn",),
}
_COMMON: Final = ("name", "type", "match", "digest")
_HINTS: Final[Mapping[str, str]] = {
    "url": "secrets come from files only: write the address into a file and name it as urlFile",
    "secret": "secrets come from files only: write the key into a file and name it as secretFile",
}


class ConfigError(ValueError):
    """A configuration that cannot be used; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class SinkConfig:
    """One place that notifications go to."""

    name: str
    type: SinkType
    match: Match = field(default_factory=Match)
    digest_seconds: float = 0.0  # 0: each record by itself
    url_file: str = ""
    secret_file: str = ""
    topic_arn: str = ""
    template: Template | None = None

    @property
    def region(self) -> str:
        """The AWS region of a topic."""
        return self.topic_arn.split(":")[3] if self.topic_arn else ""


@dataclass(frozen=True, slots=True)
class NotificationsConfig:
    """All of them."""

    sinks: tuple[SinkConfig, ...] = ()

    def sink(self, name: str) -> SinkConfig:
        """The sink of that name.

        Raises:
            ConfigError: there is none.
        """
        for sink in self.sinks:
            if sink.name == name:
                return sink
        known = ", ".join(sink.name for sink in self.sinks) or "none at all"
        raise ConfigError(f"no sink is called {name!r}; there are {known}")


def parse_config(data: bytes, name: str) -> NotificationsConfig:
    """Read a configuration; ``name`` is what messages call the file.

    Raises:
        ConfigError: something in it is wrong.
    """
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{name}: it has {len(data)} bytes, and may have {MOST_BYTES}")
    try:
        documents = reader.read(data, name)
    except ManifestError as error:
        raise ConfigError(str(error)) from error
    if len(documents) != 1:
        raise ConfigError(f"{name}: it holds {len(documents)} documents instead of one with sinks")
    return _Reader(documents[0], name).config()


class _Reader:
    """Reads a document; whatever is wrong is raised with its line."""

    def __init__(self, document: Document, name: str) -> None:
        self._document = document
        self._name = name

    def config(self) -> NotificationsConfig:
        data = self._document.data
        self._known((), data, ("sinks",))
        found = self._of(list, ("sinks",), data.get("sinks", []), "a list")
        if len(found) > MOST_SINKS:
            self._refuse(("sinks",), f"there are {len(found)}, and may be {MOST_SINKS}")
        sinks = [self._sink(("sinks", number), each) for number, each in enumerate(found)]
        names: set[str] = set()
        for number, sink in enumerate(sinks):
            if sink.name in names:
                self._refuse(("sinks", number, "name"), f"two sinks are called {sink.name!r}")
            names.add(sink.name)
        return NotificationsConfig(tuple(sinks))

    def _sink(self, path: Path, found: Any) -> SinkConfig:
        data = self._of(dict, path, found, "a mapping")
        name = self._text(path, data, "name", is_needed=True)
        if not _NAME.fullmatch(name):
            problem = f"{name!r} is no name; use up to 63 small letters, digits and dashes"
            self._refuse((*path, "name"), problem)
        kind = self._choice((*path, "type"), data.get("type"), SinkType)
        fields = _FIELDS[kind]
        self._known(path, data, (*_COMMON, *fields))
        self._text(path, data, fields[0], is_needed=True)
        return SinkConfig(
            name=name,
            type=kind,
            match=self._match((*path, "match"), data.get("match")),
            digest_seconds=self._digest((*path, "digest"), data.get("digest")),
            url_file=self._text(path, data, "urlFile"),
            secret_file=self._text(path, data, "secretFile"),
            topic_arn=self._topic(path, data),
            template=self._template(path, data),
        )

    def _match(self, path: Path, found: Any) -> Match:
        if found is None:
            return Match()
        data = self._of(dict, path, found, "a mapping")
        self._known(path, data, ("kinds", "reasons", "nodePools", "minSeverity"))
        kinds = [
            self._choice((*path, "kinds", number), each, Kind)
            for number, each in enumerate(self._texts(path, data, "kinds"))
        ]
        # A match by kind includes every severity unless one is given
        severity = Severity.INFO if kinds else Severity.WARNING
        if data.get("minSeverity") is not None:
            severity = self._choice((*path, "minSeverity"), data["minSeverity"], Severity)
        return Match(
            kinds=frozenset(kinds),
            reasons=frozenset(self._texts(path, data, "reasons")),
            node_pools=tuple(self._texts(path, data, "nodePools")),
            min_severity=severity,
        )

    def _digest(self, path: Path, found: Any) -> float:
        if found is None:
            return 0.0
        length = durations.period(found) if isinstance(found, str) else None
        seconds = length.total_seconds() if length is not None else -1.0
        if not _SHORTEST_DIGEST <= seconds <= _LONGEST_DIGEST:
            self._refuse(path, f"{found!r} is no duration from 1s to 1h, such as 1m")
        return seconds

    def _topic(self, path: Path, data: Mapping[str, Any]) -> str:
        topic = self._text(path, data, "topicArn")
        if topic and not _TOPIC.fullmatch(topic):
            example = "arn:aws:sns:REGION:ACCOUNT:NAME"
            self._refuse((*path, "topicArn"), f"{topic!r} is no topic such as {example}")
        return topic

    def _template(self, path: Path, data: Mapping[str, Any]) -> Template | None:
        text = self._text(path, data, "template")
        if len(text) > _LONGEST_TEMPLATE:
            problem = f"it has {len(text)} characters, and may have {_LONGEST_TEMPLATE}"
            self._refuse((*path, "template"), problem)
        try:
            return parse_template(text) if text else None
        except TemplateError as error:
            self._refuse((*path, "template"), str(error))

    def _text(
        self, path: Path, data: Mapping[str, Any], key: str, *, is_needed: bool = False
    ) -> str:
        found = data.get(key)
        if found is None:
            if is_needed:
                self._refuse((*path, key), "it is missing")
            return ""
        text = self._of(str, (*path, key), found, "text")
        if not text.strip():
            self._refuse((*path, key), "it is empty")
        return text

    def _texts(self, path: Path, data: Mapping[str, Any], key: str) -> list[str]:
        found = self._of(list, (*path, key), data.get(key) or [], "a list")
        return [
            self._of(str, (*path, key, number), each, "text") for number, each in enumerate(found)
        ]

    def _choice(self, path: Path, found: Any, choices: type[E]) -> E:
        known = [each.value for each in choices]
        if found is None:
            self._refuse(path, f"it is missing; use {_listed(known)}")
        if not isinstance(found, str) or found not in known:
            self._refuse(
                path, f"{found!r} is none of {_listed(known)}{_did_you_mean(found, known)}"
            )
        return choices(found)

    def _known(self, path: Path, data: Mapping[str, Any], known: Collection[str]) -> None:
        for key in data:
            if key not in known:
                hint = _HINTS.get(key) or _did_you_mean(key, known).removeprefix("; ")
                hint = hint or f"there are {', '.join(known)}"
                self._refuse((*path, key), f"there is no such field here; {hint}")

    def _of(self, wanted: type[T], path: Path, found: Any, called: str) -> T:
        if not isinstance(found, wanted):
            self._refuse(path, f"it must be {called}")
        return found

    def _refuse(self, path: Path, problem: str) -> NoReturn:
        place = f"{self._name}:{self._document.line(path)}"
        raise ConfigError(f"{place}: {_dotted(path)}: {problem}")


def _dotted(path: Path) -> str:
    """A path in dotted notation: ``sinks[0].type``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "the file"


def _listed(choices: Collection[str]) -> str:
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last


def _did_you_mean(found: object, known: Collection[str]) -> str:
    folded = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(found).lower(), folded, n=1)
    return f"; did you mean {folded[near[0]]}?" if near else ""
