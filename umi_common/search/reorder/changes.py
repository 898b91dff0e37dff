"""Texts that state a change ("I moved to Paris"), or correct the text before them ("no wait, I meant Thursday").

Both are recognised by words and phrases in English, German, French, Spanish, Italian, Portuguese, Dutch and Chinese.
"""

from __future__ import annotations

import re

CHARACTERS_READ = 1_000
"""Number of characters at the beginning of a text that are read. A message is rarely longer, and reading more would
take milliseconds."""
_WORDS = frozenset(
    (  # noqa: SIM905 a list would take thirty lines
        # English
        "new change changed changing move moved moves moving switch switched switching anymore instead quit stopped "
        "dropped cancel canceled cancelled postponed extended replaced retired raise raised raising meant upgraded "
        "migrated joined settled relocated relocates transferred transfers sold swapped swaps traded retires resigned "
        "unpacked halved doubled increased reduced lowered slips slipped delayed rescheduled became promoted hired "
        "adopted divorced goodbye "
        # German
        "umgezogen gezogen gekündigt neu neue neuen neuer neues erhöht verlegt verschoben abgesagt getauscht geändert "
        "ersetzt stattdessen "
        # French
        "déménagé changé nouveau nouvelle annulé annulée reporté reportée remplacé remplacée "
        # Spanish
        "mudé cambié cambiado nuevo nueva aplazado aplazada cancelado cancelada pospuesto pospuesta "
        # Italian
        "trasferito trasferita cambiato cambiata nuovo nuova annullato annullata rimandato rimandata rinviato "
        # Portuguese
        "mudei mudou novo nova adiado adiada "
        # Dutch
        "verhuisd veranderd nieuw nieuwe uitgesteld afgelast"
    ).split()
)
_PHRASES = re.compile(
    r"\b(?:no longer|any more|from now on|g[ia]ve up|given up|back on|i mean|took over|takes over|handed over"
    r"|pushed back|put off|up from|down to|from today|worn out|call(?:ed)? off|is off|fell through"
    r"|nicht mehr|n(?:e |['\u2019])\w+ plus|ya no|non più|niet meer|já não)\b"
    r"|搬到|换了|不再|新的"
)
_CORRECTION = re.compile(
    r"\b(?:i meant|scratch that|no,? wait|correction|meinte|voulais dire|quería decir|volevo dire)\b|我是说"
)
_WORD = re.compile(r"[^\W\d_]+")


def corrects_text_before(text: str) -> bool:
    """Whether a text corrects the text before it, and so need not name its subject."""
    return _CORRECTION.search(text[:CHARACTERS_READ].lower()) is not None


def states_change(text: str) -> bool:
    """Whether a text says that something has changed, or corrects the text before it."""
    read = text[:CHARACTERS_READ].lower()
    by_word = not _WORDS.isdisjoint(_WORD.findall(read))
    return by_word or _PHRASES.search(read) is not None or _CORRECTION.search(read) is not None
