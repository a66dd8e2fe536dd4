"""Kinds that CRDs add: served at once, checked, converted, cleaned up."""

from typing import Any

import pytest

from helpers.server import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    TABLE,
    Cluster,
    cluster,
    crd,
    manifest,
)
from karpenter.admission.schemas.crds import builtin_crds

CAPACITY_TYPE = "karpenter.sh/capacity-type"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GADGETS = "/apis/example.com/v1/namespaces/default/gadgets"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["color"],
            "properties": {
                "color": {"type": "string", "enum": ["red", "blue"]},
                "size": {"type": "integer", "default": 1, "minimum": 0},
            },
            "x-kubernetes-validations": [
                {"rule": "self.size < 10 || self.color == 'red'", "message": "too big for blue"}
            ],
        },
        "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
    },
}


def gadget(name: str = "g", **spec: Any) -> dict[str, Any]:
    return manifest("example.com/v1", "Gadget", name, spec={"color": "red", **spec})


@pytest.fixture
def api() -> Cluster:
    made = cluster()
    made.create(crd(schema=SCHEMA, subresources={"status": {}}))
    return made


class TestDefinition:
    def test_a_crd_is_established_when_it_is_created(self, api: Cluster) -> None:
        found = api.call("GET", f"{CRDS}/gadgets.example.com").body

        conditions = {c["type"]: c["status"] for c in found["status"]["conditions"]}
        assert {"NamesAccepted": "True", "Established": "True"} == conditions
        assert ["v1"] == found["status"]["storedVersions"]
        assert "GadgetList" == found["status"]["acceptedNames"]["listKind"]

    def test_its_kind_appears_in_discovery(self, api: Cluster) -> None:
        resources = api.call("GET", "/apis/example.com/v1").body["resources"]

        assert ["gadgets", "gadgets/status"] == sorted(r["name"] for r in resources)

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            pytest.param(
                {"metadata": {"name": "wrong.example.com"}},
                'metadata.name: Invalid value: "wrong.example.com": must be'
                ' spec.names.plural+"."+spec.group',
                id="another name",
            ),
            pytest.param(
                {"spec": {"scope": "Everywhere"}},
                'spec.scope: Unsupported value: "Everywhere": supported values: "Cluster",'
                ' "Namespaced"',
                id="another scope",
            ),
            pytest.param({"spec": {"group": ""}}, "spec.group: Required value", id="no group"),
        ],
    )
    def test_a_crd_that_makes_no_sense_is_refused(
        self, api: Cluster, change: dict[str, Any], problem: str
    ) -> None:
        made = crd("widgets", "Widget")
        body = {
            **made,
            "metadata": made["metadata"] | change.get("metadata", {}),
            "spec": made["spec"] | change.get("spec", {}),
        }

        answer = api.call("POST", CRDS, body)

        assert 422 == answer.status
        assert problem in answer.message

    def test_a_schema_that_makes_no_sense_is_refused(self, api: Cluster) -> None:
        bad = {"type": "object", "properties": {"spec": {"type": "shape"}}}

        answer = api.call("POST", CRDS, crd("widgets", "Widget", schema=bad))

        assert 422 == answer.status
        assert "spec.versions[0].schema.openAPIV3Schema" in answer.message

    def test_a_changed_schema_holds_from_then_on(self, api: Cluster) -> None:
        found = api.call("GET", f"{CRDS}/gadgets.example.com").body
        path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color/enum"
        patch = [{"op": "add", "path": f"{path}/-", "value": "green"}]
        assert 422 == api.call("POST", GADGETS, gadget(color="green")).status

        changed = api.call("PATCH", f"{CRDS}/gadgets.example.com", patch, content_type=JSON_PATCH)

        assert 200 == changed.status
        assert found["metadata"]["generation"] + 1 == changed.body["metadata"]["generation"]
        assert 201 == api.call("POST", GADGETS, gadget(color="green")).status


