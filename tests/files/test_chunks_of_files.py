"""One file as chunks: text, Markdown, HTML, PDF, JSONL and chat logs, and what is wrong with them."""

from __future__ import annotations

import json
import time
from datetime import datetime, timezone
from io import BytesIO

import pytest

from umi_common.context.assemble import assemble
from umi_common.context.budget import TokenBudget
from umi_common.errors import FileUnreadable
from umi_common.explain.texts import place
from umi_common.files import chunks_of, index
from umi_common.query.time.find import find_time
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Hit


def test_chunks_know_their_file_place_and_first_character(file):
    text = "First paragraph. " * 40 + "\n\n" + "Second paragraph. " * 40
    chunks = chunks_of(file("notes.txt", text), "notes.txt")
    assert [chunk.id for chunk in chunks] == ["notes.txt#0", "notes.txt#1"]
    assert [chunk.position for chunk in chunks] == [0, 1]
    for chunk in chunks:
        start = chunk.metadata["start_index"]
        assert text[start : start + len(chunk.text)] == chunk.text
        assert chunk.source == chunk.metadata["file"] == "notes.txt"


@pytest.mark.parametrize(
    "content",
    [
        "naïve café".encode(),
        b"\xef\xbb\xbfna\xc3\xafve caf\xc3\xa9",
        "naïve café".encode("utf-16"),
        "naïve café".encode("utf-32"),
        b"na\xefve caf\xe9",
    ],
)
def test_texts_are_read_whatever_their_encoding(file, content):
    assert chunks_of(file("a.txt", content))[0].text == "naïve café"


@pytest.mark.parametrize("text", ["Umlauts: äöüß, ÄÖÜ.", "Une idée créée à Noël; œuvre « achevée »", "Swedish: ÅÄÖ"])
def test_accented_letters_side_by_side_are_no_other_encoding(file, text):
    assert chunks_of(file("a.txt", text.encode("cp1252")))[0].text == text


def test_a_damaged_byte_costs_its_character_and_not_every_umlaut_of_the_file(file):
    content = "Jörg Müller wohnt in Köln. ".encode() * 20
    for damaged in (content + "Straß".encode()[:-1], content + b"\xff" + content):
        text = " ".join(chunk.text for chunk in chunks_of(file("log.txt", damaged)))
        assert text.startswith("Jörg Müller wohnt in Köln.") and "\ufffd" in text and "Ã" not in text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Привет мир, как дела?", "cp1251"),
        ("Привет мир", "koi8-r"),
        ("北京的天气很好", "gbk"),
        ("def main():  # запуск программы без вывода\n    return parse_all_arguments_of_the_command()\n", "cp1251"),
        ("The pump and its valves were inspected in March: η αντλία στάζει από χθες.", "cp1253"),
    ],
)
def test_text_in_another_encoding_is_refused_in_place_of_stored_as_other_letters(file, text, encoding):
    with pytest.raises(FileUnreadable, match=r"a\.txt is no text .*convert it to UTF-8"):
        chunks_of(file("a.txt", text.encode(encoding)))


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Książka o żółwiach leży na półce w łazience. Źródło wody jest w ogródku, a pies śpi pod stołem.", "cp1250"),
        ("Książka o żółwiach leży na półce w łazience. Źródło wody jest w ogródku, a pies śpi.", "iso8859-2"),
        ("A teknősökről szóló könyv a fürdőszobai polcon van, mert nem volt hely, és szükség van rá.", "cp1250"),
        ("Anahtarlar mavi saksının altında ve bu kapı için değil, ama daha çok bir köpek gibi.", "cp1254"),
    ],
)
def test_a_text_in_the_code_page_of_its_language_has_its_letters(file, text, encoding):
    assert chunks_of(file("a.txt", text.encode(encoding)))[0].text == text


@pytest.mark.parametrize(
    ("declaration", "text", "encoding"),
    [
        ('<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">', "Кошки и собаки", "cp1251"),
        ("<meta charset=iso-8859-2>", "Zażółć gęślą jaźń", "iso-8859-2"),
        ('<meta name="author" content="猫"><META CHARSET="Shift_JIS">', "猫は①可愛い", "cp932"),
        ('<?xml version="1.0" encoding="GB2312"?>', "朱镕基的天气", "gb18030"),
    ],
)
def test_a_page_is_read_in_the_encoding_that_it_declares(file, declaration, text, encoding):
    page = f"{declaration}<title>{text}</title><div class='content'><p>{text}</div>".encode(encoding)
    (chunk,) = chunks_of(file("a.html", page))
    assert chunk.text == chunk.metadata["title"] == text


@pytest.mark.parametrize("declared", ["utf-8", "iso-8859-1", "us-ascii", "utf-16", "rot13", "idna", "of my own"])
def test_a_page_in_another_encoding_than_it_declares_is_read_like_any_text(file, declared):
    page = f'<meta charset="{declared}"><p>“naïve” café'
    for encoding in ("utf-8", "cp1252"):
        assert chunks_of(file("a.html", page.encode(encoding)))[0].text == "“naïve” café"


def test_lines_end_alike_whatever_wrote_them(file):
    assert chunks_of(file("a.txt", b"one\r\ntwo\rthree"))[0].text == "one\ntwo\nthree"


def test_a_file_that_is_no_text_is_refused_with_its_name(file):
    with pytest.raises(FileUnreadable, match=r"data\.txt is no text"):
        chunks_of(file("data.txt", b"\x7fELF\x00\x00"))


