"""JSON, notebooks and mails are found by the words that people see in them, not by their encoding."""

from __future__ import annotations

import base64
import json
import re
from datetime import datetime, timezone
from email.message import EmailMessage

import pytest

from umi_common.errors import FileUnreadable
from umi_common.files import chunks_of, index
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore


def notebook(*cells):
    return json.dumps({"cells": cells, "nbformat": 4, "metadata": {}})


def code(source, *outputs):
    return {"cell_type": "code", "source": source, "outputs": outputs}


def mail(body, **headers):
    message = EmailMessage()
    for name, value in headers.items():
        message[name] = value
    message.set_content(body)
    return message


MARKDOWN = {"cell_type": "markdown", "source": ["# Boilers\n", "The café's boiler leaks."]}


def test_a_json_file_is_its_keys_and_values_as_people_read_them(file):
    value = {
        "name": "caf\u00e9",
        "open": True,
        "owner": None,
        "staff": [{"name": 'Ann "A"\nLee'}, {"age": 3}],
        "tags": ["a", "b"],
    }
    (chunk,) = chunks_of(file("a.json", json.dumps(value, indent=1)))
    assert chunk.text == 'name: café\nopen: true\nstaff.name: Ann "A"\nLee\n\nstaff.age: 3\n\ntags: a, b'


def test_a_json_array_of_texts_is_read_like_jsonl(file, tmp_path):
    records = [
        {"id": "r1", "text": "The caf\u00e9.", "user": "ann", "source": "s"},
        {"content": "The roof.", "timestamp": "2026-11-18"},
    ]
    one, two = chunks_of(path := file("a.json", json.dumps(records, indent=1)))
    assert (one.id, one.text, one.metadata["user"], one.source) == ("r1", "The café.", "ann", "s")
    assert (two.text, two.event_time) == ("The roof.", datetime(2026, 11, 18, tzinfo=timezone.utc))
    with HybridStore.open(tmp_path / "store", embedder=HashEmbedder(8)) as store:
        index(store, [path])
        path.write_text(json.dumps(records[1:]))
        index(store, [path])
        assert [chunk.text for chunk in store.get(store.ids())] == ["The roof."]


def test_a_talk_in_json_and_json_with_comments_are_no_chats_and_no_errors(file):
    talk = [{"role": role, "says": says} for role, says in (("user", "hi"), ("bot", "yes"), ("user", "no"))]
    (chunk,) = chunks_of(file("talk.json", json.dumps({"turns": talk})))
    assert chunk.text.startswith("turns.role: user\nturns.says: hi\n\n")
    (chunk,) = chunks_of(file("tsconfig.json", '{"strict": true} // as ever'))
    assert "as ever" in chunk.text
    assert chunks_of(file("deep.json", "[" * 100_000))[0].text.startswith("[[[")


@pytest.mark.parametrize("wrap", [lambda products: products, lambda products: {"data": {"items": products}}])
def test_each_passage_of_a_long_object_begins_with_its_first_two_values(file, wrap):
    reviews = [{"author": "Ann", "says": "It is dry. It is warm. " * 8}] * 6
    products = [{"sku": f"NV-{n}", "name": f"Boot {n}", "reviews": reviews, "weight": 300 + n} for n in range(5)]
    chunks = chunks_of(file("products.json", json.dumps(wrap(products))))
    for n in range(5):
        (found,) = [chunk.text for chunk in chunks if f"weight: {300 + n}" in chunk.text]
        assert f"sku: NV-{n}\n" in found and f"name: Boot {n}\n" in found


def test_a_long_text_of_an_object_is_cut_after_its_sentences(file):
    pages = [{"id": n, "title": f"Page {n}", "body": "The roof of the old mill leaks badly. " * 60} for n in range(2)]
    texts = [chunk.text for chunk in chunks_of(file("pages.json", json.dumps(pages)))]
    assert len(texts) > 4 and all(text.endswith("badly.") for text in texts)


def test_a_cut_emoji_in_json_costs_its_character_and_not_the_file(file):
    (chunk,) = chunks_of(file("a.json", '{"says": "The roof \\ud83d", "smiles": "\\ud83d\\ude00"}'))
    assert chunk.text == "says: The roof \ufffd\nsmiles: \U0001f600"


