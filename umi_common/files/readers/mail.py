"""Text of mails (.eml, .mbox) and of pages that a browser saved like mails (.mhtml).

Of a mail, its headers, the names of its attachments, and its body are read, attachments are not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.policy import default
from itertools import pairwise
from pathlib import Path
from typing import Any

from umi_common.errors import FileUnreadable
from umi_common.files.readers.markup import read_page
from umi_common.files.readers.reading import decoded_text, text_in

HEADERS = ("From", "To", "Cc", "Subject", "Date")
_MAIL_BEGINS = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\n]*\d:\d\d[^\n]*\n")
"""The line above each mail of a mailbox: `From ann@example.com Tue Feb 20 10:00:00 2024`."""
PAGE_WORDS = 2
"""A mail's HTML with more than this many times the words of its plain text is read in place of it."""
_NOT_SHOWN = ("text/css", "text/javascript")
"""Parts of text that a mail's reader does not see."""
_RAW = default.clone(header_factory=lambda name, value: value)
"""Leaves headers as they are: Python's own reader of addresses takes minutes for some, and raises many errors."""


def mails_in(mailbox: bytes) -> list[bytes]:
    """The mails of a mailbox file (.mbox), in order; what stands before the first is one, too."""
    borders = [(found.start(), found.end()) for found in _MAIL_BEGINS.finditer(mailbox)]
    spans = pairwise([(0, 0), *borders, (len(mailbox), len(mailbox))])
    return [mail for (_, start), (stop, _) in spans if (mail := mailbox[start:stop]).strip()]


def saved_page(path: Path, content: bytes) -> str:
    """The markup of a page that a browser saved as one file (.mhtml): its first part of HTML.

    Raises:
        FileUnreadable: If it has none.
    """
    for part in message_from_bytes(content, policy=_RAW).walk():
        if part.get_content_type() == "text/html" and not part.is_multipart():
            return _text(path, part)
    raise FileUnreadable(f"{path} holds no page of HTML; leave it out")


def read_mail(path: Path, content: bytes) -> tuple[dict[str, str], str]:
    """The headers of a mail by name, in the order of HEADERS; and the mail as text.

    The text is a line for each header, a line with the names of the attachments, and the body: the texts of all parts,
    and of parts that say the same in several formats one. A mail inside the mail is read with its headers.

    Raises:
        FileUnreadable: If its parts are nested too deeply.
    """
    try:
        mail = message_from_bytes(content, policy=_RAW)
        return _headers(mail), _mail_text(path, mail)
    except RecursionError as error:
        raise FileUnreadable(f"{path} has parts that are nested too deeply; leave it out") from error


def _headers(mail: Message[Any, Any]) -> dict[str, str]:
    return {name: ", ".join(map(_decoded, mail.get_all(name, ()))) for name in HEADERS if mail[name]}


def _mail_text(path: Path, mail: Message[Any, Any]) -> str:
    attached: list[str] = []
    body = _body(path, mail, attached)
    lines = [f"{name}: {value}" for name, value in _headers(mail).items()]
    if attached:
        lines.append(f"Attachments: {', '.join(attached)}")
    return "\n".join(lines) + f"\n\n{body}"


def _body(path: Path, part: Message[Any, Any], attached: list[str]) -> str:
    """The text of a part and those inside it; the names of its attachments are appended to `attached`."""
    kind = part.get_content_type()
    inner: Any = part.get_payload() if part.is_multipart() else None
    if inner is not None and part.get_content_maintype() == "message":
        return "\n\n".join(_mail_text(path, each) for each in inner)
    if inner is not None:
        texts = [(each.get_content_type(), _body(path, each, attached)) for each in inner]
        return _one_of(texts) if kind == "multipart/alternative" else "\n\n".join(text for _, text in texts if text)
    is_text = part.get_content_maintype() in ("text", "multipart")  # a multipart without parts is its text
    if not is_text or kind in _NOT_SHOWN or part.get_content_disposition() == "attachment":
        attached += _file_names(part)
        return ""
    text = _text(path, part)
    return read_page(path, text).text if kind == "text/html" else text


def _file_names(part: Message[Any, Any]) -> list[str]:
    """The file name of a part, or its type if the name cannot be decoded; none if it has no name."""
    try:
        name = part.get_filename()
    except ValueError:
        return [part.get_content_type()]
    return [_decoded(name)] if name else []


def _one_of(texts: Sequence[tuple[str, str]]) -> str:
    """Of the same text in several formats, each with its type: the plain one, else HTML, else the first with text.

    HTML is also taken if it has more than PAGE_WORDS times the words of the plain text: that of many mails only says
    that the mail is in HTML.
    """
    written = [(kind, text) for kind, text in texts if text.strip()]
    plain, page = (
        next((text for kind, text in written if kind.startswith(wanted)), "")
        for wanted in ("text/plain", ("text/html", "multipart/"))
    )
    if len(page.split()) > PAGE_WORDS * len(plain.split()):
        return page
    return plain or (written[0][1] if written else "")


def _text(path: Path, part: Message[Any, Any]) -> str:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)  # it has no parts
    text = text_in(part.get_content_charset("utf-8"), content)
    return decoded_text(path, content, declares=True) if text is None else "\n".join(text.splitlines())


def _decoded(header: str) -> str:
    """The text of a header, its encoded words included."""
    header = _header_text("utf-8", header.encode("utf-8", "surrogateescape"))
    try:
        pieces = decode_header(header) if header.isascii() else [(header, None)]
    except (ValueError, HeaderParseError):
        return header
    return "".join(piece if isinstance(piece, str) else _header_text(name or "ascii", piece) for piece, name in pieces)


def _header_text(encoding: str, content: bytes) -> str:
    text = text_in(encoding, content)
    return content.decode("cp1252", "replace") if text is None else text