def test_an_empty_file_has_no_chunks(file):
    assert chunks_of(file("empty.md", " \n")) == []


def test_the_titles_of_icons_are_no_part_of_the_title_of_a_page(file):
    page = "<title>All about\n boats</title><svg><title>Menu</title><path/></svg><p>Jib.<svg><title>Close</title></svg>"
    (chunk,) = chunks_of(file("a.html", page))
    assert (chunk.metadata["title"], chunk.text) == ("All about boats", "Jib.")


def test_a_heading_over_two_lines_is_one_line_of_the_section(file):
    (chunk,) = chunks_of(file("a.html", "<h1>Sails<br>and <pre>their  ropes</pre></h1><p>Jib and main."))
    assert chunk.metadata["section"] == "Sails and their ropes"


def test_html_chunks_carry_title_and_section(file):
    (chunk,) = chunks_of(file("a.html", "<title>Boats</title><h1>Sails</h1><p>Jib and main."))
    assert chunk.text == "Sails\n\nJib and main."
    assert (chunk.metadata["title"], chunk.metadata["section"]) == ("Boats", "Sails")


def pdf(*pages: str, notes: str = "") -> bytes:
    """A PDF of one line of text a page, written by hand; `notes` are the annotations of each page."""
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects = ["<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>"]
    objects.append("<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>")
    for at, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" if text else ""
        page = f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents {5 + 2 * at} 0 R/Annots[{notes}]"
        objects += [
            f"{page}/Resources<</Font<</F1 3 0 R>>>>>>",
            f"<</Length {len(stream)}>>stream\n{stream}\nendstream",
        ]
    body, places = "%PDF-1.4\n", []
    for number, value in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj{value}endobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    return (
        f"{body}xref\n0 {size}\n0000000000 65535 f \n{table}trailer<</Size {size}/Root 1 0 R>>\n"
        f"startxref\n{len(body)}\n%%EOF"
    ).encode()


def test_a_pdf_gives_its_text_with_the_page(file):
    pytest.importorskip("pypdf")
    filler = "word " * 150
    chunks = chunks_of(file("a.pdf", pdf("The boiler leaks. " + filler, "The roof is dry. " + filler)))
    assert [chunk.metadata["page"] for chunk in chunks] == [1, 2]
    assert chunks[1].text.startswith("The roof is dry.")


def test_a_passage_of_a_pdf_that_goes_on_over_pages_names_the_first_and_the_last(file):
    pytest.importorskip("pypdf")
    (chunk,) = chunks_of(file("a.pdf", pdf("The boiler leaks.", "The roof is dry.", "The oak is old.")))
    assert (chunk.metadata["page"], chunk.metadata["last_page"]) == (1, 3)
    assert "page 1–3" in place(chunk)


def test_a_word_that_a_line_of_a_pdf_divides_is_one_word(file):
    pytest.importorskip("pypdf")
    lines = [
        "A well-known repre-",
        "sentative of a well-",
        "known firm, state-of-the-",
        "art, Ein-",
        "und Ausgang, x-",
        "ray",
    ]
    (chunk,) = chunks_of(file("a.pdf", pdf(f") Tj 14 TL T* ({') Tj T* ('.join(lines)}")))
    assert "representative of a well-known firm, state-of-the-art, Ein-\nund Ausgang, x-ray" in chunk.text


def test_lines_of_a_pdf_in_two_passages_are_lines_of_a_context_too(file):
    pytest.importorskip("pypdf")
    lines = ") Tj T* (".join(f"{number} oaks grow in wood number {number}." for number in range(10, 60))
    first, second = chunks_of(file("a.pdf", pdf(f") Tj 14 TL T* ({lines}")))[:2]
    assert "begins_line" not in first.metadata and second.metadata["begins_line"] is True


def test_a_pdf_gives_the_comments_on_it_and_what_was_entered_into_its_form(file):
    pytest.importorskip("pypdf")
    notes = (
        "<</Subtype/Text/Contents(Who pays?)>><</Subtype/Widget/FT/Tx/T(name)/V(Ann Lee)>><</Subtype/Text>>"
        "<</Subtype/Widget/Parent<</FT/Ch/T(days)/V[(Monday)(Friday)]>>>><</Subtype/Widget/FT/Btn/V/Yes>>"
        "<</Subtype/Popup/Contents(Who pays?)>><</Subtype/Link/Contents(a link)>><</Subtype/Widget/FT/Tx>>"
    )
    (chunk,) = chunks_of(file("a.pdf", pdf("Name:", notes=notes)))
    assert chunk.text.split("\n") == ["Name:", "Who pays?", "Ann Lee", "Monday", "Friday"]


def test_the_names_of_files_inside_a_pdf_are_told(tmp_path):
    pypdf = pytest.importorskip("pypdf")
    writer = pypdf.PdfWriter(clone_from=BytesIO(pdf("Noon.")))
    writer.add_attachment("invoice.xml", b"<paid/>")
    writer.write(tmp_path / "a.pdf")
    with HybridStore.open(embedder=HashEmbedder(8)) as store:
        (problem,) = index(store, [tmp_path]).problems
        assert "a.pdf: files inside it are not indexed: invoice.xml" in problem
        assert [chunk.text for chunk in store.get(store.ids())] == ["Noon."]


