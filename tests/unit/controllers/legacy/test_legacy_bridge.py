"""Provisioners and AWSNodeTemplates on a live cluster are honoured as NodePools and node classes."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from helpers.autoscaler import (
    Bench,
    FakeCloud,
    JsonObject,
    autoscaler,
    bench,
    deployment,
    kwok_pool,
)
from helpers.claims import LossyTransport
from helpers.clusters import in_virtual_time
from helpers.provisioning import FACTS
from karpenter.api.codec import convert_as
from karpenter.api.karpenter import NodePool
from karpenter.api.legacy import Provisioner
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.api.node_classes.kwok import KWOKNodeClass
from karpenter.cloud.types import ProviderFacts
from karpenter.controllers.legacy.bridge import BridgeController, merge_patch
from karpenter.controllers.legacy.translation import translate
from karpenter.conversion.convert import Options
from karpenter.kube.transport import Transport
from karpenter.model import labels
from karpenter.model.conditions import find
from karpenter.settings import Settings

V1 = "karpenter.sh/v1"
V1ALPHA5 = "karpenter.sh/v1alpha5"
AWS_FACTS = ProviderFacts(
    "aws",
    (("karpenter.k8s.aws", "EC2NodeClass"),),
    (labels.CORE_WELL_KNOWN | ec2_labels.WELL_KNOWN),
)
WITH_ROLE = Settings(legacy_node_role="KarpenterNodeRole")
PROVIDER = {
    "subnetSelector": {"karpenter.sh/discovery": "mz"},
    "securityGroupSelector": {"karpenter.sh/discovery": "mz"},
}


def provisioner(name: str = "default", **spec: Any) -> JsonObject:
    return {
        "apiVersion": V1ALPHA5,
        "kind": "Provisioner",
        "metadata": {"name": name},
        "spec": {"provider": PROVIDER, **spec},
    }


def node_template(name: str = "default") -> JsonObject:
    return {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": name},
        "spec": PROVIDER,
    }


def by_reference(name: str, **spec: Any) -> JsonObject:
    obj = provisioner(**spec)
    obj["spec"] = {**obj["spec"], "providerRef": {"name": name}}
    del obj["spec"]["provider"]
    return obj


@dataclass
class Bridge:
    at: Bench
    controller: BridgeController

    async def look(self) -> float | None:
        again: float | None = await self.at.reconcile(self.controller, "")
        return again

    @property
    def pool(self) -> NodePool:
        found = self.at.world.mirror(NodePool).get("default")
        assert found is not None
        return found

    @property
    def active(self) -> tuple[str, str]:
        found = self.at.world.mirror(Provisioner).get("default")
        assert found is not None
        condition = find(found.status.conditions, "Active")
        return (condition.status, condition.reason) if condition is not None else ("", "")


@asynccontextmanager
async def bridged(
    *objects: JsonObject, facts: ProviderFacts = FACTS, **kwargs: Any
) -> AsyncIterator[Bridge]:
    async with bench(*objects, cloud=FakeCloud(facts=facts), **kwargs) as at:
        yield Bridge(at, BridgeController(at.world))


@in_virtual_time
async def test_a_provisioner_becomes_a_pool_that_belongs_to_it() -> None:
    wanted = provisioner(
        requirements=[{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["spot"]}],
        limits={"resources": {"cpu": "100"}},
        ttlSecondsAfterEmpty=30,
        ttlSecondsUntilExpired=1800,
        weight=7,
    )
    async with bridged(wanted) as run:
        again = await run.look()

        pool = run.pool
        (owner,) = pool.metadata.owner_references
        source = run.at.world.mirror(Provisioner).get("default")
        assert source is not None
        assert (source.metadata.uid, "Provisioner", True) == (
            owner.uid,
            owner.kind,
            owner.controller,
        )
        assert ({"cpu": "100"}, 7, "1800s") == (
            pool.spec.limits,
            pool.spec.weight,
            pool.spec.template.spec.expire_after,
        )
        assert ("WhenEmpty", "30s") == (
            pool.spec.disruption.consolidation_policy,
            pool.spec.disruption.consolidate_after,
        )
        assert (60.0, ("True", "Active")) == (again, run.active)


@pytest.mark.parametrize("facts", [FACTS, AWS_FACTS], ids=["kwok", "aws"])
@in_virtual_time
async def test_a_provisioner_of_a_template_that_is_not_there_says_so_until_it_comes(
    facts: ProviderFacts,
) -> None:
    async with bridged(by_reference("missing"), facts=facts, settings=WITH_ROLE) as run:
        await run.look()
        before = run.active
        await run.at.client.create(node_template("missing"))
        await run.at.clock.sleep(1)
        await run.look()

        assert ("False", "NodeClassNotFound") == before
        assert ("True", "Active") == run.active


@in_virtual_time
async def test_a_changed_provisioner_changes_its_pool_and_never_makes_a_new_one() -> None:
    async with bridged(provisioner(weight=7, labels={"team": "a"})) as run:
        await run.look()
        before = run.pool.metadata.uid
        spec = {"weight": 9, "labels": {"team": None, "tier": "gold"}}
        change = {"metadata": {"labels": {"cost": "b"}}, "spec": spec}
        await run.at.change(V1ALPHA5, "Provisioner", "default", change)

        await run.look()

        assert (before, 9, {"tier": "gold"}) == (
            run.pool.metadata.uid,
            run.pool.spec.weight,
            run.pool.spec.template.metadata.labels,
        )
        assert (("True", "Active"), {"cost": "b"}) == (run.active, run.pool.metadata.labels)


@in_virtual_time
async def test_what_was_changed_by_hand_is_put_right() -> None:
    async with bridged(provisioner(weight=7)) as run:
        await run.look()
        by_hand = {"spec": {"weight": 50, "disruption": {"budgets": [{"nodes": "0"}]}}}
        await run.at.change(V1, "NodePool", "default", by_hand)

        await run.look()

        budgets = [budget.nodes for budget in run.pool.spec.disruption.budgets]
        assert (7, ["10%"]) == (run.pool.spec.weight, budgets)


@in_virtual_time
async def test_nothing_is_written_while_nothing_changes() -> None:
    async with bridged(node_template(), by_reference("default")) as run:
        await run.look()
        await run.look()
        before = run.pool.metadata.resource_version

        await run.look()

        assert before == run.pool.metadata.resource_version


@in_virtual_time
async def test_a_pool_of_that_name_that_somebody_else_made_is_left_alone_and_told() -> None:
    async with bridged(kwok_pool("default", weight=3), provisioner(weight=7)) as run:
        await run.look()

        warnings = [event for event in run.at.events.heard if event.reason == "NameTaken"]
        assert (3, ()) == (run.pool.spec.weight, run.pool.metadata.owner_references)
        assert ("False", "NameTaken") == run.active
        assert [Provisioner] == [type(event.target) for event in warnings]
        assert "NodePool default" in warnings[0].message


@in_virtual_time
async def test_a_provisioner_that_cannot_be_converted_says_why() -> None:
    async with bridged(provisioner(), facts=AWS_FACTS, settings=WITH_ROLE) as run:
        await run.look()
        change = {"spec": {"kubeletConfiguration": {"containerRuntime": "dockerd"}}}
        await run.at.change(V1ALPHA5, "Provisioner", "default", change)

        await run.look()

        assert ("False", "ConversionFailed") == run.active
        assert run.at.has(NodePool, "default")


@in_virtual_time
async def test_what_the_server_refuses_is_told_and_keeps_no_other_from_being_honoured() -> None:
    wires: list[LossyTransport] = []

    def refusing(inner: Transport) -> Transport:
        wires.append(LossyTransport(inner))
        return wires[0]

    async with bridged(provisioner(), provisioner("zebra"), wrap=refusing) as run:
        wires[0].losing = lambda sent: 422 if b'"name":"default"' in sent.body else 0
        await run.look()

        assert ("False", "ConversionFailed") == run.active
        assert not run.at.has(NodePool, "default")
        assert run.at.has(NodePool, "zebra")

        wires[0].mend()
        await run.look()

        assert ("True", "Active") == run.active
        assert run.at.has(NodePool, "default")


@in_virtual_time
async def test_elsewhere_than_on_aws_an_inline_provider_is_an_empty_class_of_that_name() -> None:
    async with bridged(provisioner("mine")) as run:
        await run.look()

        pool = run.at.world.mirror(NodePool).get("mine")
        node_class = run.at.world.mirror(KWOKNodeClass).get("mine")
        assert pool is not None
        assert node_class is not None
        reference = pool.spec.template.spec.node_class_ref
        assert ("karpenter.kwok.sh", "KWOKNodeClass", "mine") == (
            reference.group,
            reference.kind,
            reference.name,
        )
        assert ["Provisioner"] == [owner.kind for owner in node_class.metadata.owner_references]


@pytest.mark.parametrize("spec", [{}, {"provider": {}}], ids=["no provider", "an empty provider"])
def test_elsewhere_than_on_aws_a_provisioner_without_a_class_uses_the_default_one(
    spec: JsonObject,
) -> None:
    bare = convert_as({**provisioner(), "spec": spec}, Provisioner)

    (translation,) = translate([bare], FACTS, Options())

    (pool,) = translation.objects
    assert "" == translation.problem
    assert {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"} == (
        pool["spec"]["template"]["spec"]["nodeClassRef"]
    )


def test_what_guards_or_describes_the_legacy_object_stays_with_it() -> None:
    metadata = {
        "name": "default",
        "labels": {"team": "a"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "kept"},
        "finalizers": ["example.com/hold"],
    }
    guarded = convert_as({**provisioner(), "metadata": metadata}, Provisioner)

    (translation,) = translate([guarded], FACTS, Options())

    pool = next(each for each in translation.objects if each["kind"] == "NodePool")
    assert "finalizers" not in pool["metadata"]
    assert ({"team": "a"}, "kept") == (
        pool["metadata"]["labels"],
        pool["metadata"]["annotations"]["note"],
    )
    assert not [key for key in pool["metadata"]["annotations"] if key.startswith("kubectl")]


@in_virtual_time
async def test_elsewhere_than_on_aws_labels_only_aws_knows_are_no_requirements() -> None:
    async with bridged(provisioner()) as run:
        await run.look()

        keys = {entry.key for entry in run.pool.spec.template.spec.requirements}
        assert {labels.OS, labels.ARCH, labels.CAPACITY_TYPE} == keys


@in_virtual_time
async def test_a_node_template_becomes_a_class_that_belongs_to_it() -> None:
    objects = node_template("shared"), by_reference("shared")
    async with bridged(*objects, facts=AWS_FACTS, settings=WITH_ROLE) as run:
        await run.look()

        node_class = run.at.world.mirror(EC2NodeClass).get("shared")
        assert node_class is not None
        assert ["AWSNodeTemplate"] == [owner.kind for owner in node_class.metadata.owner_references]
        assert "shared" == run.pool.spec.template.spec.node_class_ref.name
        assert ec2_labels.INSTANCE_CATEGORY in {
            entry.key for entry in run.pool.spec.template.spec.requirements
        }


@in_virtual_time
async def test_a_class_a_provisioner_no_longer_describes_is_removed() -> None:
    async with bridged(node_template("shared"), provisioner("mine")) as run:
        await run.look()
        had_class = run.at.has(KWOKNodeClass, "mine")
        change = {"spec": {"provider": None, "providerRef": {"name": "shared"}}}
        await run.at.change(V1ALPHA5, "Provisioner", "mine", change)

        await run.look()

        pool = run.at.world.mirror(NodePool).get("mine")
        assert pool is not None
        assert "shared" == pool.spec.template.spec.node_class_ref.name
        assert (True, False) == (had_class, run.at.has(KWOKNodeClass, "mine"))


@in_virtual_time
async def test_a_class_that_is_there_already_is_used_where_classes_have_nothing_in_them() -> None:
    async with bridged(provisioner()) as run:
        await run.look()

        node_class = run.at.world.mirror(KWOKNodeClass).get("default")
        assert node_class is not None
        assert () == node_class.metadata.owner_references
        assert ("True", "Active") == run.active


@in_virtual_time
async def test_the_status_of_the_pool_is_shown_on_the_provisioner() -> None:
    async with bridged(provisioner()) as run:
        await run.look()
        status = {"status": {"resources": {"cpu": "4", "nodes": "1"}}}
        await run.at.change(V1, "NodePool", "default", status, subresource="status")

        await run.look()

        found = run.at.world.mirror(Provisioner).get("default")
        assert found is not None
        assert {"cpu": "4", "nodes": "1"} == found.status.resources


@in_virtual_time
async def test_without_legacy_objects_there_is_nothing_to_do() -> None:
    async with bridged() as run:
        assert await run.look() is None


@pytest.mark.parametrize(
    ("old", "new", "said", "patch"),
    [
        pytest.param({"a": 1}, {"a": 1}, {}, {}, id="nothing to change"),
        pytest.param({"a": 1, "b": 2}, {"a": 1}, {}, {"b": None}, id="what is gone is removed"),
        pytest.param({}, {"a": {"b": 1}}, {}, {"a": {"b": 1}}, id="what is new is added"),
        pytest.param(
            {"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {}, {"a": {"b": 3, "c": None}}, id="nested"
        ),
        pytest.param({"a": [1]}, {"a": [2]}, {}, {"a": [2]}, id="lists are replaced"),
        pytest.param({"a": [1]}, {}, {"a": []}, {"a": []}, id="a default that was said is written"),
    ],
)
def test_the_smallest_change(
    old: JsonObject, new: JsonObject, said: JsonObject, patch: JsonObject
) -> None:
    assert patch == merge_patch(old, new, said)


@in_virtual_time
async def test_pods_that_select_the_provisioner_run_on_nodes_that_carry_its_name() -> None:
    pods = deployment("web", 2, nodeSelector={labels.PROVISIONER_NAME: "default"})
    async with autoscaler(starts=False) as run:
        await run.apply(provisioner(), pods)
        run.start()

        await run.until(lambda: len(run.running) == 2, seconds=120)

        names = {pod["spec"]["nodeName"] for pod in run.running}
        held = [
            node["metadata"]["labels"] for node in run.nodes if node["metadata"]["name"] in names
        ]

        assert [("default", "default")] == [
            (each[labels.PROVISIONER_NAME], each[labels.NODEPOOL]) for each in held
        ]


@in_virtual_time
async def test_a_deleted_provisioner_takes_its_pool_and_nodes_with_it() -> None:
    async with autoscaler(starts=False) as run:
        await run.apply(provisioner(), deployment("web", 2))
        run.start()
        await run.until(lambda: len(run.running) == 2, seconds=120)

        await run.client.delete(V1ALPHA5, "Provisioner", None, "default")

        await run.until(lambda: not run.claims, seconds=300)
        assert [] == run.objects("karpenter.sh", "nodepools")
        classes = [
            each["metadata"]["name"] for each in run.objects("karpenter.kwok.sh", "kwoknodeclasses")
        ]
        assert ["default"] == classes


class TestKubeletSettingsOfTemplates:
    """Settings of a Provisioner are in the class of its template; the two may come and go apart."""

    KUBELET: Any = {"maxPods": 20}

    @in_virtual_time
    async def test_an_orphaned_pool_keeps_them(self) -> None:
        async with self.run(node_template("shared"), self.user()) as run:
            await run.look()
            before = self.settings(run)

            await self.orphan(run)
            await run.look()

            assert (self.KUBELET, self.KUBELET) == (before, self.settings(run))

    @in_virtual_time
    async def test_a_pool_keeps_them_while_its_provisioner_is_being_deleted(self) -> None:
        user = self.user()
        user["metadata"]["finalizers"] = ["example.com/slow"]
        async with self.run(node_template("shared"), user) as run:
            await run.look()
            await run.at.client.delete(V1ALPHA5, "Provisioner", None, "default")
            await run.at.settle()

            await run.look()

            assert self.KUBELET == self.settings(run)

    @in_virtual_time
    async def test_they_go_with_the_last_pool_that_counts_on_them(self) -> None:
        async with self.run(node_template("shared"), self.user()) as run:
            await run.look()
            await self.orphan(run)
            await run.at.client.delete(V1, "NodePool", None, "default")
            await run.at.settle()

            await run.look()

            assert {} == self.settings(run)

    @in_virtual_time
    async def test_another_provisioner_is_given_a_class_without_them(self) -> None:
        other = by_reference("shared")
        other["metadata"]["name"] = "other"
        async with self.run(node_template("shared"), self.user(), other) as run:
            await run.look()
            await self.orphan(run)

            await run.look()

            pool = run.at.world.mirror(NodePool).get("other")
            assert pool is not None
            used = run.at.world.mirror(EC2NodeClass).get(
                pool.spec.template.spec.node_class_ref.name
            )
            assert used is not None
            assert (self.KUBELET, {}) == (self.settings(run), used.spec.kubelet)

    @in_virtual_time
    async def test_a_provisioner_that_came_before_its_template_can_change_them(self) -> None:
        async with self.run(self.user()) as run:
            await run.look()
            carried = labels.KEPT_KUBELET in run.pool.metadata.annotations
            await run.at.put(node_template("shared"))
            await run.look()
            change = {"spec": {"kubeletConfiguration": {"maxPods": 30}}}
            await run.at.change(V1ALPHA5, "Provisioner", "default", change)

            await run.look()

            assert carried
            assert {"maxPods": 30} == self.settings(run)
            assert labels.KEPT_KUBELET not in run.pool.metadata.annotations

    def user(self) -> JsonObject:
        return by_reference("shared", kubeletConfiguration=self.KUBELET)

    def run(self, *objects: JsonObject) -> AbstractAsyncContextManager[Bridge]:
        return bridged(*objects, facts=AWS_FACTS, settings=WITH_ROLE)

    async def orphan(self, run: Bridge) -> None:
        """What ``kubectl delete --cascade=orphan`` leads to."""
        await run.at.change(V1, "NodePool", "default", {"metadata": {"ownerReferences": None}})
        await run.at.client.delete(V1ALPHA5, "Provisioner", None, "default")
        await run.at.settle()

    def settings(self, run: Bridge) -> Any:
        found = run.at.world.mirror(EC2NodeClass).get("shared")
        assert found is not None
        return found.spec.kubelet


class TestSettingsOnAws:
    @in_virtual_time
    async def test_a_missing_role_is_a_condition_and_makes_nothing(self) -> None:
        async with bridged(provisioner(), facts=AWS_FACTS) as run:
            await run.look()

            assert ("False", "SettingMissing") == run.active
            assert "LEGACY_NODE_ROLE or LEGACY_INSTANCE_PROFILE" in message_of(run)
            assert not run.at.has(NodePool, "default")
            assert not run.at.has(EC2NodeClass, "default")

    @in_virtual_time
    async def test_a_template_without_a_role_keeps_its_provisioner_from_being_active(self) -> None:
        objects = node_template("shared"), by_reference("shared")
        async with bridged(*objects, facts=AWS_FACTS) as run:
            await run.look()

            assert ("False", "SettingMissing") == run.active
            assert "AWSNodeTemplate shared: " in message_of(run)
            assert not run.at.has(EC2NodeClass, "shared")

    @pytest.mark.parametrize(
        ("settings", "field", "expected"),
        [
            pytest.param(WITH_ROLE, "role", "KarpenterNodeRole", id="a role"),
            pytest.param(
                Settings(legacy_instance_profile="nodes"),
                "instance_profile",
                "nodes",
                id="a profile",
            ),
        ],
    )
    @in_virtual_time
    async def test_nodes_get_the_identity_of_the_settings(
        self, settings: Settings, field: str, expected: str
    ) -> None:
        async with bridged(provisioner(), facts=AWS_FACTS, settings=settings) as run:
            await run.look()

            node_class = run.at.world.mirror(EC2NodeClass).get("default")
            assert node_class is not None
            assert (expected, ("True", "Active")) == (getattr(node_class.spec, field), run.active)

    @in_virtual_time
    async def test_images_and_defaults_follow_the_settings(self) -> None:
        settings = Settings(
            legacy_node_role="nodes", legacy_ami_family="AL2023", legacy_defaults="early"
        )
        async with bridged(provisioner(), facts=AWS_FACTS, settings=settings) as run:
            await run.look()

            node_class = run.at.world.mirror(EC2NodeClass).get("default")
            assert node_class is not None
            assert ["al2023@latest"] == [term.alias for term in node_class.spec.ami_selector_terms]
            keys = {entry.key for entry in run.pool.spec.template.spec.requirements}
            assert ec2_labels.INSTANCE_CATEGORY not in keys  # the late defaults exclude t3a

    @pytest.mark.parametrize("names_family", [False, True])
    @in_virtual_time
    async def test_a_class_that_is_not_ready_keeps_its_provisioner_from_being_active(
        self, names_family: bool
    ) -> None:
        inline = {**PROVIDER, "amiFamily": "AL2"} if names_family else PROVIDER
        wanted = provisioner(provider=inline)
        async with bridged(wanted, facts=AWS_FACTS, settings=WITH_ROLE) as run:
            await run.look()
            at = "2026-01-01T00:00:00Z"
            condition = {"status": "False", "reason": "UnsupportedAlias", "lastTransitionTime": at}
            ready = {**condition, "type": "Ready", "message": "AMIsReady=False"}
            images = {**condition, "type": "AMIsReady", "message": "no AL2 for 1.35"}
            await run.at.change(
                "karpenter.k8s.aws/v1",
                "EC2NodeClass",
                "default",
                {"status": {"conditions": [ready, images]}},
                subresource="status",
            )

            await run.look()

            assert ("False", "NodeClassNotReady") == run.active
            assert "EC2NodeClass default: AMIsReady=False" in message_of(run)
            assert ("LEGACY_AMI_FAMILY" in message_of(run)) is not names_family


def message_of(run: Bridge) -> str:
    found = run.at.world.mirror(Provisioner).get("default")
    assert found is not None
    condition = find(found.status.conditions, "Active")
    assert condition is not None
    return condition.message
