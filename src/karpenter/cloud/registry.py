"""Providers by name: any installed package may bring one, and the core never changes for it.

A package registers a factory in its own metadata::

    [project.entry-points."karpenter.providers"]
    mycloud = "mycloud.provider:make_provider"

The factory is called once, at start-up, with a ``ProviderContext``.
"""

import difflib
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from karpenter.clock import Clock
from karpenter.cloud.provider import CloudProvider
from karpenter.kube.client import Kube
from karpenter.settings import Settings

if TYPE_CHECKING:  # slow to import, and commands that only query a provider do not need it
    from karpenter.decision_log.log import DecisionLog
    from karpenter.telemetry import Metrics

GROUP: Final = "karpenter.providers"


class ProviderError(ValueError):
    """A provider that is missing, or cannot be used as configured; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class ProviderContext:
    """What a provider is given to work with."""

    kube: Kube
    clock: Clock
    settings: Settings
    environment: Mapping[str, str]  # options of its own: a flag --some-option is SOME_OPTION here
    rng: random.Random
    metrics: "Metrics | None" = None  # for its own metrics; None: not exported
    decisions: "DecisionLog | None" = None  # for its own decisions; None: not kept
    only_reads: bool = False  # it is only asked, as by plan, and must change nothing


ProviderFactory: TypeAlias = Callable[[ProviderContext], CloudProvider]


def load_provider(name: str, installed: Iterable[EntryPoint] | None = None) -> ProviderFactory:
    """Find the factory of the provider called ``name``.

    Args:
        name: what the entry point is called.
        installed: the entry points to choose from, in place of those of installed packages.

    Raises:
        ProviderError: there is no such provider, there are two, or its package cannot be used.
    """
    found = entry_points(group=GROUP) if installed is None else installed
    by_name: dict[str, EntryPoint] = {}
    for entry in found:
        other = by_name.setdefault(entry.name, entry)
        if entry.name == name and other.value != entry.value:
            raise ProviderError(
                f"two packages bring a provider called {name}, {other.value} and {entry.value};"
                " uninstall one of them"
            )
    if name not in by_name:
        raise ProviderError(_unknown(name, sorted(by_name)))
    return _loaded(by_name[name])


def _loaded(entry: EntryPoint) -> ProviderFactory:
    try:
        factory = entry.load()
    except Exception as error:
        # importing a foreign package may do anything
        raise ProviderError(
            f"provider {entry.name} cannot be loaded from {entry.value}:"
            f" {type(error).__name__}: {_one_line(error)}"
        ) from error
    if not callable(factory):
        raise ProviderError(
            f"provider {entry.name} cannot be loaded: {entry.value} is not a function that makes"
            " a provider"
        )
    return cast(ProviderFactory, factory)


def _unknown(name: str, known: list[str]) -> str:
    if not known:
        return f"no provider is called {name}, and no package brings any; install one"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"no provider is called {name}; known are {', '.join(known)}{hint}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or "no reason given"