def test_a_pdf_that_is_only_protected_against_changes_is_read(tmp_path):
    pypdf = pytest.importorskip("pypdf")
    writer = pypdf.PdfWriter(clone_from=BytesIO(pdf("Noon.")))
    writer.encrypt(user_password="", owner_password="secret", algorithm="AES-256")
    writer.write(tmp_path / "a.pdf")
    (chunk,) = chunks_of(tmp_path / "a.pdf")
    assert chunk.text == "Noon."


def test_words_that_a_terminal_coloured_are_read_without_the_colours(file):
    (chunk,) = chunks_of(file("a.log", "\x1b[31mERROR\x1b[0m \x1b]8;;file://a\x1b\\quota\x1b]8;;\x1b\\ exceeded"))
    assert chunk.text == "ERROR quota exceeded"
    (chunk,) = chunks_of(
        file("ls.txt", "N\bNA\bAM\bME\bE\n  ls - list _\bf_\bi_\bl_\be names")
    )  # as "man ls" prints it
    assert chunk.text == "NAME\n  ls - list file names"


def test_codes_that_change_the_character_set_or_keep_the_cursor_are_no_words(file):
    (chunk,) = chunks_of(
        file("a.log", "\x1b[31mERROR\x1b(B\x1b[m quota \x1b7exceeded\x1b8")
    )  # the first by "tput sgr0"
    assert chunk.text == "ERROR quota exceeded"


def test_a_page_that_declares_an_encoding_of_quadratic_time_is_read_at_once(file):
    begun = time.perf_counter()
    (chunk,) = chunks_of(file("a.html", b"<meta charset=punycode><p>caf\xe9-<!--" + b"ab" * 100_000 + b"-->"))
    assert chunk.text == "café-"
    assert time.perf_counter() - begun < 4  # seconds; decoding as punycode took 9


def test_a_broken_comment_costs_a_pdf_its_comments_and_is_named(file, tmp_path):
    pytest.importorskip("pypdf")
    file("a.pdf", pdf("Noon.", notes="<</Subtype/Widget/Parent 3>>"))
    with HybridStore.open(embedder=HashEmbedder(8)) as store:
        (problem,) = index(store, [tmp_path]).problems
        assert "page 1 cannot be read (its comments and form, " in problem
        assert [chunk.text for chunk in store.get(store.ids())] == ["Noon."]


@pytest.mark.parametrize("content, said", [(pdf(""), "OCR"), (b"%PDF-1.4 broken", "no PDF that can be read")])
@pytest.mark.filterwarnings("ignore")
def test_a_pdf_without_text_or_sense_says_what_to_do(file, content, said):
    pytest.importorskip("pypdf")
    with pytest.raises(FileUnreadable, match=said):
        chunks_of(file("a.pdf", content))


def test_records_bring_their_id_metadata_source_and_time(file):
    record = {
        "id": "r1",
        "text": "hello",
        "metadata": {"user": "ann"},
        "source": "s",
        "event_time": "2024-06-11T19:15:00Z",
    }
    (chunk, other) = chunks_of(
        file("a.jsonl", f'{json.dumps(record)}\n  \n{{"text": "", "id": 3}}\n{{"content": "two", "n": 7}}')
    )
    assert (chunk.id, chunk.text, chunk.source) == ("r1", "hello", "s")
    assert chunk.metadata["user"] == "ann"
    assert chunk.event_time == datetime(2024, 6, 11, 19, 15, tzinfo=timezone.utc)
    assert other.id.endswith("a.jsonl#4")
    assert other.metadata["n"] == 7


def test_a_record_without_a_text_is_its_keys_and_values_like_an_object_in_json(file):
    faq = '{"question": "How long is the warranty?", "answer": "Five years.", "topic": "care", "_id": "w1"}\n'
    messages = '[{"role": "user", "content": "Hi"}, {"role": "bot", "content": "Hello"}]'
    talk = f'{{"messages": {messages}, "timestamp": "2026-11-18"}}'
    one, two = chunks_of(file("faq.jsonl", faq + talk), source="faq.jsonl")
    assert (one.id, one.metadata["topic"]) == ("w1", "care")
    assert one.text == "question: How long is the warranty?\nanswer: Five years.\ntopic: care"
    assert two.text.startswith("messages.role: user\nmessages.content: Hi\n\nmessages.role: bot")
    assert (two.id, two.event_time) == ("faq.jsonl#2", datetime(2026, 11, 18, tzinfo=timezone.utc))


def test_the_vector_and_the_empty_values_of_a_record_are_no_text(file):
    record = {"vector": [0.25] * 64, "answer": "Five years.", "topic": ""}
    (chunk,) = chunks_of(file("faq.jsonl", json.dumps(record)))
    assert chunk.text == "answer: Five years."
    for nothing in ({"vector": [0.25] * 64, "metadata": {"text": "Five years."}}, {"question": "", "answer": ""}):
        with pytest.raises(FileUnreadable, match="no text; expected an object"):
            chunks_of(file("faq.jsonl", json.dumps(nothing)))


def test_a_key_without_a_value_does_not_hide_the_next_one_with_the_text_or_the_id(file):
    records = '{"text": null, "content": "one", "id": null, "_id": "r1"}\n{"text": "", "page_content": "two"}'
    one, two = chunks_of(file("a.jsonl", records))
    assert (one.text, one.id, two.text) == ("one", "r1", "two")


