"""Program of the child process that reads the text of PDFs. `umi_common.files.readers.pdf` starts it, and kills it if a
file takes too long.

It runs as a script: `python pdf_child.py SYS_PATH_ENTRY...`. It first replaces its sys.path by these entries of the
parent's sys.path, so that it imports nothing from the working directory. It imports nothing of umi.

Protocol: the child writes the line "ready". Then, for each PDF, it reads one line of JSON, {"bytes": size, "seconds":
limit, "characters": limit}, and the PDF itself, `size` bytes. It answers with one line of JSON: {"pages": [text or
null], "bad": [[page number, reason]], "attached": [file name]}, or {"error": reason}. Page numbers start at 1. The
child ends when its input ends.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # not imported from `typing`, so that the process starts faster
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pypdf import PageObject

if __name__ == "__main__":
    sys.path[:] = sys.argv[1:]

MEMORY_BYTES = 2 << 30
"""Largest address space of this process in bytes, where it can be limited. A normal PDF takes less than a tenth."""
ORPHAN_SECONDS = 5.0
"""The process ends itself this number of seconds after a PDF's time limit, in case its parent died."""


def read_pdf(content: bytes, characters: int) -> dict[str, object]:
    """The answer for a PDF (see the protocol above). The text of a page includes its comments and form fields.

    Args:
        characters: Largest number of characters in the texts of all pages.
    """
    from io import BytesIO

    from pypdf import PdfReader

    pages: list[str | None] = []
    bad: list[tuple[int, str]] = []
    left = characters
    try:
        reader = PdfReader(BytesIO(content))
        count = len(reader.pages)
    except Exception as error:  # noqa: BLE001  # pypdf raises many kinds of errors for broken files
        return {"error": f"it is no PDF that can be read ({_reason(error)})"}
    for index in range(count):
        text: str | None = None
        try:
            page = reader.pages[index]
            text = _without_surrogates(page.extract_text())
            text = "\n".join([text, *map(_without_surrogates, _notes(page))])
        except Exception as error:  # noqa: BLE001  # pypdf raises many kinds of errors for a page or its notes, too
            bad.append((index + 1, ("" if text is None else "its comments and form, ") + _reason(error)))
        pages.append(text)
        left -= len(text or "")
        if left < 0:
            return {"error": f"its text has more than {characters} characters"}
    try:
        attached = [_without_surrogates(name) for name in reader.attachments]
    except Exception as error:  # noqa: BLE001  # pypdf raises many kinds of errors
        attached = [f"with names that cannot be read ({_reason(error)})"]
    return {"pages": pages, "bad": bad, "attached": attached}


def _notes(page: PageObject) -> Iterator[str]:
    """Yield the comments on a page, and the texts in the fields of its form."""
    from pypdf.generic import TextStringObject

    for each in page.annotations or ():
        note = each.get_object()
        kind, key = note.get("/Subtype"), "/Contents"
        if kind == "/Widget":  # of several widgets of one form field, the parent has the value
            note, key = note if "/V" in note else note.get("/Parent", note).get_object(), "/V"
        value = note[key] if kind not in ("/Link", "/Popup") and key in note else None
        values = value if isinstance(value, list) else [value]  # a field may have a list of chosen entries
        # The value of a check box is a PDF name, not a text.
        yield from (value for value in values if isinstance(value, TextStringObject))


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _without_surrogates(text: str) -> str:
    """The text with surrogate pairs joined and single surrogates replaced, because a chunk must be valid Unicode."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _limit_memory() -> None:
    try:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard == resource.RLIM_INFINITY or hard > MEMORY_BYTES:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    except (ImportError, ValueError, OSError):
        return  # Windows has no such limit and macOS refuses it; only the time limit applies there


def serve() -> None:
    """Answer requests until the input ends."""
    import json
    import signal
    from importlib import import_module

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # a library's output must not mix with the answers
    _limit_memory()
    import_module("pypdf")  # takes 0.5 s, which must not count as time of the first PDF
    answers.write(b"ready\n")
    answers.flush()
    while line := requests.readline():
        request = json.loads(line)
        if hasattr(signal, "setitimer"):  # not on Windows
            signal.setitimer(signal.ITIMER_REAL, request["seconds"] + ORPHAN_SECONDS)
        answer = read_pdf(requests.read(request["bytes"]), request["characters"])
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    serve()
