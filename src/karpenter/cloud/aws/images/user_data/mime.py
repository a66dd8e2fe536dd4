"""MIME multipart user data, as cloud-init reads it: the user's parts first, ours last."""

import email
import email.policy
from dataclasses import dataclass
from typing import Final

from karpenter.cloud.aws.images.user_data.inputs import UserDataError

SHELL_SCRIPT: Final = 'text/x-shellscript; charset="us-ascii"'
NODE_CONFIG: Final = "application/node.eks.aws"

_BOUNDARY: Final = "//"
_BEGINNINGS: Final = ("mime-version:", "content-type:")
# Parts are written back as they were: no folded headers, no ">From"
_VERBATIM: Final = email.policy.compat32.clone(
    mangle_from_=False, max_line_length=None, linesep="\n"
)


@dataclass(frozen=True, slots=True)
class Part:
    """One part; ``header`` holds all its header lines."""

    header: str
    body: str

    @classmethod
    def of(cls, content_type: str, body: str) -> "Part":
        """A part of a type."""
        return cls(f"Content-Type: {content_type}", body)


def is_archive(text: str) -> bool:
    """Whether text is a document of parts rather than a script."""
    return text.lstrip().lower().startswith(_BEGINNINGS)


def parts_of(text: str) -> list[Part]:
    """Take a document apart, in order.

    Raises:
        UserDataError: it has no parts.
    """
    document = email.message_from_string(_unix(text.lstrip()), policy=_VERBATIM)
    if not document.is_multipart():
        raise UserDataError(
            "user data that begins with MIME headers must be multipart/mixed with a boundary"
        )
    parts = []
    for each in document.get_payload():
        assert isinstance(each, email.message.Message)
        header, _, body = each.as_string(policy=_VERBATIM).partition("\n\n")
        parts.append(Part(header, body))
    return parts


def archive(parts: list[Part]) -> str:
    """Put parts together.

    Raises:
        UserDataError: a part holds the line that separates parts.
    """
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"', ""]
    for part in parts:
        body = _unix(part.body)
        if any(line.startswith(f"--{_BOUNDARY}") for line in body.split("\n")):
            raise UserDataError(f"no line of user data may begin with --{_BOUNDARY}")
        lines += [f"--{_BOUNDARY}", part.header, "", body]
    lines.append(f"--{_BOUNDARY}--")
    return "\n".join(lines) + "\n"


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
