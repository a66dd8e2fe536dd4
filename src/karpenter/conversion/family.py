"""Provisioners, the node classes they use, and the NodePools they become: converted together.

A Provisioner may describe its class inline, and it has kubelet settings that belong to the class in
v1; so the result for a class depends on all Provisioners that use it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from karpenter.admission.errors import ErrorKind, FieldError, FieldWarning, Path, is_below
from karpenter.admission.kubelets.kubelet import kubelet_problems
from karpenter.admission.legacy.webhook import Profile, default_legacy
from karpenter.api.meta import JsonObject
from karpenter.conversion.catalogue import Route
from karpenter.conversion.draft import Draft, Origins
from karpenter.conversion.intake import Item
from karpenter.conversion.node_template import (
    NodeDefaults,
    node_class_of_provider,
    node_class_of_template,
)
from karpenter.conversion.placement import Assignment, Carrier, KnownClass, User, assign
from karpenter.conversion.provisioner import (
    KUBELET,
    PROVIDER,
    ClassSource,
    class_source,
    kubelet_of,
    node_pool_of,
    reserving_text,
)
from karpenter.conversion.values import section, without
from karpenter.model import labels


@dataclass(frozen=True, slots=True)
class Options:
    """Options for values that the manifests do not state."""

    node_role: str | None = None
    instance_profile: str | None = None
    ami_family: str = "AL2"
    default_node_class: str | None = None
    ignore_defaults: bool = False
    legacy_defaults: Profile = "late"
    # AWSNodeTemplate -> kubelet settings of its node class that other NodePools rely on
    kept_kubelets: Mapping[str, JsonObject] = field(default_factory=dict)


@dataclass(slots=True)
class Produced:
    """A v1 object, the item it was made from, and the origins of its parts."""

    item: Item
    object: JsonObject
    steps: tuple[Origins, ...]
    kubelet_from: Item | None = None  # the Provisioner whose settings the class carries
    is_copy: bool = False  # of another class, which is validated; here only name and kubelet are


@dataclass(frozen=True, slots=True)
class _User:
    """A Provisioner that is being converted to a NodePool."""

    item: Item
    source: ClassSource
    kubelet: JsonObject | None


def from_draft(item: Item, draft: Draft) -> list[Produced]:
    """Report the findings of a draft on its item, and return its object."""
    item.blame(draft.errors)
    item.remark(draft.warnings)
    if draft.object is None:
        return []
    return [Produced(item, draft.object, (draft.origins, *item.steps))]


def report_kept_kubelet(item: Item, kubelet: Mapping[str, Any], path: Path) -> None:
    """Validate kubelet settings that are kept in an annotation, where no other rule checks them."""
    problems = kubelet_problems(reserving_text(kubelet), path, family="")
    item.blame(problem.error for problem in problems)
    moving = (
        f"kept in the annotation {labels.KEPT_KUBELET}, which overrules the node class; move it to "
        "spec.kubelet of the EC2NodeClass"
    )
    item.remark([FieldWarning(path, moving)])


@dataclass(slots=True)
class Family:
    """All Provisioners and node classes of one conversion."""

    options: Options
    classes: dict[str, list[Produced]] = field(default_factory=dict)  # by name
    pool_references: set[str] = field(default_factory=set)  # classes that NodePools refer to

    def add_class(self, item: Item, produced: Sequence[Produced]) -> None:
        """Register a class that Provisioners may refer to."""
        self.classes.setdefault(item.name, []).extend(produced)

    def add_template(self, item: Item) -> list[Produced]:
        """Convert an AWSNodeTemplate."""
        produced = from_draft(item, node_class_of_template(item.object, self._node_defaults()))
        kept = self.options.kept_kubelets.get(item.name)
        for one in produced:
            if kept is not None:
                spec = {**section(one.object, "spec"), "kubelet": kept}
                one.object = {**one.object, "spec": spec}
        self.add_class(item, produced)
        return produced

    def provision(self, items: Iterable[Item]) -> list[Produced]:
        """Convert Provisioners; kubelet settings for a registered class are put into it."""
        users = [self._user(item) for item in items]
        assignments = assign(
            (
                User(user.item.index, user.item.name, user.source.name, user.kubelet)
                for user in users
                if user.source.name is not None
            ),
            {name: self._known(same_named) for name, same_named in self.classes.items()},
        )
        return [
            produced
            for user in users
            for produced in self._converted(user, assignments.get(user.item.index))
        ]

    def _node_defaults(self) -> NodeDefaults:
        return NodeDefaults(
            self.options.node_role, self.options.instance_profile, self.options.ami_family
        )

    def _user(self, item: Item) -> _User:
        source = class_source(item.object, self.options.default_node_class)
        kubelet = kubelet_of(item.object)
        if not any(is_below(PROVIDER, gone) for gone in item.cut):
            item.blame(source.errors)
        item.blame(kubelet.errors)
        item.remark(kubelet.warnings)
        return _User(item, source, kubelet.settings)

    def _known(self, same_named: Sequence[Produced]) -> KnownClass:
        if not same_named:
            return KnownClass()
        if same_named[0].item.route is Route.NODE_TEMPLATE:
            return KnownClass(self.options.kept_kubelets.get(same_named[0].item.name))
        node_class = same_named[0]
        kubelet = section(node_class.object, "spec").get("kubelet")
        is_settled = kubelet is not None or node_class.item.name in self.pool_references
        return KnownClass(kubelet, is_settled)

    def _converted(self, user: _User, assignment: Assignment | None) -> Iterator[Produced]:
        item, class_name, kept_kubelet = user.item, user.item.name, None
        if user.source.provider is not None:
            yield from self._inline_class(user, user.source.provider)
        elif assignment is not None:
            class_name = assignment.class_name
            if assignment.carrier is Carrier.ANNOTATION and user.kubelet is not None:
                kept_kubelet = user.kubelet
                report_kept_kubelet(item, kept_kubelet, KUBELET)
            else:
                yield from self._place_kubelet(user, assignment)
        provisioner = item.object
        if not self.options.ignore_defaults:
            provisioner = default_legacy(provisioner, self.options.legacy_defaults)
        yield from from_draft(
            item, node_pool_of(provisioner, class_name, user.source, kept_kubelet=kept_kubelet)
        )

    def _inline_class(self, user: _User, provider: Mapping[str, Any]) -> Iterator[Produced]:
        item = user.item
        if item.name in self.classes:
            item.blame([_taken(item.name, PROVIDER)])
        draft = node_class_of_provider(provider, item.name or None, PROVIDER, self._node_defaults())
        for produced in from_draft(item, draft):
            if user.kubelet is not None:
                _give_kubelet(produced, user)
            yield produced

    def _place_kubelet(self, user: _User, assignment: Assignment) -> Iterator[Produced]:
        originals = self.classes.get(str(user.source.name), [])
        if not originals or assignment.carrier is Carrier.NOTHING:
            return
        if len(originals) > 1:
            detail = (
                f"several node classes are called {user.source.name}, and only one of them can "
                "take these settings; convert them separately"
            )
            user.item.blame([FieldError(ErrorKind.DUPLICATE, KUBELET, detail)])
        elif assignment.carrier is Carrier.CLASS:
            _give_kubelet(originals[0], user)
        else:
            yield self._copy(user, assignment.class_name, originals[0])

    def _copy(self, user: _User, name: str, original: Produced) -> Produced:
        item = user.item
        if name in self.classes:
            item.blame([_taken(name, KUBELET)])
        metadata = {**section(original.object, "metadata"), "name": name}
        copy = Produced(item, {**original.object, "metadata": metadata}, item.steps, is_copy=True)
        _give_kubelet(copy, user)
        why = (
            f"other users of EC2NodeClass {user.source.name} have different kubelet settings, so "
            f"the NodePool gets a copy of it called {name}"
        )
        item.remark([FieldWarning(KUBELET, why)])
        return copy


def _give_kubelet(produced: Produced, user: _User) -> None:
    spec = without(section(produced.object, "spec"), "kubelet")
    if user.kubelet is not None:
        spec["kubelet"] = user.kubelet
    produced.object = {**produced.object, "spec": spec}
    produced.kubelet_from = user.item


def _taken(name: str, path: Path) -> FieldError:
    detail = f"would become EC2NodeClass {name}, but there is another of that name; rename one"
    return FieldError(ErrorKind.DUPLICATE, path, detail)
