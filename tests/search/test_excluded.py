"""What a query excludes comes after what it asks for; a text that states an exception is found by it."""

from __future__ import annotations

from itertools import product

import pytest

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.query.questions import exclusion_in, negation_in

PARTIES = ("Blue Heron Media", "Redstone Cement", "Pinewood Motors", "Calder Paper")
KINDS = ("Invoice", "Contract", "Complaint")
FIRMS = ("Acme", "Borland", "Cyberdyne")


@pytest.mark.parametrize(
    "question",
    [
        "projects of {} but not on AWS",
        "which projects of {} are there, except those on AWS?",
        "projects of {}, excluding AWS",
        "{} projects other than on AWS",
        "all projects of {} apart from AWS",
        "{} projects not including those on AWS",
        "projects of {} with the exception of AWS",
    ],
)
def test_what_the_query_excludes_comes_last(question):
    names, clouds = ("Acorn", "Birch", "Cedar", "Dahlia", "Elm", "Fern", "Gorse", "Hazel"), ("AWS", "Azure", "GCP")
    on = {key: clouds[at % 3] for at, key in enumerate(product(PARTIES, names))}
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(f"{a} {b}", f"Project {b} of {a} runs on {cloud}, in Java.") for (a, b), cloud in on.items()])
        for party in PARTIES:
            found = umi.search(question.format(party), limit=4).ids
            assert {on[party, id.split()[-1]] for id in found if id.startswith(party)} == {"Azure", "GCP"}


@pytest.mark.parametrize(
    ("project", "question"),
    [
        ("Das Projekt {} von {} läuft auf {}, in Java.", "Projekte von {}, aber nicht auf GCP"),
        ("Das Projekt {} von {} läuft auf {}, in Java.", "alle Projekte von {} außer denen auf GCP"),
        ("Le projet {} de {} tourne sur {}, en Java.", "les projets de {}, mais pas sur GCP"),
        ("El proyecto {} de {} corre en {}, en Java.", "proyectos de {}, excepto los de GCP"),
        ("Il progetto {} di {} gira su {}, in Java.", "progetti di {} tranne quelli su GCP"),
        ("O projeto {} da {} corre em {}, em Java.", "projetos da {}, mas não em GCP"),
        ("Het project {} van {} draait op {}, in Java.", "projecten van {}, maar niet op GCP"),
    ],
)
def test_what_a_query_in_another_language_excludes_comes_last(project, question):
    names, clouds = ("Acorn", "Birch", "Cedar", "Dahlia", "Elm", "Fern", "Gorse", "Hazel"), ("AWS", "Azure", "GCP")
    on = {key: clouds[at % 3] for at, key in enumerate(product(PARTIES, names))}
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(f"{a} {b}", project.format(b, a, cloud)) for (a, b), cloud in on.items()])
        for party in PARTIES:
            for excluded in ("GCP", "AWS"):  # alone, AWS is stemmed as an English plural
                found = umi.search(question.format(party).replace("GCP", excluded), limit=4).ids
                assert {on[party, id.split()[-1]] for id in found if id.startswith(party)} == {*clouds} - {excluded}


def test_a_text_need_not_hold_the_function_words_of_the_query():
    names, clouds = ("Acorn", "Birch", "Cedar", "Dahlia", "Elm", "Fern", "Gorse", "Hazel"), ("AWS", "Azure", "GCP")
    texts = {name: f"Project {name} of Calder Paper, cloud: {clouds[at % 3]}." for at, name in enumerate(names)}
    texts |= {name: f"On the project {name} of the Calder Paper, the cloud is AWS." for name in ("Iris", "Juniper")}
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(name, text) for name, text in texts.items()])
        found = umi.search("the projects of the Calder Paper, except those on AWS", limit=4).ids
        assert not any("AWS" in texts[name] for name in found)


def test_texts_that_all_lack_what_the_query_excludes_keep_their_order():
    texts = ("The garden budget.", "The budget of the garden for this year and the next, with notes.", "The terrace.")
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(text, text) for text in texts])
        assert umi.search("garden budget, except the terrace").ids[0] == texts[0]


