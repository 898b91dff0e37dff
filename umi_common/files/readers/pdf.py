"""Read the text of PDFs in a child process, because pypdf can take minutes and gigabytes for a file of a few kB."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from umi_common.errors import FileUnreadable, MissingExtra
from umi_common.files.readers.reading import ReadLimits
from umi_common.runtime.closing import Closing

CHILD = Path(__file__).with_name("pdf_child.py")
"""The program of the child process."""
START_SECONDS = 60.0
"""Longest time for the child process to start and import pypdf, which takes about 0.5 s on an idle machine."""

_DIVIDED = re.compile(
    r"(?<![\w-])([\w-]*[^\W\d_])([-\u2010\u00ad])[ ]*\n[ ]*(?!(?:and|or|to|und|oder|bis)\b)([^\W\d_][\w-]*)"
)
"""A word that a hyphen divides at the end of a line. In "Ein- und Ausgang" the hyphen divides no word."""
_HYPHENATED, _WORD = re.compile(r"(?<!\w)\w+(?:-\w+)+"), re.compile(r"\w+")


class PdfPages(NamedTuple):
    """The text of a PDF, and a list of what was not read."""

    pages: list[str]
    """Text of each page in order; "" for a page that cannot be read."""
    bad: list[tuple[int, str]]
    """(page number from 1, reason) of each page that cannot be read completely; part of its text may be in `pages`."""
    attached: list[str]
    """Names of the files attached to the PDF, which are not read."""


def without_divided_words(pages: Iterable[str]) -> list[str]:
    """The pages with each divided word in one line: "repre-\\nsentatives" becomes "representatives".

    The hyphen is kept if the document has the word with a hyphen elsewhere ("well-known"), if it does not have the word
    without one, but both parts as words ("BERT-based"), or if the part before it is one letter or has a hyphen, too
    ("state-of-the-art"). A second part with a capital letter is left as it is.
    """
    pages = list(pages)
    others = [_DIVIDED.sub(" ", page).lower() for page in pages]
    hyphenated = {word for page in others for word in _HYPHENATED.findall(page)}
    words = {word for page in others for word in _WORD.findall(page)}

    def joined(found: re.Match[str]) -> str:
        first, sign, second = found.groups()
        if not second[0].islower():
            return found[0]
        parts = {first.lower(), second.lower()}
        is_compound = parts <= words and (first + second).lower() not in words
        is_compound |= len(first) == 1 or "-" in first or f"{first}-{second}".lower() in hyphenated
        return f"{first}-{second}" if sign == "-" and is_compound else first + second

    return [_DIVIDED.sub(joined, page) for page in pages]


class PdfProcess(Closing):
    """A child process that reads one PDF at a time. The first call of `read` starts it, `close` ends it.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """End the process now; the next call of `read` starts a new one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()  # closes the pipes and waits for the end

    def read(self, path: Path, content: bytes, limits: ReadLimits) -> PdfPages:
        """Read the PDF `content`; errors name `path`.

        Raises:
            FileUnreadable: If the content is no PDF, takes longer than `limits.pdf_seconds` for each begun megabyte,
                has more characters of text than `limits.max_file_bytes`, or makes the process fail.
            MissingExtra: Without pypdf.
        """
        process = self._started(path)
        seconds = limits.pdf_seconds * (1 + len(content) // 1_000_000)
        request = {"bytes": len(content), "seconds": seconds, "characters": limits.max_file_bytes}
        line, timed_out = self._call(process, json.dumps(request).encode() + b"\n" + content, seconds)
        if timed_out:
            raise FileUnreadable(
                f"{path} takes longer than {seconds:g} s to read; leave it out, or raise --pdf-seconds (pdf_seconds=)"
            )
        if not line.endswith(b"\n"):
            raise FileUnreadable(f"{path} makes pypdf fail, perhaps because memory runs out; leave it out")
        answer = json.loads(line)
        if "error" in answer:
            raise FileUnreadable(f"{path}: {answer['error']}; leave it out")
        bad = [(page, reason) for page, reason in answer["bad"]]
        return PdfPages([page or "" for page in answer["pages"]], bad, answer["attached"])

    def _started(self, path: Path) -> subprocess.Popen[bytes]:
        if self._process is not None:
            return self._process
        if find_spec("pypdf") is None:
            raise MissingExtra("pypdf", "files")
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD), *(entry for entry in sys.path if entry)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that Ctrl-C in a terminal does not end the process during a file
        )
        line, _ = self._call(self._process, b"", START_SECONDS)
        if line != b"ready\n" or self._process is None:
            raise FileUnreadable(f"{path} is not read: the process that reads PDFs did not start; run the call again")
        return self._process

    def _call(self, process: subprocess.Popen[bytes], sent: bytes, seconds: float) -> tuple[bytes, bool]:
        """Write `sent` to the process; returns its answer, a line, and whether the time ran out.

        If the process has ended, the answer has no newline at its end.
        """
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        assert process.stdin is not None and process.stdout is not None  # both are pipes
        try:
            with suppress(OSError):  # the process has ended; the line is empty then
                process.stdin.write(sent)
                process.stdin.flush()
            line = process.stdout.readline()
        except BaseException:  # such as Ctrl-C: the next call would read this answer
            self.close()
            raise
        finally:
            timer.cancel()
            timer.join()
        if expired.is_set() or not line.endswith(b"\n"):
            self.close()
        return line, expired.is_set()
