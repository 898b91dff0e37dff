"""What people write around a question does not decide what is found: requests, thanks, a mail, pasted code."""

from __future__ import annotations

import time
from datetime import datetime, timezone

import pytest

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.query.questions import WRITTEN_WORDS_MAX
from umi_common.sim import HashEmbedder

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
TOWNS = ["Arden", "Brook", "Calder", "Dorn", "Esk", "Frome", "Girvan", "Hale", "Irwell", "Jed", "Kale", "Leven"]
LETTERS = [f"Dear {town}, thank you very much for your letter. Please tell us about your plans." for town in TOWNS]
MAIL = """Hello Ann,

thanks for the call on Tuesday. The coffee machine in the new office in Esk works again, and the parcels for Brook and
Calder left yesterday. The heating engineer measured the boiler of the old office and replaced a valve.

{question}

Best regards,
Bob Miller"""
CODE = """```
def total(prices):
    return sum(price.amount for price in prices)
```
{question}"""

LOG = "\n".join(f"3 March 2023 {hour}:30 worker {hour} checked valve {hour + 2} of the ferry" for hour in range(8, 22))
EXACT = {"recall period", "read dates", "number_pairs"}
"""Stages for the dates and numbers that a query names."""


@pytest.fixture(scope="module")
def umi():
    offices = [
        f"The ferry at {town} carries {10 + n} cars and sails at {n + 6} o'clock." for n, town in enumerate(TOWNS)
    ]
    parcels = [f"The heating of the office in {town} has a boiler with {n} valves." for n, town in enumerate(TOWNS)]
    code = [f"def total_{n}(prices): return sum(price.amount for price in prices[{n}:])" for n in range(12)]
    texts = [*offices, *parcels, *code, *LETTERS, "The gas meter is behind the blue door."]
    with HybridStore.open() as store:
        store.add([Chunk(text, text) for text in texts])
        with DualRetriever(store) as umi:
            yield umi


def first(umi, query):
    return umi.search(query, now=NOW).hits[0].chunk.text


@pytest.mark.parametrize("around", [MAIL, CODE, "{question} Thank you very much for your letter!"])
def test_the_answer_to_a_question_in_a_longer_text_comes_first(umi, around):
    assert first(umi, around.format(question="How many cars does the ferry at Leven carry?")).startswith(
        "The ferry at Leven"
    )


SHOPS = [
    "The bakery sells rye bread, poppy cakes and almond pastry from six in the morning.",
    "The smith mends gates, railings and iron stoves, and shoes horses on Fridays.",
    "The tailor shortens trousers, replaces zips and sews curtains within a week.",
    "The florist binds wreaths, delivers tulips and waters graves in dry summers.",
]
FISHMONGER = "Fresh mackerel, smoked herring and dressed crab are at the stall beside the harbour wall."


def test_other_texts_quoted_around_a_question_do_not_take_its_answers_place():
    with HybridStore.open() as store:
        store.add([Chunk(text, text) for text in (*SHOPS, FISHMONGER, *LETTERS)])
        mail = f"Hi all, {' '.join(SHOPS)}\nWho has herring, crab and other fish for dinner?\nThanks, Ann"
        assert first(DualRetriever(store), mail) == FISHMONGER


def test_of_a_mail_with_a_question_of_common_words_the_mail_decides(umi):
    assert "Esk" in first(
        umi, "Hi, the boiler in Esk leaks, and nobody is there who could help. What can we do about it?"
    )


def test_a_question_about_the_text_before_it_does_not_take_its_answers_place():
    forms = [f"Is the claim of {town} supported by evidence? This form asks whether it is." for town in TOWNS]
    tea = "In 40 men of 70 years, three cups of green tea a day lowered the systolic pressure by 4 points."
    with HybridStore.open() as store:
        store.add([Chunk(text, text) for text in (*forms, tea, *LETTERS)])
        assert first(DualRetriever(store), "Green tea lowers the pressure. Is this claim supported by evidence?") == tea


def test_a_sentence_before_a_question_says_what_it_is_about(umi):
    assert "Esk" in first(umi, "We are at the ferry of Esk. How many cars does it carry?")


def test_what_the_answer_of_a_question_refers_to_is_found_below_other_text():
    chunks = [
        Chunk("ferry", "Dorn Ferry\nThe Dorn Ferry crosses the windy firth. It belongs to Kestrel Lines."),
        Chunk("lines", "Kestrel Lines\nKestrel Lines has its seat in the town of Hale."),
        *(Chunk(text, text) for text in (*SHOPS, *LETTERS)),
    ]
    with HybridStore.open() as store:
        store.add(chunks)
        query = f"{' '.join(SHOPS)}\nWhat is the seat of the owner of the boat that crosses the windy firth?"
        hits = DualRetriever(store).search(query, now=NOW).hits
    assert next(hit.through for hit in hits if hit.chunk.id == "lines") == "ferry"


def stages(umi, query):
    return {stage.name for stage in umi.search(query, now=NOW).trace.stages}


