"""A sample view for the page: forty nodes of three pools, with claims, waiting pods and every state.

``PYTHONPATH=tests python -m helpers.dashboard_sample`` writes it anew.
"""

import random
from pathlib import Path
from typing import Final

import msgspec

from karpenter.dashboard import contract
from karpenter.dashboard.contract import NODE_FLAGS, NODE_STATES, POD_FLAGS, POD_STATES

PATH: Final = Path(__file__).resolve().parents[1] / "fixtures" / "dashboard" / "view.json"
_START: Final = 1_795_000_000  # seconds since 1970
_GIB: Final = 2**30
_SIZES: Final = (2, 4, 8, 16)


def sample() -> contract.View:
    """The view; the same every time."""
    chance = random.Random(7)
    view = contract.View(
        epoch="5a3c9e01", seq=12, at="2026-11-18T10:00:00.000Z", source="sandbox", provider="kwok"
    )
    text = view.dictionaries
    text.namespace += ["default", "shop", "batch", "kube-system"]
    text.owner += [f"Deployment/{each}" for each in ("web", "api", "cart", "worker", "inflate")]
    text.owner += ["DaemonSet/agent"]
    text.pool += ["general", "spot", "batch"]
    text.zone += ["za", "zb", "zc"]
    text.type += [f"{family}-{size}x" for family in ("c", "s", "m") for size in _SIZES]
    text.reason += ["Underutilized", "Unschedulable", "KubeletNotReady"]
    for number in range(1, 41):
        _add_node(view, number, chance)
    for number in range(1, 301):
        _add_pod(view, number, chance)
    view.pools = [_pool(view, name) for name in sorted(text.pool[1:])]
    view.totals = _totals(view)
    view.notices = [
        contract.Notice(
            kind="unreadable",
            text="you may not list VolumeAttachments: plans are made as if there were none",
            severity="warning",
            objects=["VolumeAttachment"],
        )
    ]
    return view


def _add_node(view: contract.View, number: int, chance: random.Random) -> None:
    size = chance.choice(_SIZES)
    state = chance.choices(NODE_STATES[1:], weights=(2, 2, 30, 1, 3))[0]
    is_unpriced, is_empty = number % 17 == 0, number % 13 == 0
    reason = {"Draining": 1, "NotReady": 3}.get(state, 0)
    nodes = view.nodes
    pool = chance.randint(0, 3)
    row = {
        "id": number,
        "name": f"node-{number}" if pool == 0 else f"{view.dictionaries.pool[pool]}-{number:05x}",
        "claim": f"{view.dictionaries.pool[pool]}-{number:05x}" if pool else "",
        "pool": pool,
        "zone": chance.randint(1, 3),
        "type": chance.choice([at for at, each in enumerate(view.dictionaries.type) if each]),
        "capacity_type": chance.choice((1, 1, 2)),
        "state": NODE_STATES.index(state),
        "cpu": size * 1000 - 100,
        "memory": size * 4 * _GIB - _GIB // 4,
        "pods": 110,
        "gpu": 4 if number % 11 == 0 else 0,
        "price": None if is_unpriced else round(size * 0.0425, 4),
        "is_estimate": number % 5 == 0,
        "created": _START - number * 777,
        "expires": _START + 86_400 * number,
        "empty_until": _START + 30 * number if is_empty else 0,
        "flags": (NODE_FLAGS["managed"] if pool else 0)
        | (NODE_FLAGS["empty"] if is_empty else 0)
        | (NODE_FLAGS["pdb"] if number % 7 == 0 else 0)
        | (NODE_FLAGS["drifted"] if number % 9 == 0 else 0),
        "reason": reason,
    }
    for column, value in row.items():
        getattr(nodes, column).append(value)


def _add_pod(view: contract.View, number: int, chance: random.Random) -> None:
    is_daemon = number <= len(view.nodes.id)
    is_waiting = not is_daemon and number % 20 == 0
    node = number if is_daemon else chance.choice(view.nodes.id)
    held = view.nodes.empty_until[node - 1] or view.nodes.state[node - 1] == 1
    state = "Waiting" if is_waiting or (held and not is_daemon) else "Running"
    owner = 6 if is_daemon else chance.randint(1, 5)
    row = {
        "id": number,
        "namespace": 4 if is_daemon else chance.randint(1, 3),
        "name": f"{view.dictionaries.owner[owner].rpartition('/')[2]}-{number:05x}",
        "owner": owner,
        "node": node if state == "Running" else -1,
        "target": node if state == "Waiting" and number % 3 == 0 else -1,
        "cpu": 50 if is_daemon else chance.choice((100, 250, 500, 1000)),
        "memory": (_GIB // 8) * (1 if is_daemon else chance.choice((1, 2, 4, 16))),
        "gpu": 0,
        "state": POD_STATES.index(state),
        "created": _START - number * 31,
        "flags": POD_FLAGS["daemon"] if is_daemon else POD_FLAGS["pdb"] if number % 7 == 0 else 0,
        "reason": 2 if state == "Waiting" else 0,
    }
    for column, value in row.items():
        getattr(view.pods, column).append(value)


def _pool(view: contract.View, name: str) -> contract.Pool:
    members = [
        at for at, pool in enumerate(view.nodes.pool) if view.dictionaries.pool[pool] == name
    ]
    prices = [view.nodes.price[at] for at in members]
    use = {
        "cpu": sum(view.nodes.cpu[at] for at in members),
        "memory": sum(view.nodes.memory[at] for at in members),
    }
    return contract.Pool(
        name=name,
        node_class="KWOKNodeClass/default",
        is_ready=True,
        reason="",
        weight=10 if name == "general" else 0,
        replicas=None,
        limits={"cpu": 400_000} if name == "general" else {},
        use=use,
        nodes=len(members),
        hourly=sum(price or 0.0 for price in prices),
        unpriced=sum(price is None for price in prices),
        is_estimate=any(view.nodes.is_estimate[at] for at in members),
        consolidation_policy="WhenEmptyOrUnderutilized",
        consolidate_after="30s",
        budgets=[
            contract.BudgetLine(nodes="10%", reasons=None, schedule=None, duration=None),
            contract.BudgetLine(
                nodes="0", reasons=["Drifted"], schedule="0 9 * * 1-5", duration="8h"
            ),
        ],
    )


def _totals(view: contract.View) -> contract.Totals:
    nodes, pods = view.nodes, view.pods
    states = [NODE_STATES[each] for each in nodes.state]
    phases = [POD_STATES[each] for each in pods.state]
    hourly = sum(price or 0.0 for price in nodes.price)
    bound = [at for at, node in enumerate(pods.node) if node >= 0]
    return contract.Totals(
        nodes=len(states),
        ready=states.count("Ready"),
        node_states={each: states.count(each) for each in NODE_STATES if each in states},
        pods=len(phases),
        pod_states={each: phases.count(each) for each in POD_STATES if each in phases},
        waiting=phases.count("Waiting"),
        hourly=hourly,
        monthly=hourly * 730,
        unpriced=nodes.price.count(None),
        is_estimate=any(nodes.is_estimate),
        cpu=sum(nodes.cpu),
        memory=sum(nodes.memory),
        cpu_requested=sum(pods.cpu[at] for at in bound),
        memory_requested=sum(pods.memory[at] for at in bound),
    )


if __name__ == "__main__":
    PATH.write_bytes(msgspec.json.format(msgspec.json.encode(sample()), indent=0) + b"\n")
