"""Migration to v1: every object is written once, and only then is the old version taken off."""

from typing import Any

import pytest

from helpers.clusters import in_virtual_time
from karpenter.admission.schemas.crds import builtin_crds, converted_by
from karpenter.webhook.stored_versions import MigrationError, Outcome, migrate, sentences
from unit.kube.flaky import FlakyCluster, Refusal

NAME = "nodepools.karpenter.sh"
POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"},
                "requirements": [],
            }
        }
    },
}


class Cluster(FlakyCluster):
    """A cluster that has stored NodePools as v1beta1 and stores them as v1 now."""

    async def install(self, *pools: str, with_webhook: bool = True) -> None:
        await self.begin()
        crd = builtin_crds()[NAME]
        await self.direct.create(converted_by(crd, "a", "b") if with_webhook else dict(crd))
        for name in pools:
            await self.direct.create({**POOL, "metadata": {"name": name}})
        await self.list_versions("v1beta1", "v1")
        self.transport.requests.clear()

    async def list_versions(self, *versions: str) -> None:
        from karpenter.api.extensions import CustomResourceDefinition

        body = {"status": {"storedVersions": list(versions)}}
        await self.kube.patch(CustomResourceDefinition, NAME, body, subresource="status")

    def listed(self) -> list[str]:
        found = self.store.list("apiextensions.k8s.io", "customresourcedefinitions")
        versions: list[str] = next(iter(found))["status"]["storedVersions"]
        return versions


def said(outcome: Outcome, *, is_rehearsal: bool = False) -> list[str]:
    return list(sentences(outcome, is_rehearsal=is_rehearsal))


@pytest.mark.case("OPS-29")
@in_virtual_time
async def test_every_object_is_written_before_the_old_version_is_taken_off() -> None:
    cluster = Cluster()
    await cluster.install("a", "b")

    outcome = await migrate(cluster.kube, cluster.clock, NAME, is_rehearsal=False)

    path = "/apis/karpenter.sh/v1/nodepools"
    status = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}/status"
    assert cluster.transport.paths("PATCH") == [f"{path}/a", f"{path}/b", status]
    assert cluster.listed() == ["v1"]
    assert said(outcome) == [
        f"{NAME}: 2 objects rewritten as v1, and v1beta1 taken out of storedVersions"
    ]


@pytest.mark.case("OPS-29")
@in_virtual_time
async def test_a_rehearsal_writes_nothing() -> None:
    cluster = Cluster()
    await cluster.install("a")

    outcome = await migrate(cluster.kube, cluster.clock, NAME, is_rehearsal=True)

    assert {request.method for request in cluster.transport.requests} == {"GET"}
    assert cluster.listed() == ["v1beta1", "v1"]
    assert said(outcome, is_rehearsal=True) == [
        f"{NAME}: would rewrite 1 object as v1, and take v1beta1 out of storedVersions"
    ]


@in_virtual_time
async def test_an_object_that_is_refused_keeps_the_version_on_the_list() -> None:
    cluster = Cluster()
    await cluster.install("a", "b", "c")
    cluster.transport.refuse(Refusal(422, where=lambda request: request.path.endswith("/b")))

    outcome = await migrate(cluster.kube, cluster.clock, NAME, is_rehearsal=False)

    assert cluster.listed() == ["v1beta1", "v1"]
    assert said(outcome) == [
        f"{NAME}: 1 of 3 objects not rewritten, so v1beta1 stays in storedVersions",
        '  "b": told to say 422',
    ]
    again = await migrate(cluster.kube, cluster.clock, NAME, is_rehearsal=False)
    assert again.is_done
    assert cluster.listed() == ["v1"]


@in_virtual_time
async def test_all_of_many_objects_are_written_and_each_refusal_is_named() -> None:
    cluster = Cluster()
    names = [f"pool-{number:02}" for number in range(20)]
    await cluster.install(*names)
    cluster.transport.refuse(Refusal(422, times=2, where=lambda r: r.path[-7:] == "pool-03"))
    cluster.transport.refuse(Refusal(500, where=lambda r: r.path[-7:] == "pool-19"))

    outcome = await migrate(cluster.kube, cluster.clock, NAME, is_rehearsal=False)

    written = [path.rpartition("/")[2] for path in cluster.transport.paths("PATCH")]
    assert sorted(written) == names
    assert list(outcome.failures) == ["pool-03", "pool-19"]


@in_virtual_time
async def test_an_object_that_is_deleted_meanwhile_is_no_obstacle() -> None:
    cluster = Cluster()
    await cluster.install("a")
    cluster.transport.refuse(Refusal(404, where=lambda request: request.path.endswith("/a")))

    assert (await migrate(cluster.kube, cluster.clock, NAME, is_rehearsal=False)).is_done


@in_virtual_time
async def test_a_definition_that_changes_meanwhile_is_read_again() -> None:
    cluster = Cluster()
    await cluster.install("a")
    cluster.transport.refuse(Refusal(409, times=2, where=lambda r: r.path.endswith("/status")))

    assert (await migrate(cluster.kube, cluster.clock, NAME, is_rehearsal=False)).is_done
    assert cluster.listed() == ["v1"]


@in_virtual_time
async def test_a_definition_that_never_rests_is_given_up() -> None:
    cluster = Cluster()
    await cluster.install("a")
    cluster.transport.refuse(Refusal(409, times=99, where=lambda r: r.path.endswith("/status")))

    with pytest.raises(MigrationError, match="run the command once more"):
        await migrate(cluster.kube, cluster.clock, NAME, is_rehearsal=False)


@in_virtual_time
async def test_objects_without_a_webhook_are_not_touched() -> None:
    cluster = Cluster()
    await cluster.install("a", with_webhook=False)

    with pytest.raises(MigrationError, match=r"no conversion webhook.*--conversion-webhook"):
        await migrate(cluster.kube, cluster.clock, NAME, is_rehearsal=False)

    assert cluster.transport.paths("PATCH") == []


@in_virtual_time
async def test_nothing_is_done_where_nothing_is_left_or_nothing_is_installed() -> None:
    cluster = Cluster()
    await cluster.install()
    await cluster.list_versions("v1")

    done = await migrate(cluster.kube, cluster.clock, NAME, is_rehearsal=False)
    absent = await migrate(
        cluster.kube, cluster.clock, "nodeclaims.karpenter.sh", is_rehearsal=False
    )

    assert said(done) == [f"{NAME}: only v1 is stored"]
    assert said(absent) == ["nodeclaims.karpenter.sh: not installed"]


@in_virtual_time
async def test_a_definition_that_stores_v1beta1_is_named() -> None:
    cluster = Cluster()
    await cluster.begin()
    crd = builtin_crds()[NAME]
    versions = [{**each, "storage": each["name"] == "v1beta1"} for each in crd["spec"]["versions"]]
    old = {**crd, "spec": {**crd["spec"], "versions": versions}}
    await cluster.direct.create(converted_by(old, "a", "b"))
    await cluster.list_versions("v1", "v1beta1")

    with pytest.raises(MigrationError, match="stores v1beta1"):
        await migrate(cluster.kube, cluster.clock, NAME, is_rehearsal=False)