class TestObjects:
    def test_defaults_are_filled_in_and_unknown_fields_dropped(self, api: Cluster) -> None:
        answer = api.call("POST", GADGETS, gadget(shape="round"), fieldValidation="Warn")

        assert {"color": "red", "size": 1} == answer.body["spec"]
        assert 'unknown field \\"spec.shape\\"' in answer.headers["Warning"]

    def test_strict_refuses_unknown_fields(self, api: Cluster) -> None:
        answer = api.call("POST", GADGETS, gadget(shape="round"), fieldValidation="Strict")

        assert 400 == answer.status
        assert 'strict decoding error: unknown field "spec.shape"' in answer.message

    @pytest.mark.parametrize(
        ("spec", "cause"),
        [
            pytest.param(
                {"color": "pink"},
                ("FieldValueNotSupported", "spec.color"),
                id="a value that is not listed",
            ),
            pytest.param(
                {"size": -1}, ("FieldValueInvalid", "spec.size"), id="less than the minimum"
            ),
            pytest.param(
                {"size": "big"}, ("FieldValueTypeInvalid", "spec.size"), id="another type"
            ),
            pytest.param(
                {"color": "blue", "size": 11}, ("FieldValueInvalid", "spec"), id="a broken rule"
            ),
        ],
    )
    def test_schema_and_rules_hold(
        self, api: Cluster, spec: dict[str, Any], cause: tuple[str, str]
    ) -> None:
        answer = api.call("POST", GADGETS, gadget(**spec))

        assert (422, "Invalid") == (answer.status, answer.body["reason"])
        assert ("example.com", "Gadget", "g") == (
            answer.body["details"]["group"],
            answer.body["details"]["kind"],
            answer.body["details"]["name"],
        )
        assert cause == answer.causes[0][:2]

    def test_an_update_names_its_version(self, api: Cluster) -> None:
        api.create(gadget())

        answer = api.call("PUT", f"{GADGETS}/g", gadget(size=2))

        assert 422 == answer.status
        assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in (
            answer.message
        )

    def test_the_status_is_written_on_its_own(self, api: Cluster) -> None:
        created = api.create(gadget() | {"status": {"seen": 1}})
        assert "status" not in created

        answer = api.call(
            "PATCH",
            f"{GADGETS}/g/status",
            {"spec": {"size": 5}, "status": {"seen": 2}, "metadata": {"labels": {"a": "b"}}},
            content_type=MERGE,
        )

        assert (1, {"seen": 2}, 1) == (
            answer.body["spec"]["size"],
            answer.body["status"],
            answer.body["metadata"]["generation"],
        )
        assert "labels" not in answer.body["metadata"]

    def test_there_is_no_strategic_patch(self, api: Cluster) -> None:
        api.create(gadget())

        answer = api.call("PATCH", f"{GADGETS}/g", {}, content_type=STRATEGIC)

        assert 415 == answer.status

    def test_apply_creates_them(self, api: Cluster) -> None:
        answer = api.call("PATCH", f"{GADGETS}/g", gadget(), content_type=APPLY, fieldManager="me")

        assert 201 == answer.status
        assert "Apply" == answer.body["metadata"]["managedFields"][0]["operation"]

    def test_a_table_shows_the_columns_of_the_crd(self, api: Cluster) -> None:
        columns = [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}]
        api.create(crd("widgets", "Widget", additionalPrinterColumns=columns))
        api.create(manifest("example.com/v1", "Widget", "w", spec={"color": "red"}))

        table = api.call("GET", "/apis/example.com/v1/widgets", accept=TABLE).body

        assert ["Name", "Color"] == [column["name"] for column in table["columnDefinitions"]]
        assert [["w", "red"]] == [row["cells"] for row in table["rows"]]

    def test_cluster_scoped_kinds_have_no_namespace(self, api: Cluster) -> None:
        api.create(crd("worlds", "World", scope="Cluster"))

        assert (
            201
            == api.call(
                "POST",
                "/apis/example.com/v1/worlds",
                manifest("example.com/v1", "World", "w", namespace=None),
            ).status
        )
        assert 404 == api.call("GET", "/apis/example.com/v1/namespaces/default/worlds").status


