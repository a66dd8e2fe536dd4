"""Where Karpenter leaves a choice to chance, the peer makes the one that we make.

Go sorts equals in any order and walks its maps at random, so Karpenter decides some problems in many
ways, of which we decide one. Only such ties are pinned, when the peer is built; everything else of
the module is as it was published.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SCHEDULING: Final = "pkg/controllers/provisioning/scheduling"


@dataclass(frozen=True)
class Pin:
    """A tie: where it is, and the condition that decides it."""

    file: str
    found: str
    wanted: str
    times: int = 1

    def applied(self, text: str) -> str:
        """The source with the tie decided.

        Raises:
            LookupError: the source is not what it was when this was written.
        """
        if text.count(self.found) != self.times:
            raise LookupError(f"{self.file} no longer has {self.found!r}: look at the pins again")
        return text.replace(self.found, self.wanted)


PINS: Final = (
    # among claims with as many pods: the one that was opened first
    Pin(
        f"{_SCHEDULING}/scheduler.go",
        "return len(s.newNodeClaims[a].Pods) < len(s.newNodeClaims[b].Pods)",
        "x, y := s.newNodeClaims[a], s.newNodeClaims[b];"
        " if len(x.Pods) != len(y.Pods) { return len(x.Pods) < len(y.Pods) };"
        " if len(x.hostname) != len(y.hostname) { return len(x.hostname) < len(y.hostname) };"
        " return x.hostname < y.hostname",  # which are numbered
    ),
    # among domains with as many pods: the first by name
    Pin(
        f"{_SCHEDULING}/topologygroup.go",
        "if count < minCount {",
        "if count < minCount || PinDomains && count == minCount && domain < minDomain {",
        times=2,
    ),
    # among candidates that are worth as much: the first by name
    Pin(
        "pkg/controllers/disruption/consolidation.go",
        "return candidates[i].SavingsRatio() > candidates[j].SavingsRatio()",
        "x, y := candidates[i], candidates[j]; return x.SavingsRatio() > y.SavingsRatio() ||"
        " x.SavingsRatio() == y.SavingsRatio() && x.Name() < y.Name()",
    ),
    # among pools that take turns: the first by name begins
    Pin(
        "pkg/controllers/disruption/singlenodeconsolidation.go",
        "lo.Filter(lo.Keys(nodePoolCandidates), func",
        "lo.Filter(sets.List(sets.KeySet(nodePoolCandidates)), func",
    ),
)


_SWITCH: Final = "package scheduling\n\n// PinDomains decides ties.\nvar PinDomains = true\n"


def apply(module: Path) -> None:
    """Decide the ties in a copy of the module.

    Those among domains can be left to chance again, because one choice may be as good as another
    and yet lead to fewer nodes.

    Raises:
        LookupError: a source is not what it was when the pins were written.
    """
    for pin in PINS:
        file = module / pin.file
        text = pin.applied(file.read_text("utf-8"))
        file.chmod(0o644)
        file.write_text(text, "utf-8")
    (module / _SCHEDULING / "pins.go").write_text(_SWITCH, "utf-8")
