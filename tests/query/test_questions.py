"""The questions of a query that holds more than one question alone."""

from __future__ import annotations

import time

import pytest

from umi_common.query.questions import exclusion_in, negation_in, questions_of

MAIL = """Hi Anna,

I came back from Rome. Dr. Lee's boiler broke again on 3. May.

Can you tell me when the plumber comes? I pay for it.

Best regards,
Bob"""
SEVERAL = [
    ("Is there a lift? How much is a day ticket?", ("Is there a lift?", "How much is a day ticket?")),
    ("Who wrote the anthem and when was it first sung?", ("Who wrote the anthem", "when was it first sung?")),
    ("1) Where is the key? 2) Who has the car now?", ("Where is the key?", "Who has the car now?")),
    ("(1) **Where is the key? - Who has the car now?", ("Where is the key?", "Who has the car now?")),
    ("--force means what? Is --yes the same option?", ("--force means what?", "Is --yes the same option?")),
    ('"gas meter" is where? ¿Who reads the meter?', ('"gas meter" is where?', "Who reads the meter?")),
    (MAIL, ("when the plumber comes?",)),
    ("def f(x):\n    return x + y\n\nWhy does this raise a NameError?", ("Why does this raise a NameError?",)),
    ("The pump hums. It is new. How do I bleed the radiator", ("How do I bleed the radiator",)),
    ("How long is a lease? It says nothing. Could someone have a look today?", ("How long is a lease?",)),
    ("Could you have a look? It hums at night. How do I bleed the radiator", ("How do I bleed the radiator",)),
    (
        "Use these documents. If you do not know, say so.\nQuestion: who painted the ceiling?\nAnswer:",
        ("who painted the ceiling?",),
    ),
    (
        "Where was he born? Whom did he marry? When did he die?",
        ("Where was he born?", "Whom did he marry?", "When did he die?"),
    ),
    ("Where was he born? Whom did he marry?", ("Where was he born?", "Whom did he marry?")),
    ("The gauge reads 3 bar. How do I bleed the pump?\nconst y = ok ? 1 : 2;", ("How do I bleed the pump?",)),
    (
        "const y = ok ? load(1) : 2;\nhow is the value of a constant changed",
        ("how is the value of a constant changed",),
    ),
    (
        "Which is more convenient: renting or buying? The flat is small and old, on a hill.",
        ("Which is more convenient: renting or buying?",),
    ),
    ("The boxes are in the cellar. Which file(s) hold the budget?", ("Which file(s) hold the budget?",)),
    ("The boxes are in the cellar. When does the roofer come back??", ("When does the roofer come back??",)),
    ("The boxes came. (When does the roofer come back?) Best, Ann", ("When does the roofer come back?",)),
    ("The boxes came. Who pays; and does he get a receipt?", ("Who pays; and does he get a receipt?",)),
    ("The term (n?) is odd. When does the roofer come back? We ask.", ("When does the roofer come back?",)),
    (
        "It hums at night, and the\ncellar is wet. Which valve must I\nclose before I open the pump?",
        ("Which valve must I\nclose before I open the pump?",),
    ),
    ("my boiler leaks in the cellar\nhow do i close the valve", ("how do i close the valve",)),
    ("what is the price of the bike\nplease tell me about helmets", ("what is the price of the bike",)),
    ("We met Ann. Where is the gas meter? What do you think? Does that work for you?", ("Where is the gas meter?",)),
]
ONE = [
    "Who wrote the anthem?",
    "Which roofers did Mira call\nfor the new house?",
    "what chemical kinetic system is\n  applicable to hypersonic flow .",
    "What is the fare, and the reservation fee, from Rome to Naples on a Sunday?",
    "Which team won when Ann and Bob played?",
    "boat number 7",
    "I moved house. The new flat is in Rome.",
    "The storage was said to be unlimited, but I read of a limit of 200 TB. Can you clarify?",
    "Is it so? Why?",
    "Free parking? The flat is small and old, on a hill near the sea.",
    "Where was he born? Where did he grow up? Whom did he marry? When did he die?",
    "When exhausted, the pump is refilled. How it does so is poorly known.",
    "SELECT * FROM boats WHERE id = ?\nINSERT INTO boats VALUES (?, ?)",
    "I came back. Could we talk on Monday? You know what I mean?",
    "int size;\nvar name = boat ?? ship.name",
    "boats.filter(b => b.name?.length)",
    "the boat of the form:\nvalue: boat.name ??\n'none'",
    "What did Hugo Inoue answer to the question: What does your morning look like?",
    "Green tea lowers the blood pressure of old men. Is this claim supported by the evidence?",
    "",
    "?",
]


@pytest.mark.parametrize(("query", "questions"), SEVERAL)
def test_each_question_is_found(query, questions):
    assert questions_of(query) == questions


@pytest.mark.parametrize("query", ONE)
def test_a_query_of_one_question_and_one_of_none_have_no_others(query):
    assert questions_of(query) == ()