@pytest.fixture(scope="module")
def papers():
    """Sixteen papers of each kind and firm."""
    with HybridStore.open() as store, DualRetriever(store) as made:
        for (kind, firm), at in product(product(KINDS, FIRMS), range(16)):
            text = f"{kind} {7000 + 13 * at} from {firm}, {50 + at * at} EUR, office {at % 5}."
            store.add([Chunk(f"{kind} {firm} {at}", text)])
        yield made


@pytest.mark.parametrize("question", ["{}s but not from {}", "all {}s except those of {}", "{}s other than from {}"])
def test_it_comes_last_even_if_more_texts_hold_it_than_are_asked_for(papers, question):
    for kind, firm in product(KINDS, FIRMS):
        found = {id.rsplit(" ", 1)[0] for id in papers.search(question.format(kind.lower(), firm)).ids}
        assert found <= {f"{kind} {other}" for other in FIRMS if other != firm}


def test_everything_except_leaves_out_only_what_has_all_that_is_named(papers):
    for kind, firm in product(KINDS, FIRMS):
        ids = papers.search(f"everything except {kind.lower()}s from {firm}").ids
        assert not [id for id in ids if id.startswith(f"{kind} {firm} ")]


def test_a_number_or_a_period_that_is_excluded_raises_nothing():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(str(code), f"Error {code}: the pump stopped.") for code in range(500, 512)])
        store.add([Chunk(f"{year}", f"Annual report of {year}: the mill was quiet.") for year in range(2011, 2023)])
        assert "503" not in umi.search("pump errors except error 503", limit=5).ids
        assert "2015" not in umi.search("annual reports, but not of 2015", limit=5).ids


def test_the_query_as_typed_is_a_variation(papers):
    assert papers.search("invoices but not from Acme").query_variations == ("invoices but not from Acme",)


def test_a_text_on_something_else_does_not_pass_one_that_is_excluded():
    texts = {
        "soup": "Soup of the day: leek soup with bread.",
        "beef": "Soup of the week: beef soup with bread.",
        "car": "The car park closes at ten in the evening.",
    }
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(id, text) for id, text in texts.items()])
        assert umi.search("soups other than beef").ids == ["soup", "beef", "car"]


def test_a_text_that_states_an_exception_is_found_by_it():
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Sunday")
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(f"{at}", f"Museum {at} is open every day except {days[at % 6]}.") for at in range(60)])
        store.add([Chunk("band", "Everything Except the Girl is a band of two from Hull.")])
        for at, day in enumerate(days):
            assert {int(id) % 6 for id in umi.search(f"museums open every day except {day}").ids} == {at}
        assert umi.search("Everything except the Girl").ids[0] == "band"


def test_one_arm_alone_searches_the_query_as_it_is(papers):
    assert papers.search("invoices but not from Acme", strategy="text").ids[0].startswith("Invoice Acme")


@pytest.mark.parametrize(
    "question", ["python try except KeyError", "the except clause for a KeyError", "try/except KeyError"]
)
def test_the_keyword_of_a_program_excludes_nothing(question):
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk("right", "Python raises KeyError where a dict lacks the key; catch it by try and except.")])
        store.add([Chunk("finally", "In Python, try without except needs finally.")])
        store.add([Chunk(word, f"Python has the statement {word}.") for word in ("for", "while", "with", "del")])
        assert umi.search(question).ids[0] == "right"


@pytest.mark.parametrize("question", ["{}s that are not from {}", "which {}s aren't from {}?", "{}s not from {}"])
def test_records_that_not_excludes_come_last(question):
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for (kind, firm), at in product(product(KINDS, FIRMS), range(4)):
            store.add([Chunk(f"{kind} {firm} {at}", f"{kind} {7000 + 13 * at} from {firm}, office {at % 5}.")])
        for kind, firm in product(KINDS, FIRMS):
            found = {id.rsplit(" ", 1)[0] for id in umi.search(question.format(kind.lower(), firm), limit=8).ids}
            assert found == {f"{kind} {other}" for other in FIRMS if other != firm}


