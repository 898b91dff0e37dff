"""Read the bytes of a file within limits, and decode its text. Errors name the file and say what to do."""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from umi_common.errors import ConfigError, FileUnreadable
from umi_common.stores.lexical.languages import language_of
from umi_common.types import utf8_text

MAX_FILE_BYTES = 100_000_000
"""Largest size of a file that is read, in bytes. The whole file, its text and its chunks are in memory: a log of 50 MB,
in which each line is a chunk, takes 1.8 GB."""
PDF_SECONDS = 10.0
"""Longest time for each begun megabyte of a PDF, in seconds. 1,000 full pages, some 3 MB, take 25 s on a busy machine;
a malicious file of 6 kB can take a minute."""
PDF_SECONDS_MAX = 86_400.0
"""Largest value of `ReadLimits.pdf_seconds`: a day."""
NUL_LOOKED_FOR = 8_192
"""Number of bytes at the beginning of a file that are searched for a NUL, which no text in an 8-bit encoding has."""
CONTROLS_SHARE = 0.02
"""Content that is not valid UTF-8 is no text if more than this share of its characters are control characters."""
ACCENTED_RUNS_MIN = 4
"""Smallest number of runs of three or more accented letters that show a wrong code page. Fewer runs may be a list of
letters, such as "äöü ÄÖÜ"."""
DECLARED_WITHIN = 1_024
"""Number of bytes at the beginning of a page within which it must declare its encoding, by the HTML standard."""
_DECLARED = re.compile(rb"<(?:meta|\?xml)\b[^>]*?(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
"""The declaration of an encoding in HTML (<meta charset=...>) or XML (<?xml encoding=...?>)."""
_USUAL = ("utf-8", "ascii", "iso8859-1")
"""Codecs that texts in UTF-8 and in Windows-1252 often declare wrongly."""
_WIDER = {"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949"}
"""Declared codec -> its superset, which browsers use in its place."""
_LANGUAGES = {
    **dict.fromkeys(("cp1250", "iso8859-2"), ("polish", "czech", "hungarian", "romanian")),
    "cp1254": ("turkish",),
}
"""Code page -> languages that need it because Windows-1252 lacks some of their letters."""
_NON_ASCII, _ASCII_LETTER, _ACCENTED = map(re.compile, ("[^\x00-\x7f]", "[A-Za-z]", "[\xc0-\xff]"))
_ACCENTED_RUN = re.compile("[\xc0-\xff]{3,}")
_TERMINAL_CODE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[78=>])|[^\n]\x08")
"""A control sequence of a terminal, or a character and a backspace: `man` prints a bold N as N, backspace, N."""
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]")


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits under which one file is read.

    Raises:
        ConfigError: If a limit is out of range.
    """

    max_file_bytes: int = MAX_FILE_BYTES
    """Largest size in bytes of a file or a line of JSONL, and largest number of characters in a PDF's text; >= 1."""
    pdf_seconds: float = PDF_SECONDS
    """Longest time for reading a PDF, in seconds for each begun megabyte; above 0, at most a day."""

    def __post_init__(self) -> None:
        check_bytes("max_file_bytes", self.max_file_bytes)
        if not isinstance(self.pdf_seconds, int | float) or not 0 < self.pdf_seconds <= PDF_SECONDS_MAX:
            raise ConfigError(
                f"pdf_seconds={self.pdf_seconds!r}; expected seconds above 0, at most {PDF_SECONDS_MAX:g}"
            )


def check_bytes(name: str, value: object) -> None:
    """Raise ConfigError if the value of the argument `name` is not a whole number of bytes, at least 1."""
    if type(value) is not int or value < 1:
        raise ConfigError(f"{name}={value!r:.80}; expected a whole number of bytes, at least 1")


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Convert an OSError, MemoryError or RecursionError in the block to FileUnreadable."""
    try:
        yield
    except OSError as error:
        raise unreadable(path, error) from error
    except MemoryError as error:
        raise FileUnreadable(f"{path} needs more memory than there is; leave it out") from error
    except RecursionError as error:
        raise FileUnreadable(f"{path} has parts that are nested too deeply; leave it out") from error


@contextmanager
def open_regular(path: Path) -> Iterator[BufferedReader]:
    """Open a regular file for reading. A pipe or device is refused at once, without waiting for its data.

    Raises:
        FileUnreadable: If the path leads to no regular file.
        OSError: If the file cannot be opened.
    """
    _check_regular(path, path.stat())
    # Non-blocking, because a pipe may have replaced the file just now, and opening it would wait for a writer.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        _check_regular(path, os.fstat(file.fileno()))
        yield file


def read_all(path: Path, file: BufferedReader, limits: ReadLimits) -> bytes:
    """The bytes of an open file, of which nothing was read yet.

    A file whose stated size is above the limit is not read. Any other file is read to its end, because the stated size
    may be wrong, as in /proc.

    Raises:
        FileUnreadable: If the file is too large, or has no data now, so that reading it would wait.
    """
    size = os.fstat(file.fileno()).st_size
    if size > limits.max_file_bytes:
        raise too_large(path, f"has {size / 1e6:,.1f} MB, more", limits)
    content = read_some(path, file, limits.max_file_bytes + 1)
    if len(content) > limits.max_file_bytes:
        raise too_large(path, "has more", limits)
    return content


def read_some(path: Path, file: BufferedReader, size: int) -> bytes:
    """At most `size` bytes of an open file.

    Raises:
        FileUnreadable: If the file has no data now, so that reading it would wait, as for some files in /proc.
    """
    content: bytes | None = file.read(size)
    if content is None:
        raise FileUnreadable(f"{path} has nothing that can be read now; leave it out")
    return content


def too_large(path: Path, what: str, limits: ReadLimits) -> FileUnreadable:
    """The error for a file that is too large; `what`: the words before "than the limit", such as "has 6.4 MB, more"."""
    return FileUnreadable(
        f"{path} {what} than the limit of {limits.max_file_bytes / 1e6:g} MB; leave it out, or raise --max-file-mb "
        "(max_file_bytes=)"
    )


def _check_regular(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise FileUnreadable(f"{path} is no regular file; leave it out")


def stamp_of(found: os.stat_result) -> str:
    """A text that changes when a file is written or replaced, even by one of the same size and modification time.

    It includes the time of the last change of the inode (`st_ctime_ns`), which programs cannot set. On Windows that
    field is the time of creation, so only size, modification time and file number show a change.
    """
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_ino}"


def unreadable(path: Path, error: OSError) -> FileUnreadable:
    """The error for a file that cannot be read: the reason and what to do."""
    if isinstance(error, FileNotFoundError):
        return FileUnreadable(f"{path} has gone, or links to nothing; leave it out")
    fix = "check its permissions" if isinstance(error, PermissionError) else "leave it out"
    return FileUnreadable(f"{path} cannot be read ({error.strerror}); {fix}")


def check_name(name: str, path: Path) -> None:
    """Raise FileUnreadable if a source name is not UTF-8, as a part of chunks' ids must be."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise FileUnreadable(f"{str(path)!a} has a name that is not UTF-8; rename it") from error


