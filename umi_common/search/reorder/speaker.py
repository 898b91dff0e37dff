"""Raise the messages of a person in a chat, if the query names the person: "what did Mira plant?".

    final(i) = score(i) * (1 + weight * s)   if candidate i is a message of this person or, in a group, names the person
    s = the share of candidates that begin with a message

A candidate begins with a message if its metadata have a "speaker", if its text begins with a name and a colon ("Mira: I
have planted tulips."), or if it begins with the headers of a mail; the speaker is then the sender. The chat is a group
if the candidates have more than two speakers. Two speakers name each other to address each other; a group talks about
its members, too. The headers of a mail, its greeting ("Dear Mira,") and the lines that it quotes from other mails name
nobody. Scores below 0 stay.

The relevance of messages that are not raised is multiplied by `OTHERS_RELEVANCE`. It stays if the query has the name in
small letters: the lines of a log may begin with "error:", which then is no speaker. If the query names no speaker, or
several ("what did Mira give Tom?"), nothing changes. The person to whom something was said is no speaker: "what did I
ask Mira?", but "what did Mira ask Tom?" names Mira.

The name hardly changes BM25, because it is in many messages of a chat.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import replace

import numpy as np

from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import Best
from umi_common.search.reorder.words import cased_words, content_words, spaced, words_in
from umi_common.stores.lexical.languages import ENGLISH, all_function_words, function_words
from umi_common.types import Chunk

CHARACTERS_MAX = 5_000
"""Number of characters at the beginning of a text that are searched for a name."""
SPEAKER_KEY = "speaker"
"""Metadata key of a message's speaker, as umi's reader of chat logs writes it."""
OTHERS_RELEVANCE = 0.5
"""Factor on the relevance of a message that neither is of the person whom the query names nor, in a group, names the
person."""
NAME_WORDS_MAX = 4
"""Largest number of words of a speaker's name."""
MESSAGE = re.compile(
    r"(?:[^\w\n]|\d|(?<=[\d ])[ap]m\b)*"  # a time, brackets, signs of Markdown: "**[11.06. 7:15 pm] "
    r"([^\W\d]{2}[^\n\d:?!,;]{0,40})"  # a name: two letters first, unlike "Q: ", and no digits, unlike "Relay K30: "
    r":[*_]* +(?=\S)",
    re.I,
)
"""The beginning of a message."""
HEADERS = re.compile(r"\A(?:[^\W\d][\w-]{0,20} ?: [^\n]*\n){1,9}")
"""The first lines of a text, if they begin with a name and a colon, such as the headers of a mail."""
_SUBJECT = "(?:Subject|Betreff|Objet|Asunto|Oggetto|Assunto|Onderwerp|Temat|Ämne|Emne|Тема)"
OF_MAIL = re.compile(rf"@|^{_SUBJECT} ?:", re.MULTILINE)
"""Found in the headers of a mail, but not in a timetable ("From: Bonn", "To: Ulm")."""
_SENDER = "(?:From|Von|De|Da|Van|Od|Fra|Från|От|Від)"
SENDER = re.compile(rf"^{_SENDER} ?: +\"?([^\n<>\"@]*[^\W\d_])", re.MULTILINE)
"""The header with the sender of a mail; group 1 is the sender's name, or what stands before the @ of the address."""
GREETING = re.compile(r"\A\s*(?:\S+ ){0,2}\S+[,!]\s")
"""The first words of a mail: "Dear Mira,"."""
QUOTED_BY_MAIL = re.compile(
    rf"^>.*|^{_SENDER} ?: [^\n]*\n(?:[^\W\d][\w-]{{0,20}} ?: [^\n]*\n){{0,5}}{_SUBJECT} ?: .*(?:\n.*)*",
    re.MULTILINE,
)
"""What a mail quotes from others: lines that begin with ">", and the headers of another mail with all text behind."""
CAPITALS = re.compile(r"[A-Z]\w*(?:['’.]?\s+[A-Z]\w*)*")
"""Words in a row that begin with a capital letter: "Dr. Weber"."""
ARTICLE = re.compile(
    r"(?<= )(an?|the|every|which|der|die|das|de[mnrs]|eine?[mnr]?|les?|la|une?|el|l[ao]s|una|il|lo|uma?|het|een) "
)
"""An article or a similar word; the word after it is no name: "a note", "the error", "the project manager"."""
ADDRESSED = re.compile(r"(?<= )(?:ask|asked|tell|told|answer|answered|(?:repl(?:y|ied)|wr(?:ite|ote)|sa(?:y|id)) to) ")
"""A verb of saying before the person to whom something is said."""
BEFORE_ADDRESSEE = re.compile(" (?:to|an|à|a) ")
"""A word between the names of a speaker and of the person to whom something is said: "Nina to Omar: ..."."""
_BY = "(?:from|by|of|von|de|di|da|do|van|par)"
SENDS = r" (?:s|sent|wrote|posted|has|had)\b"
"""What stands behind the name of a sender in a query; the "s" is of "Mira's"."""
SENT_BY = rf"\b{_BY} {{0}}\b(?! s\b)|^(?!.*\b{_BY} {{0}} s\b).*\b{{0}}{SENDS}"
"""A pattern of a name as that of the sender of a message, among the words of a query."""