def test_a_text_of_prose_is_found_by_its_negation():
    texts = {
        "grapes": "Grapes are toxic to dogs.",
        "carrots": "Carrots are safe for dogs.",
        "alps": "Foods of the Alps: cheese, bread and ham.",
        "euro": "Countries not in the euro area: Sweden, Denmark, Poland.",
        "in": "Countries in the euro area: Germany, France, Spain.",
    }
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(id, text) for id, text in texts.items()])
        assert umi.search("which countries are not in the euro area?").ids[0] == "euro"
        assert umi.search("which foods are not safe for dogs?").ids[0] != "alps"


def test_a_hyphenated_name_is_excluded_as_a_whole():
    names = ("Ivel-on-Sea", "Upper Ivel", "Ivel Island", "Fort Ivel", "Lake Orrin", "Orrin-on-Sea")
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(name, f"{name}, a place in the north.") for name in names])
        assert set(umi.search("Ivel but not Ivel-on-Sea", limit=3).ids) == {"Upper Ivel", "Ivel Island", "Fort Ivel"}


def test_a_negation_of_something_else_does_not_make_a_text_lack_what_the_query_excludes():
    texts = {
        "falcon": "Project Falcon does not need a reboot and runs on AWS.",
        "heron": "Project Heron is not finished but it runs on AWS.",
        "kite": "Project Kite runs on Azure.",
        "owl": "Project Owl runs on our own servers.",
        "swan": "Project Swan does not run on AWS.",
    }
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(id, text) for id, text in texts.items()])
        assert set(umi.search("projects but not on AWS").ids[:3]) == {"kite", "owl", "swan"}


@pytest.mark.parametrize("question", ["guests who can't eat gluten", "guests who are not able to eat gluten"])
def test_a_text_that_says_cannot_comes_before_one_that_says_can(question):
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for text in ("Guest Ann cannot eat gluten.", "Guest Bob can eat gluten.", "Guest Cem can eat nuts."):
            store.add([Chunk(text, text)])
        assert umi.search(question).ids[0] == "Guest Ann cannot eat gluten."


@pytest.mark.parametrize("question", ["{}s not from Acme", "{}s that are not from Acme", "{}s from anyone but Acme"])
def test_it_comes_last_even_if_most_records_hold_it(question):
    firms = ("Acme", "Acme", "Acme", "Acme", "Borel", "Cindra")
    lines = [f"Invoice {4000 + at} from {firms[at % 6]}: {at * 37 % 900} EUR, due in 30 days." for at in range(150)]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(line, line) for line in lines])
        found = umi.search(question.format("invoice")).ids
    assert not [line for line in found if "Acme" in line]


def test_any_wood_but_one_is_found_beside_texts_on_something_else():
    woods = ("Birch", "Oak", "Walnut", "Maple")
    boards = [f"{woods[at % 4]} plywood sheet, {at // 4 + 4} mm, {at * 7 % 50} euros." for at in range(48)]
    pills = [f"Take pill {at} with any food, but not with milk." for at in range(20)]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(text, text) for text in boards + pills])
        for wood in woods:
            found = umi.search(f"plywood of any wood but {wood.lower()}", limit=5).ids
            assert not [text for text in found if text.startswith((wood, "Take"))]


def test_what_is_excluded_comes_last_although_a_text_of_another_kind_stands_between():
    sections = {"Annual leave": "Employees have {} days of leave.", "Sick pay": "Pay goes on for {} weeks."}
    sites = {"Berlin": "Germany", "Munich": "Germany", "Lyon": "France"}
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for at, (site, land) in enumerate(sites.items()):
            title = f"Handbook, {site}, {land}"
            store.add([Chunk(f"{site} head", f"{title}. It holds for all sites in {land}.", source=site, position=0)])
            texts = [f"{title} > {key}. {text.format(20 + at)}" for key, text in sections.items()]
            store.add([Chunk(f"{site} {n}", text, source=site, position=n) for n, text in enumerate(texts, 1)])
        assert umi.search("annual leave at sites in Germany but not in Berlin").ids[0] == "Munich 1"
        assert umi.search("annual leave at sites in Germany but not in Munich").ids[0] == "Berlin 1"


