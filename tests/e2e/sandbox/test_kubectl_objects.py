"""What people do with kubectl to objects: create, apply, look, change, delete."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.kubectl import Kubectl, needs_kubectl, running
from helpers.server import Cluster, cluster, config_map, deployment, manifest, pod
from karpenter.admission.schemas.crds import builtin_crds

pytestmark = needs_kubectl


@pytest.fixture
def world() -> Cluster:
    return cluster()


@pytest.fixture
async def kubectl(world: Cluster, tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with running(world, tmp_path) as program:
        yield program


def text(*objects: dict[str, Any]) -> str:
    return yaml.safe_dump_all(objects)


class TestCreate:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["namespace", "team"], "namespace/team created"),
            (["deployment", "web", "--image=nginx"], "deployment.apps/web created"),
            (["configmap", "c", "--from-literal=a=b"], "configmap/c created"),
            (["secret", "generic", "s", "--from-literal=a=b"], "secret/s created"),
            (["job", "j", "--image=busybox"], "job.batch/j created"),
            (
                ["cronjob", "c", "--image=busybox", "--schedule=0 * * * *"],
                "cronjob.batch/c created",
            ),
            (
                ["pdb", "p", "--selector=app=web", "--min-available=1"],
                "poddisruptionbudget.policy/p created",
            ),
            (["serviceaccount", "bot"], "serviceaccount/bot created"),
            (["quota", "q", "--hard=pods=3"], "resourcequota/q created"),
            (
                ["priorityclass", "high", "--value=5"],
                "priorityclass.scheduling.k8s.io/high created",
            ),
            (
                ["role", "r", "--verb=get", "--resource=pods"],
                "role.rbac.authorization.k8s.io/r created",
            ),
            (["service", "clusterip", "web", "--tcp=80"], "service/web created"),
            (["ingress", "i", "--rule=a.com/x=web:80"], "ingress.networking.k8s.io/i created"),
        ],
        ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]),
    )
    async def test_typed_commands(self, kubectl: Kubectl, words: list[str], said: str) -> None:
        result = await kubectl.ok("create", *words)

        assert f"{said}\n" == result.out

    async def test_creating_twice(self, kubectl: Kubectl) -> None:
        await kubectl.ok("create", "-f", "-", stdin=text(config_map()))

        result = await kubectl("create", "-f", "-", stdin=text(config_map()))

        assert 1 == result.code
        assert (
            'Error from server (AlreadyExists): error when creating "STDIN":'
            ' configmaps "settings" already exists\n' == result.err
        )

    async def test_a_misspelt_field(self, kubectl: Kubectl) -> None:
        wrong = deployment(replicsa=3)

        result = await kubectl("create", "-f", "-", stdin=text(wrong))

        assert 1 == result.code
        assert 'strict decoding error: unknown field "spec.replicsa"' in result.err

    async def test_a_pod_of_no_kind(self, kubectl: Kubectl) -> None:
        result = await kubectl("create", "-f", "-", stdin=text(pod(containers=[])))

        assert 'The Pod "web" is invalid: spec.containers: Required value\n' == result.err


class TestApply:
    async def test_apply_creates_changes_and_leaves_alone(self, kubectl: Kubectl) -> None:
        first, second = text(deployment()), text(deployment(replicas=4))

        said = [
            (await kubectl.ok("apply", "-f", "-", stdin=body)).out
            for body in (first, first, second)
        ]

        name = "deployment.apps/web"
        assert [f"{name} created\n", f"{name} unchanged\n", f"{name} configured\n"] == said

    async def test_apply_removes_what_is_no_longer_asked_for(self, kubectl: Kubectl) -> None:
        await kubectl.ok("apply", "-f", "-", stdin=text(config_map(a="1", b="2")))
        await kubectl.ok("apply", "-f", "-", stdin=text(config_map(b="2")))

        found = await kubectl.ok("get", "cm", "settings", "-o", "jsonpath={.data}")

        assert {"b": "2"} == json.loads(found.out)

    async def test_the_server_applies(self, kubectl: Kubectl) -> None:
        body = text(config_map(a="1"))

        first = await kubectl.ok("apply", "--server-side", "-f", "-", stdin=body)
        other = await kubectl(
            "apply",
            "--server-side",
            "--field-manager=other",
            "-f",
            "-",
            stdin=text(config_map(a="2")),
        )

        assert "configmap/settings serverside-applied\n" == first.out
        assert 1 == other.code
        assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.a' in other.err

    async def test_a_dry_run_on_the_server(self, kubectl: Kubectl) -> None:
        body = text(config_map(a="1"))

        result = await kubectl.ok("apply", "--dry-run=server", "-f", "-", stdin=body)

        assert "configmap/settings created (server dry run)\n" == result.out
        assert 1 == (await kubectl("get", "cm", "settings")).code

    async def test_differences(self, kubectl: Kubectl) -> None:
        await kubectl.ok("apply", "-f", "-", stdin=text(config_map(a="1")))

        same = await kubectl("diff", "-f", "-", stdin=text(config_map(a="1")))
        other = await kubectl("diff", "-f", "-", stdin=text(config_map(a="2")))

        assert (0, 1) == (same.code, other.code)
        assert '+  a: "2"' in other.out

    async def test_a_crd_and_its_objects(self, kubectl: Kubectl) -> None:
        crds = list(builtin_crds().values())
        pool = manifest(
            "karpenter.sh/v1",
            "NodePool",
            "general",
            namespace=None,
            spec={
                "template": {
                    "spec": {
                        "requirements": [],
                        "nodeClassRef": {
                            "group": "karpenter.k8s.aws",
                            "kind": "EC2NodeClass",
                            "name": "default",
                        },
                    }
                }
            },
        )
        await kubectl.ok("apply", "--server-side", "-f", "-", stdin=text(*crds))
        await kubectl.ok(
            "wait", "--for=condition=Established", "crd/nodepools.karpenter.sh", "--timeout=5s"
        )

        applied = await kubectl.ok("apply", "-f", "-", stdin=text(pool))
        shown = await kubectl.ok("get", "nodepools")

        assert "nodepool.karpenter.sh/general created\n" == applied.out
        assert ["NAME", "NODECLASS", "NODES", "READY", "AGE"] == shown.rows[0]
        assert ["general", "default"] == shown.rows[1][:2]

    async def test_an_unknown_kind(self, kubectl: Kubectl) -> None:
        body = text(manifest("compute.k8s.aws/v1beta1", "NodePool", "x", namespace=None))

        result = await kubectl("apply", "-f", "-", stdin=body)

        assert 1 == result.code
        assert 'no matches for kind "NodePool" in version "compute.k8s.aws/v1beta1"' in result.err


class TestLook:
    async def test_columns(self, kubectl: Kubectl, world: Cluster) -> None:
        world.create(deployment())
        world.create(pod())

        deployments = await kubectl.ok("get", "deploy")
        pods = await kubectl.ok("get", "pods", "-o", "wide")

        assert ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"] == deployments.rows[0]
        assert ["web", "0/1", "0", "0"] == deployments.rows[1][:4]
        assert ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"] == pods.rows[0][:7]

    async def test_nothing_there(self, kubectl: Kubectl) -> None:
        result = await kubectl.ok("get", "pods")

        assert "No resources found in default namespace.\n" == result.err

    async def test_not_there(self, kubectl: Kubectl) -> None:
        result = await kubectl("get", "pod", "web")

        assert 'Error from server (NotFound): pods "web" not found\n' == result.err

    async def test_selectors(self, kubectl: Kubectl, world: Cluster) -> None:
        for name in ("a", "b"):
            made = config_map(name)
            made["metadata"]["labels"] = {"name": name}
            world.create(made)

        by_label = await kubectl.ok("get", "cm", "-l", "name in (b)", "-o", "name")
        by_field = await kubectl.ok("get", "cm", "--field-selector=metadata.name=a", "-o", "name")

        assert ("configmap/b\n", "configmap/a\n") == (by_label.out, by_field.out)

    async def test_pages(self, kubectl: Kubectl, world: Cluster) -> None:
        for number in range(7):
            world.create(config_map(f"m{number}"))

        result = await kubectl.ok("get", "cm", "--chunk-size=2", "-o", "name")

        assert [f"configmap/m{number}" for number in range(7)] == result.out.split()

    async def test_description(self, kubectl: Kubectl, world: Cluster) -> None:
        created = world.create(pod())
        about = {
            "kind": "Pod",
            "name": "web",
            "namespace": "default",
            "uid": created["metadata"]["uid"],
        }
        world.create(
            manifest(
                "v1",
                "Event",
                "e",
                involvedObject=about,
                reason="FailedScheduling",
                message="no nodes",
                type="Warning",
                source={"component": "default-scheduler"},
            )
        )

        result = await kubectl.ok("describe", "pod", "web")

        assert "Status:           Pending" in result.out
        assert "FailedScheduling" in result.out

    async def test_explanations(self, kubectl: Kubectl) -> None:
        result = await kubectl.ok("explain", "deployment.spec.replicas")

        assert "FIELD: replicas <integer>" in result.out

    async def test_what_there_is(self, kubectl: Kubectl) -> None:
        resources = await kubectl.ok("api-resources", "--no-headers")
        versions = await kubectl.ok("api-versions")

        assert ["pods", "po", "v1", "true", "Pod"] in resources.rows
        assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in resources.rows
        assert {"v1", "apps/v1", "batch/v1", "policy/v1"} <= set(versions.out.split())

    async def test_everything(self, kubectl: Kubectl, world: Cluster) -> None:
        world.create(deployment())
        world.create(pod())

        result = await kubectl.ok("get", "all", "-o", "name")

        assert ["pod/web", "deployment.apps/web"] == result.out.split()

    async def test_a_raw_path(self, kubectl: Kubectl) -> None:
        result = await kubectl.ok("get", "--raw", "/readyz")

        assert "ok" == result.out


class TestChange:
    async def test_labels_and_annotations(self, kubectl: Kubectl, world: Cluster) -> None:
        world.create(pod())

        await kubectl.ok("label", "pod", "web", "tier=front")
        await kubectl.ok("annotate", "pod", "web", "note=hello")
        refused = await kubectl("label", "pod", "web", "tier=back")
        await kubectl.ok("label", "pod", "web", "tier-")

        metadata = world.get(pod()).body["metadata"]
        assert {"note": "hello"} == metadata["annotations"]
        assert "labels" not in metadata
        assert "already has a value (front), and --overwrite is false" in refused.err

    @pytest.mark.parametrize(
        ("kind", "patch"),
        [
            ("strategic", '{"spec":{"replicas":5}}'),
            ("merge", '{"spec":{"replicas":5}}'),
            ("json", '[{"op":"replace","path":"/spec/replicas","value":5}]'),
        ],
    )
    async def test_patches(self, kubectl: Kubectl, world: Cluster, kind: str, patch: str) -> None:
        world.create(deployment())

        result = await kubectl.ok("patch", "deploy", "web", f"--type={kind}", "-p", patch)

        assert "deployment.apps/web patched\n" == result.out
        assert 5 == world.get(deployment()).body["spec"]["replicas"]

    async def test_scale(self, kubectl: Kubectl, world: Cluster) -> None:
        world.create(deployment())

        scaled = await kubectl.ok("scale", "deploy", "web", "--replicas=3")
        refused = await kubectl("scale", "deploy", "web", "--replicas=9", "--current-replicas=1")

        assert "deployment.apps/web scaled\n" == scaled.out
        assert "Expected replicas to be 1, was 3" in refused.err

    async def test_edit(self, kubectl: Kubectl, world: Cluster) -> None:
        world.create(config_map(color="red"))

        result = await kubectl.ok(
            "edit", "cm", "settings", KUBE_EDITOR="sed -i s/color:.*/color:\\ blue/"
        )

        assert "configmap/settings edited\n" == result.out
        assert {"color": "blue"} == world.get(config_map()).body["data"]

    async def test_set_image(self, kubectl: Kubectl, world: Cluster) -> None:
        world.create(deployment())

        await kubectl.ok("set", "image", "deploy/web", "main=nginx:2")

        spec = world.get(deployment()).body["spec"]["template"]["spec"]
        assert "nginx:2" == spec["containers"][0]["image"]

    async def test_replace(self, kubectl: Kubectl, world: Cluster) -> None:
        world.create(config_map(a="1"))

        await kubectl.ok("replace", "-f", "-", stdin=text(config_map(a="2")))

        assert {"a": "2"} == world.get(config_map()).body["data"]

    async def test_autoscale(self, kubectl: Kubectl, world: Cluster) -> None:
        world.create(deployment())

        await kubectl.ok("autoscale", "deploy", "web", "--max=4", "--cpu-percent=70")

        shown = await kubectl.ok("get", "hpa")
        assert ["web", "Deployment/web"] == shown.rows[1][:2]


class TestDelete:
    async def test_one(self, kubectl: Kubectl, world: Cluster) -> None:
        world.create(config_map())

        result = await kubectl.ok("delete", "cm", "settings")

        assert result.out.startswith('configmap "settings" deleted')
        assert 404 == world.get(config_map()).status

    async def test_all_of_a_label(self, kubectl: Kubectl, world: Cluster) -> None:
        for name in ("a", "b"):
            made = config_map(name)
            made["metadata"]["labels"] = {"name": name}
            world.create(made)

        await kubectl.ok("delete", "cm", "-l", "name=a")

        assert "configmap/b\n" == (await kubectl.ok("get", "cm", "-o", "name")).out

    async def test_waiting_for_a_finalizer(self, kubectl: Kubectl, world: Cluster) -> None:
        made = config_map()
        made["metadata"]["finalizers"] = ["example.com/hold"]
        world.create(made)

        waiting = await kubectl("delete", "cm", "settings", "--timeout=1s")
        assert "timed out waiting for the condition" in waiting.err
        await kubectl.ok(
            "patch", "cm", "settings", "--type=merge", "-p", '{"metadata":{"finalizers":null}}'
        )

        assert 404 == world.get(config_map()).status

    async def test_by_force(self, kubectl: Kubectl, world: Cluster) -> None:
        world.create(pod(nodeName="n1"))

        result = await kubectl.ok("delete", "pod", "web", "--force", "--grace-period=0")

        assert result.out.startswith('pod "web" force deleted')
        assert 404 == world.get(pod()).status