def test_a_record_with_an_empty_id_gets_the_id_of_its_line(file):
    (one,) = chunks_of(file("a.jsonl", '{"text": "one", "id": ""}'), source="a.jsonl")
    assert (one.text, one.id) == ("one", "a.jsonl#1")


def test_a_bad_object_of_a_json_array_is_named_by_its_number_and_not_by_a_line(file):
    records = [{"text": "fine"}, {"text": "bad", "metadata": 3}]
    with pytest.raises(FileUnreadable, match=r"a\.json record 2: metadata is no object"):
        chunks_of(file("a.json", json.dumps(records, indent=2)))
    blank = file("b.json", json.dumps([{"text": "fine"}, {"text": " "}], indent=2))
    with HybridStore.open(embedder=HashEmbedder(8)) as store:
        (problem,) = index(store, [blank]).problems
    assert "b.json: records without text are left out: 1, first record 2" in problem


@pytest.mark.parametrize("line", ["[1]", '{"id": 1}', "{", '{"text": "a", "metadata": 3}', '{"text": 5}'])
def test_a_bad_record_is_named_by_line(file, line):
    with pytest.raises(FileUnreadable, match=r"a\.jsonl line 2: .*expected an object like"):
        chunks_of(file("a.jsonl", f'{{"text": "fine"}}\n{line}\n'))


@pytest.mark.parametrize("lines, others", [(2, 1), (3, 2)])
def test_a_file_of_bad_records_is_refused_with_the_first_and_the_number_of_the_others(file, lines, others):
    with pytest.raises(FileUnreadable, match=rf"a\.jsonl line 1: .*; others that cannot be read: {others}$"):
        chunks_of(file("a.jsonl", "[1]\n" * lines))


LOGS = {
    "iso": "[2024-06-11 19:15] Mira: Nine thousand.\n[2024-06-11 19:16] Jonas: That is fair.\nSecond line.\n",
    "slashes": "[31/05/24, 9:01:00 AM] Mira: Nine\n[11/06/24, 7:16:00 PM] Jonas: Fair\n",
    "dashes": "31-05-2024 19:14 - Mira: Negen\n11-06-2024 19:15 - Bo joined\n11-06-2024 19:16 - Jonas: Redelijk\n",
    "short dashes": "31-05-24 19:14 - Mira: Negen\n11-06-24 19:16 - Jonas: Redelijk\n",
    "um": "11.06.24 um 19:15 - Mira: Neun\n11.06.24 um 19:16 Uhr - Jonas: Gut\n",
    "at": "31/05/2024 at 7:15 pm - Mira: Nine\n11/06/2024 à 19:16 - Jonas: Bien\n",
    "p. m.": "31/5/24, 7:15\u00a0p.\u00a0m. - Mira: Nueve\n11/6/24, 7:16\u202fp.\u00a0m. - Jonas: Bien\n",
    "Finnish": "31.5.2024 klo 9.05 - Mira: Yhdeksän\n11.6.2024 klo 19.16 - Jonas: Hyvä\n",
    "Indonesian": "[31/05/24 09.05.10] Mira: Sembilan\n[11/06/24 19.16.00] Jonas: Baik\n",
    "Hungarian": "2024. 05. 31. 9:05 - Mira: Kilenc\n2024. 06. 11. 19:16 - Jonas: Jó\n",
    "Chinese": "2024/5/31 09:05 - Mira: 九千\n2024/6/11 19:16 - Jonas: 好\n",
    "dots": "11.06.24, 19:15 - Mira: Nine\n11.06.24, 19:15 - Bo joined\n11.06.24, 19:16 - Jonas: Fair\n",
}


@pytest.mark.parametrize("name", LOGS)
def test_a_dated_chat_log_is_one_chunk_a_message_with_its_time(file, name):
    chunks = chunks_of(file("chat.txt", LOGS[name]))
    last = chunks[-1]
    assert last.metadata["speaker"] == "Jonas"
    assert last.text.startswith("Jonas: ")
    assert last.event_time == datetime(2024, 6, 11, 19, 16, tzinfo=timezone.utc)
    for chunk in chunks:
        assert LOGS[name][chunk.metadata["start_index"] :].startswith(chunk.text)


@pytest.mark.parametrize(
    ("log", "texts"),
    [
        ("2024-06-11 19:15:01 INFO started\n2024-06-11 19:15:02 INFO listening\n", ["INFO started", "INFO listening"]),
        ("2024-06-11 08:00 Rain.\nBaked bread.\n2024-06-12 09:30 Sun.\n", ["Rain.\nBaked bread.", "Sun."]),
        (LOGS["dots"], ["Mira: Nine", "Bo joined", "Jonas: Fair"]),
    ],
)
def test_an_entry_without_a_speaker_is_a_chunk_with_its_time(file, log, texts):
    chunks = chunks_of(file("app.log", log))
    assert [chunk.text for chunk in chunks] == texts
    assert all(chunk.event_time is not None and chunk.event_time.year == 2024 for chunk in chunks)
    assert [chunk.metadata.get("speaker") for chunk in chunks] == [
        text.split(":")[0] if ":" in text else None for text in texts
    ]


