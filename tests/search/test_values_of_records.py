"""A record is found by a value that one or two records hold, whatever other words the question has."""

from __future__ import annotations

import random
from datetime import date
from itertools import product
from unicodedata import category, name

import pytest

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.search.reorder.names import codes_held, codes_in
from umi_common.stores.lexical.numbers_in_text import with_short_years

SYLLABLES = ("nat", "ter", "mux", "gor", "pel", "dim", "ral", "vos", "nek", "sin", "tul", "wad")
NOTES = ("", "", "server port", "port of the service manager", "TCP port service multiplexer", "storage daemon")
FIRST = ("ax", "bo", "ki", "lu", "zed", "mor", "fin", "gol", "tup")
PORTS = {f"{a}{b}": 1_000 + 37 * at for at, (a, b) in enumerate(product(FIRST, SYLLABLES))}


@pytest.fixture(scope="module")
def services():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for at, (service, port) in enumerate(PORTS.items()):
            note = f"\t# {NOTES[at % 6]}" if NOTES[at % 6] else ""
            store.add([Chunk(f"{service}/{way}", f"{service}\t\t{port}/{way}{note}") for way in ("tcp", "udp")])
        yield umi


@pytest.mark.parametrize("question", ["Which service uses the port {}?", "what service runs on port {} of a server"])
def test_a_service_is_found_by_its_port(services, question):
    for service, port in PORTS.items():
        assert set(services.search(question.format(port), limit=2).ids) == {f"{service}/tcp", f"{service}/udp"}


@pytest.fixture(scope="module")
def characters():
    signs = {*map(chr, range(0xA1, 0x2FFF, 8)), *"ተՉ᧐ᥕᛕ"}
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(
            Chunk(sign, f"U+{ord(sign):04X} {sign} {name(sign)} category {category(sign)}")
            for sign in sorted(signs)
            if name(sign, "")
        )
        yield umi


@pytest.mark.parametrize("letter", "ተՉ᧐ᥕᛕ")
def test_a_letter_is_found_by_itself(characters, letter):
    assert characters.search(f"name of the character {letter}").ids[0] == letter


def test_a_code_in_a_text_of_many_pages_is_found_among_short_texts_that_hold_all_other_words():
    words = (
        "licence",
        "program",
        "covers",
        "every",
        "copy",
        "that",
        "you",
        "give",
        "to",
        "other",
        "people",
        "of",
        "the",
    )
    chance = random.Random(1)
    pages = " ".join([*chance.choices(words, k=2_500), "CVE-2023-12345 is closed.", *chance.choices(words, k=2_500)])
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(
            Chunk(str(at), f"CVE-2023-{at}: the vulnerability is fixed in version {at % 7} of the program.")
            for at in range(20_000, 23_000)
        )
        store.add([Chunk("pages", pages)])
        assert umi.search("In which version is the vulnerability CVE-2023-12345 fixed?").ids[0] == "pages"


PLAYERS = {
    f"{name} {surname}": 151 + 2 * at
    for at, (name, surname) in enumerate(
        product(("Ann", "Emil", "Dora", "Gil", "Ida"), ("Ash", "Egg", "Zell", "Dorn", "Oak"))
    )
}


@pytest.fixture(scope="module")
def players():
    """Heights of every second player in metres, of the others in centimetres."""
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for at, (player, height) in enumerate(PLAYERS.items()):
            written = f"{height / 100:.2f} m" if at % 2 else f"{height} cm"
            store.add([Chunk(player, f"{player}, guard. Height {written}, weight {70 + at} kg, left-handed.")])
        yield umi


@pytest.mark.parametrize("question", ["who measures {}", "player of {}", "which player has a height of {}?"])
def test_a_person_is_found_by_a_height_in_the_other_unit(players, question):
    for at, (player, height) in enumerate(PLAYERS.items()):
        asked = f"{height} cm" if at % 2 else f"{height / 100:.2f} m"
        assert player in players.search(question.format(asked), limit=2).ids


@pytest.mark.parametrize("sign", [",", ".", " "])
@pytest.mark.parametrize("question", ["town with {} inhabitants", "town of {} inhabitants, twinned with a town abroad"])
def test_a_town_is_found_by_its_number_of_inhabitants_typed_without_signs(question, sign):
    notes = (
        "Twinned with a town abroad, of many inhabitants.",
        "Known for its cheese.",
        "Town with a market.",
        "Port.",
    )
    towns = {f"{a}{b}": 11_007 + 613 * at for at, (a, b) in enumerate(product(FIRST, SYLLABLES))}
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for at, (town, number) in enumerate(towns.items()):
            population = f"{number:,}".replace(",", sign)
            kind = ("village", "town")[at % 2]
            store.add([Chunk(town, f"{town} ({kind}). Population {population} (2021 census). {notes[at % 4]}")])
        for town, number in [*towns.items()][::9]:
            assert umi.search(question.format(number)).ids[0] == town


