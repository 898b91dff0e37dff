"""A short dated conversation of two friends for the demo, and questions about it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from umi_common.types import Chunk

NOW = datetime(2024, 6, 20, 9, 0, tzinfo=timezone.utc)
"""The time at which the questions are asked; it is a Thursday."""

TALKS: dict[str, tuple[datetime, tuple[str, ...]]] = {
    "talk-1": (
        datetime(2024, 4, 2, 18, 30, tzinfo=timezone.utc),
        (
            "Mira: The bank said yes, we can buy the house by the canal!",
            "Jonas: Wonderful. Is the roof still the old slate one?",
            "Mira: It is, and two corners leak when the wind comes from the west.",
            "Jonas: Then get somebody up there before autumn.",
            "Mira: My cousin Priya started in accounting at Acme, she might help me with the mortgage papers.",
            "Jonas: Good idea, she is careful with numbers.",
        ),
    ),
    "talk-2": (
        datetime(2024, 5, 14, 20, 0, tzinfo=timezone.utc),
        (
            "Jonas: Did the inspector finally look at the boiler?",
            "Mira: Yes. The heat exchanger is cracked and he wants two thousand for a new one.",
            "Jonas: Ouch. I would ask for a second price.",
            "Mira: I did, a firm in the old harbour takes fifteen hundred and comes in July.",
            "Jonas: And the garden?",
            "Mira: Nothing but nettles, but there is a pear tree at the far end.",
        ),
    ),
    "talk-3": (
        datetime(2024, 6, 11, 19, 15, tzinfo=timezone.utc),
        (
            "Mira: The roofers came this morning, three days before they said they would.",
            "Jonas: What do they want for it?",
            "Mira: Nine thousand with new battens, and they can start in the first week of August.",
            "Jonas: That is fair. Bo from my running club works at Acme too, he had the same firm last year.",
            "Mira: Was he happy with them?",
            "Jonas: Very. Dry ever since, and they took the old slates away.",
        ),
    ),
    "talk-4": (
        datetime(2024, 6, 19, 21, 40, tzinfo=timezone.utc),
        (
            "Jonas: Are we still going to Lisbon in September?",
            "Mira: Yes, I booked the night train for the seventh.",
            "Jonas: Then I will look for a room near the river.",
            "Mira: Not too loud please, last time nobody slept.",
        ),
    ),
}
"""Name of a talk -> (time of its first turn, its turns in order)."""

QUESTIONS = (
    ("time", "What did Mira tell me last week?"),
    ("neighbours", "what did the boiler inspector find"),
    ("deep search", "Who do I know at Acme?"),
)
"""(feature of umi that the question shows, question)."""

REWRITES = {"Who do I know at Acme?": ["Acme", "works at Acme", "cousin or friend employed at Acme"]}
"""Question -> the variations that the scripted LLM of the demo returns."""


def conversation() -> list[Chunk]:
    """The turns of TALKS as chunks: source is the talk, position the number of the turn in the talk, from 0.

    Turns are a minute apart.
    """
    return [
        Chunk(
            f"{talk}:{turn}",
            text,
            metadata={"speaker": text.split(":", 1)[0]},
            source=talk,
            position=turn,
            event_time=begun + timedelta(minutes=turn),
        )
        for talk, (begun, turns) in TALKS.items()
        for turn, text in enumerate(turns)
    ]