def reorder_by_speaker(best: Best, *, query: str, weight: float) -> RankedPool:
    """The ranking by the formula at the top of this file."""
    speakers = speakers_of(best.chunks)
    names = {name for name in speakers if name is not None}
    named = named_in(query, names) if names else {}
    best.facts.update(speakers=len(names), named=len(named))
    if len(named) != 1:
        return best.ranked
    ((name, asked_name),) = named.items()
    messages = np.array([speaker is not None for speaker in speakers])
    raised = np.array([speaker == name for speaker in speakers])
    if len(names) > 2:
        texts = (spaced(words_in(_said(text[:CHARACTERS_MAX]))) for text in best.texts)
        raised |= np.array([spaced([asked_name]) in text for text in texts])
    reordered = best.sorted_by(best.scores + np.maximum(best.scores, 0.0) * weight * messages.mean() * raised)
    in_small_letters = spaced([asked_name]) in spaced(cased_words(query))
    if reordered.relevance is None or in_small_letters:
        return reordered
    relevance = np.array(reordered.relevance)
    relevance[best.rows[messages & ~raised]] *= OTHERS_RELEVANCE
    return replace(reordered, relevance=relevance)


def named_in(query: str, names: Set[str]) -> dict[str, str]:
    """By each of the `names` that the query names: the words of the name in the query. All are in lower case.

    The query names those that it holds in full; if there are none, those of which it holds a part that begins with a
    capital letter: "what did Mira plant?" names "mira lenz" by "mira". A function word is such a part only if it is a
    first name and no English function word: Ben, which is "I" in Turkish.
    """
    asked = ARTICLE.sub(r"\1_", spaced(words_in(query)))  # " the note " -> " the_note "
    asked = ADDRESSED.sub(r"\g<0>_", asked)  # " ask mira " -> " ask _mira "
    if in_full := {name: name for name in names if spaced([name]) in asked}:
        return in_full
    parts = [words for run in CAPITALS.findall(query) if (words := content_words(run)) and spaced(words) in asked]
    if in_part := {name: " ".join(part) for name in names for part in parts if set(part) <= set(name.split())}:
        return in_part
    capitals = all_function_words().intersection(words_in(" ".join(CAPITALS.findall(query))))
    capitals = capitals - function_words([ENGLISH]) if capitals else capitals
    firsts = {name: name.split()[0] for name in names} if capitals else {}
    return {name: first for name, first in firsts.items() if first in capitals and spaced([first]) in asked}


def sender_in(query: str, names: Set[str]) -> tuple[str, str] | None:
    """The one of the `names` that the query names as the sender of a message ("from Mira", "Mira's"), and the words of
    the name in the query; None: none or several."""
    words = " ".join(words_in(query))
    senders = [each for each in named_in(query, names).items() if re.search(SENT_BY.format(each[1]), words)]
    return senders[0] if len(senders) == 1 else None


def speakers_of(chunks: Sequence[Chunk]) -> list[str | None]:
    """`speaker_of` each chunk; of "Nina to Omar: ..." it is Nina, if Omar speaks in another chunk."""
    names = [speaker_of(chunk) for chunk in chunks]
    if not any(name is not None and BEFORE_ADDRESSEE.search(name) for name in {*names}):
        return names
    parts = [[] if name is None else BEFORE_ADDRESSEE.split(name) for name in names]
    speaking = {each[0] for each in parts if each}
    return [
        each[0] if len(each) == 2 and each[1] in speaking else name for name, each in zip(names, parts, strict=True)
    ]


def speaker_of(chunk: Chunk) -> str | None:
    """The name, in lower case, of the speaker of the message with which a chunk begins; None: there is no message."""
    name = chunk.metadata.get(SPEAKER_KEY)
    if not isinstance(name, str):
        text = chunk.indexed_text
        found = (
            (SENDER.search(mail_headers(text)) or MESSAGE.match(text)) if ":" in text else None
        )  # many texts have no colon
        if found is None:
            return None
        name = found[1]
    words = words_in(name)
    return " ".join(words) if 0 < len(words) <= NAME_WORDS_MAX else None


def mail_headers(text: str) -> str:
    """The headers of the mail with which a text begins; "": it begins with no mail."""
    headers = HEADERS.match(text)
    return "" if headers is None or OF_MAIL.search(headers[0]) is None else headers[0]


def without_quoted(text: str) -> str:
    """A text; of a mail without what it quotes, but with the questions that it quotes, because it may answer them."""
    headers = mail_headers(text)
    if SENDER.search(headers) is None:
        return text
    return headers + QUOTED_BY_MAIL.sub(_questions_in, text[len(headers) :])


def _questions_in(quoted: re.Match[str]) -> str:
    return "\n".join(line for line in quoted[0].splitlines() if line.rstrip().endswith("?"))


def _said(text: str) -> str:
    """A text; of a mail only what its sender says: no headers, greeting and quoted text. Of a message, what follows the
    names of its speaker and of the person to whom it is said."""
    if SENDER.search(mail_headers(text)) is None:
        label = MESSAGE.match(text)
        return text if label is None or BEFORE_ADDRESSEE.search(label[1]) is None else text[label.end() :]
    return QUOTED_BY_MAIL.sub("", GREETING.sub("", HEADERS.sub("", text)))