@pytest.mark.parametrize(
    "beginning", ["2024-06-11 19:15:00,250 ERROR", "[2024-06-11 19:15:00,250] ERROR", "2024/06/11 19:15:00.250 ERROR"]
)
def test_a_log_of_python_go_or_nginx_has_its_times(file, beginning):
    chunks = chunks_of(file("app.log", f"{beginning} disk full\n{beginning} pump: dry\n"))
    assert [chunk.text for chunk in chunks] == ["ERROR disk full", "ERROR pump: dry"]
    assert {chunk.event_time for chunk in chunks} == {datetime(2024, 6, 11, 19, 15, 0, 250_000, timezone.utc)}


def test_a_list_of_dates_and_sums_is_no_chat(file):
    (chunk,) = chunks_of(file("spent.txt", "01.05.2024 12.50 Coffee: two\n02.05.2024 9.99 Bread\n"))
    assert chunk.text.startswith("01.05.2024 12.50 Coffee") and chunk.event_time is None


def test_what_stands_before_the_first_message_is_indexed_too(file):
    turns = "".join(f"Ann: The pump leaks at {bar} bar.\nBen: Since when?\n" for bar in range(20))
    chunks = chunks_of(file("meeting.txt", f"Minutes of 6 February\n\n{turns}"))
    assert [chunk.text for chunk in chunks][:2] == ["Minutes of 6 February", "Ann: The pump leaks at 0 bar."]
    assert [chunk.metadata["start_index"] for chunk in chunks][:2] == [0, 23]


def test_a_message_goes_on_until_the_next_begins(file):
    assert chunks_of(file("chat.txt", LOGS["iso"]))[-1].text == "Jonas: That is fair.\nSecond line."


@pytest.mark.parametrize(("one", "other"), [("03/04/24", "05/06/24"), ("03-04-2024", "05-06-2024")])
def test_days_and_months_that_cannot_be_told_apart_leave_messages_undated(file, one, other):
    log = f"{one}, 19:15 - Mira: Hi\n{other}, 19:15 - Jonas: Hi\n"
    assert [chunk.event_time for chunk in chunks_of(file("chat.txt", log))] == [None, None]


@pytest.mark.parametrize(
    ("dates", "days"),
    [
        (("24/06/11", "24/06/12"), ("2024-06-11", "2024-06-12")),  # the default of Spark and Hadoop
        (("23/12/31", "24/01/01", "24/01/02"), ("2023-12-31", "2024-01-01", "2024-01-02")),
        (("24/06/11", "25/06/11"), ("2011-06-24", "2011-06-25")),
        (("24/06/11",), ("2024-06-11",)),
        (("24/06/32",), ("2032-06-24",)),
        (("24/06/2011",), ("2011-06-24",)),
        (("24-06-2023", "24-06-2024"), ("2023-06-24", "2024-06-24")),
    ],
)
def test_a_year_in_front_is_told_from_a_day_by_the_other_dates(file, dates, days):
    log = "".join(f"{date} 19:15:00 INFO SparkContext: Running\n" for date in dates)
    assert [str(chunk.event_time)[:10] for chunk in chunks_of(file("app.log", log))] == list(days)


def test_a_single_date_is_a_day_first_in_a_chat_where_it_may_be_a_year_in_a_log(file):
    chunks = chunks_of(file("chat.txt", "24/06/11, 19:15 - Mira: Hi\n24/06/11, 19:16 - Jonas: INFO is late\n"))
    assert [str(chunk.event_time)[:10] for chunk in chunks] == ["2011-06-24"] * 2


def test_a_message_without_a_time_keeps_the_date_that_the_log_states(file):
    log = "03/04/24, 19:15 - Mira: Hi\n05/06/24, 19:15 - Jonas joined\n"
    chunks = chunks_of(file("chat.txt", log))
    assert [chunk.text for chunk in chunks] == log.splitlines()
    assert [chunk.metadata["start_index"] for chunk in chunks] == [0, 27]
    assert chunks[0].metadata["speaker"] == "Mira"


def test_turns_without_times_are_a_chat_and_a_list_of_settings_is_not(file):
    talk = "Ann: I adopted a cat.\nBen: Its name?\nAnn: Luna.\nBen: Nice.\n"
    assert len(chunks_of(file("talk.txt", talk))) == 4
    assert len(chunks_of(file("settings.txt", "name: a\nsize: b\ncolour: c\nweight: d\n"))) == 1


@pytest.mark.parametrize("end", ["\n", "\n\n"])
@pytest.mark.parametrize("fields", [("Name", "Phone"), ("Name", "Phone", "Remark")])
def test_a_list_of_people_with_their_numbers_is_no_chat(file, fields, end):
    values = {"Name": "Bob Stone", "Phone": "555 12{}", "Remark": "Calls on Sundays."}
    people = end.join("\n".join(f"{key}: {values[key].format(at)}" for key in fields) for at in range(6))
    (chunk,) = chunks_of(file("people.txt", people))
    assert chunk.text == people
    if "Remark" in fields:  # one person has no number
        assert len(chunks_of(file("people.txt", people.replace("Phone: 555 122\n", "")))) == 1


@pytest.mark.parametrize(
    "talk",
    [
        "ann: hi\nben: hey\nben: sup\nann: the pump leaks\nben: again\n",
        "user: my pump leaks\nassistant: Close the valve first.\n" * 3,
        "s1: " + "so i went and " * 5 + "\ns2: " + "and then she said " * 5 + "\ns1: yes\ns2: no no no\n",
    ],
)
def test_a_talk_with_few_full_stops_is_a_chat(file, talk):
    assert len(chunks_of(file("talk.txt", talk))) == talk.count("\n")


