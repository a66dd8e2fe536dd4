"""``karpenter controller``: the autoscaler itself, on the cluster it runs in."""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from karpenter.cli import controller_flags
from karpenter.console import output

if TYPE_CHECKING:
    from karpenter.operator.beside import Beside
    from karpenter.settings import Settings

HELP = """\
Run the controllers on a cluster: launch nodes for pending pods, and remove nodes that are not needed.

The cluster is that of KUBECONFIG, otherwise the one this process runs in, otherwise that of \
~/.kube/config. Every flag has an environment variable: --metrics-port is METRICS_PORT, --provider \
is CLOUD_PROVIDER. A flag takes precedence over its variable. SIGTERM shuts the process down \
gracefully: it releases the Lease and exits with code 0.
"""
EXAMPLES = """\
[bold]Examples[/bold]

  karpenter controller --leader-election-namespace karpenter --log-level debug

  karpenter controller --disable-leader-election --feature-gates NodeOverlay=true
"""


def controller(**given: str | None) -> None:
    """Run the controllers until a signal ends the process."""
    from karpenter.scheduling.inputs.scheduler_config import (
        SchedulerConfigError,
        parse_scheduler_config,
    )
    from karpenter.settings import SettingError, read_settings

    flags = {name: text for name, text in given.items() if text is not None}
    check = flags.pop("check_notifications", None)
    sink = flags.pop("send_test", None)
    others = {flag.setting for flag in controller_flags.OTHERS}
    options = {name.upper(): text for name, text in flags.items() if name in others}
    environment = {**os.environ, **options}
    commit = environment.get("KARPENTER_COMMIT", "")
    try:
        settings = read_settings(
            environment, {name: text for name, text in flags.items() if name not in others}
        )
        parse_scheduler_config(settings.scheduler_config)
        if check is not None or sink is not None:
            _try_notifications(check or settings.notifications_config, sink, environment)
            return
        from karpenter.telemetry.logs import configure_logging, short_revision, take_over

        commit = short_revision(commit)
        log = configure_logging(settings, commit=commit)
    except (SettingError, SchedulerConfigError) as error:
        output.fail(str(error))
    take_over(log)
    from karpenter.operator import run

    code = run.run(settings, environment, log, commit, _dashboard(settings))
    if code:
        raise typer.Exit(code)


def _dashboard(settings: "Settings") -> "Beside | None":
    """What serves the dashboard, if there is to be one."""
    if not settings.dashboard_port:
        return None  # nothing of it is imported
    from karpenter.dashboard.homes.controller import dashboard_of
    from karpenter.dashboard.server.entrance import EntranceError

    is_on_terminal = sys.stdout is not None and sys.stdout.isatty()
    try:
        return dashboard_of(settings, is_on_terminal=is_on_terminal)
    except EntranceError as error:
        output.fail(str(error))


def _try_notifications(path: str, sink: str | None, environment: Mapping[str, str]) -> None:
    """Check a configuration of notifications, and send a message to one of its sinks."""
    import asyncio

    from karpenter.clock import SystemClock
    from karpenter.notifications import trial
    from karpenter.notifications.channels import ChannelDependencies, open_channel
    from karpenter.notifications.config import ConfigError, parse_config
    from karpenter.notifications.notifier import cluster_name, read_file

    if not path:
        output.fail("--send-test needs a file: --check-notifications or NOTIFICATIONS_CONFIG")
    try:
        config = parse_config(read_file(path), path)
        chosen = config.sink(sink) if sink is not None else None
        lines = trial.check_files(config)
        if chosen is None:
            output.note("\n".join(lines) if lines else f"{path}: it has no sinks")
            return
        clock = SystemClock()
        channel = open_channel(
            chosen, ChannelDependencies(cluster_name(environment), clock, environment)
        )
        output.note(asyncio.run(trial.send_test(chosen, channel, clock)))
    except ConfigError as error:
        output.fail(str(error))
    except trial.TrialError as error:
        output.fail(str(error), output.EXIT_FAILED)


def _dress(command: Any) -> None:
    """Give the command one parameter for every flag."""
    command.__signature__ = controller_flags.signature()
    command.__annotations__ = {
        name: parameter.annotation for name, parameter in command.__signature__.parameters.items()
    }


_dress(controller)
