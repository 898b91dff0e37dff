"""Text of a mail (.eml): its headers From, To, Cc, Subject and Date, and its body. Attachments are not read."""

from __future__ import annotations

from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from email.policy import default
from pathlib import Path
from typing import Any

from umi_common.errors import FileUnreadable
from umi_common.files.readers.reading import decoded_text

HEADERS = ("From", "To", "Cc", "Subject", "Date")
_RAW = default.clone(header_factory=lambda name, value: value)
"""Leaves headers as they are: Python's own reader of addresses takes minutes for some, and raises many errors."""


def read_mail(path: Path, content: bytes) -> tuple[dict[str, str], str, str]:
    """The headers of a mail by name, in the order of HEADERS; its plain text; and its HTML; "" for one it has not.

    Raises:
        FileUnreadable: If its parts are nested too deeply.
    """
    try:
        mail = message_from_bytes(content, policy=_RAW)
        parts = [part for part in mail.walk() if part.get_content_disposition() != "attachment"]
    except RecursionError as error:
        raise FileUnreadable(f"{path} has parts that are nested too deeply; leave it out") from error
    headers = {name: _decoded(mail[name]) for name in HEADERS if mail[name]}
    plain, html = (
        "\n\n".join(_text(path, part) for part in parts if part.get_content_type() == kind)
        for kind in ("text/plain", "text/html")
    )
    return headers, plain, html


def _text(path: Path, part: Message[Any, Any]) -> str:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)  # it is no multipart
    try:
        return "\n".join(content.decode(part.get_content_charset("utf-8")).splitlines())
    except (LookupError, UnicodeError):  # it has no encoding, or a wrong one
        return decoded_text(path, content, declares=True)


def _decoded(header: str) -> str:
    """The text of a header; one whose encoding is wrong, or that needs none, as it is."""
    header = header.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    try:
        return str(make_header(decode_header(header))) if header.isascii() else header
    except (LookupError, ValueError, HeaderParseError):
        return header