class TestVersions:
    def two(self, stored: str) -> dict[str, Any]:
        made = crd()
        entry = made["spec"]["versions"][0]
        made["spec"]["versions"] = [
            entry | {"name": name, "storage": name == stored} for name in ("v1", "v2")
        ]
        return made

    def test_an_object_is_there_in_every_version(self) -> None:
        api = cluster()
        api.create(self.two("v1"))
        api.create(gadget())

        found = api.call("GET", GADGETS.replace("v1", "v2") + "/g")

        assert ("example.com/v2", {"color": "red"}) == (
            found.body["apiVersion"],
            found.body["spec"],
        )

    def test_objects_follow_when_another_version_is_stored(self) -> None:
        api = cluster()
        created = api.create(self.two("v1"))
        api.create(gadget())
        changed = self.two("v2")
        changed["metadata"] = created["metadata"]

        answer = api.call("PUT", f"{CRDS}/gadgets.example.com", changed)

        assert ["v1", "v2"] == answer.body["status"]["storedVersions"]
        assert ["example.com/v2"] == [
            obj["apiVersion"] for obj in api.store.list("example.com", "gadgets")
        ]
        assert "example.com/v1" == api.get(gadget()).body["apiVersion"]

    def test_a_version_that_is_not_served_is_not_there(self) -> None:
        api = cluster()
        made = self.two("v1")
        made["spec"]["versions"][1]["served"] = False
        api.create(made)

        assert 404 == api.call("GET", "/apis/example.com/v2/gadgets").status


class TestRemoval:
    def test_a_crd_takes_its_objects_along(self, api: Cluster) -> None:
        api.create(gadget("a"))
        api.create(gadget("b"))

        api.call("DELETE", f"{CRDS}/gadgets.example.com")

        assert 404 == api.call("GET", f"{CRDS}/gadgets.example.com").status
        assert 404 == api.call("GET", GADGETS).status
        assert 404 == api.call("GET", "/apis/example.com/v1").status

    def test_a_finalizer_of_an_object_holds_the_crd(self, api: Cluster) -> None:
        held = gadget()
        held["metadata"]["finalizers"] = ["example.com/hold"]
        api.create(held)

        api.call("DELETE", f"{CRDS}/gadgets.example.com")
        waiting = api.call("GET", f"{CRDS}/gadgets.example.com")
        leaving = api.call("GET", f"{GADGETS}/g")
        refused = api.call("POST", GADGETS, gadget("late"))
        api.call("PATCH", f"{GADGETS}/g", {"metadata": {"finalizers": []}}, content_type=MERGE)

        assert "deletionTimestamp" in waiting.body["metadata"]
        assert "deletionTimestamp" in leaving.body["metadata"]
        assert 405 == refused.status
        assert 404 == api.call("GET", f"{CRDS}/gadgets.example.com").status

    def test_a_crd_may_come_back(self, api: Cluster) -> None:
        api.create(gadget())
        api.call("DELETE", f"{CRDS}/gadgets.example.com")
        api.create(crd(schema=SCHEMA))

        assert [] == api.call("GET", GADGETS).body["items"]
        assert 201 == api.call("POST", GADGETS, gadget()).status