def decoded_text(path: Path, content: bytes, *, declares: bool = False) -> str:
    """The text of a file; newlines are \\n, and a terminal's codes for colours, links and bold letters are left out.

    The encoding is the first of these that fits:

    1. UTF-16 or UTF-32, if the content begins with its byte order mark;
    2. UTF-8;
    3. with `declares`, the encoding that the content declares, as HTML does;
    4. UTF-8 with some damaged bytes;
    5. a code page of `_LANGUAGES`, if the text has the function words of one of its languages;
    6. Windows-1252.

    Raises:
        FileUnreadable: If the content is no text.
    """
    if content[:4] in (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff"):
        text: str | None = content.decode("utf-32", "replace")
    elif content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = content.decode("utf-16", "replace")
    else:
        text = _eight_bit_text(content, declares)
    if text is None:
        raise FileUnreadable(
            f"{path} is no text in a known encoding; leave it out, convert it to UTF-8, or export it as PDF or HTML"
        )
    return without_terminal_codes(re.sub(r"\r\n?", "\n", text))


def without_terminal_codes(text: str) -> str:
    """The text without the control sequences of a terminal, which would otherwise become parts of words."""
    return _TERMINAL_CODE.sub("", text) if "\x1b" in text or "\x08" in text else text


def text_in(encoding: str, content: bytes, errors: str = "strict") -> str | None:
    """Decode bytes by their declared encoding, as browsers do; None: it is unknown, or the bytes are not valid in it.

    Content declared as one of `_USUAL` is decoded as UTF-8.

    Args:
        errors: As for `bytes.decode`; always "strict" for UTF-8.
    """
    try:
        codec = codecs.lookup(encoding).name
        if codec in _USUAL:
            return content.decode()
        if codec == "punycode":  # takes quadratic time, and is no encoding of texts
            return None
        return utf8_text(content.decode(_WIDER.get(codec, codec), errors))  # UTF-7 may hold lone surrogates
    except (LookupError, ValueError):
        return None


def _eight_bit_text(content: bytes, declares: bool) -> str | None:
    """`decoded_text` by the encodings 2 to 6; None: the content is no text."""
    if b"\x00" in content[:NUL_LOOKED_FOR]:
        return None
    with suppress(UnicodeDecodeError):
        return content.decode("utf-8-sig")
    if declares and (declared := _DECLARED.search(content, 0, DECLARED_WITHIN)):
        name = declared[1].decode()
        text = text_in(name, content, "replace")
        if text is not None and name in text:  # a wrong encoding would garble its own name in the text
            return text
    text = content.decode("utf-8-sig", "replace")
    if 2 * text.count("\ufffd") < len(_NON_ASCII.findall(text)):  # most non-ASCII characters are valid: damaged UTF-8
        return text
    return _code_page_text(content)


def _code_page_text(content: bytes) -> str | None:
    """`decoded_text` by the encodings 5 and 6. Of the code pages that fit, the one that gives the most letters."""
    by_page = {page: content.decode(page, "replace") for page in _LANGUAGES}
    fitting = [text for page, text in by_page.items() if language_of(text) in _LANGUAGES[page]]
    text = max(fitting, key=lambda each: sum(map(str.isalpha, each)), default=content.decode("cp1252", "replace"))
    # The code page is wrong if there are more accented than plain letters, or if most accented letters are in runs.
    accented, runs = len(_ACCENTED.findall(text)), _ACCENTED_RUN.findall(text)
    in_runs = len("".join(runs)) if len(runs) >= ACCENTED_RUNS_MIN else 0
    other_code_page = accented > len(_ASCII_LETTER.findall(text)) or 2 * in_runs > accented
    return None if other_code_page or len(_CONTROLS.findall(text)) > CONTROLS_SHARE * len(text) else text
