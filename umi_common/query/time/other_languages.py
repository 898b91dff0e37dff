"""Periods in German, French, Spanish, Italian, Portuguese, Dutch and Chinese.

A rule translates the phrase into English, and an English rule then reads it.

Words that also mean something else are left out, such as "morgen", which is also the morning. "Hier" counts only after
a French verb or with "soir" or "matin", because it is "here" in German.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import partial

from umi_common.query.time.grammar import RULES, Rule, whole_words
from umi_common.query.time.spans import CalendarPeriod
from umi_common.query.time.vocabulary import MONTHS, NUMBERS, SINCE, WEEKDAYS

UNITS = ["day", "week", "month", "year", "weekend"]


def _english(words: list[str], *languages: str) -> dict[str, str]:
    """A mapping from each word of these languages to its English word.

    Args:
        words: n English words.
        languages: For each language its n words in the same order, separated by spaces; "|" separates forms of one
            word.
    """
    pairs = [pair for language in languages for pair in zip(words, language.split(), strict=True)]
    return {form: word for word, forms in pairs for form in forms.split("|")}


_DAYS = _english(
    WEEKDAYS,
    "montag dienstag mittwoch donnerstag freitag samstag|sonnabend sonntag",
    "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "lunes martes miércoles|miercoles jueves viernes sábado|sabado domingo",
    "lunedì|lunedi martedì|martedi mercoledì|mercoledi giovedì|giovedi venerdì|venerdi sabato domenica",
    "segunda-feira|segunda terça-feira|terça quarta-feira|quarta quinta-feira|quinta sexta-feira|sexta sábado domingo",
    "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
)
_MONTHS = _english(
    MONTHS,
    "januar februar märz|maerz april mai juni juli august september oktober november dezember",
    "janvier février|fevrier mars avril mai juin juillet août|aout septembre octobre novembre décembre|decembre",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "januari februari maart april mei juni juli augustus september oktober november december",
)
_UNITS = _english(
    UNITS,
    "tag|tagen woche|wochen monat|monaten jahr|jahren wochenende",
    "jour|jours semaine|semaines mois an|ans|année week-end|weekend",
    "día|días|dia|dias semana|semanas mes|meses año|años finde",
    "giorno|giorni settimana|settimane mese|mesi anno|anni weekend",
    "dia|dias semana|semanas mês|meses ano|anos weekend",
    "dag|dagen week|weken maand|maanden jaar|jaren weekend",
)
_SEASONS = _english(
    ["spring", "summer", "autumn", "winter", "night"],
    "frühling|frühjahr sommer herbst winter nacht",
    "printemps été automne hiver nuit",
    "primavera verano otoño invierno noche",
    "primavera estate autunno inverno notte",
    "primavera verão outono inverno noite",
    "lente zomer herfst winter nacht",
)
_HOLIDAYS = _english(
    ["easter", "christmas", "new year's eve", "pentecost"],
    "ostern weihnachten silvester pfingsten",
    "pâques noël saint-sylvestre pentecôte",
    "pascua navidad nochevieja pentecostés",
    "pasqua natale silvestro pentecoste",
    "páscoa natal réveillon pentecostes",
    "pasen kerst|kerstmis oudejaarsavond pinksteren",
)
_COUNTS = _english(
    [*NUMBERS[1:11], "a few"],
    "einem|einer zwei drei vier fünf sechs sieben acht neun zehn einigen|paar",
    "un|une deux trois quatre cinq six sept huit neuf dix quelques",
    "un|una dos tres cuatro cinco seis siete ocho nueve diez unos|unas|algunos|algunas|par",
    "un|una due tre quattro cinque sei sette otto nove dieci alcuni|alcune|qualche|paio",
    "um|uma dois|duas três quatro cinco seis sete oito nove dez alguns|algumas",
    "een twee drie vier vijf zes zeven acht negen tien enkele|paar",
)
_PARTS = _english(
    ["early", "mid", "late"],
    "anfang mitte ende",
    "début mi fin",
    "principios|comienzos mediados finales",
    "inizio metà termine",
    "início|inícios meados fim|finais",
    "aanvang midden eind",
)
_CHINESE = {
    **_english(WEEKDAYS, "周一 周二 周三 周四 周五 周六 周日|周天"),
    **_english(WEEKDAYS, "星期一 星期二 星期三 星期四 星期五 星期六 星期日|星期天"),
    **_english(MONTHS, "一月 二月 三月 四月 五月 六月 七月 八月 九月 十月 十一月 十二月"),
    **_english(MONTHS, "1月 2月 3月 4月 5月 6月 7月 8月 9月 10月 11月 12月"),
    **_english(UNITS, "天 周|星期|个星期 个月|月 年 周末"),
    **_english([*NUMBERS[1:11], "a few"], "一 二|两 三 四 五 六 七 八 九 十 几"),
    **_english(["last", "this", "next"], "上|去 这|本|今 下"),
}
_NAMES = {**_DAYS, **_MONTHS, **_UNITS, **_SEASONS}
HINTS = frozenset(
    (  # noqa: SIM905 a list would take thirty lines
        "vorgestern gestern heute übermorgen hier avant aujourd après anteayer antes ayer hoy pasado ieri oggi ontem "
        "anteontem hoje gisteren eergisteren vandaag vorige afgelopen volgende deze geleden matin mañana anoche soir "
        "seit sinds depuis desde"
    ).split()
) | ({*_NAMES, *_HOLIDAYS, *_PARTS} - {"an", "week", *MONTHS})
"""Each phrase for a period in one of the European languages holds one of these words."""
_CHINESE_HINT = re.compile("[天晚早周期月年]")


def _any(words: dict[str, str]) -> str:
    """A pattern of a group that matches one of these words; longer words are tried first."""
    return f"({'|'.join(sorted(words, key=len, reverse=True))})"


_NAME, _MONTH, _DAY, _PART = _any(_NAMES), _any(_MONTHS), _any(_DAYS), _any(_PARTS)
_COUNT = rf"(?:(?:ein|een|un) (?=pa[ai]?r|paio))?(\d{{1,3}}(?:\s?[-–]\s?\d{{1,3}})?|{_any(_COUNTS)[1:]}(?: d[ei])?"
_GONE = "(?:dernière|dernier|passée?|pass?ad[oa]|passat[oa]|scors[oa])"
_LAST_YEAR = (
    "(?:letzte[sn] jahr(?:es)?|(?:de )?l'an(?:née)? derni(?:er|ère)|del? año pasado|do ano passado|dell'anno scorso"
    "|vorig jaar)"
)
_OF_YEAR = r"(?: (?:de )?(\d{4}))"
_PHRASES = {
    "vorgestern|avant-hier|anteayer|antes de ayer|l'altro ieri|anteontem|eergisteren": "the day before yesterday",
    r"gestern|gisteren|ieri|ontem|(?-i:ayer)": "yesterday",
    r"(?:(?<=[éu]\s)|(?<=dit\s)|(?<=fait\s))hier|hier matin": "yesterday",
    "(?:gestern|gisteren) (?:abend|avond)|hier soir|ayer por la noche|ieri sera|ontem à noite": "yesterday evening",
    "gestern nacht|anoche": "last night",
    "heute|aujourd'hui|oggi|hoje|vandaag|(?-i:hoy)": "today",
    "heute (?:morgen|früh)|ce matin|esta mañana|esta manhã": "this morning",
    "übermorgen|après-demain|pasado mañana": "the day after tomorrow",
    rf"(?:letzte|vorige|vergangene|afgelopen)[mnrs]? {_NAME}": "last {}",
    rf"vorletzte[mnrs]? {_NAME}": "the {} before last",
    rf"(?:el |la |le |il |n[ao] |l')?{_NAME} {_GONE}": "last {}",
    rf"(?:diese[mnrs]?|cette|ce|est[ea]|quest[oa]|deze|dit) (?!nacht|nuit){_NAME}": "this {}",
    rf"(?:nächste|kommende|volgende)[mnrs]? {_NAME}": "next {}",
    rf"(?:el |la |le |il |n[ao] |l')?{_NAME} (?:prochaine?|que (?:viene|vem)|prossim[oa])": "next {}",
    rf"(?:vor|il y a|hace|há) {_COUNT} {_any(_UNITS)}": "{} {}s ago",
    rf"{_COUNT} {_any(_UNITS)} (?:fa|atrás|geleden)": "{} {}s ago",
    rf"(?:am|el|op|na|(?:{SINCE})(?: el)?) {_DAY}": "on {}",
    rf"(?:zwischen|entre|tra|tussen) (?:el )?{_DAY} (?:und|et|y|en?) (?:el )?{_DAY}": "between {} and {}",
    rf"(?:zwischen|entre|tra|tussen) {_MONTH} (?:und|et|y|en?) {_MONTH}{_OF_YEAR}?": "between {} and {} {}",
    rf"(?:am|le|el|il|em|op) (\d{{1,2}})\.? (?:de )?{_MONTH}{_OF_YEAR}?": "{} {} {}",
    rf"(\d{{1,2}})\.? (?:de )?{_MONTH} (?:de )?(\d{{4}})": "{} {} {}",
    rf"(?:im|en|em|in|{SINCE}) {_MONTH}": "in {}",
    rf"(?:(?:im|en) )?(?:{_any(_HOLIDAYS)}|{_any(_SEASONS)}|{_MONTH}){_OF_YEAR}": "{} {}",
    rf"(?:{_any(_HOLIDAYS)}|{_any(_SEASONS)}|{_MONTH}) {_LAST_YEAR}": "{} last year",
    rf"(?:an|zu|à|en|a|met|{SINCE}) {_any(_HOLIDAYS)}": "at {}",
    rf"(?:{SINCE}) (\d{{4}})": "in {}",
    rf"(?:a |à la )?{_PART}[ -](?:d[ei] |du )?(?:{_MONTH}{_OF_YEAR}?|(\d{{4}}))": "{} {} {}",
    rf"{_PART} (?:letzten|vorigen|vergangenen) {_any(_UNITS)}(?:e?s)?": "{} last {}",
    rf"(?:a )?{_PART} (?:del? |du )?(?:la |l')?{_any(_UNITS)} {_GONE}": "{} last {}",
}
"""By pattern: the English phrase, in which each {} stands for a group of the match."""
_DIGIT = "[\\d一二两三四五六七八九十]"
_CHINESE_PHRASES = {
    "前天": "the day before yesterday",
    "昨天|昨晚": "yesterday",
    "今天": "today",
    "今天早上|今早": "this morning",
    "上上(周|个月)": "the {} before last",
    "后天": "the day after tomorrow",
    "([上这本下])个?((?:周|星期)[一二三四五六日天])": "{1} of {0} week",
    "([上这本下])(个月|个?星期|周末|周)": "{} {}",
    "([去今])年": "{} year",
    r"(\d{1,3}|[一二两三四五六七八九十几])(天|周|个星期|个月|年)[之以]?前": "{} {}s ago",
    r"(\d{4})年(\d\d?)月(\d\d?)[日号]": "{}-{:0>2}-{:0>2}",
    r"(?<!年)(?<!\d)(\d\d?月)(\d\d?)[日号]": "{1} {0}",
    rf"(?<!年)(?<!\d)(十[一二]?月|[一二三四五六七八九]月|\d\d?月)(?!{_DIGIT}{{1,3}}[日号])": "in {}",
}


def _resolve(english: str, match: re.Match[str], now: datetime) -> CalendarPeriod | None:
    """The period of the English phrase, in which each {} is replaced by a group of the match, translated into
    English."""
    given = [group.lower() for group in match.groups() if group]
    words = [_ENGLISH.get(word, word) for word in given]
    phrase = english.format(*words, "").strip()
    found = ((each, each.pattern.fullmatch(phrase)) for each in RULES)
    return next((each.resolve(whole, now) for each, whole in found if whole is not None), None)


_ENGLISH = {**_CHINESE, **_PARTS, **_HOLIDAYS, **_COUNTS, **_NAMES}
FURTHER_RULES = [
    *(Rule(english, whole_words(phrase), partial(_resolve, english)) for phrase, english in _PHRASES.items()),
    *(Rule(english, re.compile(phrase), partial(_resolve, english)) for phrase, english in _CHINESE_PHRASES.items()),
]


def further_rules(query: str) -> list[Rule]:
    """The rules of this file; [] for a query that holds none of the words and signs of their phrases, because applying
    the rules takes half a millisecond."""
    named = not HINTS.isdisjoint(re.findall(r"[^\W\d_]+", query.lower()))
    return FURTHER_RULES if named or _CHINESE_HINT.search(query) else []
