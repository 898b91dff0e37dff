"""Periods in German, French, Spanish, Italian, Portuguese, Dutch and Chinese.

A rule translates the phrase into English; an English rule then reads it.

Words with another meaning are left out, such as "morgen", which is also "morning", or count only beside certain words:
"hier" ("here" in German) after a French verb, "segunda" (also "second") where no noun follows.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import cache, partial

from umi_common.query.time.grammar import RULES, Rule, whole_words
from umi_common.query.time.spans import SEASONS, CalendarPeriod
from umi_common.query.time.vocabulary import BEFORE_DATE, HOLIDAYS, MONTHS, NUMBERS, SINCE, WEEKDAYS

_WORDS = """
monday: montag lundi lunes lunedì lunedi segunda-feira segunda maandag 周一 星期一
tuesday: dienstag mardi martes martedì martedi terça-feira terça dinsdag 周二 星期二
wednesday: mittwoch mercredi miércoles miercoles mercoledì mercoledi quarta-feira quarta woensdag 周三 星期三
thursday: donnerstag jeudi jueves giovedì giovedi quinta-feira quinta donderdag 周四 星期四
friday: freitag vendredi viernes venerdì venerdi sexta-feira sexta vrijdag 周五 星期五
saturday: samstag sonnabend samedi sábado sabado sabato zaterdag 周六 星期六
sunday: sonntag dimanche domingo domenica zondag 周日 周天 星期日 星期天
january: januar janvier enero gennaio janeiro januari 一月 1月
february: februar février fevrier febrero febbraio fevereiro februari 二月 2月
march: märz maerz mars marzo março maart 三月 3月
april: april avril abril aprile 四月 4月
may: mai mayo maggio maio mei 五月 5月
june: juni juin junio giugno junho 六月 6月
july: juli juillet julio luglio julho 七月 7月
august: august août aout agosto augustus 八月 8月
september: september septembre septiembre settembre setembro 九月 9月
october: oktober octobre octubre ottobre outubro 十月 10月
november: november novembre noviembre novembro 十一月 11月
december: dezember décembre decembre diciembre dicembre dezembro december 十二月 12月
day: tag tagen jour jours día días dia dias giorno giorni dag dagen 天
week: woche wochen semaine semaines semana semanas settimana settimane week weken 周 星期 个星期
month: monat monaten mois mes meses mese mesi mês maand maanden 个月 月
year: jahr jahren an ans année año años anno anni ano anos jaar jaren 年
weekend: wochenende week-end weekend finde 周末
spring: frühling frühjahr printemps primavera lente
summer: sommer été verano estate verão zomer
autumn: herbst automne otoño autunno outono herfst
winter: winter hiver invierno inverno
night: nacht nuit noche notte noite
easter: ostern pâques pascua pasqua páscoa pasen
christmas: weihnachten noël navidad natale natal kerst kerstmis
new_year's_eve: silvester saint-sylvestre nochevieja silvestro réveillon oudejaarsavond
pentecost: pfingsten pentecôte pentecostés pentecoste pentecostes pinksteren
one: einem einer un une una um uma een 一
two: zwei deux dos due dois duas twee 二 两
three: drei trois tres tre três drie 三
four: vier quatre cuatro quattro quatro 四
five: fünf cinq cinco cinque vijf 五
six: sechs six seis sei zes 六
seven: sieben sept siete sette sete zeven 七
eight: acht huit ocho otto oito 八
nine: neun neuf nueve nove negen 九
ten: zehn dix diez dieci dez tien 十
few: einigen paar quelques unos unas algunos algunas par alcuni alcune qualche paio alguns algumas enkele 几
early: anfang début principios comienzos inizio início inícios aanvang
mid: mitte mi mediados metà meados midden
late: ende fin finales termine fim finais eind
last: 上 去
this: 这 本 今
next: 下 明
"""
"""English words, with "_" for a space, each with its forms in the other languages."""
_ENGLISH = {
    form: english.replace("_", " ")
    for english, forms in (line.split(":") for line in _WORDS.strip().splitlines())
    for form in forms.split()
}
MONTH_NAMES = {
    form: word for form, word in _ENGLISH.items() if word in MONTHS and form not in MONTHS and not form.endswith("月")
}
"""Names of months in the European languages that English spells otherwise -> the English name."""
HINTS = frozenset(
    (  # noqa: SIM905 a list would take thirty lines
        "vorgestern gestern heute übermorgen hier avant-hier aujourd après-demain anteayer antes ayer hoy pasado ieri "
        "oggi ontem anteontem hoje gisteren eergisteren vandaag vorige afgelopen volgende deze geleden matin mañana "
        "anoche soir stasera vanavond seit sinds depuis desde demain domani dopodomani amanhã overmorgen"
    ).split()
) | {form for form, word in _ENGLISH.items() if word not in {*NUMBERS, "few"} and form not in {"an", "week"}}
"""Each phrase for a period in a European language has one of these words. They hold months that English spells alike
("August"), but no other English words, and no numbers, which have a unit beside them."""
_CHINESE_HINT = re.compile("[天晚早周期月年]")


def _forms(*words: str) -> str:
    """The forms of these English words, separated by "|", longer ones first."""
    return "|".join(sorted((form for form, word in _ENGLISH.items() if word in words), key=len, reverse=True))


_UNITS = ("day", "week", "month", "year", "weekend")
_NO_ORDINAL = "(?!(?:segunda|terça|quarta|quinta|sexta) (?!passad|que vem|à|com |eu ))"
"""Stands before a weekday. It does not match "segunda reunião", the second meeting."""
_MONTH, _UNIT, _HOLIDAY = (f"({_forms(*words)})" for words in (MONTHS, _UNITS, HOLIDAYS))
_DAY = f"{_NO_ORDINAL}({_forms(*WEEKDAYS)})"
_NAMED = f"({_forms(*MONTHS, *SEASONS, 'night', *HOLIDAYS)})"
PERIOD_NAMES, NUMBER_NAMES = _forms(*WEEKDAYS, *MONTHS, *_UNITS, *SEASONS, "night", *HOLIDAYS), _forms(*NUMBERS)
_PERIOD = f"{_NO_ORDINAL}({PERIOD_NAMES})"
_EARLY_MID_LATE = f"(?!mi )({_forms('early', 'mid', 'late')})"  # "mi semana" is "my week", "mi-mars" mid-March
_COUNT = (
    rf"(?:(?:ein|een|un) (?=pa[ai]?r|paio))?(\d{{1,3}}(?:\s?[-–]\s?\d{{1,3}})?|{_forms(*NUMBERS, 'few')})(?: d[ei])?"
)
_LAST_AFTER = "(?:dernière|dernier|passée?|pass?ad[oa]|passat[oa]|scors[oa])"
_LAST_YEAR = (
    "(?:letzte[sn] jahr(?:es)?|(?:de )?l'an(?:née)? derni(?:er|ère)|del? año pasado|do ano passado|dell'anno scorso"
    "|vorig jaar)"
)
_OF_YEAR = r"(?: (?:de )?(\d{4}))"
_NOT_BESIDE = r"(?<!prima\s)(?<!antes\s)(?<!pués\s)(?<!depois\s)(?<!partir\s)"
"""Stands before "de marzo". It does not match before or after a month: "antes de marzo", "a partir de marzo"."""
_NUMBER = r"(\d{1,2})(?:\.|er|º)?"
_DATE = rf"(?:d[ií]a )?{_NUMBER} (?:de )?{_MONTH}{_OF_YEAR}?"
_VERBS = r"[^f]é \b[belpsv]u [tv]enu [eo]ndu erdu reçu oulu fait \bai\sdit \bas\sdit \ba\sdit ont\sdit vez\sdit"
"""Ends of French verbs, but not of "Café hier", "du hier", "Menu hier" (German), "dit hier" (Dutch: this here)."""
_PHRASES = {
    "vorgestern|avant-hier|anteayer|antes de ayer|l'altro ieri|anteontem|eergisteren": "the day before yesterday",
    r"gestern|gisteren|ieri|ontem|(?-i:ayer)": "yesterday",
    "|".join(rf"(?<={verb}\s)hier" for verb in _VERBS.split()) + "|hier matin": "yesterday",
    "(?:gestern|gisteren) (?:abend|avond)|hier soir|ayer por la noche|ieri sera|ontem à noite": "yesterday evening",
    "gestern nacht|anoche": "last night",
    "heute|aujourd'hui|oggi|hoje|vandaag|(?-i:hoy)": "today",
    "heute (?:morgen|früh)|ce matin|esta mañana|esta manhã": "this morning",
    "heute abend|ce soir|stasera|hoje à noite|vanavond": "this evening",
    "demain|domani|amanhã": "tomorrow",
    "übermorgen|après-demain|pasado mañana|dopodomani|depois de amanhã|overmorgen": "the day after tomorrow",
    rf"(?:letzte|vorige|vergangene|afgelopen)[mnrs]? {_PERIOD}": "last {}",
    rf"vorletzte[mnrs]? {_PERIOD}": "the {} before last",
    rf"(?:el |la |le |il |n[ao] |l')?{_PERIOD} {_LAST_AFTER}": "last {}",
    rf"(?:diese[mnrs]?|cette|ce|est[ea]|quest[oa]|deze|dit) (?!nacht|nuit){_PERIOD}": "this {}",
    rf"(?:nächste|kommende|volgende)[mnrs]? {_PERIOD}": "next {}",
    rf"(?:el |la |le |il |n[ao] |l')?{_PERIOD} (?:prochaine?|que (?:viene|vem)|prossim[oa])": "next {}",
    rf"(?:(?:heute|gestern|(?-i:hoy|ayer)|hoje|ontem) )?(?:vor|il y a|hace|há) {_COUNT} {_UNIT}": "{} {}s ago",
    rf"(?:vor|il y a|hace|há) {_COUNT} (?:bis|oder|à|ou?|a) {_COUNT} {_UNIT}": "{} or {} {}s ago",
    rf"{_COUNT} {_UNIT} (?:fa|atrás|geleden)": "{} {}s ago",
    rf"(?:am|el|op|na|(?:{SINCE})(?: el)?) {_DAY}": "on {}",
    rf"(?:zwischen|entre|tra|tussen) (?:el )?{_DAY} (?:und|et|y|en?) (?:el )?{_DAY}": "between {} and {}",
    rf"(?:zwischen|entre|tra|tussen) {_MONTH} (?:und|et|y|en?) {_MONTH}{_OF_YEAR}?": "between {} and {} {}",
    rf"(?:{BEFORE_DATE} |(?!\S+ (?-i:Mars))){_DATE}": "{} {} {}",
    rf"(?:{BEFORE_DATE} )?{_DAY},? (?:den )?{_DATE}": "{} {} {} {}",
    rf"{_NUMBER}(?: bis | au | al? | tot |\s?[-–]\s?){_NUMBER} (?:de )?{_MONTH}{_OF_YEAR}?": "{} to {} {} {}",
    rf"(?:im|en|em|in(?! ma(?:yo|rs))|{SINCE}) {_MONTH}": "in {}",
    rf"(?!(?-i:Julio)){_MONTH}(?=\W*$)": "{}",
    rf"{_NOT_BESIDE}(?:de |d'|di |van |vom )(?!(?-i:Mars)){_MONTH}(?=\W*$)": "in {}",
    rf"(?:(?:im|en) |(?!(?-i:Mars))){_NAMED}{_OF_YEAR}": "{} {}",
    rf"{_NAMED} {_LAST_YEAR}": "{} last year",
    rf"(?:an|zu|à|en|a(?! natal\b)|n[ao]|met|{SINCE}) {_HOLIDAY}": "at {}",
    rf"(?:{SINCE}) (\d{{4}})": "in {}",
    rf"(?:a |à la )?{_EARLY_MID_LATE}[ -](?:d[ei] |du )?(?:{_MONTH}{_OF_YEAR}?|(\d{{4}}))": "{} {} {}",
    rf"{_EARLY_MID_LATE} (?:letzten|vorigen|vergangenen) {_UNIT}(?:e?s)?": "{} last {}",
    rf"(?:a )?{_EARLY_MID_LATE} (?:del? |du )?(?:la |l')?{_UNIT} {_LAST_AFTER}": "{} last {}",
}
"""By pattern: the English phrase, in which each {} stands for a group of the match. "ayer" and "hoy" match in lower
case only, because "Ayer" and "Hoy" are surnames."""
_DIGIT = "[\\d一二两三四五六七八九十百千万几]"
_CHINESE_MONTH = rf"(十[一二]?月|[一二三四五六七八九]月|\d\d?月)(?!{_DIGIT}{{1,3}}[日号])"
_WEEKDAY = f"一(?![共直起些样般个次])|[二三四五六](?!{_DIGIT}|[个次]|天(?!气))|日(?![程常记本])|天(?!气)"
"""The second character of a weekday. It does not begin another word: 上周日程 is last week's schedule."""
_CHINESE_PHRASES = {
    "(?<![以之目大天周月年期])前天": "the day before yesterday",
    "昨天|昨晚": "yesterday",
    "今天": "today",
    "今天早上|今早": "this morning",
    "上上个?(周|月|星期)": "the {} before last",
    "明天": "tomorrow",
    "(?<![今以大])后天": "the day after tomorrow",
    f"(?<![上下马])([上这本下])个?((?:周|星期)(?:{_WEEKDAY}))": "{1} of {0} week",
    "(?<![上下马])([上这本下])(个月|个?星期|周末|周)": "{} {}",
    "(?<![过如])([去今明])年": "{} year",
    rf"(?<![过如])([去今明])年{_CHINESE_MONTH}": "{1} {0} year",
    rf"(?<!{_DIGIT})(\d{{1,3}}|[一二两三四五六七八九十几])(天|周|个?星期|个月|年)[之以]?前": "{} {}s ago",
    r"(\d{4})年(\d\d?)月(\d\d?)[日号]": "{}-{:0>2}-{:0>2}",
    rf"(\d{{4}})年{_CHINESE_MONTH}": "{1} {0}",
    r"(\d{4})年(?![之以]?前)": "in {}",
    r"(?<!年)(?<!\d)(\d\d?月)(\d\d?)[日号]": "{1} {0}",
    rf"(?<!年)(?<!\d){_CHINESE_MONTH}": "in {}",
}