@pytest.mark.parametrize("name", ["list.md", "list.txt", "mail.eml"])
def test_a_context_of_a_long_list_keeps_the_line_breaks_of_its_file(file, name):
    items = [f"- item {number} of the list of parts that are to be ordered" for number in range(60)]
    hits = [Hit(chunk, 1.0 / rank, rank) for rank, chunk in enumerate(chunks_of(file(name, "\n".join(items)), "f"), 1)]
    assert len(hits) > 2
    (part,) = assemble(hits, budget=TokenBudget(max_total=10_000)).parts
    assert [line for line in part.text.split("\n") if line] == items


def test_a_context_of_lines_whose_time_is_open_keeps_their_line_breaks(file):
    log = "03/04/24, 19:15 - Mira joined\n05/06/24, 19:15 - Jonas joined"
    hits = [Hit(chunk, 1.0 / rank, rank) for rank, chunk in enumerate(chunks_of(file("c.txt", log), "c"), 1)]
    (part,) = assemble(hits, budget=TokenBudget(max_total=1_000)).parts
    assert part.text == log


def test_a_context_of_one_long_paragraph_is_that_paragraph(file):
    text = " ".join(f"Boiler {number} leaks at the valve." for number in range(90))
    hits = [Hit(chunk, 1.0 / rank, rank) for rank, chunk in enumerate(chunks_of(file("a.txt", text), "a"), 1)]
    (part,) = assemble(hits, budget=TokenBudget(max_total=10_000)).parts
    assert part.text == text


def test_a_page_that_is_a_title_alone_is_found_by_it(file):
    (chunk,) = chunks_of(file("a.html", "<title>Opening hours of\n the library</title><body><script>x()</script>"))
    assert chunk.text == chunk.metadata["title"] == "Opening hours of the library"


def test_a_context_of_a_whole_talk_is_the_file_itself_with_a_line_for_each_turn(file):
    talk = "Ann: I adopted a cat.\nBen: Its name?\nAnn: Luna.\nBen: Nice."
    hits = [Hit(chunk, 1.0 / rank, rank) for rank, chunk in enumerate(chunks_of(file("talk.txt", talk), "t"), 1)]
    (part,) = assemble(hits, budget=TokenBudget(max_total=1_000)).parts
    assert part.text == talk


def test_a_sheet_that_is_named_has_its_first_line_in_every_chunk(file):
    rows = [f"{number};Boiler {number}. Cellar;2026-11-{number % 28 + 1:02}" for number in range(90)]
    chunks = chunks_of(file("sheet.csv", "\n".join(["number;place;checked", *rows])), "sheet.csv")
    assert len(chunks) > 2 and all(chunk.text.startswith("number;place;checked\n") for chunk in chunks)
    assert [line for chunk in chunks for line in chunk.text.split("\n")[1:]] == rows


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_sheet_with_many_columns_names_the_column_of_each_value(file, separator):
    names = ["sensor", *(f"metric_{n}" for n in range(200)), "empty"]
    rows = [[f"S{row}", *(str(1000 * row + n) for n in range(200)), ""] for row in range(4)]
    sheet = "Sensors\n" + "\n".join(separator.join(row) for row in [names, *rows])
    texts = [chunk.text for chunk in chunks_of(file("wide.csv", sheet))]
    assert texts[0].startswith("Sensors\nsensor: S0\nmetric_0: 0\n")
    (found,) = [text for text in texts if "metric_150: 3150" in text]
    assert "sensor: S3\n" in found and not any("empty" in text for text in texts)


def test_a_blank_name_of_the_first_column_of_a_tsv_moves_no_value_to_another_column(file):
    rows = [["", *(f"metric_{n}" for n in range(100))], ["S0", *(str(1000 + n) for n in range(100))]]
    (text, *_) = [chunk.text for chunk in chunks_of(file("wide.tsv", "\n" + "\n".join(map("\t".join, rows))))]
    assert text.startswith("S0\nmetric_0: 1000\nmetric_1: 1001\n")


def test_separators_inside_quoted_names_of_columns_separate_no_fields(file):
    names = [f'"How often, when, and where do you use part {n}?"' for n in range(30)]
    rows = [[f'"answer {row}-{n}"' for n in range(30)] for row in range(4)]
    text = "\n".join(chunk.text for chunk in chunks_of(file("survey.csv", "\n".join(map(";".join, [names, *rows])))))
    assert all(f"use part {n}?: answer {row}-{n}\n" in f"{text}\n" for row in range(4) for n in range(30))


def test_a_sheet_without_a_head_repeats_none_of_its_texts(file):
    rows = [f'"{n}","Report {n}","{"The market falls with rising prices. " * 15}"' for n in range(20)]
    text = "\n".join(rows)
    chunks = chunks_of(file("news.csv", text))
    assert [chunk.text for chunk in chunks] == rows


@pytest.mark.parametrize("rows", ["", "1," + "x" * 200_000])
def test_a_sheet_with_many_columns_that_has_no_rows_or_a_huge_field_is_read_as_it_is(file, rows):
    head = ",".join(f"metric_{n}" for n in range(200))
    assert chunks_of(file("wide.csv", f"{head}\n{rows}"))[0].text.startswith("metric_0,metric_1,")


