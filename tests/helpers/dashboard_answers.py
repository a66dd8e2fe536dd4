"""Answers for the dashboard's page: those that plan and explain give for the examples, and figures that are made up."""

import json
from typing import Any

import msgspec

from helpers.commands import run
from karpenter.dashboard import contract

_AS_OF = "2026-08-02T10:00:00Z"
_ANSWER = {"asOf": _AS_OF, "took": 0.2, "isPartial": False}
_DISRUPTION = ("examples/disruption", "--now", _AS_OF)


def answers(node: str) -> dict[str, Any]:
    """Documents by path, with that of ``general-web`` of the examples as the one of ``node``."""
    plan = _told("plan", *_DISRUPTION)
    explained = {
        f"explain/node/{node}": ("node", "general-web", *_DISRUPTION),
        "explain/nodepool/general": ("nodepool", "general", *_DISRUPTION),
        "explain/pod/default/training": ("pod", "training", "examples/plan"),
    }
    return {
        **{path: _told("explain", *words) for path, words in explained.items()},
        "plan": plan,
        "what-if": _what_if(plan, node),
        "costs": _plain(_costs(node)),
        "decisions": {"records": [_record(number, node) for number in range(6)], "before": None},
        "about": _plain(_about()),
    }


def _told(*words: str) -> dict[str, Any]:
    ran = run(*words, "-o", "json")
    assert ran.code == 0, ran.err
    return {**json.loads(ran.out), **_ANSWER}


def _plain(document: contract.Document) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(document)
    return found


def _what_if(plan: dict[str, Any], node: str) -> dict[str, Any]:
    launch = {"instanceType": "c-8x", "zone": "za", "capacityType": "spot", "price": 0.12}
    claim = {
        "name": "general-x7k2p",
        "nodePool": "general",
        "pods": ["default/web-0"],
        "instanceTypes": ["c-8x"],
        "requests": {"cpu": "7", "memory": "8Gi"},
        "launch": launch,
    }
    return _plain(
        contract.WhatIfAnswer(
            as_of=_AS_OF,
            took=0.2,
            is_partial=False,
            before=plan,
            after={**plan, "provisioning": {**plan["provisioning"], "nodeClaims": [claim]}},
            diff=contract.Difference(
                nodes_added=[claim],
                nodes_removed=[node],
                pods_moved=["default/web-0"],
                pods_unplaced=["default/web-1"],
                pods_placed=["default/training"],
                hourly=-0.22,
            ),
            held=[
                {
                    "pod": "default/web-0",
                    "pdb": "default/web",
                    "detail": "PDB default/web allows 0 of 2",
                }
            ],
        )
    )


def _costs(node: str) -> contract.Costs:
    moments = range(0, 7200, 60)
    tables = {
        "pool": ("general", "spot", "batch"),
        "capacityType": ("on-demand", "spot"),
        "namespace": ("shop", "default", "batch"),
        "owner": ("Deployment/web", "Deployment/api"),
    }
    return contract.Costs(
        at="2026-11-18T10:00:00Z",
        hourly=10.0,
        monthly=7300.0,
        unpriced=2,
        is_estimate=True,
        series=contract.Moments(
            at=[1_794_992_800 + each for each in moments],
            hourly=[9.0 + each / 7200 for each in moments],
            nodes=[40 for _ in moments],
            pods=[300 for _ in moments],
            unpriced=[2 for _ in moments],
        ),
        tables=[
            contract.CostTable(
                by=by,
                rows=[
                    contract.CostRow(
                        name=name,
                        hourly=6.0 / 2**place,
                        monthly=4380.0 / 2**place,
                        share=0.6 / 2**place,
                        is_estimate=place == 1,
                    )
                    for place, name in enumerate(names)
                ],
                idle=1.5 if by in ("namespace", "owner") else 0.0,
            )
            for by, names in tables.items()
        ],
        savings=contract.Savings(
            planned=0.42,
            commands=2,
            blocked=[
                contract.BlockedSaving(
                    reason="PodDisruptionBudget",
                    hourly=0.0172,
                    nodes=[
                        contract.BlockedNode(
                            node=node,
                            hourly=0.0172,
                            detail="PDB default/web allows 0 of 2",
                            objects=["PodDisruptionBudget/default/web"],
                        )
                    ],
                )
            ],
        ),
        bound=8.0,
        gap=0.25,
        realised=contract.Realised(
            dollars=12.4, hourly=0.8, commands=7, since="2026-11-18T04:00:00Z", is_estimate=False
        ),
    )


def _record(number: int, node: str) -> dict[str, Any]:
    kinds = ("Disrupt", "Launch", "Provision", "Limit", "Terminate", "Refuse")
    outcomes = ("begun", "done", "done", "failed", "abandoned", "done")
    seen = "seen: " if number == 1 else ""
    return {
        "id": f"r-{number}",
        "at": f"2026-11-18T09:{50 - number:02d}:09.120Z",
        "kind": kinds[number],
        "source": "observed" if seen else "controller",
        "reason": "Underutilized",
        "severity": "warning" if kinds[number] == "Limit" else "info",
        "outcome": outcomes[number],
        "text": f"{seen}{node} goes: 1 pod fits on general-full, saves $0.1086/h",
        "objects": [f"Node/{node}", "NodePool/general"],
        "nodePools": ["general"],
        "pods": 1,
        "savingsHourly": 0.1086,
        "isEstimate": number == 2,
        "command": "0b1c" if number in (0, 4) else None,
        "detail": {"method": "single"},
    }


def _about() -> contract.About:
    return contract.About(
        version="0.1.0",
        source="sandbox",
        provider="kwok",
        cluster="",
        prices="those of the simulated provider's catalogue",
        unread=["VolumeAttachment"],
        settings={"BATCH_IDLE_DURATION": "1s", "PREFERENCE_POLICY": "Respect"},
        settings_from="the options of this process",
        history=contract.HistoryKept(
            since="2026-11-18T04:00:00Z",
            until="2026-11-18T10:00:00Z",
            bytes=1_234_567,
            is_on_disk=False,
        ),
        clients=1,
        can_plan=True,
        leader="",
    )
