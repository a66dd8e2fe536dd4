"""Any text encoding a manifest may come in is read; what is not text is one sentence."""

import codecs

import pytest

from karpenter.manifests.errors import ManifestError
from karpenter.manifests.reader import read

TEXT = "apiVersion: v1\nkind: ConfigMap\ndata:\n  city: Zürich 🚀\n  lines: |\n    a\n    b\n"
DATA = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "data": {"city": "Zürich 🚀", "lines": "a\nb\n"},
}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(TEXT.encode(), id="UTF-8"),
        pytest.param(TEXT.encode("utf-8-sig"), id="UTF-8 with a byte order mark"),
        pytest.param(TEXT.encode("utf-16"), id="UTF-16 in the machine's order"),
        pytest.param(codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"), id="UTF-16 little endian"),
        pytest.param(codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), id="UTF-16 big endian"),
        pytest.param(TEXT.replace("\n", "\r\n").encode(), id="CRLF"),
        pytest.param(TEXT.replace("\n", "\r").encode(), id="CR alone"),
        pytest.param(TEXT.rstrip("\n").encode() + b"\n", id="one final line break"),
    ],
)
def test_encodings_and_line_ends(data: bytes) -> None:
    (document,) = read(data, "file.yaml")

    assert document.data == DATA
    assert document.line(("data", "city")) == 4


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="no bytes"),
        pytest.param(b"\n  \n", id="blank lines"),
        pytest.param(b"# only a comment\n", id="a comment"),
        pytest.param(b"---\n---\n# nothing\n...\n---\n", id="empty documents"),
        pytest.param(b"---\nnull\n---\n~\n", id="null documents"),
        pytest.param(codecs.BOM_UTF8, id="a byte order mark"),
    ],
)
def test_a_file_without_content_holds_no_documents(data: bytes) -> None:
    assert read(data, "file.yaml") == []


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        pytest.param(
            b"a: b\nname: \xff\xfe\n",
            "f:2: the byte 0xff is not UTF-8 text; save the file as UTF-8",
            id="bytes that are not UTF-8",
        ),
        pytest.param(
            "größe: 1\n".encode("latin-1"),
            "f:1: the byte 0xf6 is not UTF-8 text; save the file as UTF-8",
            id="Latin-1",
        ),
        pytest.param(
            codecs.BOM_UTF16_LE + b"a\0b",
            "f:1: the byte 0x62 is not UTF-16 text; save the file as UTF-8",
            id="half a UTF-16 character",
        ),
        pytest.param(
            b"a: b\n\0\0\0",
            "f:2:1: this is binary data (it holds NUL bytes), not UTF-8 text",
            id="NUL bytes",
        ),
        pytest.param(
            b'{"a": "\0"}',
            "f:1:8: this is binary data (it holds NUL bytes), not UTF-8 text",
            id="NUL bytes in JSON",
        ),
        pytest.param(
            b"\x1f\x8b\x08\0\0",
            "f:1: this is compressed data (gzip); unpack it first",
            id="gzip",
        ),
        pytest.param(
            b"PK\x03\x04abc", "f:1: this is a zip archive; unpack it first", id="a zip archive"
        ),
        pytest.param(b"\x7fELF\x02\x01", "f:1: this is a program, not a manifest", id="a program"),
        pytest.param(
            b"a: b\nc: \x1b[31m\n",
            "f:2:4: the control character U+001B is not allowed in YAML; remove it",
            id="an escape sequence",
        ),
        pytest.param(
            "a: b\n---\n\ufeffc: d\n".encode(),
            "f:3:1: a byte order mark stands inside the file; remove this invisible character",
            id="a byte order mark in the middle",
        ),
    ],
)
def test_what_is_not_text_is_refused(data: bytes, sentence: str) -> None:
    with pytest.raises(ManifestError) as refused:
        read(data, "f")

    assert sentence == str(refused.value)
