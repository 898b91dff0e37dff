"""Many documents made from one template: only the first chunk of each says whom it is about."""

from __future__ import annotations

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.sim import ScriptedLLM

TOWNS = "Guildford Rochester Doncaster Stamford Lindau Tynemouth Bingley Hereford Ludlow Whitby Malton Selby".split()  # noqa: SIM905
CLAUSES = (
    "The rent is {} pounds, to be paid on the third working day of each month.",
    "The notice period is {} months, to the end of a month and in writing.",
    "The deposit is {} pounds and is returned within eight weeks.",
    "Pets of up to {} kilograms are allowed with consent of the landlord.",
    "Repairs of up to {} pounds a year are paid by the tenant.",
)


def test_a_clause_is_found_by_the_document_that_it_belongs_to():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for number, town in enumerate(TOWNS):
            texts = [f"Lease of the flat in {town}.", *(clause.format(number + 2) for clause in CLAUSES)]
            store.add([Chunk(f"{town} {at}", text, source=town, position=at) for at, text in enumerate(texts)])
        for town in TOWNS:
            assert f"{town} 2" in umi.search(f"what is the notice period for the {town} flat?").ids[:3]
            assert f"{town} 3" in umi.search(f"how much is the deposit for {town}?").ids[:3]


def test_a_clause_is_found_by_its_document_with_the_variations_of_an_llm_too():
    for count in range(5, len(TOWNS) + 1):
        towns = sorted(TOWNS)[:count]
        variations = [f"deposit of the {towns[-1]} flat", f"{towns[-1]} lease deposit in pounds"]
        llm = ScriptedLLM(lambda prompt, variations=variations: variations)
        config = UmiConfig(routing={"mode": "always"})
        with HybridStore.open() as store, DualRetriever(store, rewriter=llm, config=config) as umi:
            for number, town in enumerate(towns):
                texts = [f"Lease of the flat in {town}.", *(clause.format(number + 2) for clause in CLAUSES)]
                store.add([Chunk(f"{town} {at}", text, source=town, position=at) for at, text in enumerate(texts)])
            found = umi.search(f"how much is the deposit for {towns[-1]}?").ids
            assert f"{towns[-1]} 3" in found[:3], f"{count} towns"


def shares_of_search(texts, question):
    """The position share of neighbours, and whether late interaction ran, for chunks of one source in their order."""
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(f"{at:03}", text, source="one", position=at) for at, text in enumerate(texts)])
        trace = {stage.name: stage.facts for stage in umi.search(question).trace}
    return trace["neighbours"]["position_share"], "late_interaction" in trace


def test_among_copies_neither_the_chunks_beside_nor_single_tokens_decide():
    topics = ("home office", "company cars", "visitors", "overtime", "training", "passwords")
    rules = ("is allowed on 12 days a year", "needs leave 5 days before", "is reported within 3 days")
    texts = [
        f"Policy Leeds, clause {number}.{letter}: {topic} {rule}. Exceptions: see clause 2.{letter}."
        for number, topic in enumerate(topics, 1)
        for letter, rule in zip("abc", rules, strict=True)
    ]
    assert shares_of_search(texts, "clause 4.b of the policy for Leeds") == (0.0, False)


def test_equal_short_turns_are_no_copies():
    talk = ["Who brings chairs for the concert in the hall?", "Rosa brings the chairs of the concert in her van."]
    talk += ["When does the choir sing on Sunday?", "The choir sings on Sunday at nine in the evening."]
    talk += ["Did the dentist call about my tooth?", "The dentist called, the tooth must come out."]
    talk += ["How is your new bicycle?", "The bicycle is fast, but its brakes are loose."]
    share, ran = shares_of_search([*talk, *["Okay."] * 9], "okay chairs")
    assert share == 1.0
    assert ran
