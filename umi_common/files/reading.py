"""Bytes of a file and their text. Whatever is wrong with one file is an error that names it and says what to do."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from umi_common.errors import FileUnreadable

NUL_LOOKED_FOR = 8_192
"""Bytes at the beginning in which text has no NUL."""
CONTROLS_SHARE = 0.02
"""Of text that is not Unicode, this share of control characters means it is none."""
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]")


def content_of(path: Path) -> bytes:
    """What is in a file.

    Raises:
        FileUnreadable: Also for pipes and devices, which need not end.
    """
    check_regular(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error


def check_regular(path: Path) -> None:
    """Raises FileUnreadable if it is not there, or a pipe or a device."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(mode):
        raise FileUnreadable(f"{path} is no regular file; leave it out")


def unreadable(path: Path, error: OSError) -> FileUnreadable:
    """The error that says why a file cannot be read, and what to do."""
    if isinstance(error, FileNotFoundError):
        return FileUnreadable(f"{path} has gone, or links to nothing; leave it out")
    fix = "check its permissions" if isinstance(error, PermissionError) else "leave it out"
    return FileUnreadable(f"{path} cannot be read ({error.strerror}); {fix}")


def check_name(name: str, path: Path) -> None:
    """Raises FileUnreadable if a name is no text: a file system takes any bytes, ids are Unicode."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise FileUnreadable(f"{str(path)!a} has a name that is not UTF-8; rename it") from error


def text_of(path: Path, content: bytes) -> str:
    """The text as Python's open() would read it: UTF-8 or UTF-16 by its mark, else Windows-1252; newlines are \\n.

    Raises:
        FileUnreadable: If it is none.
    """
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = content.decode("utf-16", "replace")
    else:
        text = _narrow_text(path, content)
    return re.sub(r"\r\n?", "\n", text)


def _narrow_text(path: Path, content: bytes) -> str:
    no_text = FileUnreadable(f"{path} is no text; leave it out, or convert it to text first")
    if b"\x00" in content[:NUL_LOOKED_FOR]:
        raise no_text
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252", "replace")
    if len(_CONTROLS.findall(text)) > CONTROLS_SHARE * len(text):
        raise no_text
    return text