def test_a_notebook_is_its_markdown_code_and_outputs_of_text(file):
    cells = [
        MARKDOWN,
        code("# count\nprint(caf\u00e9)", {"output_type": "stream", "text": ["12\n"]}),
        code("plot()", {"data": {"text/plain": "<Figure size 640x480>", "image/png": "iVBORw0KGgo="}}),
        code('"""```"""', {"output_type": "error", "ename": "KeyError", "evalue": "'roof'", "traceback": ["deep"]}),
        code("show()", {"data": {"text/plain": "<Markdown object>", "text/markdown": ["**Leaks:**", " 3"]}}),
        code("page()", {"data": {"text/plain": ["<IPython.core.display.HTML object>"], "text/html": "<b>4</b> leaks"}}),
        code("red()", {"output_type": "stream", "text": "\x1b[1;31mslate\x1b[0m"}),
        code(""),
    ]
    (chunk,) = chunks_of(file("a.ipynb", notebook(*cells)))
    assert chunk.metadata["section"] == "Boilers"
    fenced = (
        '```\n# count\nprint(café)\n```\n\n```\n12\n```\n\n```\nplot()\n```\n\n~~~\n"""```"""\n~~~'
        "\n\n```\nKeyError: 'roof'\n```\n\n```\nshow()\n```\n\n```\n**Leaks:** 3\n```"
        "\n\n```\npage()\n```\n\n```\n4 leaks\n```\n\n```\nred()\n```\n\n```\nslate\n```"
    )
    assert chunk.text == f"# Boilers\nThe café's boiler leaks.\n\n{fenced}"


def test_of_a_long_output_the_beginning_is_indexed_and_the_rest_is_told_once(file, tmp_path):
    file("a.ipynb", notebook(code("train()", {"output_type": "stream", "text": "begun " + "x" * 2_000 + " done"})))
    with HybridStore.open(tmp_path / "store", embedder=HashEmbedder(8)) as store:
        (problem,) = index(store, [tmp_path]).problems
        assert "a.ipynb: only the first 1000 characters of long outputs are indexed: 1" in problem
        texts = [chunk.text for chunk in store.get(store.ids())]
        assert any("begun" in text for text in texts) and not any("done" in text for text in texts)
        assert index(store, [tmp_path]).problems == []


def test_a_notebook_of_an_older_format_is_read_too(file):
    cells = [{"cell_type": "code", "input": "leaks()", "outputs": [{"output_type": "pyout", "text": ["3"]}]}]
    (chunk,) = chunks_of(file("a.ipynb", json.dumps({"worksheets": [{"cells": cells}], "nbformat": 3})))
    assert chunk.text == "```\nleaks()\n```\n\n```\n3\n```"


@pytest.mark.parametrize("content", ["{", "[]", "3", '{"cells": 3}', '{"cells": [{"source": 3}]}', "[" * 100_000])
def test_a_file_that_is_no_notebook_is_named(file, content):
    with pytest.raises(FileUnreadable, match=r"a\.ipynb is no notebook") as refused:
        chunks_of(file("a.ipynb", content))
    if content in ("[]", '{"cells": 3}'):
        assert "it is JSON, but not an object with a list of cells; leave it out" in str(refused.value)


def test_a_mail_is_its_headers_and_its_text(file):
    message = mail("Le café est fermé.\n" * 100, From="Jörg <j@x.org>", To="Ann <a@x.org>", Subject="Café et cinéma")
    message["Date"] = "Wed, 18 Nov 2026 10:15:00 +0100"
    message.add_attachment(b"no text", maintype="image", subtype="png", filename="a.png")
    message.add_attachment("not read", filename="a.txt")
    chunks = chunks_of(file("a.eml", message.as_bytes()))
    assert chunks[0].text.startswith(
        "From: Jörg <j@x.org>\nTo: Ann <a@x.org>\nSubject: Café et cinéma\n"
        "Date: Wed, 18 Nov 2026 10:15:00 +0100\nAttachments: a.png, a.txt\n\nLe café est fermé."
    )
    assert len(chunks) > 1 and "not read" not in chunks[-1].text
    for chunk in chunks:
        assert chunk.event_time == datetime(2026, 11, 18, 9, 15, tzinfo=timezone.utc)
        assert (chunk.metadata["from"], chunk.metadata["subject"]) == ("Jörg <j@x.org>", "Café et cinéma")
    assert "Café et cinéma" in chunks[1].search_text


def test_a_mail_in_html_is_its_visible_text(file):
    message = mail(" \n", Subject="Hours")
    message.add_alternative("<style>p {}</style><p>Nous fermons à <b>midi</b>.", subtype="html", cte="base64")
    (chunk,) = chunks_of(file("a.eml", message.as_bytes()))
    assert chunk.text == "Subject: Hours\n\nNous fermons à midi."


def text_of_parts(file, kind, *parts):
    """The text of a mail of several parts, without headers."""
    parts = "".join(f"--b\nContent-Type: {of}\n\n{text}\n" for of, text in parts)
    (chunk,) = chunks_of(file("a.eml", f"Content-Type: multipart/{kind}; boundary=b\n\n{parts}--b--\n"))
    return " ".join(chunk.text.split())


