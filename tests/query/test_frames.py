"""The words of a query that only ask for a text are left out, and no others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umi_common.query.frames import FRAME, without_frame

ASKED = [
    ("please find the document about gut microbes", "gut microbes"),
    ("Can you tell me a little bit about startup companies?", "startup companies?"),
    ("can you please give me some basic information about Philippine gaming?", "Philippine gaming?"),
    ("Could you tell me when the song was released?", "when the song was released?"),
    ("Do you know the way to San Jose", "the way to San Jose"),
    ("do you remember my sister's name?", "my sister's name?"),
    ("I would like to know more about the Rongbuk Monastery.", "the Rongbuk Monastery."),
    ("I want to know if the pool is heated", "the pool is heated"),
    ("I'm looking for the invoice of Meyer", "the invoice of Meyer"),
    ("I have a question about my contract", "my contract"),
    ("I'm curious, please explain tides", "tides"),
    ("I have a question, please tell me when low tide is", "when low tide is"),
    ("any documents, please show me the pool hours", "the pool hours"),
    ("is there any information on how noise is damped", "how noise is damped"),
    ("Where can I find information on the park?", "the park?"),
    ("what does it say about the deposit", "the deposit"),
    ("tell me what you know about llamas", "llamas"),
    ("which page mentions the gas meter?", "the gas meter?"),
    ("which page speaks of the gas meter?", "the gas meter?"),
    ("find pages that talk about llamas", "llamas"),
    ("papers that cover llamas", "llamas"),
    ("does the page state the fee", "the fee"),
    ("which document states the rent", "the rent"),
    ("which papers deal with floods", "floods"),
    ("what papers cover floods", "floods"),
    ("which of the documents cover floods?", "floods?"),
    ("information about state taxes", "state taxes"),
    ("tell me about text to speech", "text to speech"),
    ("Can you explain the second law?", "the second law?"),
    ("please describe the pump", "the pump"),
    ('which document says "gas meter"', '"gas meter"'),
    ("directions to the pool please", "directions to the pool"),
    ("remind me of the dentist", "the dentist"),
    ("show me the paper on gut microbes, thanks!", "gut microbes"),
    ("can you help me find the invoice of March", "the invoice of March"),
    ("Good day, could you look up the VAT number?", "the VAT number?"),
    ("Hi, my dishwasher leaks", "my dishwasher leaks"),
    ("Hello, I hope you are well. What is the fare to Rome? Thank you very much!", "What is the fare to Rome?"),
    ("What did you tell me about the trip to Rome?", "the trip to Rome?"),
    ("what did we talk about", "what did we talk about"),
    ("Which vet did I mention a while ago?", "Which vet?"),
    ("What was the name of the bar that we talked about before?", "What was the name of the bar?"),
    ("What did you say?", "What did you say?"),
    ("Who did I mention?", "Who did I mention?"),
    ("In May, what did I say about the leak?", "In May, what did I say about the leak?"),
    ("what did I tell Ann about the leak", "what did I tell Ann about the leak"),
    ("What did I say yesterday about the leak?", "What did I say yesterday about the leak?"),
    ("Kannst du mir bitte nochmal sagen, was der Arzt verschrieben hat?", "was der Arzt verschrieben hat?"),
    ("Peux-tu me rappeler combien demande le plombier, s'il te plaît ?", "combien demande le plombier ?"),
    ("¿Me puedes recordar cuánto pide el fontanero, por favor?", "cuánto pide el fontanero?"),
    ("Puoi ricordarmi quanto chiede l'idraulico per favore?", "quanto chiede l'idraulico?"),
    ("Podes lembrar-me quanto pede o canalizador, por favor?", "quanto pede o canalizador?"),
    ("Kun je me nog eens vertellen wat de loodgieter vraagt?", "wat de loodgieter vraagt?"),
    ("Kannst du mir helfen?", "Kannst du mir helfen?"),
    ("Kannst du mir sagen?", "Kannst du mir sagen?"),
    ("I need help with my password reset please", "I need help with my password reset"),
    ("Do you recall the name of the vet?", "the name of the vet?"),
    ("could you please open the account of Meyer", "open the account of Meyer"),
    ("tell me about --force", "--force"),
    ("can you explain -x please", "-x"),
    ("--force, please", "--force"),
    ("Please find .env", ".env"),
    ("tell me: what does -v do? thanks", "what does -v do?"),
    ("Hi - where is the key?", "where is the key?"),
    ("Hello...my dog barks", "my dog barks"),
    ("can you explain C++, please?", "C++?"),
    ('"gas meter", please', '"gas meter"'),
    ("the pool (indoors), thanks!", "the pool (indoors)"),
    ("let me know when the pool opens", "when the pool opens"),
    ("I was wondering what the fee is", "what the fee is"),
    ("excuse me, when does the pool open?", "when does the pool open?"),
    ("what does the document say", "what does the document say"),
    ('which page mentions "about Lisbon"', '"about Lisbon"'),
    ("which page mentions help about refunds", "help about refunds"),
    ("is there information on help about refunds", "help about refunds"),
]
KEPT = [
    "what did you give me for my birthday",
    "What did you read on the plane?",
    "did you give me the key?",
    "what is the document number of the passport",
    "Find invoice 2231",
    "I need a new passport",
    "can you bring a dog on the bus?",
    "Can I get a refund for shoes?",
    "We need to send a parcel to Japan",
    "check if two arrays are equal python",
    "read a file into a set python",
    "hello world python",
    "Which US states did Tim visit?",
    "Who knows about the surprise party?",
    "well water quality",
    "text in a file of pictures",
    "document state machine",
    "text cover letter",
    "article cover page",
    "do you know where they are?",
    "Can I recall an email?",
    "I want to describe a snapshot",
    "Japanese word for thank you",
    "What did Anna thank you for?",
    "who played Sam in Cheers",
    "when did they film Cheers",
    "which languages say thanks",
    "song Please Please Please",
    '"Could you tell me about the boat" she asked',
    "thanks",
    "tell me",
    "please",
    "",
    "?",
]


@pytest.mark.parametrize(("query", "subject"), ASKED)
def test_the_words_that_only_ask_are_left_out(query, subject):
    assert without_frame(query) == subject


@pytest.mark.parametrize("query", KEPT)
def test_words_that_say_what_is_sought_stay(query):
    assert without_frame(query) == query


@given(st.lists(st.sampled_from([*sorted(FRAME), "boat", "Rome", "7", "me,", "hi.", "?", '"boat"']), max_size=12))
def test_what_is_left_is_a_part_of_the_query_with_all_its_other_words(words):
    query = " ".join(words)
    left = without_frame(query)
    assert left.rstrip("?") in query
    assert {"boat", "Rome", "7"}.intersection(words) <= {word.strip('"?') for word in left.split()}
