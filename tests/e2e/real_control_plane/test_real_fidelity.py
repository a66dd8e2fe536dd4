"""A small scenario comes to the same on a real control plane and in a simulation.

``python -m benchmarks fidelity`` is the long form of it, which also compares how long everything takes.
Here, every step has far more time than it needs, so that no speed decides what is bought.
"""

from pathlib import Path

import pytest
from benchmarks import fidelity
from benchmarks.fidelity_real import real_run

from karpenter.simulate.scenario.reader import Options, load

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl", "control_plane_programs")]

# Pods that fill a machine each, of a type and in a zone that they name: no order changes what is bought
SCENARIO = """\
apiVersion: simulate.karpenter.sh/v1
kind: Scenario
metadata: {name: small}
until: 2m30s
workloads:
- name: east
  pod:
    cpu: 3500m
    memory: 2Gi
    nodeSelector: {topology.kubernetes.io/zone: test-zone-a, node.kubernetes.io/instance-type: c-4x-amd64-linux}
  steps: [{at: 0s, replicas: 3}, {at: 1m, replicas: 0}]
- name: west
  pod:
    cpu: 7500m
    memory: 2Gi
    nodeSelector: {topology.kubernetes.io/zone: test-zone-b, node.kubernetes.io/instance-type: c-8x-amd64-linux}
  steps: [{at: 0s, replicas: 2}, {at: 1m, replicas: 0}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: karpenter.kwok.sh/instance-cpu, operator: In, values: ["4", "8"]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: kubernetes.io/os, operator: In, values: [linux]}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5s, budgets: [{nodes: 100%}]}
"""


def test_the_same_machines_come_and_go_and_nothing_is_left_over() -> None:
    loaded = fidelity.checked(load("small.yaml", SCENARIO.encode(), Path.cwd(), Options()))
    simulated, real = fidelity.simulated_run(loaded), real_run(loaded)

    for figures in (simulated, real):
        assert {"c-4x-amd64-linux": 3, "c-8x-amd64-linux": 2} == figures.types
        assert {"test-zone-a": 3, "test-zone-b": 2} == figures.zones
        come, go = figures.phases
        assert (5, 5) == (come.wanted, come.nodes)
        assert come.all_run is not None
        assert (0, 0) == (go.wanted, go.nodes)
        assert (0, 0, ()) == (figures.running, figures.evictions, figures.left)