def test_a_mail_in_html_keeps_its_text_beside_the_footer_of_a_mailing_list(file):
    parts = ("text/html", "<p>Noon.</p>"), ("text/plain", "To leave the list, ...")
    assert text_of_parts(file, "mixed", *parts) == "Noon. To leave the list, ..."
    assert text_of_parts(file, "alternative", parts[1], parts[0]) == "To leave the list, ..."


def test_a_mail_in_html_has_no_style_sheet_in_its_text(file):
    assert text_of_parts(file, "related", ("text/html", "<p>Noon."), ("text/css", ".p {}")) == "Noon."


def test_every_text_between_the_pictures_of_a_mail_is_read(file):
    parts = ("text/plain", "Before"), ("image/png", "00"), ("text/html", "<b>after"), ("text/csv", "a,1")
    assert text_of_parts(file, "mixed", *parts) == "Before after a,1"


def test_an_invitation_without_another_text_is_read(file):
    parts = ("text/plain", " "), ("text/calendar", "SUMMARY:Roof")
    assert text_of_parts(file, "alternative", *parts) == "SUMMARY:Roof"
    assert text_of_parts(file, "alternative", *parts, ("text/html", "<p>At noon")) == "At noon"
    pictures = ("multipart/related; boundary=c", "--c\nContent-Type: text/html\n\n<p>At noon\n--c--")
    assert text_of_parts(file, "alternative", pictures, parts[1]) == "At noon"


def test_a_forwarded_mail_keeps_its_sender_and_its_subject(file):
    forwarded = mail("At noon.", From="b@x.org", Subject="Roof")
    message = mail("See below.", From="a@x.org", Subject="Fwd")
    message.add_attachment(forwarded)
    (chunk,) = chunks_of(file("a.eml", message.as_bytes()))
    assert " ".join(chunk.text.split()) == "From: a@x.org Subject: Fwd See below. From: b@x.org Subject: Roof At noon."


@pytest.mark.parametrize("boundary", ["", "; boundary=b"])
def test_the_text_of_a_mail_that_only_claims_to_have_parts_is_read(file, boundary):
    (chunk,) = chunks_of(file("a.eml", f"To: a@x.org\nTo: b@x.org\nContent-Type: multipart/mixed{boundary}\n\nNoon."))
    assert chunk.text == "To: a@x.org, b@x.org\n\nNoon."


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Subject: é\nContent-Type: text/plain; charset=bogus\n\nà midi".encode(), "Subject: é\n\nà midi"),
        (b"Subject: =?bogus?q?hours?=\nDate: soon\n\nnoon", "Subject: hours\nDate: soon\n\nnoon"),
        (b"Content-Type: text/plain; charset=utf\xe9\n\nnoon \xc3\xa9", "noon é"),
        (b"Content-Type: text/plain; charset=utf\x00\n\nnoon", "noon"),
        (b"Content-Type: text/plain; charset=utf-7\n\nnoon +2AA-", "noon ?"),  # half of an emoji
        (b"Content-Type: image/gif; name*=x\x00''b.gif\n\n", "Attachments: image/gif"),
        (b"Subject: =?utf-8?b?w6T==?=\n\n", "Subject: ä"),
        (b"Subject: caf\xe9\n\n", "Subject: café"),
        (b"noon, without headers", "noon, without headers"),
    ],
)
def test_a_mail_that_breaks_the_rules_is_read_as_far_as_it_goes(file, content, text):
    (chunk,) = chunks_of(file("a.eml", content))
    assert (chunk.text, chunk.event_time) == (text, None)


@pytest.mark.parametrize(
    ("declared", "body", "text"),
    [
        ("gb2312", "朱镕基说天气很好".encode("gbk"), "朱镕基说天气很好"),
        ("shift_jis", "①番の猫".encode("cp932"), "①番の猫"),
        ("iso-8859-1", b"the tenant\x92s \x80900", "the tenant’s €900"),
        ("iso-8859-1", "Schlüssel".encode(), "Schlüssel"),
    ],
)
def test_a_mail_in_a_wider_encoding_than_it_declares_is_read_as_mail_programs_do(file, declared, body, text):
    encoded = base64.b64encode(body)
    header = b"Subject: =?%b?b?%b?=\n" % (declared.encode(), encoded)
    kind = b"Content-Type: text/plain; charset=%b\nContent-Transfer-Encoding: base64\n\n" % declared.encode()
    (chunk,) = chunks_of(file("a.eml", header + kind + encoded))
    assert chunk.text == f"Subject: {text}\n\n{text}"


