"""A question about one person in a chat finds what that person says."""

from __future__ import annotations

import pytest

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.search.reorder.speaker import named_in, speaker_of, speakers_of

OFF = UmiConfig().replaced(fusion={"speaker_weight": 0.0})
CHAT = [
    "Tom: I planted bulbs along the fence in the garden, tulips.",
    "Mira: Lovely! I planted a rose near the pond.",
    "Tom: The pond needs cleaning, the pump stopped last week.",
    "Mira: Then call the plumber, he was quick with our tap.",
    "Tom: Which garden centre has tulips, the one near the station?",
    "Mira: Yes, and ask for compost.",
]
QUESTION = "Which bulbs has {} planted in the garden?"


def searched(texts, query, config=None):
    with HybridStore.open() as store:
        store.add([Chunk(str(at), text, source="chat", position=at) for at, text in enumerate(texts)])
        return DualRetriever(store, config=config).search(query, limit=6)


def renamed(texts, **names):
    for old, new in names.items():
        texts = [text.replace(f"{old}: ", new) for text in texts]
    return texts


@pytest.mark.parametrize("name", ["Mira", "mira"])
def test_of_two_messages_on_planting_the_one_of_the_person_asked_about_is_first(name):
    assert searched(CHAT, QUESTION.format(name), OFF).ids[0] == "0"  # what Tom says holds more of the question
    assert searched(CHAT, QUESTION.format(name)).ids[0] == "1"
    assert searched(CHAT, QUESTION.format("Tom")).ids[0] == "0"


@pytest.mark.parametrize(
    ("tom", "mira", "asked"),
    [
        ("Tom Brandt: ", "Mira Lenz: ", "Mira"),
        ("Tom Brandt: ", "Mira Lenz: ", "Mira Lenz"),
        ("[11.06.24, 19:15:03] Tom: ", "[11.06.24, 19:16:40] Mira: ", "Mira"),
        ("6/11/24, 7:15 PM - Tom: ", "6/11/24, 7:16 PM - Mira: ", "Mira"),
        ("**Tom:** ", "**Mira:** ", "Mira"),
        ("Dr. Brandt: ", "Dr. Lenz: ", "Dr. Lenz"),
    ],
)
def test_names_are_found_as_chats_are_exported(tom, mira, asked):
    texts = renamed(CHAT, Tom=tom, Mira=mira)
    assert searched(texts, QUESTION.format(asked)).ids[0] == "1"


def test_a_speaker_may_stand_in_the_metadata_alone():
    chunks = [
        Chunk("tom", "I planted bulbs along the fence in the garden.", metadata={"speaker": "Tom"}),
        Chunk("mira", "I planted bulbs in the garden.", metadata={"speaker": "Mira"}),
        Chunk("pond", "The pond needs cleaning.", metadata={"speaker": "Tom"}),
    ]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(chunks)
        off = DualRetriever(store, config=OFF)
        question = "What did Tom plant in the garden?"
        assert [each.search(question).ids[0] for each in (off, umi)] == ["mira", "tom"]


def test_a_line_that_begins_with_a_sentence_and_a_colon_is_no_message():
    texts = renamed(CHAT, Tom="Tom Brandt: ", Mira="Mira Lenz: ")
    note = "What Mira said on the garden this year: it rained."
    assert searched([*texts, note], QUESTION.format("Mira")).ids[0] == "1"


def test_of_two_people_a_message_that_only_calls_the_other_by_name_is_not_raised():
    texts = [
        "Tom: Mira, have you planted bulbs in the garden?",
        "Mira: Yes, there are bulbs in the garden.",
        *CHAT[2:4],
    ]
    assert searched(texts, QUESTION.format("Mira")).ids[0] == "1"


def test_a_group_is_also_asked_for_what_others_say_about_a_person():
    texts = [
        "Tom: The flight of Saúl lands late on Friday.\nTom: It is IB412.",
        "Saúl: I have packed, the flight lands on Friday, see you.",
        "Mira: The flight of Ana lands on Friday, too, IB977.",
        "Ana: Mine lands on Friday, the flight is late.",
        "Tom: They moved the flight of Saúl, he lands on Saturday.",
        "Ana: What a week.",
    ]
    assert searched(texts, "Which flight of Saúl lands on Friday?").ids[0] == "0"


@pytest.mark.parametrize("query", ["Which tulips did Mira and Tom plant?", "What was planted?", "Is Dr. Roth in?"])
def test_without_exactly_one_speaker_in_the_question_nothing_changes(query):
    texts = renamed(CHAT, Tom="Dr. Tom: ") if "Dr." in query else CHAT
    on, off = searched(texts, query), searched(texts, query, OFF)
    assert [(hit.chunk.id, hit.score, hit.relevance) for hit in on] == [
        (hit.chunk.id, hit.score, hit.relevance) for hit in off
    ]


