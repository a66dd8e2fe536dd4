"""The flags of ``karpenter controller``: one for every setting, and what belongs to no setting.

Flags are parsed as Go programs parse them: a boolean may be given without a value, a single dash
is accepted as well, and the last of several wins.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from karpenter.console.help_pages import PlainCommand

_YES: Final = "true"
_BOOLEAN: Final = "BOOL"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag; its environment variable is its setting in upper case."""

    setting: str
    metavar: str
    default: str
    meaning: str
    name: str = ""  # where it is not the name of the setting

    @property
    def text(self) -> str:
        """The flag as it is typed."""
        return f"--{self.name or self.setting.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The environment variable that does the same."""
        return self.setting.upper()

    @property
    def is_boolean(self) -> bool:
        """Whether the flag may be given without a value."""
        return self.metavar == _BOOLEAN


SETTINGS: Final = (
    Flag("metrics_port", "PORT", "8080", "Port of the metrics endpoint."),
    Flag("health_probe_port", "PORT", "8081", "Port of the health endpoint."),
    Flag("kube_client_qps", "COUNT", "200", "Maximum requests per second to the API server."),
    Flag("kube_client_burst", "COUNT", "300", "Maximum burst of requests to the API server."),
    Flag("enable_profiling", _BOOLEAN, "false", "Serve /debug/pprof beside the metrics."),
    Flag("dashboard_port", "PORT", "0", "Where the dashboard is served; 0 is nowhere."),
    Flag(
        "dashboard_host",
        "ADDRESS",
        "127.0.0.1",
        "The address of the dashboard; beyond loopback it needs a token file and a name.",
    ),
    Flag(
        "dashboard_allow_host",
        "NAMES",
        "",
        "Names under which the dashboard is reached, besides localhost, separated by commas.",
    ),
    Flag(
        "dashboard_token_file",
        "FILE",
        "",
        "The dashboard's token, of 32 characters or more; without it one is printed on a terminal.",
    ),
    Flag("dashboard_tls_cert", "FILE", "", "The certificate to serve the dashboard with HTTPS."),
    Flag("dashboard_tls_key", "FILE", "", "The key of the certificate."),
    Flag(
        "disable_leader_election", _BOOLEAN, "false", "Act without a Lease; run only one replica."
    ),
    Flag("leader_election_name", "NAME", "karpenter-leader-election", "Name of the Lease."),
    Flag(
        "leader_election_namespace",
        "NAME",
        "that of the pod",
        "Namespace of the Lease; required outside of a cluster.",
    ),
    Flag(
        "disable_controller_warmup",
        _BOOLEAN,
        "true",
        "Accepted and ignored; a standby always reads the cluster before it leads.",
    ),
    Flag(
        "disable_cluster_state_observability",
        _BOOLEAN,
        "false",
        "Export no metrics of single pods, nodes, NodePools and conditions, and no events of conditions.",
    ),
    Flag(
        "metrics_detail",
        "DETAIL",
        "object",
        "object or pool: metrics of single pods and nodes, or sums by pool, zone and capacity type.",
    ),
    Flag(
        "memory_limit", "BYTES", "-1", "Log a warning when 90 % of it is in use; -1 means no limit."
    ),
    Flag(
        "cpu_requests", "MILLIS", "1000", "Accepted and ignored; concurrency does not depend on it."
    ),
    Flag("log_level", "LEVEL", "info", "Lowest level that is logged: debug, info or error."),
    Flag(
        "log_format",
        "FORMAT",
        "",
        "json or text; by default text on a terminal and json elsewhere.",
    ),
    Flag("log_output_paths", "PATHS", "stdout", "Destinations of log lines, separated by commas."),
    Flag(
        "log_error_output_paths", "PATHS", "stderr", "Destinations of errors of the logger itself."
    ),
    Flag("decision_log", "FILE", "", "Append decision records to a file, a line of JSON each."),
    Flag(
        "notifications_config",
        "FILE",
        "",
        "Sinks of notifications: Slack, webhooks and SNS topics.",
    ),
    Flag(
        "batch_max_duration", "TIME", "10s", "Longest time that pods are collected into one batch."
    ),
    Flag("batch_idle_duration", "TIME", "1s", "Time without new pods that ends a batch."),
    Flag("preference_policy", "POLICY", "Respect", "Respect or Ignore the preferences of pods."),
    Flag(
        "min_values_policy",
        "POLICY",
        "Strict",
        "Strict or BestEffort: whether minValues may be relaxed.",
    ),
    Flag(
        "packing",
        "MODE",
        "karpenter",
        "karpenter or cheapest: pack in Karpenter's order, or by price where that costs less.",
    ),
    Flag("packing_budget", "TIME", "1s", "cheapest: nominal effort for one plan."),
    Flag(
        "packing_node_cost",
        "DOLLARS",
        "0.02",
        "cheapest: what a node costs per hour beside its price.",
    ),
    Flag(
        "packing_min_types",
        "COUNTS",
        "5,15",
        "cheapest: instance types a claim keeps, launched on-demand and on spot.",
    ),
    Flag(
        "spot_interruption_cost",
        "DOLLARS",
        "0",
        "What one interrupted spot machine costs, beside its price; 0 turns risk prices off.",
    ),
    Flag(
        "packing_price_slack",
        "PERCENT",
        "10%",
        "cheapest: types up to this much above the cheapest are kept too.",
    ),
    Flag(
        "rebalance",
        "MODE",
        "Off",
        "Off, Preview or On: replace several nodes by several cheaper ones, or only report it.",
    ),
    Flag(
        "rebalance_moves",
        "PERCENT",
        "5%",
        "Pods that rebalancing may move in any hour, of all reschedulable pods; at least one.",
    ),
    Flag(
        "rebalance_payback",
        "TIME",
        "24h",
        "Time within which the savings of rebalancing must repay the disruption.",
    ),
    Flag(
        "rebalance_pod_cost",
        "DOLLARS",
        "0.02",
        "Dollars that one unit of the eviction cost of a pod stands for.",
    ),
    Flag(
        "rebalance_cooldown",
        "TIME",
        "1h",
        "How long rebalancing leaves the nodes and workloads it has touched in peace.",
    ),
    Flag("ignore_dra_requests", _BOOLEAN, "true", "Ignore the ResourceClaims of pods."),
    Flag(
        "feature_gates",
        "GATES",
        "",
        "Feature gates, separated by commas, such as NodeOverlay=true.",
    ),
    Flag("scheduler_config", "YAML", "", "Default constraints of the cluster's scheduler."),
    Flag("webhook_port", "PORT", "0", "Where the webhook is served; 0 is nowhere."),
    Flag(
        "karpenter_service",
        "NAME",
        "",
        "The Service in front of the webhook; if not given, karpenter-webhook.",
    ),
    Flag(
        "webhook_secret_name",
        "NAME",
        "",
        "The Secret with the webhook's certificates; if not given, that of the Service with -cert.",
    ),
    Flag(
        "webhook_certificates",
        "MAKER",
        "own",
        "own or external: whether the controller makes them, or cert-manager does.",
    ),
    Flag(
        "legacy_node_repair",
        _BOOLEAN,
        "false",
        "With NodeRepair: delete unhealthy nodes directly, outside of budgets.",
    ),
    Flag(
        "legacy_node_role",
        "NAME",
        "",
        "IAM role of nodes of Provisioners that name no instance profile.",
    ),
    Flag(
        "legacy_instance_profile",
        "NAME",
        "",
        "Instance profile of such nodes, in place of the role.",
    ),
    Flag(
        "legacy_ami_family",
        "FAMILY",
        "",
        "AMI family of such nodes if none is named; empty means AL2.",
    ),
    Flag(
        "legacy_defaults",
        "RELEASES",
        "late",
        "early or late: which releases' default requirements Provisioners get.",
    ),
    Flag("early_binding", _BOOLEAN, "false", "Bind pods to their nodes before these are ready."),
)
OTHERS: Final = (
    Flag(
        "cloud_provider", "NAME", "kwok", "Cloud provider that launches the nodes.", name="provider"
    ),
    Flag(
        "instance_types_file_path",
        "FILE",
        "",
        "kwok: instance types in place of the built-in ones.",
    ),
    Flag("kwok_sold_out", "LIST", "", "kwok: offerings that are sold out."),
)
# Actions in place of running the controllers
TRIALS: Final = (
    Flag("check_notifications", "FILE", "", "Check a file for --notifications-config, and exit."),
    Flag("send_test", "SINK", "", "Send one message to a sink of that file, and exit."),
)
FLAGS: Final = (*SETTINGS, *OTHERS, *TRIALS)


def signature() -> inspect.Signature:
    """A function signature with one optional text for every flag."""
    return inspect.Signature(
        [
            inspect.Parameter(
                flag.setting,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[str | None, _option(flag)],
            )
            for flag in FLAGS
        ]
    )


def normalised(arguments: Sequence[str]) -> list[str]:
    """Arguments with two dashes each, and a value for every boolean flag."""
    booleans = {flag.text for flag in FLAGS if flag.is_boolean}
    known = {flag.text for flag in FLAGS}
    changed = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if f"-{name}" in known:
            name = f"-{name}"
        if name in booleans and not equals:
            equals, value = "=", _YES
        changed.append(f"{name}{equals}{value}")
    return changed


class FlagCommand(PlainCommand):
    """A command whose flags are read as those of Go programs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        return super().parse_args(ctx, normalised(args))


def _option(flag: Flag) -> Any:
    default = f" [dim]default: {flag.default}[/dim]" if flag.default else ""
    return typer.Option(
        flag.text, metavar=flag.metavar, help=f"{flag.meaning}{default}", show_default=False
    )