def test_a_mail_whose_plain_text_only_says_that_it_is_in_html_is_read_as_html(file):
    page = "<p>Your flight AB123 leaves at <b>10:20</b> from gate 7. Your seat is 12A, at the window."
    shown = "Your flight AB123 leaves at 10:20 from gate 7. Your seat is 12A, at the window."
    plain = "text/plain", "Please use a program that shows HTML."
    assert text_of_parts(file, "alternative", plain, ("text/html", page)) == shown
    pictures = ("multipart/related; boundary=c", f"--c\nContent-Type: text/html\n\n{page}\n--c--")
    assert text_of_parts(file, "alternative", plain, pictures) == shown
    assert text_of_parts(file, "alternative", ("text/plain", shown), ("text/html", page + " Unsubscribe")) == shown


def test_a_mail_that_cannot_be_read_costs_its_mailbox_that_mail_alone(file, tmp_path):
    bodies = b"It leaks.", "Привет мир, как дела?".encode("cp1251"), b"It is mended."
    path = file(
        "Inbox.mbox", b"".join(b"From a@x Tue Feb 20 10:00:00 2024\nSubject: Roof\n\n%b\n\n" % b for b in bodies)
    )
    with HybridStore.open(tmp_path / "store", embedder=HashEmbedder(8)) as store:
        report = index(store, [path])
        assert sorted(chunk.text[-9:] for chunk in store.get(store.ids())) == ["It leaks.", "s mended."]
    (problem,) = report.problems
    assert re.search(r"mail 2 of .*Inbox\.mbox is no text in a known encoding", problem)
    with pytest.raises(FileUnreadable, match=r"^[^ ]*a\.eml is no text in a known encoding"):
        chunks_of(file("a.eml", b"Subject: Roof\n\n" + bodies[1]))


def test_each_mail_of_a_mailbox_has_its_subject_and_its_time(file):
    first = "From ann@x.org Tue Feb 20 10:00:00 2024\nSubject: Roof\nDate: Tue, 20 Feb 2024 10:00:00 +0000\n\nIt leaks."
    second = "From ben at x.org  Wed Feb 21 09:30:00 2024\nSubject: =?utf-8?q?Caf=C3=A9?=\n\nFrom noon on.\n"
    roof, hours = chunks_of(file("Inbox.mbox", f"{first}\n\n{second}"))
    assert roof.text == "Subject: Roof\nDate: Tue, 20 Feb 2024 10:00:00 +0000\n\nIt leaks."
    assert (roof.metadata["subject"], roof.event_time) == ("Roof", datetime(2024, 2, 20, 10, tzinfo=timezone.utc))
    assert (hours.text, hours.event_time) == ("Subject: Café\n\nFrom noon on.", None)
    assert hours.metadata["start_index"] == len(roof.text) + 2


def test_a_page_that_a_browser_saved_as_one_file_is_read_like_html(file):
    kinds = ("text/html; charset=utf-8\nContent-Transfer-Encoding: quoted-printable", "text/css")
    page, style = "<title>Rooms</title><h1>Hours</h1><p>Caf=C3=A9: no=\non.", "p {}"
    parts = "".join(f"--b\nContent-Type: {of}\n\n{text}\n" for of, text in zip(kinds, (page, style), strict=True))
    (chunk,) = chunks_of(
        file("a.mhtml", f"From: <Saved by Blink>\nContent-Type: multipart/related; boundary=b\n\n{parts}")
    )
    assert chunk.text == "Hours\n\nCafé: noon."
    assert (chunk.metadata["title"], chunk.metadata["section"]) == ("Rooms", "Hours")
    with pytest.raises(FileUnreadable, match="no page of HTML"):
        chunks_of(file("b.mht", "Content-Type: text/plain\n\nNoon."))


def test_a_mail_whose_parts_are_nested_without_end_is_refused(file):
    levels = (f'Content-Type: multipart/mixed; boundary="b{at}"\n\n--b{at}\n' for at in range(2_000))
    nested = "".join(levels)
    for name in ("a.eml", "a.mhtml"):
        with pytest.raises(FileUnreadable, match="nested too deeply"):
            chunks_of(file(name, nested))


def test_notebooks_and_mails_of_a_folder_are_indexed_and_json_only_where_it_is_named(file, tmp_path):
    for name, content in (
        ("a.ipynb", notebook(MARKDOWN)),
        ("b.eml", "Subject: Hours\n\nNoon."),
        ("c.json", '{"a": "b"}'),
    ):
        file(name, content)
    with HybridStore.open(embedder=HashEmbedder(8)) as store:
        report = index(store, [tmp_path])
        assert (report.files, report.left_out, report.problems) == (2, {".json": 1}, [])
        assert index(store, [tmp_path, tmp_path / "c.json"]).files == 3