def test_a_row_of_a_sheet_with_line_breaks_in_its_quotes_stays_in_one_chunk(file):
    rows = [f'K-{number:02},"Kettle {number}\nof steel\n\nboils fast",{number}.99' for number in range(60)]
    chunks = chunks_of(file("sheet.csv", "\n".join(['sku,"name\nand text",price', *rows])), "sheet.csv")
    assert len(chunks) > 2 and all(chunk.text.startswith('sku,"name\nand text",price\nK-') for chunk in chunks)
    assert all(any(row in chunk.text for chunk in chunks) for row in rows)


@pytest.mark.parametrize(
    "title", ["Boilers", "Boilers;;", '"Boilers";"";""', "Boilers\n", '"Boilers;\nall";;\nat 9:00', "sep=;"]
)
def test_a_title_above_the_head_of_a_sheet_is_not_taken_for_it(file, title):
    rows = [f"{number};Boiler {number}. Cellar;{number % 28},5" for number in range(90)]
    chunks = chunks_of(file("sheet.csv", "\n".join([title, ";place;bar", *rows])))
    assert chunks[0].text.startswith(title)
    assert len(chunks) > 2 and all(chunk.text.startswith(";place;bar\n") for chunk in chunks[1:])
    assert all(any(row in chunk.text for chunk in chunks) for row in rows)


def test_the_first_row_of_a_sheet_of_one_column_is_its_head(file):
    rows = [f"Boiler {number}, in the cellar" for number in range(90)]
    assert all(chunk.text.startswith("name\nB") for chunk in chunks_of(file("names.tsv", "\n".join(["name", *rows]))))
    quoted = [f'"{row}"' for row in rows]
    assert all(chunk.text.startswith("name\n") for chunk in chunks_of(file("names.csv", "\n".join(["name", *quoted]))))


@pytest.mark.parametrize("text", ["name,since", "\n\nname,since", '\nsize in ",count\n1,2'])
def test_a_sheet_of_one_chunk_is_that_text_alone(file, text):
    (chunk,) = chunks_of(file("sheet.csv", text))
    assert (chunk.text, chunk.metadata.get("table_head")) == (text.strip(), None)


def test_a_sheet_whose_quotes_do_not_pair_has_a_row_in_each_line(file):
    rows = [f'{number}" pipe,{number}' for number in range(201)]
    chunks = chunks_of(file("sheet.csv", "\n".join(['size in ",count', *rows, '" end,0'])))
    assert [line for chunk in chunks for line in chunk.text.split("\n")[1:]] == [*rows, '" end,0']


def test_a_context_of_a_whole_table_is_the_file_itself_with_its_head_once(file):
    rows = "\n".join(f"| Boiler {number} | leaks. Badly | 2026-11-{number % 28 + 1:02} |" for number in range(50))
    text = f"# Boilers\n\n| Name | State | Checked |\n|---|---|---|\n{rows}"
    chunks = chunks_of(file("boilers.md", text), "boilers.md")
    hits = [Hit(chunk, 1.0 / rank, rank) for rank, chunk in enumerate(chunks, 1)]
    (part,) = assemble(hits, budget=TokenBudget(max_total=10_000)).parts
    assert part.text == text
    for span in part.spans:
        chunk = next(chunk for chunk in chunks if chunk.id == span.id)
        assert part.text[span.at : span.at + span.end - span.start] == chunk.text[span.start : span.end]
        assert text[slice(*span.in_source)] == chunk.text[span.start : span.end]
    (later,) = assemble(hits[1:2], budget=TokenBudget(max_total=10_000)).parts
    assert later.text.startswith("| Name | State | Checked |\n|---|---|---|\n| Boiler ")


@pytest.mark.parametrize(
    "front",
    [
        "---\ntitle: Minutes\ndate: 18.11.2026\n---\n",
        '---\ncreated: "2026-11-18T00:00:00Z"  # by hand\n---\n',
        "+++\ndate = 2026-11-18\n+++\n",
    ],
)
def test_every_passage_of_a_note_has_the_date_of_its_front_matter(file, front):
    chunks = chunks_of(file("minutes.md", f"{front}\n# Minutes\n\n" + "The board met. " * 200))
    assert len(chunks) > 2
    assert {chunk.event_time for chunk in chunks} == {datetime(2026, 11, 18, tzinfo=timezone.utc)}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("2026-11-18.md", "# Minutes\n\nThe board met."),
        ("minutes 2026.11.18.txt", "The board met."),
        ("2026_11_18.md", "- The board met."),
        ("members 2026-11-18.csv", "name,since\nAnn,2019\n"),
        ("board-2026-11-18.html", "<p>The board met.</p>"),
        ("2026-11-18 board.txt", "Ann: We meet.\nBen: Where?\nAnn: Here.\nBen: Fine.\n"),
    ],
)
def test_the_date_in_a_files_name_is_the_time_of_its_passages(file, name, text):
    chunks = chunks_of(file(name, text))
    assert {chunk.event_time for chunk in chunks} == {datetime(2026, 11, 18, tzinfo=timezone.utc)}


@pytest.mark.parametrize("name", ["2026-11-01 to 2026-11-30.md", "2026-13-45.md", "order 12026-11-18.md", "2026.md"])
def test_a_files_name_with_several_dates_or_none_dates_nothing(file, name):
    assert [chunk.event_time for chunk in chunks_of(file(name, "The board met."))] == [None]