def test_a_message_that_names_the_answer_beside_what_is_excluded_is_not_lost_among_messages_on_other_subjects():
    others = ["the bus was late again", "lunch was cold", "my sister called", "the printer jams", "rain all week"]
    others += ["we sold the old couch", "the cat is fine", "tickets are gone", "the boiler is loud", "I lost my keys"]
    hello = "{}: Hello, {}, on day {} John was away."
    days = [hello.format(name, other, day) for day, other, name in product(range(5), others, ("John", "Ann"))]
    chat = ["John: After yoga at the studio I tried rock climbing.", "Ann: Which activity, yoga at a studio?"]
    chat += ["Ann: No activity, no yoga, no studio for me.", *days]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(str(at), text, source="chat", position=at) for at, text in enumerate(chat)])
        assert "0" in umi.search("Which sport has John done apart from yoga?", limit=3).ids


VIEWS, FLOORS = ("sea", "garden", "street"), ("ground", "first", "second", "third")


@pytest.fixture(scope="module")
def rooms():
    """Half of the rooms have a balcony, a third of the others say that they have none."""
    beds = ("double bed", "twin bed", "single bed", "king-size bed")
    made = []
    for at, (view, floor, bed) in enumerate(product(VIEWS, FLOORS, beds)):
        balcony = "It has a balcony. " if at % 2 else "It has no balcony. " if at % 3 == 0 else ""
        pets = "Pets are welcome." if at % 5 < 3 else "Pets are not allowed."
        made.append(Chunk(str(at), f"Room {100 + at} on the {floor} floor: {bed}, {view} view. {balcony}{pets}"))
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(made)
        yield umi


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    ("question", "wrong"),
    [
        ("{} view room without balcony", "a balcony"),
        ("rooms with {} view that have no balcony", "a balcony"),
        ("{} view rooms, no balcony", "a balcony"),
        ("{} view rooms without a double bed on the third floor", "double bed"),
        ("rooms with {} view but not on the 2nd floor", "second floor"),
        ("{} view, pets not allowed", "welcome"),
        ("{} view, pets are welcome", "not allowed"),
    ],
)
def test_a_room_with_what_is_not_wanted_does_not_come_first(rooms, view, question, wrong):
    texts = [hit.chunk.text for hit in rooms.search(question.format(view), limit=3)]
    assert not [text for text in texts if wrong in text or f"{view} view" not in text]


@pytest.mark.parametrize(
    ("question", "right"),
    [
        ("lamp {} not dimmable", "not dimmable"),
        ("lamp {} dimmable", ", dimmable"),
        ("non-toxic lamp {}", "non-toxic"),
        ("toxic lamp {}", ", toxic"),
        ("lamp {} not for outdoors", "not for outdoors"),
        ("lead-free lamp {}", "lead-free"),
        ("lamp {} without lead", "lead-free"),
    ],
)
def test_a_word_that_only_the_query_or_only_the_text_negates_is_not_found(question, right):
    each = product(("dimmable", "not dimmable"), ("for outdoors", "not for outdoors"), ("toxic", "non-toxic"), (0, 1))
    parts = [(*words, ("contains lead", "lead-free")[last]) for *words, last in each]
    sockets = ("E27", "E14", "GU10")
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(text, text) for a in sockets for text in (f"Lamp, {a}, {', '.join(b)}" for b in parts)])
        for socket in sockets:
            found = umi.search(question.format(socket), limit=4).ids
            assert not [text for text in found if right not in text or socket not in text]


@pytest.mark.parametrize("excluded", FIRMS)
def test_who_other_than_one_names_the_others(excluded):
    roles = ("nurse", "chef", "accountant")
    texts = [f"{firm} looks for a {role} in {town}." for firm in FIRMS for role in roles for town in ("York", "Leeds")]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(text, text) for text in texts])
        for role in roles:
            found = umi.search(f"who other than {excluded} looks for a {role}?", limit=4).ids
            assert not [text for text in found if excluded in text or role not in text]


def test_a_text_on_a_thing_that_someone_lacks_is_found():
    texts = [
        "Returns: without a receipt you get a voucher.",
        "Returns: bring the shoes in their box.",
        "Opening hours.",
    ]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(text, text) for text in texts])
        for question in ("returns without a receipt", "can I return shoes without a receipt", "returns, no receipt"):
            assert umi.search(question).ids[0] == texts[0]


