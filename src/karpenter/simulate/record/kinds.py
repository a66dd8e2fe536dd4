"""The kinds that are recorded, and what of each is.

Objects are decoded whole, because what is taken of them is decided here and not by the fields that
the project reads elsewhere. What has no rule does not get further than ``taken``.
"""

from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from karpenter.api.meta import JsonObject, Resource, kind_of
from karpenter.model.conditions import (
    INITIALIZED,
    LAUNCHED,
    POD_SCHEDULED,
    READY,
    REGISTERED,
)
from karpenter.simulate.record.fields import (
    METADATA,
    OWNERS,
    SELECTOR,
    Rule,
    amounts,
    annotations,
    by_key,
    each,
    fields,
    image,
    labelled,
    name,
    of_types,
    plain,
)
from karpenter.simulate.record.loads import load_of
from karpenter.simulate.record.names import Names

# Reasons of Events on NodeClaims
REFUSED: Final = "InsufficientCapacityError"
INTERRUPTED: Final = "SpotInterrupted"


class Whole(Resource, frozen=True):
    """An object with all that rules may take something of, as it stands in its JSON."""

    spec: Any = None
    status: Any = None
    # Of kinds that have no specification
    value: Any = None
    global_default: Any = None
    preemption_policy: Any = None
    handler: Any = None
    overhead: Any = None
    scheduling: Any = None
    provisioner: Any = None
    reclaim_policy: Any = None
    volume_binding_mode: Any = None
    allowed_topologies: Any = None
    # Of Events
    involved_object: Any = None
    reason: Any = None
    first_timestamp: Any = None
    event_time: Any = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A kind that is recorded."""

    model: type[Whole]
    rule: Rule
    is_rare: bool  # many clusters do not serve it
    is_supply: bool  # it is no demand: pools, nodes and what they are of
    selector: str = ""  # of fields, where only some of its objects are asked for
    reasons: frozenset[str] = frozenset()  # of Events; others are not taken

    @property
    def kind(self) -> str:
        """Its name."""
        return kind_of(self.model)


# --- Pods

_NODE_TERMS: Final = fields(
    matchExpressions=each(by_key),
    matchFields=each(fields(key=plain, operator=plain, values=each(name))),
)
_POD_TERM: Final = fields(
    labelSelector=SELECTOR,
    namespaces=each(name),
    namespaceSelector=SELECTOR,
    topologyKey=plain,
    matchLabelKeys=each(plain),
    mismatchLabelKeys=each(plain),
)
_POD_AFFINITY: Final = fields(
    requiredDuringSchedulingIgnoredDuringExecution=each(_POD_TERM),
    preferredDuringSchedulingIgnoredDuringExecution=each(
        fields(weight=plain, podAffinityTerm=_POD_TERM)
    ),
)
_AFFINITY: Final = fields(
    nodeAffinity=fields(
        requiredDuringSchedulingIgnoredDuringExecution=fields(nodeSelectorTerms=each(_NODE_TERMS)),
        preferredDuringSchedulingIgnoredDuringExecution=each(
            fields(weight=plain, preference=_NODE_TERMS)
        ),
    ),
    podAffinity=_POD_AFFINITY,
    podAntiAffinity=_POD_AFFINITY,
)
_CONTAINER: Final = fields(
    image=image,
    resources=fields(requests=amounts, limits=amounts),
    restartPolicy=plain,
    ports=each(fields(hostPort=plain, containerPort=plain, protocol=plain)),
)
_SPREAD: Final = fields(
    maxSkew=plain,
    topologyKey=plain,
    whenUnsatisfiable=plain,
    labelSelector=SELECTOR,
    matchLabelKeys=each(plain),
    minDomains=plain,
    nodeAffinityPolicy=plain,
    nodeTaintsPolicy=plain,
)
_POD: Final = fields(
    nodeName=name,
    priorityClassName=name,
    priority=plain,
    preemptionPolicy=plain,
    runtimeClassName=name,
    schedulerName=name,
    restartPolicy=plain,
    terminationGracePeriodSeconds=plain,
    hostNetwork=plain,
    nodeSelector=labelled,
    tolerations=each(by_key),
    topologySpreadConstraints=each(_SPREAD),
    affinity=_AFFINITY,
    overhead=amounts,
    resources=fields(requests=amounts, limits=amounts),
    containers=each(_CONTAINER),
    initContainers=each(_CONTAINER),
    volumes=each(fields(persistentVolumeClaim=fields(claimName=name))),
)
_TEMPLATE: Final = fields(metadata=fields(labels=labelled, annotations=annotations), spec=_POD)
_RAN: Final = fields(startedAt=plain, finishedAt=plain, exitCode=plain)
_POD_STATUS: Final = fields(
    phase=plain,
    conditions=of_types(POD_SCHEDULED, "DisruptionTarget"),
    containerStatuses=each(fields(state=fields(running=_RAN, terminated=_RAN))),
)
_UNOWNED_POD: Final = fields(metadata=METADATA, spec=_POD, status=_POD_STATUS)
# What a pod asks for stands in its owner
_OWNED_POD: Final = fields(
    metadata=fields(
        name=name,
        namespace=name,
        uid=plain,
        creationTimestamp=plain,
        deletionTimestamp=plain,
        ownerReferences=OWNERS,
    ),
    spec=fields(nodeName=name, containers=each(fields(image=image))),
    status=_POD_STATUS,
)
# By which pods are known to be of a Deployment
_OWNERSHIP: Final = fields(
    metadata=fields(name=name, namespace=name, uid=plain, ownerReferences=OWNERS)
)
KNOWN_OWNERS: Final = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "Job"})


def controller_of(obj: JsonObject) -> JsonObject | None:
    """The owner of an object that makes more like it, if one does."""
    owners = (obj.get("metadata") or {}).get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def is_owned(pod: JsonObject) -> bool:
    """Whether what made a pod is recorded, so that the pod needs not be."""
    owner = controller_of(pod)
    return owner is not None and owner.get("kind") in KNOWN_OWNERS


def _with_load(rule: Rule) -> Rule:
    """Such a rule for autoscalers, with the load that they measure."""

    def take(value: Any, names: Names) -> Any:
        found, load = rule(value, names) or {}, load_of(value)
        return found if load is None else {**found, "status": {"load": load}}

    return take


def _pod(value: Any, names: Names) -> Any:
    return (_OWNED_POD if is_owned(value) else _UNOWNED_POD)(value, names)


# --- Everything else

_CLAIM_SPEC: Final = fields(
    storageClassName=name,
    volumeName=name,
    accessModes=each(plain),
    volumeMode=plain,
    resources=fields(requests=amounts),
)
_CLASS_REFERENCE: Final = fields(group=plain, kind=plain, name=name)
_JOB: Final = fields(
    parallelism=plain,
    completions=plain,
    completionMode=plain,
    backoffLimit=plain,
    suspend=plain,
    activeDeadlineSeconds=plain,
    template=_TEMPLATE,
)
_OF_NODES: Final = fields(
    requirements=each(by_key),
    taints=each(by_key),
    startupTaints=each(by_key),
    nodeClassRef=_CLASS_REFERENCE,
    expireAfter=plain,
    terminationGracePeriod=plain,
    resources=fields(requests=amounts),
)
_SCALE_RULES: Final = fields(
    stabilizationWindowSeconds=plain,
    selectPolicy=plain,
    policies=each(fields(type=plain, value=plain, periodSeconds=plain)),
)


def _kind(
    api_version: str,
    kind: str,
    *,
    is_namespaced: bool = True,
    is_rare: bool = False,
    is_supply: bool = False,
    selector: str = "",
    reasons: frozenset[str] = frozenset(),
    **rules: Rule,
) -> Recorded:
    place = {"api_version": api_version, "namespaced": is_namespaced, "__module__": __name__}
    made = msgspec.defstruct(kind, [], bases=(Whole,), frozen=True, namespace=place)
    model = cast(type[Whole], made)
    whole = fields(metadata=METADATA, **rules)
    rule = {"Pod": _pod, "HorizontalPodAutoscaler": _with_load(whole)}.get(kind, whole)
    return Recorded(model, rule, is_rare, is_supply, selector, reasons)


RECORDED: Final[tuple[Recorded, ...]] = (
    # Demand: what users ask for
    _kind("v1", "Namespace", is_namespaced=False),
    _kind(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        is_namespaced=False,
        value=plain,
        globalDefault=plain,
        preemptionPolicy=plain,
    ),
    _kind(
        "node.k8s.io/v1",
        "RuntimeClass",
        is_namespaced=False,
        handler=plain,
        overhead=fields(podFixed=amounts),
        scheduling=fields(nodeSelector=labelled, tolerations=each(by_key)),
    ),
    _kind(
        "v1",
        "LimitRange",
        spec=fields(
            limits=each(
                fields(
                    type=plain, default=amounts, defaultRequest=amounts, min=amounts, max=amounts
                )
            )
        ),
    ),
    _kind(
        "storage.k8s.io/v1",
        "StorageClass",
        is_namespaced=False,
        provisioner=plain,
        reclaimPolicy=plain,
        volumeBindingMode=plain,
        allowedTopologies=each(
            fields(matchLabelExpressions=each(fields(key=plain, values=each(plain))))
        ),
    ),
    _kind(
        "v1",
        "PersistentVolume",
        is_namespaced=False,
        spec=fields(
            capacity=amounts,
            accessModes=each(plain),
            storageClassName=name,
            claimRef=fields(namespace=name, name=name),
            csi=fields(driver=plain),
            nodeAffinity=fields(required=fields(nodeSelectorTerms=each(_NODE_TERMS))),
        ),
        status=fields(phase=plain),
    ),
    _kind("v1", "PersistentVolumeClaim", spec=_CLAIM_SPEC, status=fields(phase=plain)),
    _kind(
        "policy/v1",
        "PodDisruptionBudget",
        spec=fields(
            minAvailable=plain,
            maxUnavailable=plain,
            selector=SELECTOR,
            unhealthyPodEvictionPolicy=plain,
        ),
    ),
    _kind(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        spec=fields(
            scaleTargetRef=fields(apiVersion=plain, kind=plain, name=name),
            minReplicas=plain,
            maxReplicas=plain,
            behavior=fields(scaleUp=_SCALE_RULES, scaleDown=_SCALE_RULES),
        ),
    ),
    _kind(
        "apps/v1",
        "Deployment",
        spec=fields(
            replicas=plain,
            selector=SELECTOR,
            template=_TEMPLATE,
            strategy=fields(type=plain, rollingUpdate=fields(maxSurge=plain, maxUnavailable=plain)),
            minReadySeconds=plain,
            paused=plain,
        ),
    ),
    _kind(
        "apps/v1",
        "StatefulSet",
        spec=fields(
            replicas=plain,
            serviceName=name,
            selector=SELECTOR,
            template=_TEMPLATE,
            podManagementPolicy=plain,
            updateStrategy=fields(
                type=plain, rollingUpdate=fields(partition=plain, maxUnavailable=plain)
            ),
            volumeClaimTemplates=each(fields(metadata=fields(name=name), spec=_CLAIM_SPEC)),
            minReadySeconds=plain,
        ),
    ),
    _kind(
        "apps/v1",
        "DaemonSet",
        spec=fields(
            selector=SELECTOR,
            template=_TEMPLATE,
            updateStrategy=fields(
                type=plain, rollingUpdate=fields(maxSurge=plain, maxUnavailable=plain)
            ),
        ),
    ),
    _kind(
        "apps/v1",
        "ReplicaSet",
        spec=fields(replicas=plain, selector=SELECTOR, template=_TEMPLATE),
    ),
    _kind(
        "batch/v1",
        "Job",
        spec=_JOB,
        status=fields(
            startTime=plain, completionTime=plain, conditions=of_types("Complete", "Failed")
        ),
    ),
    _kind(
        "batch/v1",
        "CronJob",
        spec=fields(
            schedule=plain,
            timeZone=plain,
            suspend=plain,
            concurrencyPolicy=plain,
            jobTemplate=fields(spec=_JOB),
        ),
    ),
    _kind("v1", "Pod"),
    # Supply: what it runs on
    _kind(
        "karpenter.sh/v1",
        "NodePool",
        is_namespaced=False,
        is_supply=True,
        spec=fields(
            template=fields(
                metadata=fields(labels=labelled, annotations=annotations), spec=_OF_NODES
            ),
            disruption=fields(
                consolidationPolicy=plain,
                consolidateAfter=plain,
                budgets=each(
                    fields(nodes=plain, schedule=plain, duration=plain, reasons=each(plain))
                ),
            ),
            limits=amounts,
            weight=plain,
            replicas=plain,
        ),
    ),
    _kind(
        "karpenter.kwok.sh/v1alpha1",
        "KWOKNodeClass",
        is_namespaced=False,
        is_rare=True,
        is_supply=True,
        spec=fields(nodeRegistrationDelay=plain),
    ),
    _kind(
        "karpenter.k8s.aws/v1",
        "EC2NodeClass",
        is_namespaced=False,
        is_rare=True,
        is_supply=True,
        spec=fields(
            amiFamily=plain,
            instanceStorePolicy=plain,
            kubelet=fields(
                maxPods=plain, podsPerCore=plain, systemReserved=amounts, kubeReserved=amounts
            ),
        ),
    ),
    _kind(
        "karpenter.sh/v1alpha1",
        "NodeOverlay",
        is_namespaced=False,
        is_rare=True,
        is_supply=True,
        spec=fields(
            requirements=each(by_key),
            price=plain,
            priceAdjustment=plain,
            capacity=amounts,
            weight=plain,
        ),
    ),
    _kind(
        "autoscaling.x-k8s.io/v1beta1",
        "CapacityBuffer",
        is_rare=True,
        is_supply=True,
        spec=fields(
            podTemplateRef=fields(name=name),
            scalableRef=fields(apiGroup=plain, kind=plain, name=name),
            replicas=plain,
            percentage=plain,
            limits=amounts,
        ),
    ),
    _kind(
        "karpenter.sh/v1",
        "NodeClaim",
        is_namespaced=False,
        is_supply=True,
        spec=_OF_NODES,
        status=fields(
            nodeName=name,
            conditions=of_types(LAUNCHED, REGISTERED, INITIALIZED, READY),
        ),
    ),
    _kind(
        "v1",
        "Node",
        is_namespaced=False,
        is_supply=True,
        spec=fields(taints=each(by_key), unschedulable=plain),
        status=fields(capacity=amounts, allocatable=amounts, conditions=of_types("Ready")),
    ),
    # Facts: what the cloud refused, and what it took back; the texts of Events are never taken
    _kind(
        "v1",
        "Event",
        is_namespaced=False,  # those on claims are in one namespace, whichever are recorded
        is_supply=True,
        selector="involvedObject.kind=NodeClaim",
        reasons=frozenset({REFUSED, INTERRUPTED}),
        involvedObject=fields(name=name),
        reason=plain,
        firstTimestamp=plain,
        eventTime=plain,
    ),
)
BY_KIND: Final = {each.kind: each for each in RECORDED}
# Without these there is nothing to replay
NEEDED: Final = ("Pod", "Deployment")


def is_of_deployment(kind: str, obj: JsonObject) -> bool:
    """Whether an object is a ReplicaSet whose Deployment says all there is to say."""
    return kind == "ReplicaSet" and (controller_of(obj) or {}).get("kind") == "Deployment"


def taken(kind: str, obj: JsonObject, names: Names) -> JsonObject | None:
    """What is recorded of an object, if anything; of a ReplicaSet of a Deployment only whose it is."""
    recorded = BY_KIND[kind]
    if recorded.reasons and obj.get("reason") not in recorded.reasons:
        return None
    rule = _OWNERSHIP if is_of_deployment(kind, obj) else recorded.rule
    return {
        "apiVersion": recorded.model.api_version,
        "kind": kind,
        **(rule(obj, names) or {}),
    }


def whole(obj: Whole) -> JsonObject:
    """An object as plain data."""
    found: JsonObject = msgspec.to_builtins(obj)
    return found
