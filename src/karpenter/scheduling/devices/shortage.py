"""Why no place can serve the claims of a pod, in words a user can act on."""

from collections.abc import Sequence

from karpenter.scheduling.devices.demand import Wanted
from karpenter.scheduling.devices.requests import Ask, Wish
from karpenter.scheduling.devices.search import Place
from karpenter.scheduling.devices.selectors import SelectorError


def shortage(wanted: Sequence[Wanted], places: Sequence[Place]) -> str:
    """Name the first request that no place has devices for, or say that they are not free."""
    for claim in wanted:
        for wish in claim.bundle.wishes:
            problem = _problem(wish, places)
            if problem:
                return f"its claim {claim.entry}: {problem}"
    names = ", ".join(claim.entry for claim in wanted)
    return (
        f"its claims ({names}): enough devices match, but no instance type has all of them free"
        " and in agreement with the constraints"
    )


def _problem(wish: Wish, places: Sequence[Place]) -> str:
    problem = ""
    for ask in wish.options:
        try:
            most = max((_matching(ask, place) for place in places), default=0)
        except SelectorError as error:
            problem = str(error)
            continue
        needed = 1 if ask.count is None else ask.count
        if ask.count is None and most and all(place.problem for place in places):
            problem = f"request {ask.name} asks for all devices, but {places[0].problem}"
        elif most >= needed:
            return ""
        else:
            problem = (
                f"request {ask.name} needs {needed} of device class {ask.device_class};"
                f" no instance type {f'has more than {most}' if most else 'has any'} that match"
            )
    return problem


def _matching(ask: Ask, place: Place) -> int:
    """How many devices match; a shared one counts as many as are needed."""
    count = 0
    for device in place.devices:
        if ask.shares_of(device) is not None:
            count += (ask.count or 1) if device.is_shared else 1
    return count