@pytest.fixture(scope="module")
def lessons():
    """Lessons of three teachers in three subjects, each also with a class and a room."""
    teachers, subjects = ("Dr. Kaya", "Mr Singh", "Ms O'Neil"), ("Maths", "English", "Biology")
    rows = [f"Class {n}, {day}: {s}, {t}, room A{n}" for s in subjects for t in teachers for n, day in CLASSES]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(row, row) for row in rows])
        yield umi


CLASSES = [(n, day) for n in (7, 8, 9) for day in ("Monday", "Tuesday")]


@pytest.mark.parametrize(
    "question",
    [
        "who other than {} teaches {}?",
        "who besides {} teaches {}?",
        "Is there anyone other than {} who teaches {}?",
        "is there anybody besides {} that teaches {}",
        "which teacher besides {} has {}?",
    ],
)
@pytest.mark.parametrize("excluded", ["Dr. Kaya", "Mr Singh", "Ms O'Neil"])
def test_a_question_for_others_than_a_person_with_a_title_names_the_others(lessons, question, excluded):
    for subject in ("Maths", "English", "Biology"):
        found = lessons.search(question.format(excluded, subject), limit=4).ids
        assert not [row for row in found if excluded in row or subject not in row]


CAKES = ("Carrot", "Pumpkin", "Lemon", "Apple", "Poppy seed", "Beetroot")


@pytest.mark.parametrize("stated", ["Contains eggs.", "{}-free.", "{} free."])
@pytest.mark.parametrize("query", ["{}-free cake", "cake, {}-free please", "show me {}-free cakes", "cake without {}"])
def test_something_free_of_an_ingredient_is_found_and_not_what_contains_it(query, stated):
    ingredients = ("milk", "nuts", "soy")
    texts = [f"{name} cake. Served warm. Contains eggs and {ingredients[at % 3]}." for at, name in enumerate(CAKES)]
    for ingredient in ingredients:
        one_more = f"Plain cake. Served warm. {stated.format(ingredient.capitalize())}"
        with HybridStore.open() as store, DualRetriever(store) as umi:
            store.add([Chunk(text, text) for text in (*texts, one_more)])
            found = umi.search(query.format(ingredient), limit=4).ids
            assert not [text for text in found if f"and {ingredient}" in text]


@pytest.mark.parametrize(
    ("query", "right"),
    [
        ("duty-free shops at the airport", "Duty free shop at the airport, gate 4."),
        ("toll-free number of Acme", "Acme, toll-free number 0800 22."),
        ("hands-free kit for the van", "Van kit, hands-free, 40 euros."),
        ("how to make lactose-free cheese", "How to make cheese without lactose."),
    ],
)
def test_a_text_that_is_free_of_it_is_found(query, right):
    texts = ["Duty free shop at the airport, gate 4.", "Book shop at the airport, gate 4."]
    texts += ["Acme, toll-free number 0800 22.", "Acme, fax number 0241 22.", "Van kit, hands-free, 40 euros."]
    texts += ["Van kit, two hands, 40 euros.", "How to make cheese without lactose.", "How to make cheese at home."]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(text, text) for text in texts])
        assert umi.search(query).ids[0] == right


@pytest.mark.parametrize(
    "query",
    [
        "besides the point",
        "what is there to do besides hiking in the Alps?",
        "Besides Tom, who knows the code?",
        "who sat besides her in the car?",
        "who lives beside the Smith family",
        "what vitamins besides iron help",
        "which shop is besides the church",
        "how do I set up hands-free calling?",
        "is the gum sugar-free?",
        "does trouble-free operation need service",
        "how to make lactose-free cheese at home",
        "what does royalty-free mean",
        "is there a smoke-free zone",
        "free parking in Leeds",
        "carefree holidays",
        "freedom of speech",
        "get one free",
        "are free-range eggs better",
        "free-standing bath",
        "when is the hall free?",
        "who other than you can sign",
    ],
)
def test_a_query_with_besides_or_free_excludes_nothing_unless_it_names_what_is_left_out(query):
    assert (exclusion_in(query), negation_in(query)) == (None, None)