@pytest.mark.parametrize(("number", "right"), [("80542", "Invoice 80542 of May"), ("12345", "Lot 12345")])
def test_a_number_as_typed_comes_before_the_same_digits_in_groups_and_before_parts_of_longer_numbers(number, right):
    texts = ["Invoice 80542 of May", "Order 80,542 EUR total", "Part 80 542 pieces", "Ben +49 30 80 542 11"]
    texts += ["Lot 12,345", "Lot 12345", "Lot 12 345", "IP 12.345.67.8", "Price 12,345.67 EUR"]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(text, text) for text in texts])
        assert umi.search(number).ids[0] == right


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("Population 480,542.", True),
        ("Population 480'542 in 2021", True),
        ("Population 1 480 542", False),
        ("Population 1'480'542", False),
        ("Population 480 542 100", False),
        ("Population 480,54", False),
    ],
)
def test_digits_in_groups_are_the_whole_number(text, held):
    _, identifiers = codes_in("population 480542")
    assert bool(codes_held([text, "other"], identifiers)[0, 0]) == held


def test_a_number_of_several_groups_has_one_sign_between_them():
    _, identifiers = codes_in("9783161484100")
    texts = ["9,783,161,484,100", "9 783 161 484 100", "9,783 161,484 100"]
    assert codes_held(texts, identifiers).astype(bool)[:, 0].tolist() == [True, True, False]


PHONES = [f"{area} {3_000 + 271 * at % 6_991}" for at, area in enumerate(range(210, 610))]


@pytest.fixture(scope="module")
def customers():
    """Each number is that of one customer; the parts of a number are also house numbers and parts of other numbers."""
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for at, phone in enumerate(PHONES):
            group, rest = phone.split()
            written = (f"{group}{rest}", f"{group}-{rest}", phone, f"(415) {group}-{rest}")[at % 4]
            house, street = PHONES[-1 - at].split()[0], ("Oak Ave.", "Mill Road", "Elm St.")[at % 3]
            store.add([Chunk(phone, f"{FIRST[at % 9]} {SYLLABLES[at % 12]}, {house} {street}. Phone {written}.")])
        yield umi


@pytest.mark.parametrize("question", ["{}", "who has the number {}", "{} phone", "whose phone number is {}?"])
@pytest.mark.parametrize("sign", [" ", "-", ""])
def test_a_customer_is_found_by_a_phone_number_of_seven_digits_however_it_is_written(customers, question, sign):
    for phone in PHONES[::13]:
        assert customers.search(question.format(phone.replace(" ", sign))).ids[0] == phone


@pytest.mark.parametrize(
    ("query", "right"),
    [
        ("7478475", "Order 7478475 paid"),
        ("747 8475", "Shelf 747 8475"),
        ("747-8475", "Part 747-8475 in stock"),
        ("747-8476", "Order 7478476 open"),
        ("7478477", "Desk 415-747-8477"),
        ("7478478", "Fax 415.747.8478"),
    ],
)
def test_a_phone_number_as_typed_comes_before_its_digits_in_other_groups(query, right):
    texts = ["Order 7478475 paid", "Shelf 747 8475", "Part 747-8475 in stock", "Order 7478476 open"]
    texts += ["Desk 415-747-8477", "Fax 415.747.8478", "Ward 747, bed 8476", "747 of 8477 votes", "Boeing 747, 8478 km"]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(text, text) for text in texts])
        assert umi.search(query).ids[0] == right


@pytest.mark.parametrize(
    "text", ["Ticket 12.7478475", "Tax 47478475", "747, 8475", "747/8475", "747-8475.22", "747-84755"]
)
def test_seven_digits_are_a_phone_number_only_as_a_whole(text):
    _, identifiers = codes_in("7478475")
    assert not codes_held([text], identifiers).any()


SHORT_YEARS = ["{:%d.%m.%y}", "{:%d/%m/%y}", "{0.day}/{0.month}/{0:%y}", "{:%m/%d/%y}", "{0.month}/{0.day}/{0:%y}"]


@pytest.fixture(scope="module", params=SHORT_YEARS)
def invoices(request):
    """Invoices on days whose parts are also days, months and years of others, each with two digits of its year."""
    days = [date(year, month, day) for year in (2024, 2025) for month in (2, 5, 8) for day in (2, 5, 8, 24, 25)]
    texts = {str(day): f"Invoice {at + 100}, dated {request.param.format(day)}, paid" for at, day in enumerate(days)}
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(*each) for each in texts.items()])
        yield umi, days


@pytest.mark.parametrize(
    "query",
    ["invoice of {0.day} {0:%B %Y}", "invoice dated {0.day}.{0.month}.{0.year}", "the invoice from {0:%Y-%m-%d}"],
)
def test_a_date_is_found_in_a_text_with_two_digits_of_its_year(invoices, query):
    umi, days = invoices
    for day in days:
        assert umi.search(query.format(day)).ids[0] == str(day)


def test_a_day_has_three_signs_may_lack_its_zeros_and_may_come_behind_its_month():
    short = [*("12.03.25", "12/03/25", "12-03-25", "12.3.25", "12/3/25", "12-3-25"), "03/12/25", "3/12/25"]
    assert with_short_years("2025-03-12") == short
    assert with_short_years("2025-11-11") == ["11.11.25", "11/11/25", "11-11-25"]
