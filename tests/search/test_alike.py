"""Of texts that are alike but for a few words, the one that says what is asked comes first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.pool import Pool
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.alike import CHARACTERS_MAX, AskedWords, Words, reorder_alike
from umi_common.search.reorder.best import Best

STAGE = "alike"
PLACES = ("Bistro Anker", "Golden Wok", "Pizzeria Rosa", "School kitchen Elm Street")
ITEMS = ("fridge temperature", "hand basin", "pest traps", "fire extinguisher")
YEARS = ("2021", "2022", "2023", "2024")
TOWNS = ("London", "Paris", "Oslo", "Vienna", "Lisbon")


def inspections():
    """One line for each place, year and item, with its date."""
    each = [(place, year, item) for place in PLACES for year in YEARS for item in ITEMS]
    return [
        Chunk(
            f"{place} {year} {item}",
            f"INS-{7919 * at % 9001}, {place}, {1 + 5 * at % 28}.{1 + at % 12:02}.{year}, {item}: "
            + ("Result: pass." if at % 3 else "in bad order. Result: FAIL, to be mended within 14 days."),
        )
        for at, (place, year, item) in enumerate(each)
    ]


@pytest.fixture(scope="module")
def umi():
    with HybridStore.open() as store, DualRetriever(store) as made:
        store.add(inspections())
        yield made


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("item", ITEMS)
def test_a_line_of_a_form_is_found_by_all_that_is_asked_of_it(umi, place, item):
    for year in YEARS:
        assert umi.search(f"{place} {year} {item}").ids[0] == f"{place} {year} {item}"


def test_the_one_train_in_the_direction_asked_for_is_not_lost_among_eighteen_in_the_other():
    back = [f"Train {100 + 7 * n} from Paris to London, leaves {6 + n % 17:02}:{13 * n % 60:02}" for n in range(18)]
    others = [f"Train {300 + n} from {start} to Oslo, leaves {6 + n:02}:10" for n, start in enumerate(TOWNS * 3)]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(text, text) for text in back + others])
        store.add([Chunk("there", "Train 391 from London to Paris, leaves 09:31")])
        assert umi.search("trains from London to Paris").ids[0] == "there"


def test_the_first_hit_does_not_depend_on_the_limit(umi):
    for chunk in inspections():
        assert umi.search(chunk.id, limit=1).ids == umi.search(chunk.id, limit=10).ids[:1]


def test_scores_and_relevance_still_fall_along_the_result(umi):
    for chunk in inspections():
        hits = umi.search(chunk.id).hits
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert [hit.relevance for hit in hits] == sorted((hit.relevance for hit in hits), reverse=True)


def test_the_stage_is_named_in_the_hits_and_can_be_turned_off(umi):
    off = umi.with_config(fusion={"alike": False})
    for each, expected in ((umi, True), (off, False)):
        assert any(STAGE in hit.stages for chunk in inspections() for hit in each.search(chunk.id)) is expected


ROUTES = tuple((start, end) for start in TOWNS for end in TOWNS if start != end)


@pytest.fixture(scope="module")
def flights():
    with HybridStore.open() as store, DualRetriever(store) as made:
        store.add([Chunk(f"{a}-{b}", f"Flight {a[0]}{b[0]}7 from {a} to {b} leaves at noon.") for a, b in ROUTES])
        yield made


@pytest.mark.parametrize(
    "question",
    [
        "flight from {} to {}",
        "when does the plane to {1} from {0} leave?",
        "{} {} departure",
        "is there a connection {}-{}",
    ],
)
def test_a_flight_is_not_the_flight_back(flights, question):
    for start, end in ROUTES:
        assert flights.search(question.format(start, end)).ids[0] == f"{start}-{end}"


def test_all_flights_of_one_direction_come_before_those_of_the_other():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for day in range(1, 6):
            store.add([Chunk(f"{a}-{b} {day}", f"May {day}: flight from {a} to {b}") for a, b in ROUTES])
        for start, end in ROUTES:
            ids = umi.search(f"flights from {start} to {end}").ids
            assert {id.split()[0] for id in ids[:5]} == {f"{start}-{end}"}


def test_who_paid_whom():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk("ann", "Ann paid Bob 20 EUR."), Chunk("bob", "Bob paid Ann 20 EUR.")])
        assert umi.search("who paid Bob?").ids[0] == umi.search("how much did Ann give Bob?").ids[0] == "ann"
        assert umi.search("who paid Ann?").ids[0] == umi.search("how much did Bob give Ann?").ids[0] == "bob"


@pytest.mark.parametrize(
    ("allowed", "forbidden", "question"),
    [
        (
            "Smoking in the {} is permitted on day 4.",
            "Smoking in the {} is not permitted for staff with a badge of level 9 in winter.",
            "for whom is smoking in the {} not permitted",
        ),
        (
            "Im {} gibt es Licht seit 4 Jahren.",
            "Im {} gibt es kein Licht seit 9 Jahren und niemand sagt warum.",
            "seit wann gibt es im {} kein Licht",
        ),
        (
            "Se puede entrar en el {} después de las 4.",
            "No se puede entrar en el {} después de las 9 los domingos.",
            "cuándo no se puede entrar en el {}",
        ),
    ],
)
def test_a_prohibition_is_found_before_the_permission(allowed, forbidden, question):
    rooms = ("Keller", "Garage", "Atelier", "Salon")
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(f"{room} yes", allowed.format(room)) for room in rooms])
        store.add([Chunk(f"{room} no", forbidden.format(room)) for room in rooms])
        for room in rooms:
            assert umi.search(question.format(room)).ids[0] == f"{room} no"


SECTIONS = {
    "Termination": "may be ended by either side with 45 days' notice",
    "Liability": "limits damages to 250 thousand euros a year",
    "Payment": "asks for payment within 30 days after receipt of the bill",
    "Secrecy": "binds both sides to silence for 5 years after its end",
    "Renewal": "is renewed for 2 years unless ended 90 days before",
    "Law": "is governed by the laws in force in Utrecht",
}
PARTIES = ("Blue Heron Media", "Redstone Cement", "Pinewood Motors", "Calder Paper")


def test_the_section_of_a_contract_is_found_by_its_number():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for party in PARTIES:
            for position, (title, says) in enumerate(SECTIONS.items(), 1):
                text = f"{position}. {title}. The lease with {party} {says}."
                store.add([Chunk(f"{party} {position}", text, source=party, position=position)])
        for party in PARTIES:
            for number in range(1, len(SECTIONS) + 1):
                assert umi.search(f"section {number} of the {party} lease").ids[0] == f"{party} {number}"


def order_of(texts, query, scores=None):
    rows, chunks = np.arange(len(texts)), [Chunk(f"{at:03}", f"{text}.") for at, text in enumerate(texts)]
    pool = Pool.of([chunk.id for chunk in chunks], lexical=np.ones((1, len(texts))))
    ranked = RankedPool(rows, np.array(scores or [1.0] * len(texts)), {})
    return reorder_alike(Best(STAGE, pool, ranked, rows, chunks), query=query).order.tolist()


def test_a_text_passes_those_before_it_that_hold_less():
    texts = ["line N4 stops at Stadium", "line N4 stops at Museum", "line 14 stops at Stadium"]
    assert order_of(texts, "line 14 Stadium") == [2, 0, 1]


def test_of_texts_that_hold_the_same_the_one_that_names_it_first_passes_one_that_refers_to_it():
    texts = ["Soup, version 4: two leeks. Changed from version 3: less salt.", "Soup, version 3: one leek. Changed."]
    assert order_of(texts, "leek in the soup of version 3") == [1, 0]
    assert order_of(texts[::-1], "leek in the soup of version 3") == [0, 1]


def test_the_form_of_a_person_passes_the_form_that_names_this_person_as_a_deputy():
    form = "Application for leave. Name: {}. From: 23 August 2024. Days: 8. Deputy: {}. Approved: no."
    texts = [form.format("Freya Novak", "Yusuf Eriksen"), form.format("Yusuf Eriksen", "Nadia Almeida")]
    assert order_of(texts, "was the leave of Yusuf Eriksen approved?") == [1, 0]
    assert order_of(texts, "was the leave of Freya Novak approved?") == [0, 1]


def test_a_text_does_not_pass_one_that_names_the_words_but_a_little_later():
    texts = ["Version 3 of the soup: one leek, no salt.", "Version 3, the soup: two leeks, less salt."]
    assert order_of(texts, "soup version 3") == [0, 1]


def test_a_text_that_refers_to_it_word_for_word_is_not_passed_by_the_one_that_it_refers_to():
    texts = ["Part K62: a relay that replaces K35.", "Part K35: a relay. It has 24 V. One that replaces K17."]
    assert order_of(texts, "which relay replaces K35") == [0, 1]
    assert order_of(texts[::-1], "which relay replaces K35") == [1, 0]


def test_a_text_that_lacks_a_word_of_the_other_does_not_pass_it():
    assert order_of(["line 14 stops at Museum", "line N4 stops at Stadium"], "line 14 Stadium") == [0, 1]


def test_records_of_two_layouts_are_alike_by_what_they_have_in_common_word_for_word():
    white = (
        "Osprey Freight ordered 546 brass screws (white) for Aarhus, order SO-73867, delivery May, by road, prepaid."
    )
    red = "Sales order SO-71380. Customer: Osprey Freight. 530 x brass screws, red. Ship to Zagreb by rail in March."
    assert order_of([white, red], "red brass screws for Osprey Freight") == [1, 0]


def test_texts_that_share_few_words_keep_their_order():
    prose = "Buses to the Stadium are full before a match, so walk."
    assert order_of([prose, "line 14 stops at Stadium"], "line 14 Stadium") == [0, 1]


def test_a_text_with_a_much_lower_score_passes_nothing():
    texts = ["line N4 stops at Stadium", "line 14 stops at Stadium"]
    assert order_of(texts, "line 14 Stadium", [1.0, 0.81]) == [1, 0]
    assert order_of(texts, "line 14 Stadium", [1.0, 0.79]) == [0, 1]


@pytest.mark.parametrize("text", ["line 14 stops " * CHARACTERS_MAX, "-- / --"], ids=["a book", "no words"])
def test_a_book_and_a_text_without_words_are_alike_to_nothing(text):
    assert order_of([text, "line 14 stops at Stadium"], "Stadium") == [0, 1]


def test_the_aunt_of_the_person_asked_about_passes_this_person_as_an_aunt():
    texts = ["The aunt of Ann is Tom, who lives in Bonn.", "The aunt of Tom is Mira, who lives in Bonn."]
    assert order_of(texts, "where does the aunt of Tom live") == [1, 0]


def test_texts_that_hold_a_word_more_often_are_not_told_apart_by_order():
    texts = ["shipments: list all shipments, get 42", "get one of the shipments, get by id 42"]
    assert order_of(texts, "get shipments 42") == [0, 1]


WORDS = st.lists(st.sampled_from("abcdef"), max_size=6).map(" ".join)


@given(st.lists(WORDS, max_size=5), WORDS)
def test_every_text_stays_and_equal_texts_keep_their_order(texts, query):
    order = order_of(texts, query)
    assert sorted(order) == list(range(len(texts)))
    for text in set(texts):
        same = [at for at in order if texts[at] == text]
        assert same == sorted(same)


def test_words_of_two_fields_are_no_neighbours():
    query = AskedWords("the form of Mr Miller")
    assert Words("the form of Ann Miller", query).order[0] == 3
    assert Words("FORM Surname: Cole Town: Leeds Date of birth: 3.5.1970 Doctor: Dr Miller", query).order[0] == 0


@pytest.mark.parametrize("name", ["vim", "llvm", "pkgconf", "postgresql-common"])
def test_a_record_is_found_by_its_name_before_those_whose_longer_names_hold_it(name):
    names = ("vim-common", "vim", "vim-runtime", "llvm-14-runtime", "llvm-runtime", "llvm", "pkgconf-bin", "pkgconf")
    names += ("postgresql-client-common", "postgresql-common", "postgresql")
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for at, each in enumerate(names):
            store.add([Chunk(each, f"2026-05-09 07:{at:02}:23 install {each}:amd64 <none> 2:{at}.0-{13 * at % 7}")])
        assert umi.search(f"When was {name} installed?").ids[0] == name


def test_thousands_are_no_day_of_a_date():
    item = "Council, 14 November 2023, item {} proposed to spend {} euros. The motion was adopted by 5 votes."
    texts = [item.format("5: dog licence. Zora", "44,500"), item.format("4: flood barrier. Yusuf", "11,500")]
    assert order_of(texts, "item 5 of the council meeting of 2023-11-14") == [0, 1]
    for amount in ("11500", "11,500", "11.5k"):
        assert order_of(texts, f"who got {amount} euros at the council meeting of 2023-11-14") == [1, 0]


FILLER = (
    "The committee met at nine. Further details are in the annex. No action was required. A short break was taken. "
)


@pytest.mark.parametrize("around", [("", ""), (FILLER, ""), (FILLER, FILLER)])
def test_a_text_with_only_words_of_the_question_does_not_hide_the_text_that_answers(around):
    before, behind = around
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for thing in ("roof", "boiler", "lift"):
            for town in ("Cork", "Graz", "Ghent", "Lyon", "Turin"):
                fact = f"The {thing} in {town} was replaced by {thing.title()} & {town} for 6400 euros. "
                store.add([Chunk(f"{thing} {town}", before + fact + behind)])
                store.add([Chunk(f"title of {thing} {town}", f"{town} {thing}")])
        assert umi.search("Who replaced the roof in Cork?").ids[0] == "roof Cork"
        assert umi.search("Cork roof").ids[0] == "title of roof Cork"


def test_a_text_with_more_words_of_the_question_passes_a_title_with_up_to_twice_its_score():
    texts = ["Cork roof", "In Cork Ann Lee replaced the old roof of the town hall"]
    assert order_of(texts, "Who replaced the roof in Cork?", [1.0, 0.6]) == [1, 0]
    assert order_of(texts, "Who replaced the roof in Cork?", [1.0, 0.4]) == [0, 1]


def test_a_longer_title_does_not_pass_the_title_that_the_query_asks_for():
    titles = ["Data engineer", "Senior data engineer", "Data engineer intern", "Sales engineer", "Data entry clerk"]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(title, title) for title in titles])
        for query in ("data engineer", "jobs for a data engineer", "is there a job as data engineer?"):
            assert umi.search(query).ids[0] == "Data engineer"


def test_a_product_is_found_before_its_parts_whose_names_hold_more_function_words_of_the_question():
    products = ["Garden kettle", "Marine ladder", "Blue router", "Steel lamp", "Winter camera"]
    parts = [f"{product} in the {part}" for product in products for part in ("box", "garage")]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(name, name) for name in (*products, *parts)])
        for product in products:
            assert umi.search(f"show me the {product.lower()} please").ids[0] == product


@pytest.mark.parametrize("asked", ["floor {0}", "{1} floor", "{2} floor"])
def test_a_floor_is_found_however_its_number_is_written(asked):
    ordinals = "first second third fourth fifth sixth seventh eighth".split()  # noqa: SIM905
    digits = "1st 2nd 3rd 4th 5th 6th 7th 8th".split()  # noqa: SIM905
    numbers = list(zip(range(1, 9), ordinals, digits, strict=True))
    forms = "floor {0}", "{1} floor", "{2} floor"
    buildings = "annex", "main house", "south tower", "north tower", "east wing", "west wing"
    texts = {
        (building, number): f"The {forms[(at + number[0]) % 3].format(*number)} of the {building} houses the archive."
        for at, building in enumerate(buildings)
        for number in numbers
    }
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(Chunk(text, text) for text in texts.values())
        lost = [
            text
            for (building, number), text in texts.items()
            if text not in umi.search(f"What is on the {asked.format(*number)} of the {building}?", limit=4).ids
        ]
        assert lost == []


def test_a_floor_by_its_ordinal_is_found_before_a_floor_with_so_many_people():
    floors = "first 2nd third 4th fifth 6th seventh eighth".split()  # noqa: SIM905
    people = "three four five two one two two three".split()  # noqa: SIM905
    clubs = "rowing", "chess", "garden", "film"
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for club in clubs:
            for number, (floor, count) in enumerate(zip(floors, people, strict=True), start=1):
                text = f"At the {club} club, the {floor} floor was warm in autumn; {count} people complained."
                store.add([Chunk(f"{club} {number}", text)])
        asked = [(club, number) for club in clubs for number in range(1, 9)]
        found = [umi.search(f"how was the floor {number} at the {club} club?").ids[0] for club, number in asked]
        assert found == [f"{club} {number}" for club, number in asked]


def test_the_words_that_stand_alone_are_the_same_in_ascii_and_in_other_texts():
    asked = AskedWords("one pump of floor 19")
    text = "One pump on the first floor, room 19."
    assert Words(text, asked).whole == Words(f"{text} é", asked).whole == {"one", "pump", "floor"}


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("You tried to place an order, and the page says: could not place an order.", {"place", "order"}),
        ("You tried to place an order, and the page is empty.", {"order"}),
        ("The page says: could not open an order. You may place it later.", {"order"}),
    ],
)
def test_a_negated_word_of_the_query_must_be_negated_once_in_a_text(text, held):
    query = AskedWords("it says: could not place my order")
    assert Words(text, query).content & {"place", "order"} == held