@pytest.mark.parametrize(
    "empty", ["date: ", 'date: ""', "date: # to be filled in", "date: null", "date: ~", "date: TBD"]
)
def test_a_key_of_front_matter_that_holds_no_date_does_not_hide_the_next(file, empty):
    (note,) = chunks_of(file("minutes.md", f"---\n{empty}\ncreated: 2026-11-18\n---\nThe board met."))
    assert note.event_time == datetime(2026, 11, 18, tzinfo=timezone.utc)


@pytest.mark.parametrize("empty", [None, "", "unknown", 12.5])
def test_a_records_first_time_that_does_not_read_as_one_does_not_hide_the_next(file, empty):
    record = {"text": "The board met.", "event_time": empty, "timestamp": "2026-11-18"}
    (chunk,) = chunks_of(file("notes.jsonl", json.dumps(record)))
    assert chunk.event_time == datetime(2026, 11, 18, tzinfo=timezone.utc)


def test_what_a_file_says_of_its_times_counts_before_the_date_in_its_name(file):
    (note,) = chunks_of(file("2026-11-20.md", "---\ndate: 2026-11-18\n---\nThe board met."))
    assert note.event_time == datetime(2026, 11, 18, tzinfo=timezone.utc)
    log = "03/04/24, 19:15 - Mira: Hi\n05/06/24, 19:15 - Jonas: Hi\n"  # exported on that day, written before
    assert [chunk.event_time for chunk in chunks_of(file("chat 2026-11-20.txt", log))] == [None, None]


def test_a_date_further_down_or_that_does_not_read_as_one_dates_nothing(file, caplog):
    lower, open_end = "# Log\n\n---\ndate: 2026-11-18\n---\n", "---\ndate: 2026-11-18\n"
    for text in (lower, open_end, "---\ncreated: {{date}}\n---\nText"):
        assert [chunk.event_time for chunk in chunks_of(file("a.md", text))] == [None]
    assert [record.getMessage()[:31] for record in caplog.records] == ["metadata['created'] is '{{date}"]


@pytest.mark.parametrize("name, under_head", [("notes.txt", "---|---"), ("notes.org", "|---+---|")])
def test_a_table_in_plain_text_or_org_has_its_head_in_every_chunk(file, name, under_head):
    rows = "\n".join(f"| Valve {number} | {number % 9} bar |" for number in range(120))
    chunks = chunks_of(file(name, f"| Name | Burst pressure |\n{under_head}\n{rows}\n"))
    assert len(chunks) > 2
    assert all(chunk.text.startswith(f"| Name | Burst pressure |\n{under_head}\n| Valve ") for chunk in chunks)


@pytest.mark.parametrize("gap", ["{:<20}{:<10}{:>8}\n", "{}\t{}\t{}\n"])
def test_a_table_of_aligned_columns_without_bars_has_its_head_in_every_chunk(file, gap):
    rows = "".join(gap.format(f"Valve {number}", f"R{number % 9}", number * 3) for number in range(200))
    chunks = chunks_of(file("stock.txt", "Stock of the shop\n\n" + gap.format("Article", "Shelf", "Price") + rows))
    assert len(chunks) > 2
    assert all(chunk.text.startswith("Article Shelf Price\nValve ") for chunk in chunks[1:])


@pytest.mark.parametrize("rows", range(23, 28))
def test_the_last_row_of_a_file_without_a_final_line_break_has_its_head(file, rows):
    lines = [
        "Article              Shelf      Price",
        *(f"Valve {row}             R{row}         {row}.50" for row in range(rows)),
    ]
    chunks = chunks_of(file("stock.txt", "\n".join(lines)))
    assert all(chunk.text.startswith("Article ") for chunk in chunks)


def test_the_first_line_of_a_frame_of_stars_is_no_head(file):
    licence = " *  Covered Software is provided under this License on an as is  *\n" * 30
    assert not any("table_head" in chunk.metadata for chunk in chunks_of(file("copyright.txt", licence)))


def test_prose_with_two_spaces_between_its_sentences_has_no_head(file):
    prose = "It was late.  They went home.  Nobody spoke.\n" * 60 + "The end.\n"
    assert not any("table_head" in chunk.metadata for chunk in chunks_of(file("story.txt", prose * 2)))


def test_a_chat_of_the_last_century_is_not_read_as_one_of_this(file):
    log = "[31.12.99, 23:58:00] Mira: Nearly there.\n[01.01.00, 00:01:00] Jonas: Happy new year!\n"
    times = [chunk.event_time for chunk in chunks_of(file("chat.txt", log))]
    assert [time and time.year for time in times] == [1999, 2000]


def test_a_path_may_be_a_string(file):
    path = file("notes.txt", "The valve was ordered from Kessler.")
    assert chunks_of(str(path)) == chunks_of(path)


@pytest.mark.parametrize(("year", "century"), [(68, 2000), (69, 1900), (70, 1900)])
def test_a_year_of_two_digits_is_the_same_in_a_chat_and_in_a_query(file, year, century):
    log = f"31.12.{year}, 19:15 - Mira: Hi\n31.12.{year}, 19:16 - Jonas: Hello\n"
    window = find_time(f"12/31/{year}", datetime(2026, 1, 1, tzinfo=timezone.utc)).range
    times = [chunk.event_time for chunk in chunks_of(file("chat.txt", log))]
    assert {time.year for time in times} == {century + year}
    assert all(window.start <= time < window.end for time in times)
