"""What a starting node still waits for, according to its own objects."""

from karpenter.model.conditions import INITIALIZED, LAUNCHED, REGISTERED, TRUE, find, in_words
from karpenter.model.taints import format_taint, matches
from karpenter.state.nodes import StateNode


def awaited_by(machine: StateNode) -> str:
    """What keeps a machine of ours from being initialized; nothing when it is."""
    claim, node = machine.node_claim, machine.node
    if claim is None or machine.is_initialized:
        return ""
    held = node.spec.taints if node is not None else ()
    startup = [
        format_taint(taint)
        for taint in held
        if any(matches(taint, each) for each in claim.spec.startup_taints)
    ]
    if startup:
        noun = "taint" if len(startup) == 1 else "taints"
        return f"startup {noun} {', '.join(startup)} still on it, which another controller has to remove"
    for kind in (LAUNCHED, REGISTERED, INITIALIZED):
        condition = find(claim.status.conditions, kind)
        if condition is not None and condition.status != TRUE:
            return in_words(condition)
    return "its Node has not registered" if node is None else ""
