"""``karpenter sandbox``: a cluster in one process, to try things on with plain ``kubectl``."""

from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import typer

from karpenter.console import manifest_files, output
from karpenter.console.help_pages import PlainCommand, PlainGroup, unset_argument, unset_option

HELP = """\
Run a small Kubernetes cluster in this process, until it is interrupted.

It answers kubectl like a real cluster: workloads, scheduling, evictions, volumes and node failures \
are simulated, containers are not run. The controllers run as well: apply a NodePool, and pods that \
fit on no node get nodes of a simulated cloud. --nodes adds nodes that exist from the start.
"""
EXAMPLES = """\
[bold]Examples[/bold]

  karpenter sandbox --demo

  karpenter sandbox --example

  KUBECONFIG=karpenter.kubeconfig kubectl get nodes

  karpenter sandbox --data cluster.journal --load manifests/ --speed 60
"""

_FASTEST: Final = 1000.0
KUBECONFIG: Final = "karpenter.kubeconfig"  # in the folder where it is started
Running: TypeAlias = Annotated[
    Path | None,
    unset_option(
        "The kubeconfig of the sandbox; by default the files in KUBECONFIG, "
        f"otherwise {KUBECONFIG} in this folder.",
        metavar="FILE",
    ),
]


_SIMULATED_AWS = "The simulated account of --provider aws"
_aws_option = partial(typer.Option, rich_help_panel=_SIMULATED_AWS)

sandbox = typer.Typer(
    cls=PlainGroup,
    help=HELP,
    epilog=EXAMPLES,
    invoke_without_command=True,
    rich_markup_mode="rich",
    add_completion=False,  # the root command has the completion options
)


@sandbox.callback()
def run(
    context: typer.Context,
    kubeconfig: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="Where to write the kubeconfig, when the cluster is ready."
        ),
    ] = Path(KUBECONFIG),
    port: Annotated[
        int,
        typer.Option(
            metavar="PORT", min=0, max=65535, help="The port to listen on; 0 means any free port."
        ),
    ] = 0,
    address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on.")
    ] = "127.0.0.1",
    data: Annotated[
        Path | None,
        unset_option("Keep the cluster in this file from one run to the next.", metavar="FILE"),
    ] = None,
    nodes: Annotated[
        int,
        typer.Option(
            metavar="COUNT", min=0, max=10000, help="Number of simulated nodes at the start."
        ),
    ] = 0,
    load: Annotated[
        list[str] | None,
        unset_option(
            "Manifests to apply at the start: a file, a folder, or - for standard input.",
            metavar="FILE",
        ),
    ] = None,
    speed: Annotated[
        float,
        typer.Option(metavar="FACTOR", help="Speed of the clock; with 60 a minute takes a second."),
    ] = 1.0,
    controllers: Annotated[
        bool, typer.Option(help="Run the controllers, which launch nodes for pending pods.")
    ] = True,
    provider: Annotated[
        str, typer.Option(metavar="NAME", help="Cloud provider of the controllers.")
    ] = "kwok",
    instance_types: Annotated[
        Path | None,
        unset_option(
            "Instance types as a JSON list, in place of the provider's own.",
            metavar="FILE",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    cluster_name: Annotated[
        str,
        _aws_option(
            metavar="NAME",
            envvar="CLUSTER_NAME",
            help="The name of the cluster and of its interruption queue.",
        ),
    ] = "sandbox",
    region: Annotated[
        str,
        _aws_option(
            metavar="REGION",
            envvar="AWS_REGION",
            help="The region of the account.",
        ),
    ] = "us-west-2",
    discovery: Annotated[
        str | None,
        unset_option(
            "The value of karpenter.sh/discovery on subnets and security groups; the name of "
            "the cluster by default.",
            "--discovery-tag",
            metavar="VALUE",
            rich_help_panel=_SIMULATED_AWS,
        ),
    ] = None,
    node_role: Annotated[
        str,
        _aws_option(
            metavar="NAME",
            help="The IAM role of nodes.",
        ),
    ] = "KarpenterNodeRole",
    dashboard: Annotated[
        bool, typer.Option(help="Serve the dashboard, a page for browsers on this machine.")
    ] = True,
    dashboard_port: Annotated[
        int,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="The port of the dashboard; 0 means any free port.",
        ),
    ] = 0,
    example: Annotated[
        bool,
        typer.Option("--example", help="Start with a NodePool and a Deployment named inflate."),
    ] = False,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Scale the example to 5, 20 and 0 pods, and show the result."),
    ] = False,
) -> None:
    """Run a sandbox."""
    if context.invoked_subcommand is not None:
        return
    if not 0 < speed <= _FASTEST:
        output.fail(f"--speed is a number above 0 and up to {_FASTEST:g}, not {speed:g}")
    documents = []
    if load:
        loaded = manifest_files.load_documents(load, recursive=False)
        for error in loaded.errors:
            output.error(str(error))
        if loaded.errors:
            output.fail(f"nothing is started: {manifest_files.problems(len(loaded.errors))}")
        documents = loaded.documents
    with output.progress("starting the cluster"):
        from karpenter_sandbox.command import run as sandbox_run
        from karpenter_sandbox.command.cloud import Account, CloudOptions

    sandbox_run.run(
        sandbox_run.RunOptions(
            kubeconfig=kubeconfig,
            address=address,
            port=port,
            data=data,
            nodes=nodes,
            speed=speed,
            documents=documents,
            cloud=CloudOptions(
                provider=provider if controllers or demo else "",
                instance_types=str(instance_types or ""),
                account=Account(cluster_name, region, node_role, discovery or ""),
                has_example=example or demo,
            ),
            is_demo=demo,
            dashboard_port=dashboard_port if dashboard else None,
        )
    )


@sandbox.command(cls=PlainCommand)
def interrupt(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node of the instance.")],
    event: Annotated[
        Literal["spot", "rebalance", "reservation", "scheduled-change", "stopping", "terminating"],
        typer.Option(
            help="The event: a spot interruption, a rebalance recommendation, the end of a capacity "
            "reservation, a scheduled change (AWS Health), or a change of state."
        ),
    ] = "spot",
    kubeconfig: Running = None,
) -> None:
    """Send an interruption event of the simulated AWS for an instance of a running sandbox."""
    from karpenter_sandbox.command.interrupt import ask_for_interruption

    ask_for_interruption(node, event, kubeconfig)


@sandbox.command(cls=PlainCommand)
def fault(
    kind: Annotated[
        str,
        unset_argument("The fault: sold-out, lost-zone, throttled or denied.", metavar="KIND"),
    ] = "",
    what: Annotated[
        list[str] | None,
        unset_argument(
            "Offerings as type/zone/capacity-type, such as 'm5.*/*/spot'; a zone; or an "
            "action, such as CreateFleet.",
            metavar="WHAT",
        ),
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Remove the fault; without KIND, all faults.")
    ] = False,
    shows_list: Annotated[bool, typer.Option("--list", help="Show the injected faults.")] = False,
    kubeconfig: Running = None,
) -> None:
    """Inject a fault into the simulated AWS of a running sandbox, until it is undone."""
    from karpenter_sandbox.command.fault import Asked, change_faults, show_faults

    if shows_list or not (kind or undo):
        if kind or undo:
            output.fail("--list shows everything that is wrong, and goes with nothing else")
        show_faults(kubeconfig)
    else:
        change_faults(Asked(kind, tuple(what or ()), undo), kubeconfig)
