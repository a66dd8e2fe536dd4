"""Repair policies are checked as a whole, matched against conditions, and merged into one action."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from helpers.builders import NOW, condition, node
from karpenter.api.nodes import Node
from karpenter.cloud.kwok.provider import REPAIR_POLICIES
from karpenter.cloud.provider import REBOOT_NODE, REPLACE_NODE, RepairPolicy
from karpenter.cloud.repair import Repair, RepairMatches, RepairPolicies, violations

LONG_AGO = NOW - timedelta(days=30)


def policy(kind: str = "BadNode", status: str = "False", **fields: Any) -> RepairPolicy:
    minutes = fields.pop("minutes", 30)
    return RepairPolicy(kind, status, timedelta(minutes=minutes), **fields)


FALLBACK = policy()
KERNEL = policy(reason_regex="^Kernel$", minutes=1)


def sick(
    reason: str = "",
    *,
    kind: str = "BadNode",
    status: str = "False",
    age: timedelta = timedelta(minutes=2),
    created: datetime = LONG_AGO,
) -> Node:
    return node("a", conditions=[condition(kind, status, reason, NOW - age)], created=created)


def decided(
    policies: list[RepairPolicy], *nodes: Node, rebooted_at: datetime | None = None
) -> Repair | None:
    ready = RepairPolicies(policies)
    matches = [match for each in nodes for match in ready.matches(each)]
    return ready.repair(matches, now=NOW, rebooted_at=rebooted_at)


class TestValidation:
    def test_good_policies_have_no_violations(self) -> None:
        assert () == violations([FALLBACK, KERNEL])
        assert () == violations(REPAIR_POLICIES)

    @pytest.mark.parametrize(
        ("policies", "found"),
        [
            pytest.param([], ["no repair policies"], id="V15-S36 no policies"),
            pytest.param(
                [FALLBACK, FALLBACK],
                ["exactly one repair policy must have no reason regex, not 2"],
                id="V15-S36 two fallbacks",
            ),
            pytest.param([KERNEL], ["no reason regex, not 0"], id="V15-S36 no fallback"),
            pytest.param(
                [replace(FALLBACK, action=REBOOT_NODE)],
                ["fallback repair policy must have the action ReplaceNode, not RebootNode"],
                id="V15-S36 the fallback restarts",
            ),
            pytest.param(
                [FALLBACK, policy(reason_regex="(")],
                ["repair policy 2: the reason regex '(' is wrong"],
                id="V15-S36 a regex that does not compile",
            ),
            pytest.param(
                [replace(FALLBACK, priority=101)],
                ["repair policy 1: the priority must be within 0 and 100, not 101"],
                id="V15-S36 priority 101",
            ),
            pytest.param(
                [replace(FALLBACK, priority=-1)], ["the priority"], id="a negative priority"
            ),
            pytest.param(
                [FALLBACK, policy("", reason_regex="x")],
                ["repair policy 2: the condition type is missing"],
                id="no condition type",
            ),
            pytest.param(
                [policy(status="Maybe")],
                ["the status must be one of True, False, Unknown, not 'Maybe'"],
                id="an unknown status",
            ),
            pytest.param([policy(minutes=-1)], ["the toleration"], id="a negative toleration"),
            pytest.param(
                [policy(termination_grace_period=timedelta(seconds=-1))],
                ["the termination grace period must not be negative"],
                id="a negative grace period",
            ),
            pytest.param(
                [FALLBACK, policy(reason_regex="x", action="")],
                ["the action must be one of ReplaceNode, RebootNode, not ''"],
                id="an empty action",
            ),
            pytest.param(
                [policy("", "Maybe", reason_regex="[", priority=200)],
                ["condition type", "status", "priority", "regex", "not 0"],
                id="all violations are collected",
            ),
        ],
    )
    def test_violations(self, policies: list[RepairPolicy], found: list[str]) -> None:
        sentences = violations(policies)

        assert len(found) == len(sentences), sentences
        for part, sentence in zip(found, sentences, strict=True):
            assert part in sentence

    def test_the_edges_of_what_is_allowed_are_allowed(self) -> None:
        edge = policy(minutes=0, priority=100, termination_grace_period=timedelta(0))

        assert () == violations([edge, replace(KERNEL, priority=0)])


class TestMatching:
    @pytest.mark.case("V15-S34")
    def test_the_fallback_is_not_eligible_before_its_toleration_is_over(self) -> None:
        assert decided([FALLBACK, KERNEL], sick("Other")) is None

    @pytest.mark.case("V15-S34")
    def test_a_specific_policy_governs_where_its_regex_is_found(self) -> None:
        repair = decided([FALLBACK, KERNEL], sick("Kernel"))

        assert repair is not None
        assert (REPLACE_NODE, KERNEL) == (repair.action, repair.governing.policy)

    @pytest.mark.case("V15-S42")
    def test_an_unhealthy_simulated_node_is_replaced_after_thirty_seconds(self) -> None:
        unhealthy = sick(kind="KWOKUnhealthy", status="True", age=timedelta(seconds=31))

        repair = decided(list(REPAIR_POLICIES), unhealthy)

        assert repair is not None
        assert (REPLACE_NODE, timedelta(seconds=45)) == (repair.action, repair.grace_period)

    def test_the_toleration_ends_to_the_second(self) -> None:
        early = sick("Kernel", age=timedelta(seconds=59))
        on_time = sick("Kernel", age=timedelta(seconds=60))

        assert decided([FALLBACK, KERNEL], early) is None
        assert decided([FALLBACK, KERNEL], on_time) is not None

    def test_a_regex_is_found_anywhere_in_the_reason(self) -> None:
        anywhere = policy(reason_regex="ern", minutes=1)

        assert decided([FALLBACK, anywhere], sick("Kernel")) is not None

    def test_the_fallback_serves_pairs_that_others_declared(self) -> None:
        elsewhere = policy("Disk", "True", reason_regex="^Full$", minutes=1)
        full = sick("Slow", kind="Disk", status="True", age=timedelta(minutes=30))

        repair = decided([FALLBACK, elsewhere], full)

        assert repair is not None
        assert (FALLBACK, True) == (repair.governing.policy, repair.governing.is_fallback)

    def test_a_specific_match_keeps_the_fallback_away_while_its_toleration_runs(self) -> None:
        slow = policy(reason_regex="^Kernel$", minutes=60)

        assert decided([FALLBACK, slow], sick("Kernel", age=timedelta(minutes=45))) is None

    @pytest.mark.parametrize(
        ("kind", "status"), [("BadNode", "True"), ("BadNode", "Unknown"), ("Disk", "False")]
    )
    def test_a_pair_nobody_mentions_never_matches(self, kind: str, status: str) -> None:
        healthy = sick(kind=kind, status=status, age=timedelta(days=1))

        assert () == RepairPolicies([FALLBACK, KERNEL]).matches(healthy)

    def test_the_toleration_counts_from_the_creation_of_a_younger_node(self) -> None:
        young = sick("Kernel", age=timedelta(hours=1), created=NOW - timedelta(seconds=30))

        assert decided([FALLBACK, KERNEL], young) is None

    def test_the_toleration_counts_from_the_end_of_the_last_restart(self) -> None:
        old = sick("Kernel", age=timedelta(hours=1))
        just_now = NOW - timedelta(seconds=30)

        assert decided([FALLBACK, KERNEL], old, rebooted_at=just_now) is None
        assert decided([FALLBACK, KERNEL], old, rebooted_at=LONG_AGO) is not None


class TestMerging:
    def test_to_replace_outdoes_to_restart_whatever_the_priorities(self) -> None:
        restart = policy("A", reason_regex=".", minutes=1, action=REBOOT_NODE, priority=90)
        replacing = policy("B", reason_regex=".", minutes=1)

        repair = decided([FALLBACK, restart, replacing], sick("x", kind="A"), sick("x", kind="B"))

        assert repair is not None
        assert (REPLACE_NODE, "B") == (repair.action, repair.governing.condition.type)

    @pytest.mark.parametrize(
        ("first", "second", "ages", "governing"),
        [
            pytest.param(5, 9, (9, 2), "B", id="the higher priority governs"),
            pytest.param(5, 5, (2, 9), "B", id="then the one that was eligible earlier"),
            pytest.param(5, 5, (2, 2), "A", id="then the condition type that comes first"),
        ],
    )
    def test_governing(
        self, first: int, second: int, ages: tuple[int, int], governing: str
    ) -> None:
        policies = [
            FALLBACK,
            policy("A", reason_regex=".", minutes=1, priority=first),
            policy("B", reason_regex=".", minutes=1, priority=second),
        ]
        nodes = [
            sick("x", kind=kind, age=timedelta(minutes=age))
            for kind, age in zip("AB", ages, strict=True)
        ]

        repair = decided(policies, *reversed(nodes))

        assert repair is not None
        assert governing == repair.governing.condition.type

    def test_the_shortest_grace_period_holds_even_of_a_policy_that_lost(self) -> None:
        restart = policy(
            "A",
            reason_regex=".",
            minutes=1,
            action=REBOOT_NODE,
            termination_grace_period=timedelta(seconds=5),
        )
        replacing = policy(
            "B", reason_regex=".", minutes=1, termination_grace_period=timedelta(minutes=5)
        )
        unset = policy("C", reason_regex=".", minutes=1)

        repair = decided(
            [FALLBACK, restart, replacing, unset],
            *(sick("x", kind=kind) for kind in "ABC"),
        )

        assert repair is not None
        assert (REPLACE_NODE, timedelta(seconds=5)) == (repair.action, repair.grace_period)

    def test_without_any_grace_period_there_is_none(self) -> None:
        repair = decided([FALLBACK, KERNEL], sick("Kernel"))

        assert repair is not None
        assert repair.grace_period is None

    def test_the_score_is_the_dense_rank_and_half_hours_waited(self) -> None:
        policies = [
            FALLBACK,
            policy("A", reason_regex=".", minutes=1, priority=40),
            policy("B", reason_regex=".", minutes=1, priority=90),
        ]

        low = decided(policies, sick("x", kind="A", age=timedelta(minutes=46)))
        high = decided(policies, sick("x", kind="B", age=timedelta(minutes=1)))
        both = decided(
            policies,
            sick("x", kind="A", age=timedelta(minutes=91)),
            sick("x", kind="B", age=timedelta(minutes=1)),
        )

        assert [2.5, 2.0, 4.0] == [each.score for each in (low, high, both) if each is not None]


class TestRepairMatches:
    @pytest.mark.case("V15-S35")
    def test_a_heartbeat_keeps_the_matches(self) -> None:
        book = RepairMatches(RepairPolicies([FALLBACK, KERNEL]))
        first = sick("Kernel")
        (told,) = first.status.conditions
        heartbeat = msgspec.structs.replace(
            first,
            metadata=msgspec.structs.replace(first.metadata, resource_version="77"),
            status=msgspec.structs.replace(
                first.status, conditions=(msgspec.structs.replace(told, message="still"),)
            ),
        )

        changes = [book.observe(first), book.observe(heartbeat)]

        assert [True, False] == changes
        assert [KERNEL] == [match.policy for match in book.matches("a")]

    @pytest.mark.case("V15-S35")
    def test_what_is_no_news_of_the_node_keeps_the_matches(self) -> None:
        book = RepairMatches(RepairPolicies([FALLBACK, KERNEL]))
        book.observe(sick("Kernel"))
        before = book.matches("a")

        book.forget("another")

        assert before is book.matches("a")

    @pytest.mark.case("V15-S35")
    def test_a_node_that_is_gone_matches_nothing(self) -> None:
        book = RepairMatches(RepairPolicies([FALLBACK, KERNEL]))
        book.observe(sick("Kernel"))

        book.forget("a")

        assert () == book.matches("a")

    @pytest.mark.parametrize(
        "changed",
        [
            pytest.param(sick("Other"), id="another reason"),
            pytest.param(sick("Kernel", status="True"), id="another status"),
            pytest.param(sick("Kernel", age=timedelta(minutes=9)), id="another transition time"),
            pytest.param(sick("Kernel", created=NOW), id="another creation time"),
        ],
    )
    def test_a_change_that_counts_is_worked_out_anew(self, changed: Node) -> None:
        book = RepairMatches(RepairPolicies([FALLBACK, KERNEL]))
        book.observe(sick("Kernel"))

        assert book.observe(changed)
        assert RepairPolicies([FALLBACK, KERNEL]).matches(changed) == book.matches("a")
