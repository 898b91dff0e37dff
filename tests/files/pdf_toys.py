"""PDFs written by hand: broken, slow, and with fonts that lie."""

from __future__ import annotations

import zlib


def pdf(*streams: bytes, pages: list[int], extra: str = "") -> bytes:
    """A PDF whose page n shows the stream with the number pages[n]; streams are compressed."""
    shown = [5 + number for number in pages]
    first = 5 + len(streams)
    kids = " ".join(f"{first + at} 0 R" for at in range(len(pages)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>".encode(),
        f"<</Type/Font/Subtype/Type1/BaseFont/Helvetica{extra}>>".encode(),
        b"<<>>",
    ]
    packed = map(zlib.compress, streams)
    objects += [b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(each), each) for each in packed]
    for number in shown:
        head = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]"
        objects.append(f"{head}/Contents {number} 0 R/Resources<</Font<</F1 3 0 R>>>>>>".encode())
    body, places = b"%PDF-1.4\n", []
    for number, value in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj%sendobj\n" % (number, value)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (size, len(body))
    return body + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + end


def shown(text: str) -> bytes:
    return f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()


SLOW = pdf(b"BT /F1 12 Tf " + b"(a) Tj " * 100_000 + b"ET", pages=[0] * 40)
"""About 6 kB that take pypdf a minute."""