def test_the_dates_and_numbers_of_pasted_text_are_not_looked_up(umi):
    assert {"recall period", "read dates", "number_pairs"} <= stages(umi, LOG.splitlines()[0])
    assert EXACT.isdisjoint(stages(umi, LOG))
    assert EXACT.isdisjoint(stages(umi, f"{LOG}\nWhere is the gas meter?"))


def test_the_date_of_a_long_mail_is_looked_up(umi):
    mail = MAIL.format(question=" ".join(["We would like to hear about the boiler and the ferry again."] * 10))
    assert len(f"{mail} It was on 3 March 2023.".split()) > WRITTEN_WORDS_MAX
    assert {"recall period", "read dates"} <= stages(umi, f"{mail} It was on 3 March 2023.")


def test_the_dates_and_numbers_of_a_question_below_pasted_text_are_looked_up(umi):
    assert {"recall period", "read dates"} <= stages(umi, f"{LOG}\nWhich ferry sailed on 4 March 2023?")
    question = "Which office has a boiler with 7 valves?"
    assert "number_pairs" in stages(umi, f"{LOG}\n{question}")
    assert first(umi, f"{LOG}\n{question}") == "The heating of the office in Hale has a boiler with 7 valves."


def test_of_two_questions_both_answers_are_among_the_first_four(umi):
    ids = umi.search("How many cars does the ferry at Girvan carry? Where is the gas meter?", now=NOW, limit=4).ids
    assert "The gas meter is behind the blue door." in ids
    assert any(text.startswith("The ferry at Girvan") for text in ids)


def test_a_request_finds_what_its_subject_alone_finds(umi):
    asked = umi.search("Hello, could you please tell me about the gas meter? Thank you very much!", now=NOW)
    assert asked.ids == umi.search("the gas meter?", now=NOW).ids
    assert asked.query == "Hello, could you please tell me about the gas meter? Thank you very much!"
    assert next(stage.facts for stage in asked.trace.stages if stage.name == "recall")["words_left_out"] == 11


def test_the_questions_that_were_searched_are_in_the_result(umi):
    result = umi.search(MAIL.format(question="Where is the gas meter?"), now=NOW)
    assert result.query_variations == ("Where is the gas meter?",)
    assert not result.deep_search_used


def test_a_title_that_reads_like_a_request_is_found_as_it_is_typed():
    titles = ["Show Me the Money", "The Money", "Money Tonight", "Tell Me About Dora", "Dora and the Boat"]
    with HybridStore.open() as store:
        store.add([Chunk(title, f"{title} is a film of {1950 + n}.") for n, title in enumerate(titles)])
        with DualRetriever(store) as umi:
            assert [umi.search(title.lower(), now=NOW).ids[0] for title in titles] == titles


@pytest.mark.parametrize(
    "around",
    [
        "{question} What do you think? Does that work for you? Could we talk on Monday?",
        "const y = ok ? 1 : 2;\n\n{question}",
    ],
)
def test_neither_small_talk_nor_a_question_mark_in_code_takes_the_place_of_the_question(umi, around):
    query = around.format(question="How many cars does the ferry at Leven carry?")
    assert first(umi, query).startswith("The ferry at Leven")


def test_one_arm_alone_searches_the_query_as_it_is(umi):
    query = "Dear Arden, tell us about the gas meter. Where is the gas meter behind the door?"
    assert umi.search(query, now=NOW, strategy="text").query_variations == ()
    (plain,) = umi.search("thank you very much for your letter, please", now=NOW, strategy="vector", limit=1).ids
    assert plain in LETTERS


def test_the_embedder_of_a_user_gets_the_query_as_it_was_typed():
    asked = []

    class Recording(HashEmbedder):
        def embed_queries(self, texts):
            asked.extend(texts)
            return super().embed_queries(texts)

    with HybridStore.open(embedder=Recording()) as store:
        store.add([Chunk("a", "The gas meter is behind the blue door.")])
        DualRetriever(store).search("please tell me about the gas meter", now=NOW)
    assert asked == ["please tell me about the gas meter"]


def test_a_query_whose_vector_is_given_embeds_no_question():
    class Silent(HashEmbedder):
        def embed_queries(self, texts):
            pytest.fail("the vector was given")

    with HybridStore.open(embedder=Silent()) as store:
        store.add([Chunk("a", "The gas meter is behind the blue door.")])
        vector = HashEmbedder().embed_documents(["gas meter"])[0]
        result = DualRetriever(store).search(
            MAIL.format(question="Where is the gas meter?"), now=NOW, query_vector=vector
        )
    assert (result.query_variations, result.degraded, result.mode) == ((), (), "hybrid")


@pytest.mark.parametrize("letters", ["ACGT", "twenty", "FooBar"])
def test_a_pasted_run_of_letters_such_as_a_gene_takes_no_seconds(umi, letters):
    pasted = letters * (9_000 // len(letters.encode()))
    begun = time.process_time()
    assert umi.search(f"{pasted} which ferry sails from Esk?", now=NOW).hits
    assert time.process_time() - begun < 1
