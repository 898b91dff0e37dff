"""Put candidates that hold words that the query excludes behind candidates that hold only words that it asks for.

For "projects but not on AWS", both arms rank texts on projects on AWS first, because these hold most of the query's
words. Among the best candidates, a passes b, which stands directly before a, if both of these are true:

    lacks(a) contains lacks(b) and is larger
    held(a) contains held(b)

lacks(i) is the set of the excluded words that text i lacks. held(i) is the set of the words that the query asks for and
text i holds. Neither set has function words. A text holds a word if it holds the word itself or its terms. Terms alone
would miss words of other languages, because a single word is stemmed as English, and a text by the rules of its
language. The order stays if a candidate itself states an exception with an excluded word ("open daily except Mondays"):
the query may ask for that text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from umi_common.query.questions import EXCEPT, Exclusion
from umi_common.search.rank import RankedPool
from umi_common.search.reorder.best import Best, inserted
from umi_common.search.reorder.words import TermsOf, words_in
from umi_common.stores.lexical.languages import all_function_words

CHARACTERS_MAX = 20_000
"""Number of characters at the beginning of a text that are read, which limits the time."""
SENTENCE_END = re.compile(r"[.?!;\n]")


def reorder_excluded(best: Best, *, exclusion: Exclusion, terms_of: TermsOf) -> RankedPool:
    """The ranking in the order that the top of this file describes."""
    texts = [text[:CHARACTERS_MAX] for text in best.texts]
    wanted, unwanted = (
        {word: frozenset(terms_of(word)) for word in words_in(text) if word not in all_function_words()}
        for text in (exclusion.kept, exclusion.excluded)
    )
    after_except = [text[found.end() :] for text in texts for found in EXCEPT.finditer(text)]
    exceptions = " ".join(SENTENCE_END.split(each, maxsplit=1)[0] for each in after_except)
    if _held(unwanted, exceptions, terms_of):
        return best.ranked
    found = [_held({**wanted, **unwanted}, text, terms_of) for text in texts]
    held = [wanted.keys() & own for own in found]
    lacks = [unwanted.keys() - own for own in found]

    def passes(one: int, other: int) -> bool:
        return lacks[one] > lacks[other] and held[one] >= held[other]

    best.facts["holding"] = sum(len(lacked) < len(unwanted) for lacked in lacks)
    return best.in_order(inserted(best.order, passes))


def _held(words: Mapping[str, frozenset[str]], text: str, terms_of: TermsOf) -> set[str]:
    """The words that a text holds; `words`: by word that is looked for, its terms."""
    text_words, text_terms = set(words_in(text)), frozenset(terms_of(text))
    return {word for word, terms in words.items() if word in text_words or terms <= text_terms}
