"""Numbers and codes are found however they are written: with or without spaces, zeros, prefixes or am and pm."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umi_common import Chunk, HybridStore
from umi_common.config import AnalyzerConfig
from umi_common.sim import HashEmbedder
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.numbers_in_text import days_in_words, in_24_hours, in_base_units

TERMS = Analyzer(AnalyzerConfig()).terms

SAME = {
    "account": ("DE04 2589 5385 5012 4043 39", "DE04258953855012404339"),
    "British account": ("GB29 NWBK 6016 1331 9268 19", "GB29NWBK60161331926819", "gb29nwbk60161331926819"),
    "French account": ("FR14 2004 1010 0505 0001 3M02 606", "FR1420041010050500013M02606"),
    "Italian account": ("IT60 X054 2811 1010 0000 0123 456", "IT60X0542811101000000123456"),
    "Maltese account": ("MT84 MALT 0110 0001 2345 MTLC AST0 01S", "MT84MALT011000012345MTLCAST001S"),
    "card": ("8416 4999 4912 2055", "8416499949122055", "8416-4999-4912-2055"),
    "phone with area code": ("(030) 1234 5678", "03012345678", "030/12345678", "030-12345678", "+49 30 12345678"),
    "phone with country code": ("+49 171 555 0199", "+491715550199", "0049 171 5550199", "0171 5550199"),
    "American phone": ("(518) 631-4115", "518.631.4115", "518-631-4115", "5186314115", "+1 518 631 4115"),
    "phone of eight digits": ("55 12 34 56", "55123456", "5512-3456", "5512 3456"),
    "tariff code": ("8517 62 00", "85176200", "8517.62.00"),
    "amount": ("14 630,99 EUR", "14.630,99 EUR", "14,630.99 EUR", "14630.99 EUR", "14\u202f630,99 EUR"),
    "round amount": ("8 575 963", "8575963", "8,575,963", "8.575.963"),
    "invoice with zeros": ("INV-003756", "INV-3756", "INV3756", "invoice 3756", "3756"),
    "afternoon": ("6:06 p.m.", "18:06", "6:06pm", "6.06 PM"),
    "hour": ("6 pm", "18:00", "6pm"),
    "time of day": (
        "13:23",
        "1:23 pm",
        "13h23",
        "13 h 23",
        "1323h",
        "1323 hrs",
        "1323 hours",
        "13.23 Uhr",
        "13 Uhr 23",
    ),
    "time in East Asia": ("13:23", "午後1時23分", "下午1点23分", "下午13点23分", "13時23分に", "오후 1시 23분"),
    "full hour": ("19:00", "7 pm", "19h", "19 Uhr", "1900 hours", "19時から", "下午7点"),
    "half hour": ("7:30", "7時半", "7点半", "7h30", "07:30", "7.30 Uhr"),
    "o'clock": ("7 o'clock", "7 am", "7:00", "7 o’clock"),
    "midnight": ("12:30 am", "0:30", "00:30"),
    "morning": ("9:05", "09:05", "09:05 am"),
    "entry of a log": ("09:05", "2026-05-01T09:05:17Z", "09:05:17,250", "[09:05:17]", "09:05:17.25+02:00", "9:05:17"),
    "day": ("12.3.2023", "12.03.2023", "2023-03-12", "20230312", "2023/03/12", "12/03/2023", "3/12/2023"),
    "millions": ("$1.5M", "1.5 million dollars", "1,5 Mio", "1,500,000", "1.500.000", "1.5 mn"),
    "grouped millions": ("1,234 million", "1,234,000,000", "1234 million", "1.234bn"),
    "less than a million": ("0.5 million", "500,000", "500000", "500k", "0,5 Mio"),
    "thousands": ("10k", "10K", "10 thousand", "10,000"),
    "thousands in words": ("nine thousand", "Nine thousand", "9,000", "9000", "9k", "9 thousand"),
    "hundreds in words": ("twelve hundred", "one thousand two hundred", "1,200", "1200", "1.2k"),
    "a long number in words": ("six hundred and twenty-five thousand", "625,000", "625 000", "625k"),
    "millions in words": ("one million two hundred thousand", "1,200,000", "1.2 million", "1.2M"),
    "billions": ("2.25bn", "2.25 billion", "2,25 Mrd", "2,250,000,000"),
    "size": ("20x30 cm", "20 x 30", "20×30", "20 by 30", "20 X 30"),
    "screw": ("M8x30", "M8 x 30", "m8 × 30", "M8X30"),
    "three measures": ("20x30x4.5", "20 x 30 x 4,5", "20 by 30 by 4.5"),
    "dose": ("0.5 mg", "500 mcg", "500\u00b5g", "500 \u03bcg", "0,5 mg", "500 micrograms", "500 Mikrogramm"),
    "part of a millimetre": ("1.5mm", "1.5 mm", "0.15 cm"),
    "height": ("1.96 m", "196 cm", "196cm", "1,96 m", "1.96 metres", "1960 mm", "1,960 millimetres", "196 Zentimeter"),
    "distance": ("5 km", "5,000 m", "5000 metres", "5 kilometers", "5-km", "5 000 m", "5 Kilometern", "cinco: 5 km."),
    "decimetres": ("5 décimètres", "5 decímetros", "50 cm", "500mm", "5dm"),
    "weight": ("0.25 kg", "250 g", "250g", "250 grams", "0,25 Kilogramm", "250,000 mg", "250 grammes"),
    "volume": ("1.5 l", "1,500 ml", "150 cl", "15 dl", "1.5 litres", "1,5 Liter", "1.5-liter", "1.5L"),
    "frost": ("-10 °C", "minus 10 degrees", "\u221210", "(-10)", "temp=-10C", "temp:-10"),
    "least version": ("Python 3.10+", "3.10", "v3.10+"),
    "least amount": ("250.000+ euros", "250,000", "250000"),
    "reading": ("19.1C", "19.1 °C", "temp=19.1C", "19.1°C", "19.1 degrees"),
    "voltage": ("3.3V", "3.3 V", "3.3 volts", "U=3.3V;"),
    "power": ("1.5 kW", "1500 W", "1500W", "1,500 watts", "1.5kw"),
    "current": ("0.5 A", "500 mA", "500mA", "0,5A", "0.5 amps"),
    "charge": ("5000mAh", "5 Ah", "5,000 mAh", "5Ah", "5000 mAhs"),
    "memory": ("2 TB", "2000GB", "2TB", "2,000 gigabytes"),
    "volts and amperes": ("12V/2A", "12 V 2 A", "12V / 2000mA"),
    "flat": ("flat 7A", "flat 7-A", "flat 7 A"),
    "frequency": ("2.4 GHz", "2400 MHz", "2.4ghz"),
    "micrometres": ("10um", "10 um", "10 μm", "0.01 mm", "10 micrometres"),
    "percent": ("50%", "50 %", "50 percent"),
    "euros": ("€20", "20€", "20 €", "20 euros"),
    "release": ("1.2.0", "v1.2.0", "1.2.0.0"),
    "year of a quarter": ("FY24", "Q3/24", "3Q24", "2024"),
    "commit": ("d1bd7a1c7f4e0b9f6a2c", "d1bd7a1", "D1BD7A1C7F"),
}


@pytest.mark.parametrize("kind", SAME)
def test_each_way_to_write_a_number_shares_a_term_with_every_other(kind: str):
    for one in SAME[kind]:
        for other in SAME[kind]:
            assert {term for term in TERMS(one) if len(term) > 2} & set(TERMS(other)), (one, other)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_word_cut_at_the_end_of_a_line_is_found_whole(end: str):
    assert set(TERMS("computer")) <= set(TERMS(f"the com-{end}puter of a house"))


def test_a_negative_number_with_thousands_is_not_taken_for_a_fraction():
    assert set(TERMS("-1,234")) == set(TERMS("-1234"))
    assert "-1.234" in set(TERMS("-1.234")) - set(TERMS("-1,234"))


@pytest.mark.parametrize("code", ["-10-20", "-1.5-3", "-1,234-5"])
def test_a_code_of_numbers_begins_with_no_negative_number(code):
    assert not [term for term in TERMS(code) if term.startswith("-")]


@pytest.mark.parametrize(
    ("one", "other"),
    [("Chapter V", "chapter 5"), ("World War I", "world war 1"), ("Part X.", "part 10")],
)
def test_a_roman_numeral_is_found_by_its_number(one: str, other: str):
    assert set(TERMS(other)) <= set(TERMS(one))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("twenty-six", "26"),
        ("Forty-Second Street", "42"),
        ("the ninety ninth day", "99"),
        ("TWENTY-SIX", "26"),
        ("for twenty six euros", "26"),
        ("Nine Thousand Acres", "9000"),
        ("one hundred and five people", "105"),
        ("five hundred and more", "500"),
        ("two thousand million stars", "2000000000"),
        ("three hundred thousand million and six", "300000000006"),
    ],
)
def test_a_number_of_several_words_is_found_by_its_digits(text: str, number: str):
    assert number in TERMS(text)


def test_half_a_million_has_one_form_without_a_zero_before_it():
    assert {term for term in TERMS("it cost 0.5 million") if term.endswith("00000")} == {"500000"}


@pytest.mark.parametrize("text", ["one or two", "two three four", "hundred", "a thousand thanks", "twenty people"])
def test_single_number_words_get_no_digits(text: str):
    assert not any(map(str.isdigit, "".join(TERMS(text))))


def test_a_price_in_words_is_found_by_its_digits():
    with HybridStore.open(embedder=HashEmbedder()) as store:
        offers = ["The roofers want nine thousand.", "The roofers came at nine.", "The plumber wants 900."]
        store.add([Chunk(text, text) for text in offers])
        assert [id for id, _ in store.search_lexical("who wants 9,000?", k=1)] == offers[:1]


def test_a_version_finds_the_versions_below_it_unless_a_text_holds_it():
    with HybridStore.open(embedder=HashEmbedder()) as store:
        entries = {f"3.{minor}.{patch}": "bugs were fixed" for minor in range(1, 12) for patch in (1, 3)}
        store.add([Chunk(version, f"Version {version}: {text}") for version, text in entries.items()])

        def found(question):
            return {id for id, _ in store.search_lexical(question, k=2)}

        assert found("which bugs were fixed in version 3.3?") == {"3.3.1", "3.3.3"}
        assert found("what changed in v3.11?") == {"3.11.1", "3.11.3"}
        store.add([Chunk("3.3", "All that is new in version 3.3")])
        assert [id for id, _ in store.search_lexical("what is new in version 3.3?", k=1)] == ["3.3"]


@pytest.mark.parametrize(
    "text",
    [
        "and I went",
        "5 miles",
        "Malcolm X",
        "reduce by 5",
        "0x10",
        "a 2x",
        "8時間",
        "150 hours",
        "5 h",
        "3 hrs",
    ],
)
def test_what_looks_like_a_number_gets_no_further_one(text: str):
    assert {term for term in TERMS(text) if term[:1].isdigit()} <= set(re.findall(r"\d+", text)) | {"0x10", "2x"}


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("a rope of 5 m", {"5000mm"}),
        ("a 1.5-m pole", {"1500mm"}),
        ("sold for $5 m", {"5000000", "5000mm"}),
        ("debts of US$5 m", {"5000000", "5000mm"}),
        ("about € 1.5 m", {"1500000", "1500mm"}),
        ("a credit of EUR 1.5 m", {"1500000", "1500mm"}),
        ("revenue of 12m", {"12000000", "12000mm"}),
        ("5 M users", {"5000000"}),
        ("sold for $5b", {"5000000000"}),
        ("item 5b or 20 cm", {"200mm"}),
        ("1998 um 5 Mark", set()),
        ("nel 1998 ma 5 lire", set()),
    ],
)
def test_a_number_before_an_m_is_a_length_and_before_a_b_nothing_unless_it_is_an_amount(text: str, terms: set[str]):
    assert {term for term in TERMS(text) if "00" in term} == terms


@pytest.mark.parametrize(
    "text", ["5 ms", "20 mg/kg", "5 m/s", "5 m²", "12 lots", "60 km/h", "route 1:30 m", "A5 m", "5 mph"]
)
def test_a_number_before_another_unit_is_no_length_weight_or_volume(text: str):
    assert not [term for term in TERMS(text) if term.endswith(("0mm", "0mg", "0ml"))]


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("2 LİTRE SÜT", "2000ml"),
        ("5 kılo elma", "5000000mg"),
        ("5 MİLLİON", "5000000"),
        ("5 tauſend", "5000"),
    ],
)
def test_a_name_with_a_turkish_i_or_a_long_s_is_read_as_the_same_name(text: str, term: str):
    assert term in TERMS(text)


@pytest.mark.parametrize("date", ["3 March 2026", "March 3, 2026", "the 3rd of March 2026"])
def test_a_date_may_begin_with_its_day_or_its_month(date: str):
    assert days_in_words(date) == ["2026-03-03"]


def test_only_a_date_with_slashes_may_begin_with_the_month():
    assert {"2023-08-05", "2023-05-08"} <= set(TERMS("5/8/2023"))
    assert "2023-05-08" not in TERMS("5.8.2023")


@pytest.mark.parametrize(("beginning", "number"), [("Part V", "5"), ("$1.5 m", "1500000")])
def test_a_number_at_the_beginning_of_a_long_text_is_read_as_elsewhere(beginning: str, number: str):
    assert number in TERMS(f"{beginning} is in the long report about all parts of the work of last year")


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("1960mm", "1960mm"),
        ("20x30", "20x30"),
        ("20 × 30 cm", "300mm"),
        ("20x30cm", "300mm"),
        ("call 030-1234-5678 or 12 34", "03012345678"),
        ("5/5/2023", "2023-05-05"),
    ],
)
def test_a_number_counts_once_however_it_is_written(text: str, term: str):
    assert TERMS(text).count(term) == 1


def test_a_month_with_a_long_s_is_read_as_the_same_month():
    assert days_in_words("on 3 ſep 2024") == ["2024-09-03"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("rooms 4 250 and 7", "room 4 250 and 7"),
        ("14 10 2023", "14 10 2023"),
        ("pages 12 13 14 15 16 17 18 19 20 21 22 23 24 25", "page 12 13 14 15 16 17 18 19 20 21 22 23 24 25"),
        ("2023-10-14 15:30:22", "2023 10 14 2023-10-14 15 30 22 15:30:22 15:30"),
        ("10 apples at 3 a piece", "10 appl at 3 a piec"),
        ("the year 07", "the year 07"),
        ("31.13.2023", "31 13 2023 31.13.2023"),
    ],
)
def test_numbers_that_stand_side_by_side_keep_their_parts(text: str, parts: str):
    assert [term for term in TERMS(text) if term != "4250"] == parts.split()


@given(st.text(alphabet="0123456789 ()-.:/+apmDE", max_size=60))
def test_common_forms_only_add_to_what_a_text_holds(text: str):
    assert set(re.findall(r"\d+", text)) <= set(TERMS(text))


def test_of_three_thousand_letters_that_of_an_account_is_found_however_it_is_typed():
    draw = random.Random(4)
    accounts = ["DE" + "".join(draw.choices("0123456789", k=20)) for _ in range(3_000)]
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add(
            [
                Chunk(account, f"Please pay to {' '.join(account[at : at + 4] for at in range(0, 22, 4))} by Monday.")
                for account in accounts
            ]
        )
        for account in accounts[:50]:
            assert [id for id, _ in store.search_lexical(f"who has the account {account}?", k=1)] == [account]


@pytest.mark.parametrize("text", ["NL91 ABNA", "NL91 ABNA, after 5 km", "NL91 ABNA 0417"])
def test_an_account_is_joined_whatever_else_the_text_holds(text: str):
    assert any(term.startswith("nl91abna") for term in TERMS(text))


@pytest.mark.parametrize(
    ("text", "in_one_form"),
    [
        ("at 9 am from Graz", "at 9:00 from Graz"),
        ("9 am, 5:30 pm and 17h30", "9:00, 17:30 and 17:30"),
        ("from 9 am to 09:30", "from 9:00 to 9:30"),
        ("the 9 am bus", "the 9:00 bus"),
        ("Haus 5 am Markt", "Haus 5 am Markt"),
        ("a charge of 5h or 1200 hours", "a charge of 5h or 1200 hours"),
    ],
)
def test_times_of_day_have_one_form_but_a_german_am_and_durations_stay(text: str, in_one_form: str):
    assert in_24_hours(text) == in_one_form


@pytest.mark.parametrize(
    ("text", "in_one_form"),
    [
        ("a stick, 480 MB/s", "a stick, 480mb/s"),
        ("adapters 12V/2A, 4GB/128GB", "adapters 12000mv/2000ma, 4000mb/128000mb"),
        ("chargers, 100-240V", "chargers, 100-240000mv"),
        ("a film of 10 um, 5um mesh", "a film of 0.01mm, 0.005mm mesh"),
        *((text, text) for text in ("Linie 12 um halb acht", "artigo 3 um prazo", "In 1998 A man came", "oil 5W-30")),
    ],
)
def test_measures_have_one_form_but_a_word_and_a_grade_of_oil_stay(text: str, in_one_form: str):
    assert in_base_units(text) == in_one_form


def ranked(question, *texts):
    """The texts, best first, by BM25."""
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add([Chunk(text, text) for text in texts])
        return [text for text, _ in store.search_lexical(question, k=len(texts))]


@pytest.mark.parametrize(
    ("question", "right", "same_measure", "same_thing"),
    [
        ("hose 0.5 kg", "hose of 500 g", "rope of 0.5 kg", "hose of 2 kg"),
        ("hose 15mm", "hose of 1.5 cm", "rope of 15mm", "hose of 20mm"),
        ("hose 1,5 m", "hose of 150 cm", "rope of 1,5 m", "hose of 3 m"),
        ("juice 1.5 l", "juice in bottles of 1500 ml", "water in bottles of 1.5 l", "juice in bottles of 2 l"),
        ("lamp 12 V", "lamp 12V", "pump 12 V", "lamp 24 V"),
        ("oven 2000 W", "oven of 2 kW", "lamp of 2000 W", "oven of 1 kW"),
        (
            "the shop in Forty-Second Street",
            "shop in 42nd street",
            "school in Forty-Second Street",
            "shop in 45th street",
        ),
        ("bus to Bilbao at 9 am", "bus to Bilbao at 09:00", "bus to Malmo at 9 am", "bus to Bilbao at 11:30"),
        ("bus to Bilbao at 09:00", "bus to Bilbao at 9 am", "bus to Malmo at 09:00", "bus to Bilbao at 11:30"),
    ],
)
def test_a_measure_in_another_unit_counts_more_than_its_writing_beside_another_thing(
    question, right, same_measure, same_thing
):
    others = [f"{same_measure}, {colour}" for colour in ("red", "green", "blue")]
    assert ranked(question, *others, same_thing, right)[0] == right


@pytest.mark.parametrize("asked", ["5 kg", "15 kg", "5 g", "0.5 kg", "5 l", "5 mm"])
def test_of_things_alike_that_of_the_asked_measure_comes_first(asked):
    measures = ("5 kg", "15 kg", "5 g", "0.5 kg", "5 l", "5 mm", "50 kg")
    assert ranked(f"gravel {asked}", *(f"gravel, {measure}" for measure in measures))[0] == f"gravel, {asked}"


def test_of_texts_with_the_same_measure_the_one_with_its_writing_comes_first():
    assert ranked("hose 0.5 kg", "hose 500 g, a", "hose 0.5 kg, a")[0] == "hose 0.5 kg, a"


@pytest.mark.parametrize("question", ["sixty second timer", "the sixty-second timer", "timer of sixty seconds"])
def test_a_duration_in_words_is_no_ordinal(question):
    others = "A sixty-second exposure was cut by Ana", "A forty-second timer was cut by Ana"
    assert ranked(question, *others, "The timer takes sixty seconds")[0] == "The timer takes sixty seconds"


@pytest.mark.parametrize("size", ["160 × 80 × 73 cm", "160 x 80 cm", "160x80cm", "1,6 x 0,8 m", "1.6 m x 80 cm"])
def test_each_side_of_a_size_is_found_as_a_measure_although_the_unit_is_behind_the_last(size):
    right = f"Desk in ash, {size}"
    for question in ("ash desk, 160 cm wide", "ash desk 160 x 80 cm", "desk 1.6 m x 0.8 m"):
        assert ranked(question, "Desk in ash, 120 × 60 × 73 cm", right)[0] == right


def test_the_sides_of_a_size_in_a_query_weigh_as_much_as_a_measure():
    weights = Analyzer(AnalyzerConfig()).weighted_terms("160 x 80 cm", 0.5)
    assert weights["1600mm"] == weights["800mm"] == 1.0 > weights["cm"]


@pytest.mark.parametrize("number", ["2 x 500 g", "2 x 500 kg", "3 x 5", "2 × 1.5 mm²", "1920x1080 px", "2 x 4 more"])
def test_a_number_of_things_before_their_measure_is_no_length(number):
    assert not [term for term in TERMS(number) if term.startswith("2000")]


def test_a_measure_whose_unit_stands_in_a_heading_is_found():
    assert ranked("bolts 50 mm", "bolts, mm: 60", "bolts, mm: 50", "nails, mm: 50")[0] == "bolts, mm: 50"
