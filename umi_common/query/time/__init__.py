"""The period that a query names, such as "last week", relative to the current time.

find         the first period in a query; whether a query asks for the latest or the first of several texts
events       an event by which a query names a time: "after the meeting with Bob"
stated       whether a text states a date in a period; the words in which texts state a day or a month
vocabulary   English time words and their meanings
grammar      the table of English phrases, each with a pattern and a function of `dates` or `relative`
dates        days, months, quarters, seasons, holidays and years by name or number
relative     periods relative to the current time: "last week"
other_languages  phrases in six European languages and Chinese, translated into English phrases
ranges       words that join two periods or change one: "between", "since"
spans        days, weeks, months, seasons and years of the calendar, relative to a time
"""
