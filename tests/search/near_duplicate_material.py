"""Twelve kinds of generated texts that resemble each other, with questions and the ids of the right answers. Seeded."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial

from umi_common import Chunk

START = datetime(2023, 1, 2, 8, tzinfo=timezone.utc)
PEOPLE = ["Ann", "Bob", "Carla", "Dmitri", "Elena", "Farid", "Greta", "Hugo", "Ines", "Jonas"]
PEOPLE += ["Kaito", "Lena", "Mira", "Nils", "Olga", "Pedro", "Quinn", "Rosa", "Sven", "Tara"]
FIRMS = ["Acme", "Borealis", "Cobalt", "Dune", "Ember", "Fjord", "Granite", "Harbour"]
FIRMS += ["Iris", "Juniper", "Kestrel", "Lumen", "Meridian", "Nimbus", "Orchid"]
ITEMS = ["bolts", "pumps", "valves", "cables", "hinges", "filters"]
ITEMS += ["gaskets", "bearings", "sensors", "switches", "ropes", "lamps"]
CITIES = ["Oslo", "Lisbon", "Ghent", "Turin", "Malmo", "Porto", "Bergen", "Lyon", "Basel", "Cork", "Vilnius", "Split"]


@dataclass(frozen=True)
class Material:
    """Chunks, and questions with the ids that answer each."""

    chunks: list[Chunk]
    questions: list[tuple[str, set[str]]]


def _made(kind: str, rows: Iterator[tuple[str, str, str]], *, sources: int, dated: bool) -> Material:
    """(text, question, key) rows as chunks of a few sources; rows with one key answer the same question."""
    chunks, answers = [], dict[tuple[str, str], set[str]]()
    for number, (text, question, key) in enumerate(rows):
        id = f"{kind}-{number:04}"
        source, position = f"{kind}-{number % sources}", number // sources
        time = START + timedelta(hours=9 * number) if dated else None
        chunks.append(Chunk(id, text, source=source, position=position, event_time=time))
        answers.setdefault((question, key), set()).add(id)
    return Material(chunks, [(question, right) for (question, _), right in answers.items()])


def logs(chance: random.Random) -> Iterator[tuple[str, str, str]]:
    for number in range(200):
        moment = START + timedelta(hours=9 * number)
        host, code = chance.randrange(10, 99), 1000 + 7 * number
        what = f"request {code} failed, connection to the database was lost"
        text = f"{moment:%Y-%m-%d %H:%M:%S} ERROR worker-{host} payments: {what}"
        yield text, f"why did request {code} fail", str(code)


def orders(chance: random.Random) -> Iterator[tuple[str, str, str]]:
    for number in range(200):
        firm, item, order = chance.choice(FIRMS), chance.choice(ITEMS), 44_000 + number
        count, week = chance.randrange(5, 500), chance.randrange(1, 53)
        text = f"Purchase order {order}: {count} steel {item} for {firm}, due in week {week}, paid by invoice."
        yield text, f"how many {item} does purchase order {order} ask for", str(order)


def contracts(chance: random.Random) -> Iterator[tuple[str, str, str]]:
    pairs = [(firm, city) for firm in FIRMS for city in CITIES]
    for firm, city in chance.sample(pairs, 180):
        days = chance.choice([14, 30, 60, 90])
        clause = f"either party may end this agreement with a notice of {days} days in writing"
        text = f"Between {firm} of {city} and the supplier: {clause}."
        yield text, f"what notice does the agreement with {firm} of {city} require", firm + city
    for firm in FIRMS[:10]:
        for _ in range(2):
            text = f"{firm}: the courts of the seller's country decide all disputes that arise from this agreement."
            yield text, f"which courts decide disputes with {firm}", "courts" + firm


def faqs(chance: random.Random) -> Iterator[tuple[str, str, str]]:
    pairs = [(item, city) for item in ITEMS for city in CITIES]
    for item, city in pairs:
        answer = chance.choice(["Yes.", "No."])
        yield (
            f"Can I return used {item} to the shop in {city}? {answer}",
            f"can I return used {item} in {city}",
            item + city,
        )
    for item in ITEMS:
        for firm in FIRMS[:5]:
            text = f"Are {item} by {firm} covered by the guarantee? {chance.choice(['Yes', 'No'])}."
            yield text, f"are {item} by {firm} covered by the guarantee", item + firm


def changelogs(chance: random.Random) -> Iterator[tuple[str, str, str]]:
    for number in range(200):
        major, minor, fix = 1 + number // 50, number // 5 % 10, number % 5
        item = chance.choice(ITEMS)
        text = f"Version {major}.{minor}.{fix}: fixed a crash when the list of {item} is empty; updated dependencies."
        yield text, f"what was fixed in version {major}.{minor}.{fix}", f"{major}.{minor}.{fix}"


def tables(chance: random.Random) -> Iterator[tuple[str, str, str]]:
    for number, (firm, city) in enumerate(chance.sample([(f, c) for f in FIRMS for c in CITIES], 180)):
        text = f"| {firm} | {city} | {chance.choice(ITEMS)} | {100 + number} | {chance.randrange(1, 99)}.50 EUR |"
        yield text, f"price of {firm} {city}", firm + city
    for row in range(20):
        yield (
            f"| total of sheet {row} | all | all | {row * 7} | {row * 11}.00 EUR |",
            f"total of sheet {row}",
            f"t{row}",
        )


def code(chance: random.Random) -> Iterator[tuple[str, str, str]]:
    verbs = ["load", "save", "parse", "send", "count", "merge", "split", "close"]
    for item in ITEMS:
        for verb in verbs:
            for suffix in ("", "_async"):
                name = f"{verb}_{item}{suffix}"
                text = f"def {name}(path, timeout={chance.randrange(1, 60)}):\n    return _run('{verb}', path, timeout)"
                yield text, f"definition of the function {name}", name
    for number in range(8):
        yield f"MAX_RETRIES_{number} = {chance.randrange(9)}", f"value of MAX_RETRIES_{number}", str(number)


def versions(chance: random.Random) -> Iterator[tuple[str, str, str]]:
    for number in range(200):
        who, version, hour = PEOPLE[number // 10], number % 10 + 1, chance.randrange(7, 12)
        text = (
            f"Museum {who}, revision {version}. The museum opens at {hour} and closes at 18. Entry is free on Sundays."
        )
        yield text, f"opening hours of museum {who} in revision {version}", f"{who}.{version}"


def forms(chance: random.Random) -> Iterator[tuple[str, str, str]]:
    for number, (first, other) in enumerate(chance.sample([(a, b) for a in PEOPLE for b in PEOPLE if a != b], 200)):
        text = f"Transfer form\nFrom: {first}\nTo: {other}\nAmount: {100 + number} EUR\nSigned: yes"
        yield text, f"transfer of {100 + number} EUR from {first} to {other}", f"{first}-{other}"


def minutes(chance: random.Random) -> Iterator[tuple[str, str, str]]:
    for number in range(200):
        who, item = PEOPLE[number % 20], ITEMS[number // 20 % 12]
        state = chance.choice(["approved", "not approved"])
        text = f"Minutes of meeting {number}. Present: {who} and the board. The budget for {item} was {state}."
        yield text, f"did meeting {number} with {who} approve the budget for {item}", str(number)


def clauses(chance: random.Random) -> Iterator[tuple[str, str, str]]:
    rules = ["is allowed on {} days", "needs leave {} days before", "is reported within {} days", "ends in {} days"]
    topics = ["home office", "travel by rail", "company cars", "gifts", "passwords", "visitors", "overtime", "training"]
    for city in CITIES[:7]:
        for number, topic in enumerate(topics, 1):
            for letter, rule in zip("abcd", rules, strict=True):
                other = f"{chance.randrange(1, 9)}.{chance.choice('abcd')}"
                text = f"Policy {city}, clause {number}.{letter}: {topic} {rule.format(chance.randrange(2, 60))}."
                question = f"clause {number}.{letter} of the policy for {city}"
                yield f"{text} Exceptions: see clause {other}.", question, f"{city} {number}{letter}"


def verses(chance: random.Random) -> Iterator[tuple[str, str, str]]:
    things = ["river", "lamp", "temple", "sparrow", "mercy", "stone", "garden", "shield", "bread", "desert"]
    for book in ("1 Kings", "2 Kings", "1 Samuel", "2 Samuel"):
        for chapter, verse in [(c, v) for c in range(1, 8) for v in range(1, 9)]:
            one, other = chance.sample(things, 2)
            text = f"{book} {chapter}:{verse} And the people came to the {one}, and the king spoke of the {other}."
            asked = f"chapter {chapter} verse {verse}" if verse % 2 else f"verse {verse} of chapter {chapter} of"
            question = f"{book} {asked}" if verse % 2 else f"{asked} {book}"
            yield text, question, f"{book} {chapter} {verse}"


KINDS: dict[str, Callable[[random.Random], Iterator[tuple[str, str, str]]]] = {
    "logs": logs,
    "orders": orders,
    "contracts": contracts,
    "faqs": faqs,
    "changelogs": changelogs,
    "tables": tables,
    "code": code,
    "versions": versions,
    "forms": forms,
    "minutes": minutes,
    "clauses": clauses,
    "verses": verses,
}


def material(kind: str, seed: int, *, sources: int) -> Material:
    """200 chunks or a few more of one kind, in so many sources; logs, versions and minutes have times."""
    chance = random.Random(f"{kind} {seed}")
    made = partial(_made, kind, sources=sources, dated=kind in ("logs", "versions", "minutes"))
    return made(KINDS[kind](chance))
