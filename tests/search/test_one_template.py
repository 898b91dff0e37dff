"""Many documents made from one template: only the first chunk of each says whom it is about."""

from __future__ import annotations

from umi_common import Chunk, DualRetriever, HybridStore

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
