"""The rewriting prompt: a template with the placeholders {query} and {history}; other text is literal."""

from __future__ import annotations

import re
from collections.abc import Sequence

HISTORY_CHARS_MAX = 8_000
"""Largest number of characters of the history; older turns are left out."""

_PLACEHOLDER = re.compile(r"\{(query|history)\}")


def build_prompt(template: str, query: str, history: Sequence[str] = ()) -> str:
    """The template with {query} and {history} filled in, in one pass.

    Other braces in the template, and all in query and history, stay as they are. If the template has no {history}, a
    history that is not empty is put before it as a paragraph of its own.
    """
    turns = _latest(history)
    values = {"query": query, "history": turns}
    prompt = _PLACEHOLDER.sub(lambda found: values[found[1]], template)
    if turns and "{history}" not in template:
        return f"Conversation so far:\n{turns}\n\n{prompt}"
    return prompt


def _latest(history: Sequence[str]) -> str:
    """The last turns that fit into HISTORY_CHARS_MAX, one per line; of a longer last turn its end."""
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