class TestKarpenter:
    @pytest.fixture
    def own(self) -> Cluster:
        made = cluster()
        for definition in builtin_crds().values():
            made.create(definition)
        return made

    def pool(self, version: str, **spec: Any) -> dict[str, Any]:
        reference = {"name": "default", "kind": "EC2NodeClass"}
        reference |= (
            {"group": "karpenter.k8s.aws"}
            if version == "v1"
            else {"apiVersion": "karpenter.k8s.aws/v1beta1"}
        )
        requirement = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
        node = {"nodeClassRef": reference, "requirements": [requirement]}
        return manifest(
            f"karpenter.sh/{version}",
            "NodePool",
            "general",
            namespace=None,
            spec={"template": {"spec": node}, **spec},
        )

    def test_an_old_version_is_stored_as_the_new_one(self, own: Cluster) -> None:
        old = self.pool(
            "v1beta1",
            disruption={"consolidationPolicy": "WhenUnderutilized", "expireAfter": "24h"},
        )

        answer = own.call("POST", "/apis/karpenter.sh/v1beta1/nodepools", old)
        stored = own.call("GET", "/apis/karpenter.sh/v1/nodepools/general").body

        assert (201, "karpenter.sh/v1beta1") == (answer.status, answer.body["apiVersion"])
        assert "24h" == stored["spec"]["template"]["spec"]["expireAfter"]
        assert "WhenEmptyOrUnderutilized" == stored["spec"]["disruption"]["consolidationPolicy"]

    def test_the_new_version_is_read_as_the_old_one(self, own: Cluster) -> None:
        own.create(self.pool("v1"))

        listed = own.call("GET", "/apis/karpenter.sh/v1beta1/nodepools").body

        assert "NodePoolList" == listed["kind"]
        assert ["karpenter.sh/v1beta1"] == [item["apiVersion"] for item in listed["items"]]
        assert "720h" == listed["items"][0]["spec"]["disruption"]["expireAfter"]

    def test_each_version_is_checked_by_its_own_rules(self, own: Cluster) -> None:
        new_word = self.pool(
            "v1beta1", disruption={"consolidationPolicy": "WhenEmptyOrUnderutilized"}
        )

        assert 422 == own.call("POST", "/apis/karpenter.sh/v1beta1/nodepools", new_word).status

    def test_an_update_in_the_old_version_keeps_its_identity(self, own: Cluster) -> None:
        created = own.create(self.pool("v1"))
        old = own.call("GET", "/apis/karpenter.sh/v1beta1/nodepools/general").body
        old["metadata"]["labels"] = {"team": "a"}

        answer = own.call("PUT", "/apis/karpenter.sh/v1beta1/nodepools/general", old)

        assert 200 == answer.status
        assert created["metadata"]["uid"] == answer.body["metadata"]["uid"]

    def test_a_claim_takes_its_lifetime_from_its_pool(self, own: Cluster) -> None:
        pool = self.pool("v1")
        pool["spec"]["template"]["spec"]["expireAfter"] = "48h"
        own.create(pool)
        claim = manifest(
            "karpenter.sh/v1beta1",
            "NodeClaim",
            "c1",
            namespace=None,
            metadata={"labels": {"karpenter.sh/nodepool": "general"}},
            spec=self.pool("v1beta1")["spec"]["template"]["spec"],
        )

        own.create(claim)

        stored = own.call("GET", "/apis/karpenter.sh/v1/nodeclaims/c1").body
        assert "48h" == stored["spec"]["expireAfter"]

    def test_legacy_kinds_pass_their_webhook(self, own: Cluster) -> None:
        path = "/apis/karpenter.sh/v1alpha5/provisioners"
        bad = manifest(
            "karpenter.sh/v1alpha5",
            "Provisioner",
            "default",
            namespace=None,
            spec={"ttlSecondsAfterEmpty": -1, "providerRef": {"name": "default"}},
        )

        answer = own.call("POST", path, bad)

        assert answer.status in {400, 422}

    @pytest.mark.row("S0-35")
    @pytest.mark.parametrize(
        ("provider", "spec", "named"),
        [
            pytest.param("kwok", {"weight": 10}, [], id="kwok takes a Provisioner without a class"),
            pytest.param("aws", {"weight": 10}, ["providerRef or provider"], id="AWS asks for one"),
            pytest.param("kwok", {"provider": {}}, [], id="kwok asks nothing of a provider"),
            pytest.param(
                "aws",
                {"provider": {}},
                ["spec.provider.subnetSelector", "spec.provider.securityGroupSelector"],
                id="AWS asks for both selectors",
            ),
        ],
    )
    def test_provisioners_are_judged_by_the_rules_of_the_running_provider(
        self, own: Cluster, provider: str, spec: dict[str, Any], named: list[str]
    ) -> None:
        own.backend.provider = provider
        given = manifest(
            "karpenter.sh/v1alpha5", "Provisioner", "default", namespace=None, spec=spec
        )

        answer = own.call("POST", "/apis/karpenter.sh/v1alpha5/provisioners", given)

        assert (400 if named else 201) == answer.status, answer.body
        assert named == [each for each in named if each in answer.body.get("message", "")]
        assert bool(named) == (own.get(given).status == 404)

    @pytest.mark.row("S1-21")
    @pytest.mark.parametrize(
        ("requirements", "stored"),
        [
            pytest.param(None, ["on-demand"], id="no requirements"),
            pytest.param(["team"], ["on-demand"], id="other requirements"),
            pytest.param([CAPACITY_TYPE], ["spot"], id="one that was chosen stays"),
        ],
    )
    def test_a_provisioner_without_a_capacity_type_is_stored_with_on_demand(
        self, own: Cluster, requirements: list[str] | None, stored: list[str]
    ) -> None:
        own.backend.provider = "aws"
        spec: dict[str, Any] = {"providerRef": {"name": "mine"}}
        if requirements is not None:
            asked = [{"key": key, "operator": "In", "values": ["spot"]} for key in requirements]
            spec["requirements"] = asked
        given = manifest(
            "karpenter.sh/v1alpha5", "Provisioner", "default", namespace=None, spec=spec
        )
        own.create(given)

        found = own.get(given).body["spec"]["requirements"]

        (capacity,) = [each for each in found if each["key"] == CAPACITY_TYPE]
        assert {"key": CAPACITY_TYPE, "operator": "In", "values": stored} == capacity

    @pytest.mark.parametrize("version", ["v1beta1", "v1"])
    @pytest.mark.parametrize("provider", ["kwok", "aws"])
    @pytest.mark.parametrize("is_changed", [False, True], ids=["created", "changed"])
    def test_a_pool_of_another_providers_class_is_taken_with_a_warning(
        self, own: Cluster, provider: str, version: str, is_changed: bool
    ) -> None:
        own.backend.provider = provider
        own.create(self.pool(version))
        path = f"/apis/karpenter.sh/{version}/nodepools"
        again = self.pool(version)
        if is_changed:
            path = f"{path}/{again['metadata']['name']}"
            answer = own.call("PATCH", path, {"spec": {"weight": 7}}, content_type=MERGE)
        else:
            again["metadata"]["name"] = "second"
            answer = own.call("POST", path, again)

        assert answer.status in {200, 201}
        told = answer.headers.get("Warning", "")
        assert (provider == "kwok") == ("no nodes come of this NodePool here" in told)
        assert (provider == "kwok") == ("start it with --provider aws" in told)

    @pytest.mark.parametrize("provider", ["kwok", "aws"])
    def test_a_provisioner_gets_the_defaults_of_the_running_provider(
        self, own: Cluster, provider: str
    ) -> None:
        own.backend.provider = provider
        given = manifest(
            "karpenter.sh/v1alpha5",
            "Provisioner",
            "default",
            namespace=None,
            spec={"providerRef": {"name": "mine"}},
        )

        stored = own.create(given)

        keys = {each["key"] for each in stored["spec"]["requirements"]}
        assert ("karpenter.k8s.aws/instance-category" in keys) is (provider == "aws")
        assert {"name": "mine"} == stored["spec"]["providerRef"]
