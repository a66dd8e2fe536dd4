"""Mixes about pods that wait: each puts one part of scheduling to the test."""

from parity import around
from parity import parts as k
from parity.parts import Parts
from parity.problems import ZONES, Json, Problem


def plain(make: Parts, problem: Problem) -> None:
    """Pods of all sizes, some pools."""
    _stage(make, problem)
    problem.objects += [make.pod() for _ in range(make.random.randint(1, 14))]


def affinity(make: Parts, problem: Problem) -> None:
    """Node selectors and node affinity, required and preferred, on well-known and own labels."""
    _stage(make, problem)
    for pool in problem.of_kind("NodePool"):
        if make.chance(0.5):
            pool["spec"]["template"]["metadata"]["labels"] = {k.TEAM: make.one(k.TEAMS)}
        elif make.chance(0.4):
            values = make.some(k.TEAMS)
            wish = make.expression(k.TEAM, make.one(("In", "NotIn")), *values)
            pool["spec"]["template"]["spec"]["requirements"].append(wish)
    for _ in range(make.random.randint(2, 10)):
        problem.objects.append(make.pod(**_node_wishes(make)))


def taints(make: Parts, problem: Problem) -> None:
    """Taints and startup taints of pools, and pods that tolerate some of them."""
    _stage(make, problem)
    for pool in problem.of_kind("NodePool"):
        spec = pool["spec"]["template"]["spec"]
        spec["taints"] = _distinct([_taint(make) for _ in range(make.random.randint(0, 2))])
        if make.chance(0.3):
            spec["startupTaints"] = [{"key": "starting", "value": "true", "effect": "NoSchedule"}]
    for _ in range(make.random.randint(2, 10)):
        tolerations = [_toleration(make) for _ in range(make.random.randint(0, 2))]
        problem.objects.append(make.pod(tolerations=tolerations))


def resources(make: Parts, problem: Problem) -> None:
    """Accelerators, init containers, sidecars, overhead, host ports and DaemonSets."""
    _stage(make, problem, gpus=True)
    for number in range(make.random.randint(0, 2)):
        spec: Json = {}
        if make.chance(0.4):
            spec["nodeSelector"] = {k.ARCH: make.one(("amd64", "arm64"))}
        problem.objects.append(make.daemon_set(f"ds{number}", **spec))
    for _ in range(make.random.randint(2, 10)):
        problem.objects.append(_demanding(make))


def reserved(make: Parts, problem: Problem) -> None:
    """Reservations with room for some machines or none."""
    _stage(make, problem, reservations=True)
    for pool in problem.of_kind("NodePool"):
        if make.chance(0.4):
            ways = make.some((k.SPOT, k.ON_DEMAND, k.RESERVED))
            wish = make.expression(k.WAY, "In", *ways)
            rest = [
                each
                for each in pool["spec"]["template"]["spec"]["requirements"]
                if each["key"] != k.WAY
            ]
            pool["spec"]["template"]["spec"]["requirements"] = [*rest, wish]
    for _ in range(make.random.randint(1, 8)):
        spec: Json = {}
        if make.chance(0.25):
            spec["nodeSelector"] = {k.WAY: make.one((k.SPOT, k.ON_DEMAND, k.RESERVED))}
        problem.objects.append(make.pod(**spec))


def nodes(make: Parts, problem: Problem) -> None:
    """Machines that exist in every stage of their life, with pods and DaemonSets on them."""
    _stage(make, problem)
    if make.chance(0.5):
        problem.objects.append(make.daemon_set("ds0"))
    _machines(make, problem, make.random.randint(1, 5))
    for _ in range(make.random.randint(1, 10)):
        wishes = _node_wishes(make) if make.chance(0.3) else {}
        problem.objects.append(make.pod(**wishes))


def spread(make: Parts, problem: Problem) -> None:
    """Topology spread over zones, hosts and capacity types."""
    _stage(make, problem)
    if make.chance(0.5):
        _machines(make, problem, make.random.randint(1, 4))
    constraints = {app: [_spread(make, app)] for app in k.APPS}
    for app in k.APPS:
        if make.chance(0.25):
            constraints[app].append(_spread(make, app))
            if constraints[app][0]["topologyKey"] == constraints[app][1]["topologyKey"]:
                constraints[app].pop()
    for _ in range(make.random.randint(2, 12)):
        app = make.one(k.APPS)
        spec: Json = {"labels": {"app": app}}
        if make.chance(0.85):
            spec["topologySpreadConstraints"] = constraints[app]
        if make.chance(0.15):
            spec["nodeSelector"] = {k.ZONE: make.one(ZONES)}
        problem.objects.append(make.pod(**spec))


def pod_affinity(make: Parts, problem: Problem) -> None:
    """Pods that want to be near others, or away from them."""
    _stage(make, problem)
    if make.chance(0.5):
        _machines(make, problem, make.random.randint(1, 4))
    terms = {app: _pod_terms(make) for app in k.APPS}
    for _ in range(make.random.randint(2, 10)):
        app = make.one(k.APPS)
        spec: Json = {"labels": {"app": app}}
        if make.chance(0.75):
            spec["affinity"] = terms[app]
        problem.objects.append(make.pod(**spec))


