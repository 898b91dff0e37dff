"""The time that a query names.

In: a query and the present. Out: a period, and whether the query scopes records by it.

    find         the first period that a query names
    vocabulary   English time words, and the register of rules
    dates        dates, months, quarters, seasons, years by name or number
    relative     periods told from the present: "last week"
    ranges       words that join two periods or turn one: "between", "since"
    spans        spans of the calendar around a moment
    scope        whether a period scopes the record or is part of the question
"""