def test_a_label_that_is_no_name_changes_nothing():
    texts = [f"Relay K{number}: 24 V coil, switches motor {number}." for number in range(30, 36)]
    assert "speaker" not in searched(texts, "What is relay K31?").hits[0].stages


NOTES = {
    "boiler": "Warning: the boiler must not run dry.",
    "filter": "Note: the filter is changed in spring.",
    "meter": "Note: read the meter before you leave.",
    "shipping": "Info: order 4713 was shipped to the wrong house.",
    "mail": "Error: the mail to the customer bounced.",
}


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("Is there a Note about the boiler running dry?", "boiler"),
        ("was there an error with the shipping of order 4713?", "shipping"),
        ("error shipping order 4713", "shipping"),
    ],
)
def test_a_word_for_a_kind_of_line_takes_no_relevance_from_the_answer(query, answer):
    with HybridStore.open() as store:
        store.add(Chunk(id, text) for id, text in NOTES.items())
        on, off = (DualRetriever(store, config=config).search(query).hits[0] for config in (None, OFF))
        assert on.chunk.id == off.chunk.id == answer
        assert on.relevance == off.relevance


def test_what_only_others_say_is_less_relevant():
    asked = "What did {} say about the pump of the pond?"
    stopped, other = (searched(CHAT, asked.format(name)) for name in ("Tom", "Mira"))
    assert stopped.ids[0] == "2"
    assert other.hits[0].relevance < 0.6 * stopped.hits[0].relevance


def test_documents_beside_a_chat_keep_their_relevance():
    report = "Mira has planted bulbs in the garden of the school, says the report."
    texts = [report, *CHAT[2:4], *["The garden of the school has bulbs, too."] * 3]
    on, off = (searched(texts, QUESTION.format("Mira"), config) for config in (None, OFF))
    assert on.ids[0] == off.ids[0] == "0"
    assert on.hits[0].relevance == off.hits[0].relevance


def test_the_weight_turns_it_off():
    assert "speaker" not in searched(CHAT, QUESTION.format("Mira"), OFF).hits[0].stages
    assert "speaker" in searched(CHAT, QUESTION.format("Mira")).hits[0].stages


MAILS = [
    (
        "Tom Brandt <tom@acme.example>",
        "Mira Lenz <lenz@acme.example>",
        "Dear Mira, can you ask a roofer what he wants for it? Tom",
    ),
    ("Mira Lenz <lenz@acme.example>", "Tom Brandt <tom@acme.example>", "I asked: the roofer wants 900 euros. Mira"),
    ("Tom Brandt <tom@acme.example>", "Mira Lenz <lenz@acme.example>", "That is too much for a roof. Tom"),
    ("Ana Roth <ana@acme.example>", "Tom Brandt <tom@acme.example>", "No, I refuse. Ana"),
]


def as_mails(sender="From: {}", receiver="To: {}"):
    """The mails of one thread; each quotes the one before it."""
    texts, quoted = [], ""
    for at, (name, to, body) in enumerate(MAILS):
        head = [sender.format(name), receiver.format(to), f"Subject: {'Re: ' * at}Roof of the boathouse"]
        texts.append("\n".join([*head, "", body, *(f"> {line}" for line in quoted.split("\n") if line)]))
        quoted = f"{name} wrote:\n{body}\n{quoted}"
    return texts


@pytest.mark.parametrize("headers", [("From: {}", "To: {}"), ("Von: {}", "An: {}")])
@pytest.mark.parametrize(("name", "mail"), [("Ana", "3"), ("Mira", "1")])
def test_a_question_for_what_a_person_wrote_finds_the_mail_that_the_person_sent(headers, name, mail):
    query = f"what did {name} write on the roof of the boathouse?"
    assert searched(as_mails(*headers), query).ids[0] == mail


def test_the_sender_of_a_mail_may_be_an_address_alone_or_stand_after_other_headers():
    senders = {
        "Ana Roth <ana@acme.example>": "ana@acme.example",
        "Mira Lenz <lenz@acme.example>": '"Mira" <m@acme.example>',
    }
    for headers in (("Date: 5 May\nFrom: {}", "To: {}"), ("De : {}", "À : {}")):
        texts = as_mails(*headers)
        for name, short in senders.items():
            texts = [text.replace(name, short) for text in texts]
        hits = searched(texts, "what did Mira write on the roof of the boathouse?").hits
        assert max(hits, key=lambda hit: hit.stages["speaker"] / hit.stages["neighbours"]).chunk.id == "1"


