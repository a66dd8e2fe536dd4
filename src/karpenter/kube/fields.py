"""The fields of a kubeconfig, read one by one; what does not fit is a sentence with its place."""

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from karpenter.kube.errors import ConfigError
from karpenter.manifests.reader import Document

FieldPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Fields:
    """One mapping of a kubeconfig, which knows where it stands."""

    document: Document
    file: Path
    path: FieldPath = ()

    def problem(self, problem: str, key: str = "") -> ConfigError:
        """The error to raise about a field of this mapping, or about the mapping itself."""
        path = (*self.path, key) if key else self.path
        line = self.document.line(path)
        return ConfigError(f"{self.file}:{line}: {written(path) or 'the file'} {problem}")

    def text(self, key: str) -> str:
        """A text, empty when it is absent."""
        value = self._values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.problem("must be text; put it in quotes", key)
        return value

    def flag(self, key: str) -> bool:
        """A boolean, false when it is absent."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.problem("must be true or false", key)
        return bool(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        values = self._list(key)
        if not all(isinstance(value, str) for value in values):
            raise self.problem("must be a list of texts; put numbers in quotes", key)
        return tuple(values)

    def fields(self, key: str) -> "Fields | None":
        """A mapping, None when it is absent."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.problem("must be a mapping", key)
        return Fields(self.document, self.file, (*self.path, key))

    def items(self, key: str) -> "list[Fields]":
        """A list of mappings."""
        items = []
        for index, value in enumerate(self._list(key)):
            item = Fields(self.document, self.file, (*self.path, key, index))
            if not isinstance(value, dict):
                raise item.problem("must be a mapping")
            items.append(item)
        return items

    def names(self) -> list[str]:
        """The fields there are."""
        return list(self._values)

    def plain(self, key: str) -> Any:
        """Whatever stands there."""
        return self._values.get(key)

    def beside(self, path: str) -> Path:
        """A path, taken from the folder of the file when it is relative."""
        try:
            return self.file.parent / Path(path).expanduser()
        except RuntimeError as error:
            raise self.problem(f"names {path}, but nobody here has such a home folder") from error

    def content(self, key: str) -> bytes:
        """The bytes of ``<key>-data``, or else of the file that ``key`` names."""
        if encoded := self.text(f"{key}-data"):
            try:
                return base64.b64decode("".join(encoded.split()), validate=True)
            except (binascii.Error, ValueError) as error:
                raise self.problem("is not base64", f"{key}-data") from error
        name = self.text(key)
        if not name:
            return b""
        path = self.beside(name)
        try:
            return path.read_bytes()
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise self.problem(f"names {path}, which cannot be read: {reason}", key) from error

    @property
    def _values(self) -> dict[str, Any]:
        value: Any = self.document.data
        for part in self.path:
            value = value[part]
        values: dict[str, Any] = value
        return values

    def _list(self, key: str) -> list[Any]:
        value = self._values.get(key)
        if value is not None and not isinstance(value, list):
            raise self.problem("must be a list", key)
        return value or []


def written(path: FieldPath) -> str:
    """A path the way people write it: ``users[0].user.exec``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")