def volumes(make: Parts, problem: Problem) -> None:
    """Volumes that exist in a zone, and claims whose class allows only some zones."""
    _stage(make, problem)
    problem.objects += around.storage_classes(make)
    if make.chance(0.4):
        _machines(make, problem, make.random.randint(1, 3))
    for number in range(make.random.randint(1, 8)):
        names = [f"pvc-{number}-{part}" for part in range(make.random.randint(0, 2))]
        for name in names:
            problem.objects += around.claim_of_volume(make, name)
        problem.objects.append(make.pod(volumes=around.mounts(names)))


def volume_limits(make: Parts, problem: Problem) -> None:
    """Machines that can attach few volumes."""
    volumes(make, problem)
    _machines(make, problem, make.random.randint(1, 2))
    for kinds in problem.instance_types.values():
        for kind in kinds:
            if make.chance(0.6):
                kind["volumeLimits"] = {"csi.example.com": make.random.randint(1, 3)}
    for node in list(problem.of_kind("Node")):
        if make.chance(0.6):
            problem.objects.append(around.csi_node(make, node))


def min_values(make: Parts, problem: Problem) -> None:
    """Pools that want to stay flexible."""
    _stage(make, problem)
    problem.options["bestEffortMinValues"] = make.chance(0.3)
    for pool in problem.of_kind("NodePool"):
        spec = pool["spec"]["template"]["spec"]
        rest = [each for each in spec["requirements"] if each["key"] not in (k.ZONE, "integer")]
        for key in make.some((k.TYPE, k.ZONE, "integer", "size"), 0):
            wish = make.expression(key, "Exists")
            rest.append({**wish, "minValues": make.random.randint(1, 4)})
        spec["requirements"] = rest
    problem.objects += [make.pod() for _ in range(make.random.randint(1, 10))]


def default_spread(make: Parts, problem: Problem) -> None:
    """Spread constraints that the cluster gives to pods that have none."""
    _stage(make, problem)
    key, way = make.one((k.ZONE, k.HOST)), make.one(("DoNotSchedule", "ScheduleAnyway"))
    problem.options["schedulerConfig"] = (
        '{"podTopologySpread": {"defaultConstraints": [{"maxSkew": 1,'
        f' "topologyKey": "{key}", "whenUnsatisfiable": "{way}"' + "}]}}"
    )
    for app in k.APPS:
        if make.chance(0.7):
            problem.objects.append(around.service(app))
        if make.chance(0.5):
            problem.objects.append(around.replica_set(app))
    if make.chance(0.5):
        _machines(make, problem, make.random.randint(1, 3))
    problem.objects += [make.pod() for _ in range(make.random.randint(2, 10))]


def overlays(make: Parts, problem: Problem) -> None:
    """NodeOverlays that change prices and capacities."""
    _stage(make, problem)
    problem.options["gates"] = {"NodeOverlay": True}
    for number in range(make.random.randint(1, 3)):
        problem.objects.append(around.overlay(make, f"o{number}"))
    for _ in range(make.random.randint(1, 8)):
        spec: Json = {}
        if make.chance(0.2):
            spec["requests"] = {"example.com/slots": "1"}
        problem.objects.append(make.pod(**spec))


def buffers(make: Parts, problem: Problem) -> None:
    """CapacityBuffers beside pods that wait."""
    _stage(make, problem, limits=False)
    problem.options["gates"] = {"CapacityBuffer": True}
    if make.chance(0.6):
        _machines(make, problem, make.random.randint(1, 3))
    problem.objects += around.buffer(make)
    problem.objects += [make.pod() for _ in range(make.random.randint(0, 5))]


def _stage(
    make: Parts,
    problem: Problem,
    *,
    gpus: bool = False,
    reservations: bool = False,
    limits: bool = True,
) -> None:
    problem.instance_types = {"": make.types(gpus=gpus, reservations=reservations)}
    pools = make.pools()
    for pool in pools:
        if not limits:
            pool["spec"].pop("limits", None)
    problem.objects += [around.namespace("default", {"kind": "apps"}), *pools]
    problem.options["ignorePreferences"] = make.chance(0.1)


def _machines(make: Parts, problem: Problem, count: int) -> None:
    """Machines of all kinds, each with pods that fit on it."""
    pools = list(problem.of_kind("NodePool"))
    kinds = problem.instance_types[""]
    start = len(list(problem.of_kind("Node", "NodeClaim")))
    for number in range(start, start + count):
        name = f"n{number}"
        pool = None if make.chance(0.2) else make.one(pools)
        stage = "initialized"
        if pool is not None and make.chance(0.3):
            stage = make.one(("registered", "launched"))
        taints = [_taint(make)] if make.chance(0.15) else []
        problem.objects += make.machine(name, pool, make.one(kinds), stage=stage, taints=taints)
        if stage != "launched":
            for _ in range(make.random.randint(0, 3)):
                app = make.one(k.APPS)
                problem.objects.append(
                    make.bound(name, cpu="200m", memory="128Mi", labels={"app": app})
                )


