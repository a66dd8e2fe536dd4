"""The boot script of an instance, in the language of its family."""

from collections.abc import Callable, Mapping
from typing import Final

from karpenter.cloud.aws.images.families import Family
from karpenter.cloud.aws.images.user_data.amazon_linux import al2, al2023
from karpenter.cloud.aws.images.user_data.bottlerocket import bottlerocket
from karpenter.cloud.aws.images.user_data.inputs import BootInputs, UserData
from karpenter.cloud.aws.images.user_data.windows import windows

LONGEST: Final = 16384  # EC2's limit, in bytes
_RENDERERS: Final[Mapping[str, Callable[[BootInputs], UserData]]] = {
    "AL2": al2,
    "AL2023": al2023,
    "Bottlerocket": bottlerocket,
}


def render(family: Family, inputs: BootInputs) -> UserData:
    """Write a boot script; for the Custom family, the user's text unchanged.

    Raises:
        UserDataError: what the user wrote cannot be merged with ours.
        NodeClassNotReadyError: something the script must hold is not known yet.
    """
    if family.is_windows:
        return windows(inputs)
    renderer = _RENDERERS.get(family.name)
    return UserData(inputs.user_data) if renderer is None else renderer(inputs)
