"""What people who watch a sandbox are told about the controllers' decisions."""

from datetime import UTC, datetime

import pytest

from karpenter_sandbox.command.decision_lines import decision_logger, sentence


@pytest.mark.parametrize(
    ("message", "entry", "expected"),
    [
        pytest.param(
            "computed new nodeclaim(s) to fit pod(s)",
            {"pods": 1, "nodeclaims": 1},
            "1 pod has no place: 1 new node needed",
            id="pods without a place",
        ),
        pytest.param(
            "created nodeclaim",
            {
                "NodeClaim": {"name": "a-1"},
                "requests": {"cpu": "5", "memory": "1Gi", "pods": "5"},
                "instance-types": "c-8x, s-8x, m-8x and 9 other(s)",
            },
            "asking for a-1: 5 cpu, 1Gi memory on c-8x or 11 other types",
            id="a claim with a choice",
        ),
        pytest.param(
            "created nodeclaim",
            {"NodeClaim": {"name": "a-1"}, "requests": {"cpu": "5"}, "instance-types": "c-8x"},
            "asking for a-1: 5 cpu on c-8x",
            id="a claim without a choice",
        ),
        pytest.param(
            "created nodeclaim",
            {"NodeClaim": {"name": "a-1"}, "requests": {}, "instance-types": ""},
            "asking for a-1: any type its pool allows",
            id="a claim of a static pool",
        ),
        pytest.param(
            "launched nodeclaim",
            {
                "NodeClaim": {"name": "a-1"},
                "instance-type": "c-8x",
                "capacity-type": "spot",
                "zone": "z1",
            },
            "launched a-1: c-8x, spot, in z1",
            id="a launch",
        ),
        pytest.param(
            "could not schedule pod",
            {"Pod": {"namespace": "default", "name": "web"}, "error": "no pool is ready"},
            "! no place for pod default/web: no pool is ready",
            id="a pod without a place",
        ),
        pytest.param(
            "pod has to wait for another pass",
            {
                "Pod": {"namespace": "default", "name": "web"},
                "reason": "waits for the next pass: x",
            },
            "pod default/web waits for the next pass: x",
            id="a pod that waits",
        ),
        pytest.param(
            "disrupting node(s)",
            {"reason": "Underutilized", "disrupted-node-count": 2, "replacement-node-count": 1},
            "removing 2 nodes because underutilized, with 1 node in place",
            id="a replacement",
        ),
        pytest.param(
            "tainted node",
            {"Node": {"name": "kwok-a-1-calm-ember-1-jne51v1xui-1771592215"}},
            "draining a-1",
            id="a simulated node goes by the name of its claim",
        ),
        pytest.param(
            "tainted node", {"Node": {"name": "ip-1"}}, "draining ip-1", id="other nodes do not"
        ),
        pytest.param("found provisionable pod(s)", {}, "", id="what is of no interest"),
    ],
)
def test_an_entry_becomes_a_sentence(message: str, entry: dict[str, object], expected: str) -> None:
    assert expected == sentence("info", message, entry)


def test_an_error_is_always_told() -> None:
    assert "! reconcile failed: too bad" == sentence(
        "error", "reconcile failed", {"error": "too bad"}
    )


def test_an_error_that_goes_on_is_told_again_after_a_while_only() -> None:
    said: list[str] = []
    moment = datetime(2030, 1, 1, 12, 30, tzinfo=UTC)
    log = decision_logger(said.append, lambda: moment)

    for minutes in (0, 1, 9, 10, 11):
        moment = datetime(2030, 1, 1, 12, 30 + minutes, tzinfo=UTC)
        log.error("reconcile failed", error="the disk is full")
        log.error("reconcile failed", error="the disk is full")
    log.error("reconcile failed", error="something else")

    assert [
        "12:30:00 ! reconcile failed: the disk is full",
        "12:40:00 ! reconcile failed: the disk is full",
        "12:41:00 ! reconcile failed: something else",
    ] == said


def test_the_logger_says_when() -> None:
    said: list[str] = []
    log = decision_logger(said.append, lambda: datetime(2030, 1, 1, 12, 30, tzinfo=UTC))

    log.info("registered nodeclaim", NodeClaim={"name": "a-1"})
    log.debug("registered nodeclaim", NodeClaim={"name": "a-2"})
    log.info("something else")

    assert ["12:30:00 a-1 has joined the cluster"] == said