def _node_wishes(make: Parts) -> Json:
    found: Json = {}
    if make.chance(0.35):
        key, value = make.one(
            (
                (k.ZONE, make.one(ZONES)),
                (k.WAY, make.one((k.SPOT, k.ON_DEMAND))),
                (k.ARCH, make.one(("amd64", "arm64"))),
                (k.TEAM, make.one(k.TEAMS)),
                ("size", make.one(("small", "large"))),
            )
        )
        found["nodeSelector"] = {key: value}
    node: Json = {}
    if make.chance(0.5):
        node["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": [
                {"matchExpressions": [_node_expression(make) for _ in range(make.one((1, 1, 2)))]}
                for _ in range(make.one((1, 1, 2)))
            ]
        }
    if make.chance(0.4):
        node["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {
                "weight": weight,
                "preference": {"matchExpressions": [_node_expression(make)]},
            }
            for weight in make.random.sample(range(1, 100), make.one((1, 1, 2)))
        ]
    if node:
        found["affinity"] = {"nodeAffinity": node}
    return found


def _node_expression(make: Parts) -> Json:
    key = make.one((k.ZONE, k.WAY, k.ARCH, k.TEAM, "size", "integer", "special"))
    if key == "integer":
        if make.chance(0.6):
            return make.expression(key, make.one(("Gt", "Lt")), str(make.one((1, 2, 4, 8))))
        return make.expression(key, "In", *make.some(("1", "2", "4", "8", "16")))
    values = {
        k.ZONE: ZONES,
        k.WAY: (k.SPOT, k.ON_DEMAND),
        k.ARCH: ("amd64", "arm64"),
        k.TEAM: k.TEAMS,
        "size": ("small", "large"),
        "special": ("optional",),
    }[key]
    operator = make.one(("In", "In", "NotIn", "Exists", "DoesNotExist"))
    if operator in ("Exists", "DoesNotExist"):
        if operator == "DoesNotExist" and key not in (k.TEAM, "special"):
            operator = "Exists"
        return make.expression(key, operator)
    return make.expression(key, operator, *make.some(values))


def _taint(make: Parts) -> Json:
    return {
        "key": make.one(("dedicated", "gpu")),
        "value": make.one(("yes", "no")),
        "effect": make.one(("NoSchedule", "NoExecute", "PreferNoSchedule")),
    }


def _toleration(make: Parts) -> Json:
    if make.chance(0.2):
        return {"key": make.one(("dedicated", "gpu")), "operator": "Exists"}
    found = {
        "key": make.one(("dedicated", "gpu")),
        "operator": "Equal",
        "value": make.one(("yes", "no")),
    }
    if make.chance(0.4):
        found["effect"] = make.one(("NoSchedule", "NoExecute", "PreferNoSchedule"))
    return found


def _distinct(taints: list[Json]) -> list[Json]:
    return list({(each["key"], each["effect"]): each for each in taints}.values())


def _demanding(make: Parts) -> Json:
    spec: Json = {}
    if make.chance(0.3):
        spec["requests"] = {k.GPU: str(make.one((1, 2)))}
    if make.chance(0.2):
        spec["requests"] = {"ephemeral-storage": f"{make.one((1, 8, 15))}Gi"}
    if make.chance(0.15):
        spec["overhead"] = {"cpu": "250m", "memory": "120Mi"}
    made = make.pod(**spec)
    if make.chance(0.3):
        first = {
            "name": "init",
            "image": "x",
            "resources": {"requests": {"cpu": f"{make.one((1, 2))}", "memory": "100Mi"}},
        }
        if make.chance(0.4):
            first["restartPolicy"] = "Always"
        made["spec"]["initContainers"] = [first]
    if make.chance(0.25):
        made["spec"]["containers"][0]["ports"] = [
            {"containerPort": 80, "hostPort": make.one((80, 443)), "protocol": "TCP"}
        ]
    return made


def _spread(make: Parts, app: str) -> Json:
    key = make.one((k.ZONE, k.ZONE, k.HOST, k.WAY))
    found: Json = {
        "maxSkew": make.one((1, 1, 2)),
        "topologyKey": key,
        "whenUnsatisfiable": make.one(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": {"matchLabels": {"app": app}},
    }
    if found["whenUnsatisfiable"] == "DoNotSchedule" and make.chance(0.2):
        found["minDomains"] = make.one((2, 3))
    if make.chance(0.2):
        found["nodeTaintsPolicy"] = make.one(("Honor", "Ignore"))
    if make.chance(0.2):
        found["nodeAffinityPolicy"] = make.one(("Honor", "Ignore"))
    return found


def _pod_terms(make: Parts) -> Json:
    def term() -> Json:
        return {
            "labelSelector": {"matchLabels": {"app": make.one(k.APPS)}},
            "topologyKey": make.one((k.ZONE, k.HOST, k.HOST)),
        }

    kind = make.one(("podAffinity", "podAntiAffinity"))
    if make.chance(0.65):
        return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term()]}}
    return {
        kind: {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": make.random.randint(1, 100), "podAffinityTerm": term()}
            ]
        }
    }
