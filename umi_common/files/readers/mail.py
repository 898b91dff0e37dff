"""Read the text of mails (.eml, .mbox), and of pages that a browser saved in the format of mails (.mhtml).

The text of a mail is its headers, the names of its attachments, and its body. Attachments are not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.policy import default
from pathlib import Path
from typing import Any

from umi_common.errors import FileUnreadable
from umi_common.files.readers.html_text import HtmlText
from umi_common.files.readers.reading import decoded_text, text_in

HEADERS = ("From", "To", "Cc", "Subject", "Date")
"""Headers of a mail that are read, in the order in which the text has them."""
_MAIL_BEGINS = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\n]*\d:\d\d[^\n]*\n")
"""The line above each mail of a mailbox: `From ann@example.com Tue Feb 20 10:00:00 2024`."""
PAGE_WORDS = 2
"""The HTML of a mail is read in place of its plain text if it has more than this number of times as many words."""
_NOT_SHOWN = ("text/css", "text/javascript")
"""Types of text that a mail program does not show."""
_RAW = default.clone(header_factory=lambda name, value: value)
"""A policy that leaves headers unparsed. Python's address parser takes minutes for some, and raises many errors."""


def mails_in(mailbox: bytes) -> list[bytes]:
    """The mails of a mailbox file (.mbox), in order. Text before the first line "From ..." counts as a mail."""
    return [mail for mail in _MAIL_BEGINS.split(mailbox) if mail.strip()]


def saved_page(path: Path, content: bytes) -> str:
    """The markup of a page that a browser saved as one file (.mhtml): the first HTML part of the file.

    Raises:
        FileUnreadable: If the file has no HTML part.
        RecursionError: If its parts are nested too deeply.
    """
    for part in message_from_bytes(content, policy=_RAW).walk():
        if part.get_content_type() == "text/html" and not part.is_multipart():
            return _text(path, part)
    raise FileUnreadable(f"{path} holds no page of HTML; leave it out")


def read_mail(path: Path, content: bytes) -> tuple[dict[str, str], str]:
    """The headers of a mail by name, in the order of HEADERS, and the text of the mail.

    The text has a line for each header, a line with the names of the attachments, and the body. The body has the texts
    of all parts, but only one of alternative parts, which have the same text in several formats. An attached mail is
    read with its headers.

    Raises:
        RecursionError: If the parts of the mail are nested too deeply.
    """
    return _read(path, message_from_bytes(content, policy=_RAW))


def _read(path: Path, mail: Message[Any, Any]) -> tuple[dict[str, str], str]:
    headers = {name: ", ".join(map(_decoded, mail.get_all(name, ()))) for name in HEADERS if mail[name]}
    attached: list[str] = []
    body = _body(path, mail, attached)
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if attached:
        lines.append(f"Attachments: {', '.join(attached)}")
    return headers, "\n".join(lines) + f"\n\n{body}"


def _body(path: Path, part: Message[Any, Any], attached: list[str]) -> str:
    """The text of a part and of the parts inside it; the names of attachments are appended to `attached`."""
    kind = part.get_content_type()
    inner: Any = part.get_payload() if part.is_multipart() else None
    if inner is not None and part.get_content_maintype() == "message":
        return "\n\n".join(_read(path, each)[1] for each in inner)
    if inner is not None:
        texts = [(each.get_content_type(), _body(path, each, attached)) for each in inner]
        return _one_of(texts) if kind == "multipart/alternative" else "\n\n".join(text for _, text in texts if text)
    is_text = part.get_content_maintype() in ("text", "multipart")  # a multipart without inner parts is read as text
    if not is_text or kind in _NOT_SHOWN or part.get_content_disposition() == "attachment":
        try:
            name = _decoded(part.get_filename() or "")
        except ValueError:  # the name cannot be decoded
            name = kind
        attached += [name] if name else []
        return ""
    text = _text(path, part)
    return HtmlText().read(text).text if kind == "text/html" else text


def _one_of(texts: Sequence[tuple[str, str]]) -> str:
    """Of several alternatives, as (type, text): the plain text, else the first that is not blank, else "".

    HTML with more than PAGE_WORDS times as many words is preferred: the plain text of many mails only says that the
    mail is in HTML. A multipart counts as HTML.
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
    assert isinstance(content, bytes)  # because the part has no inner parts
    text = text_in(part.get_content_charset("utf-8"), content)
    return decoded_text(path, content, declares=True) if text is None else "\n".join(text.splitlines())


def _decoded(header: str) -> str:
    header = _header_text("utf-8", header.encode("utf-8", "surrogateescape"))
    try:
        pieces = decode_header(header) if header.isascii() else [(header, None)]
    except (ValueError, HeaderParseError):
        return header
    return "".join(piece if isinstance(piece, str) else _header_text(name or "ascii", piece) for piece, name in pieces)


def _header_text(encoding: str, content: bytes) -> str:
    text = text_in(encoding, content)
    return content.decode("cp1252", "replace") if text is None else text