def test_a_mail_of_another_person_on_the_person_asked_about_is_raised_too():
    texts = [
        *as_mails(),
        "From: Tom Brandt\nTo: Ana Roth\nSubject: Mira\n\nThe new address of Mira is 5 Mill Lane, Marbury. Tom",
    ]
    assert searched(texts, "what is the address of Mira?").ids[0] == "4"


def test_a_place_of_departure_is_no_sender():
    texts = [
        f"From: {start}\nTo: {end}\nDeparture: 8:15"
        for start, end in (("Bonn", "Ulm"), ("Ulm", "Trier"), ("Trier", "Bonn"))
    ]
    assert "speaker" not in searched(texts, "when does the train to Ulm leave?").hits[0].stages


@pytest.mark.parametrize(
    ("text", "speaker"),
    [
        ("From: Ann Lee\nSubject: Leak\n\nThe roof leaks.", "ann lee"),
        ("[11.06. 7:15 pm] Mira: The roof leaks.", "mira"),
    ],
)
def test_the_speaker_is_read_from_a_mail_without_an_address_and_behind_a_time(text, speaker):
    assert speaker_of(Chunk("a", text)) == speaker


@pytest.mark.parametrize(("query", "mail"), [("what did I ask {} about the trip?", 0), ("mail from {} on the trip", 1)])
@pytest.mark.parametrize("name", ["Tom", "Mira", "Ana"])
def test_the_person_to_whom_a_mail_was_sent_is_no_speaker(query, mail, name):
    def thread(other, subject):
        sam, you = "Sam Hill <sam@hill.example>", f"{other} <{other}@acme.example>"
        asked = f"From: {sam}\nTo: {you}\nSubject: {subject}\n\nHi {other},\n\nWhere are we on the {subject}?\n\nSam"
        answer = f"From: {you}\nTo: {sam}\nSubject: Re: {subject}\n\nHi Sam,\n\nAll is booked.\n\n{other}\n\n"
        return [asked, f"{answer}> Where are we on the {subject}?"]

    subjects = ("trip", "roof", "fence", "tax")
    threads = {(other, each): thread(other, each) for other in ("Tom", "Mira", "Ana") for each in subjects}
    texts = [text for both in threads.values() for text in both]
    assert searched(texts, query.format(name)).ids[0] == str(texts.index(threads[name, "trip"][mail]))


@pytest.mark.parametrize(
    ("query", "names"),
    [
        *(("what did I ask Mira about the roof?", ""), ("who told Mira?", ""), ("what did I write to Mira?", "")),
        *(("what did Tom ask Mira?", "tom"), ("what did Mira reply to Tom about the boat?", "mira")),
        *(("what did Mira ask?", "mira"), ("what did Mira say?", "mira"), ("Did Mira answer?", "mira")),
        *(("tell me what Mira said", "mira"), ("Mira's answer", "mira"), ("show what Mira wrote", "mira")),
        *(("can you tell what Mira wants?", "mira"), ("did I ask what Mira earns?", "mira")),
        *(("Mira asked for a rise", "mira"), ("the mail that Mira wrote", "mira"), ("answer of Mira", "mira")),
        *(("what was said about Mira?", "mira"), ("a note by Mira", "mira"), ("where does Mira live?", "mira")),
        *(("what has Tom got from Mira?", "tom mira"), ("Mira and Tom on the roof", "tom mira")),
    ],
)
def test_only_directly_behind_a_verb_of_saying_a_name_is_of_the_person_who_was_told(query, names):
    assert set(named_in(query, {"mira", "tom"})) == set(names.split())


@pytest.mark.parametrize("word", ["to", "an", "à", "a"])
def test_of_two_names_before_a_message_the_first_is_its_speaker(word):
    lines = [f"Nina {word} Omar: please send me the log file", f"Omar {word} Nina: here is the log file of today"]
    assert speakers_of([Chunk("a", lines[0]), Chunk("b", lines[1])]) == ["nina", "omar"]
    tickets = [f"[{no}] {line} of ticket {no}" for no in (700, 703, 706) for line in lines]
    for name, text in (("Nina", tickets[2]), ("Omar", tickets[3])):
        hits = searched([*tickets, "[700] Aldous: my screen flickers"], f"what did {name} say in ticket 703?").hits
        assert hits[0].chunk.text == text


@pytest.mark.parametrize(
    "label", ["Guide to Rome", "Right to Reply", "Letter an Oma", "Vitamin A to Z", "Train to Ulm"]
)
def test_a_title_with_to_is_one_name_if_nobody_of_the_second_part_speaks(label):
    chunks = [
        Chunk("a", f"{label}: see page 4"),
        Chunk("b", f"{label.split()[0]}: see page 5"),
        Chunk("c", "Mira: yes"),
    ]
    assert speakers_of(chunks)[0] == " ".join(label.lower().split())