def _resolve(english: str, match: re.Match[str], now: datetime) -> CalendarPeriod | None:
    """The period of an English phrase, in which each {} is replaced by a group of the match in English."""
    given = [group.lower() for group in match.groups() if group]
    words = [_ENGLISH.get(word, word) for word in given]
    phrase = english.format(*words, "").strip()  # "" for the last group, a year, if the match lacks it
    found = ((each, each.pattern.fullmatch(phrase)) for each in RULES)
    return next((each.resolve(whole, now) for each, whole in found if whole is not None), None)


@cache
def _rules() -> list[Rule]:
    """The rules of this file. They are compiled at the first query that needs them, because this takes 40 ms."""
    return [
        *(Rule(english, whole_words(phrase), partial(_resolve, english)) for phrase, english in _PHRASES.items()),
        *(
            Rule(english, re.compile(phrase), partial(_resolve, english))
            for phrase, english in _CHINESE_PHRASES.items()
        ),
    ]


def further_rules(query: str) -> list[Rule]:
    """The rules of this file; [] if the query has no word of their phrases, which saves half a millisecond."""
    hyphenated = re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", query.lower())
    words = {part for word in hyphenated for part in (word, *word.split("-"))}
    return _rules() if words & HINTS or _CHINESE_HINT.search(query) else []