@pytest.mark.parametrize(
    ("query", "kept", "excluded"),
    [
        ("projects but not on AWS", "projects", " on AWS"),
        ("projects  but not\u00a0on AWS", "projects", " on AWS"),
        ("open tickets of room B12, other than the printer", "open tickets of room B12", " the printer"),
        ("releases of dbforge 2.1 except 2.1.3", "releases of dbforge 2.1", " 2.1.3"),
        ("Who scored in May, apart from Messi?", "Who scored in May", " Messi"),
        ("rooms with the exception of the attic", "rooms", " the attic"),
        ("everything except invoices from Acme", "", " invoices from Acme"),
        ("appointments of Dr. Kaya but not on Mondays", "appointments of Dr. Kaya", " on Mondays"),
        ("audiences de M. Petit, mais pas en salle 8", "audiences de M. Petit", " en salle 8"),
        ("all patients except those of Dr. Kaya", "all patients", " those of Dr. Kaya"),
        ("wires on sheet no. 5, other than red ones", "wires on sheet no. 5", " red ones"),
        ("which shops other than Aldi sell oat milk?", "which shops sell oat milk", " Aldi"),
        ("who except Tom Hale has a key", "who has a key", " Tom Hale"),
    ],
)
def test_a_query_excludes_what_it_names_last(query, kept, excluded):
    assert exclusion_in(query) == (kept, excluded)


@pytest.mark.parametrize(
    "query",
    [
        "can I return it without a receipt",
        "countries other than France have nuclear power",
        "which projects, apart from Falcon, are late",
        "Other than the date, what is missing?",
        "The fridge is broken. Except for that, all is well.",
    ],
)
def test_other_sentences_exclude_nothing(query):
    assert exclusion_in(query) is None


@pytest.mark.parametrize(
    ("query", "kept", "excluded"),
    [
        ("villages called Lund that are not in Lower Vale", "villages called Lund", " in Lower Vale"),
        ("bugs that aren\u2019t assigned to Tom", "bugs", " assigned to Tom"),
        ("Checkout bugs not assigned to Tom", "Checkout bugs", " assigned to Tom"),
        ("open jobs not in London?", "open jobs", " in London"),
        ("Export stays blank, not closed or resolved", "Export stays blank,", " closed or resolved"),
        ("which projects are not on AWS?", "which projects", " on AWS"),
        ("guests who can't eat gluten", "guests", " eat gluten"),
        ("guests who cannot eat gluten", "guests", " eat gluten"),
        ("invoices without Acme", "invoices", " Acme"),
        ("soup with no nuts", "soup", " nuts"),
        ("soups that contain no nuts", "soups", " nuts"),
        ("boards, no birch", "boards,", " birch"),
        ("rooms without a bath on the third floor", "rooms on the third floor", " a bath"),
        ("flights without a stop to Oslo", "flights to Oslo", " a stop"),
    ],
)
def test_not_excludes_what_it_names_last(query, kept, excluded):
    assert negation_in(query) == (kept, excluded)


@pytest.mark.parametrize(
    "query",
    [
        "file not found",
        "the wifi is not working",
        "why does it not work on Linux",
        "what is not covered?",
        "reports not loading in Safari",
        "laptop not connected to wifi",
        "reduce function not defined in python",
        "what is the error when reports do not load in Safari?",
        "which error appears if Safari is not supported",
        "can I return it without a receipt",
        "how to open a PDF without Adobe",
        "migrate the database without losing data",
        "why is my laptop without sound",
        "what happens without insurance?",
        "does it work without wifi",
        "laptop, no sound",
        "invoices, no. 5",
        "invoices, no 5",
        "which plan has no limit on users",
        "say no to plastic",
        "vote of no confidence",
        "room with no balcony and sea view",
        "no one but me",
    ],
)
def test_a_problem_that_is_told_with_not_excludes_nothing(query):
    assert negation_in(query) is None


@pytest.mark.parametrize(
    "query", ["which a" + ".a" * 140, "which " + "is not " * 40, "x not a in " * 26, "a, " * 98, "a without " * 25]
)
def test_an_exclusion_is_looked_for_in_a_few_milliseconds(query):
    began = time.process_time()
    assert exclusion_in(query) is None
    negation_in(query)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("query", "kept", "excluded"),
    [
        ("any wood but birch", "any wood", " birch"),
        ("printer paper from any supplier but Acme", "printer paper from any supplier", " Acme"),
        ("service records by anyone but A. Wirth", "service records by anyone", " A. Wirth"),
        ("veneer in everything but oak", "veneer in everything", " oak"),
        ("any risotto but the one with peas", "any risotto", " the one with peas"),
    ],
)
def test_but_behind_any_excludes_what_it_names(query, kept, excluded):
    assert negation_in(query) == (kept, excluded)


@pytest.mark.parametrize(
    "query",
    [
        "anything but easy",
        "everything but the kitchen sink",
        "nothing but oak",
        "all but one",
        "it was all but certain",
        "all tests pass but the build fails",
        "all lights on but engine dead",
        "all services are down but checkout works",
        "every call fails but only in Safari",
        "every test green but deploy red",
        "everyone came but left early",
        "everything works but slowly",
        "any ideas but I have no time",
        "any laptop but it must be light",
        "any hotel in Rome but with a pool",
        "any recipe with rice but no meat",
        "any way to export but keep formatting",
        "any news, but short",
        "songs by Everything But The Girl",
        "messages from anyone but Mira about Lisbon",
        "export bugs in any browser but Firefox on Linux",
        "does anyone but Tom have the key",
        "why does every job start but never end",
        "aspirin not for children?",
    ],
)
def test_but_between_two_states_and_a_question_on_one_thing_exclude_nothing(query):
    assert exclusion_in(query) is None
    assert negation_in(query) is None
