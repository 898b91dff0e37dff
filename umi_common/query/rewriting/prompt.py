"""The rewriting prompt: a template with two places, everything else literal."""

from __future__ import annotations

import re
from collections.abc import Sequence

HISTORY_CHARS_MAX = 8_000
"""The latest turns that fit; older ones are left out."""

_PLACE = re.compile(r"\{(query|history)\}")


def build_prompt(template: str, query: str, history: Sequence[str] = ()) -> str:
    """The template with {query} and {history} filled in, in one pass.

    Braces in the query, in the history and elsewhere in the template stay as they are: nothing is formatted twice.
    A template without {history} gets it as a paragraph before its text, where there is any.
    """
    turns = _latest(history)
    values = {"query": query, "history": turns}
    prompt = _PLACE.sub(lambda place: values[place[1]], template)
    if turns and "{history}" not in template:
        return f"Conversation so far:\n{turns}\n\n{prompt}"
    return prompt


def _latest(history: Sequence[str]) -> str:
    kept: list[str] = []
    room = HISTORY_CHARS_MAX
    for turn in reversed(history):
        if len(turn) + 1 > room:
            if not kept:
                kept.append(turn[-room:])
            break
        kept.append(turn)
        room -= len(turn) + 1
    return "\n".join(reversed(kept))
