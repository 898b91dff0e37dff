"""Which form the answer to a query has: a date or time, a length of time, or an amount of money.

A form is read from a few words anywhere in the query: "when", "how long", "how much", "deadline for offers", "notice
period". The stage `documents` uses it (docs/decisions.md).
"""

from __future__ import annotations

import re

from umi_common.query.time.grammar import MONTH
from umi_common.query.time.other_languages import MONTH_NAMES
from umi_common.query.time.vocabulary import NUMBERS

_ANY_MONTH = rf"(?:{MONTH.replace('?P<month>', '?:')}|(?:{'|'.join(MONTH_NAMES)})\b)"
_DATE = (
    rf"\b\d{{1,2}}(?:st|nd|rd|th|er|[.º])?\s(?:of\s|de\s)?{_ANY_MONTH}|\b{_ANY_MONTH}\s\d{{1,2}}\b"
    r"|\b(?:19|20)\d\d\b|\b\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b"
    r"|\b\d{1,2}(?::\d\d|\s?[ap]\.?m\b)|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b"
)
_UNIT_OF_TIME = (
    r"(?:seconds?|minutes?|hours?|(?:working\s|calendar\s|business\s)?days?|weeks?|months?|years?"
    r"|sekunden?|minuten?|stunden?|tagen?|tage|wochen?|monaten?|monate|jahren?|jahre|jours?|semaines?|mois|an(?:s|nées?)"
    r"|d[ií]as?|semanas?|mes(?:es)?|años?|anos?|giorni|settimane|mesi|anni|dagen|weken|maanden|jaar)\b"
)
_LENGTH = rf"\b(?:\d+|{'|'.join(NUMBERS)})[\s-]{_UNIT_OF_TIME}"
_CURRENCY = r"(?:EUR|USD|CHF|GBP|[€$£¥])"
_AMOUNT = rf"{_CURRENCY}\s?\d|\d\s?(?:{_CURRENCY}|(?:euros?|dollars?|pounds?|francs?|franken)\b)"
# Not asked for an amount of money: "by how much did it rise", "how much water do I need".
_FORMS = tuple(
    (re.compile(asking, re.IGNORECASE), re.compile(answer, re.IGNORECASE))
    for asking, answer in (
        (
            r"\b(?:how long|how many (?:days|weeks|months|years)|period|duration|wie lange|frist|dauer|combien de temps"
            r"|durée|cuánto tiempo|duración|quanto tempo|durata|duração|hoe lang|duur)\b",
            _LENGTH,
        ),
        (
            r"\b(?<!by )(?:how much(?= (?:money|is|are|was|were|does|do|did|will|would|must|should|can)\b|\W*$)"
            r"|price|fees?|costs?|rent|salary|wie ?viel|kosten|kostet|preis|combien|prix|cuánto|precio"
            r"|quanto costa|prezzo|preço|hoeveel|prijs)\b",
            _AMOUNT,
        ),
        (
            r"\b(?:when|deadline|due|(?:start|end|starting|closing|delivery|departure) dates?|what (?:day|time|date)"
            r"|wann|termin|datum|quand|date limite|cuándo|fecha|plazo"
            r"|quando|scadenza|prazo|wanneer)\b",
            _DATE,
        ),
    )
)
"""(what asks for a form, what has this form); the first pattern that the query matches counts."""


def form_asked(query: str) -> re.Pattern[str] | None:
    """A pattern of the form that the query asks for; None: it asks for none that is known."""
    return next((answer for asking, answer in _FORMS if asking.search(query)), None)
