"""Takes names that may not be shown out of documents, records and sentences before they are sent.

A view is built without them. Plans, explanations and records are made with all names, because their
sentences come from planners and from events; here every word of them that is such a name, or is made
from one as the name of a new node is from its pool's, is replaced. Names are learned from objects.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import Resource
from karpenter.api.pods import Pod
from karpenter.dashboard.contract import Notice
from karpenter.dashboard.shown import Shown
from karpenter.decision_log.record import DecisionRecord, Source
from karpenter.kube.events import Recent
from karpenter.model import labels
from karpenter.state.object_keys import namespace_of

HIDDEN: Final = "hidden"
MOST_NAMES: Final = 500_000
_MOST_WORDS: Final = 100_000  # whose outcome is remembered
# A label's key, which is no name although its parts may look like one; and words of a sentence
_WORD: Final = re.compile(
    r"(?P<key>(?<![\w./-])[a-z0-9-]+(?:\.[a-z0-9-]+)+/[A-Za-z0-9._-]+)|[A-Za-z0-9](?:[\w.-]*\w)?"
)
_JOINT: Final = re.compile(r"[-._]")
# Fields that never hold a name, although a pool may be called "spot"
_PLAIN: Final = frozenset(
    {
        *("capacityType", "instanceType", "instanceTypes", "zone", "outcome", "reason", "decision"),
        *("filter", "check", "operator", "effect", "method", "key", "candidate", "expires", "asOf"),
        *("kind", "source", "severity", "at", "id", "command"),
    }
)
# Labels whose values never are names
_PLAIN_LABELS: Final = labels.CORE_WELL_KNOWN - {labels.NODEPOOL}
_OF_LABELS: Final = frozenset({"labels", "annotations"})
# Objects whose keys are names
_BY_NAME: Final = frozenset({"placements", "existing", "budgets"})


class Redaction:
    """Knows which words may not be shown, and what is shown in their place."""

    def __init__(self, shown: Shown) -> None:
        """Begin without names; ``learn`` has to see objects before documents about them."""
        self._shown = shown
        self._secret: Recent[str] = Recent(MOST_NAMES)  # name -> what is shown for it
        self._open: Recent[bool] = Recent(MOST_NAMES)  # names that are shown
        self._originals: Recent[str] = Recent(MOST_NAMES)  # what is shown -> name
        self._words: Recent[str] = Recent(_MOST_WORDS)

    @property
    def is_needed(self) -> bool:
        """Whether anything is not shown."""
        return self._shown.is_redacted or self._shown.namespaces is not None

    def learn(self, objects: Iterable[Resource]) -> None:
        """Take over the names of objects, and the names that they refer to."""
        if not self.is_needed:
            return
        for each in objects:
            is_secret = self._is_secret(each)
            for name in _own_names(each):
                self._take(name, is_secret=is_secret)
            if self._shown.is_redacted:
                for name in _wider_names(each):
                    self._take(name, is_secret=True)

    def original(self, name: str) -> str:
        """The name that is shown as ``name``, for questions about it; itself if it is shown as it is."""
        return self._originals.get(name) or name

    def name(self, name: str) -> str:
        """A name of something outside of the cluster, such as the cluster's own, as it is shown."""
        return self._shown.name(name)

    def shows(self, namespace: str) -> bool:
        """Whether objects of a namespace may be asked about."""
        return self._shown.shows(namespace)

    def text(self, text: str) -> str:
        """A sentence without names that may not be shown."""
        if not self.is_needed:
            return text
        return _WORD.sub(self._replacement, text)

    def document(self, document: Any) -> Any:
        """A document of plan or explain without names that may not be shown."""
        return self._without(document) if self.is_needed else document

    def notice(self, notice: Notice) -> Notice:
        """A notice without them."""
        if not self.is_needed:
            return notice
        text, objects = self.text(notice.text), [self.text(each) for each in notice.objects]
        command = self.text(notice.command)
        return msgspec.structs.replace(notice, text=text, objects=objects, command=command)

    def record(self, record: DecisionRecord) -> DecisionRecord:
        """A decision record without them.

        Events name what cannot be foreseen; where all names are hidden, what they say is told by
        reason and objects alone.
        """
        if not self.is_needed:
            return record
        for each in record.objects:
            _, *path = each.split("/")
            if len(path) > 1:
                is_secret = self._shown.is_redacted or not self._shown.shows(path[0])
                for name in path:
                    self._take(name, is_secret=is_secret)
            elif self._shown.is_redacted:
                self._take(path[0], is_secret=True)
        for pool in record.node_pools if self._shown.is_redacted else ():
            self._take(pool, is_secret=True)
        objects = tuple(map(self._reference, record.objects))
        text = self.text(record.text)
        if self._shown.is_redacted:
            about = ", ".join(objects) or "the cluster"
            seen = "seen: " if record.source is Source.OBSERVED else ""
            text = f"{seen}{record.kind} {record.outcome}: {record.reason}, {about}"
        return msgspec.structs.replace(
            record,
            text=text,
            objects=objects,
            node_pools=tuple(map(self._shown.name, record.node_pools)),
            detail={} if self._shown.is_redacted else self._without(record.detail),
        )

    def _is_secret(self, resource: Resource) -> bool:
        if self._shown.is_redacted:
            return True
        if resource.namespaced:
            return not self._shown.shows(namespace_of(resource))
        return resource.kind == "Namespace" and not self._shown.shows(resource.metadata.name)

    def _take(self, name: str, *, is_secret: bool) -> None:
        if not name:
            return
        if not is_secret:
            if self._open.get(name) is None:
                self._open.put(name, True)
                self._forget_words()
            return
        if self._secret.get(name) is None:
            shown = self._shown.name(name) if self._shown.is_redacted else HIDDEN
            self._secret.put(name, shown)
            if self._shown.is_redacted:
                self._originals.put(shown, name)
            self._forget_words()

    def _forget_words(self) -> None:
        if len(self._words):
            self._words = Recent(_MOST_WORDS)

    def _reference(self, reference: str) -> str:
        kind, *path = reference.split("/")
        return "/".join((kind, *map(self._word, path)))

    def _replacement(self, found: re.Match[str]) -> str:
        key = found["key"]
        if key is None:
            return self._word(found[0])
        domain, _, name = key.partition("/")
        if self._secret.get(domain) is None:
            return key
        return f"{self._word(domain)}/{self._word(name)}"  # a node with a dot in its name

    def _word(self, word: str) -> str:
        """A word as it is shown."""
        known = self._words.get(word)
        if known is None:
            known = self._judged(word)
            self._words.put(word, known)
        return known

    def _judged(self, word: str) -> str:
        if self._open.get(word) is not None:
            return word
        whole = self._secret.get(word)
        if whole is not None:
            return whole
        ends = [found.start() for found in _JOINT.finditer(word)]
        starts = [0, *(end + 1 for end in ends)]
        ends.append(len(word))
        runs = [(a, b) for a in starts for b in ends if a < b]
        shown = [run for run in runs if self._open.get(word[slice(*run)]) is not None]
        for start, end in runs:
            if self._secret.get(word[start:end]) is None:
                continue
            if not any(a <= start and end <= b for a, b in shown):
                return self._shown.name(word) if self._shown.is_redacted else HIDDEN
        return word

    def _without(self, value: Any, field: str = "") -> Any:
        if isinstance(value, str):
            return value if field in _PLAIN else self.text(value)
        if isinstance(value, Mapping):
            if "key" in value and value["key"] in _PLAIN_LABELS:
                return value
            shown = {}
            for key, each in value.items():
                own = "" if field in _OF_LABELS else key
                plain = key in _PLAIN_LABELS
                name = self._word(key) if field in _BY_NAME else key
                shown[name] = each if plain else self._without(each, own)
            return shown
        if isinstance(value, list | tuple):
            return [self._without(each, field) for each in value]
        return value


def _own_names(resource: Resource) -> Iterable[str]:
    """The name of an object and those it refers to in its namespace, where there may be no object."""
    metadata = resource.metadata
    yield metadata.name
    yield metadata.generate_name.rstrip("-.")
    if resource.namespaced:
        yield namespace_of(resource)
    yield from (owner.name for owner in metadata.owner_references)
    if isinstance(resource, Pod):
        for volume in resource.spec.volumes:
            if volume.persistent_volume_claim is not None:
                yield volume.persistent_volume_claim.claim_name


def _wider_names(resource: Resource) -> Iterable[str]:
    """The names that an object refers to outside of any namespace."""
    if isinstance(resource, Pod):
        yield resource.spec.node_name
        yield resource.spec.priority_class_name
    elif isinstance(resource, NodePool):
        yield resource.spec.template.spec.node_class_ref.name
    elif isinstance(resource, NodeClaim):
        yield resource.spec.node_class_ref.name
        yield resource.status.node_name
        yield resource.metadata.labels.get(labels.NODEPOOL, "")
