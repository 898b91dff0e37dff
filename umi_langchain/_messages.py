"""The texts of LangChain messages and of conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from langchain_core.messages import BaseMessage, ChatMessage, MessageLikeRepresentation, convert_to_messages

from umi_common.errors import InputError
from umi_common.search.request import is_ordered
from umi_common.types import utf8_text


def message_text(message: BaseMessage) -> str:
    """The text of a message without tool calls and reasoning, in characters that UTF-8 can hold; "" if it is empty."""
    content = [message.content] if isinstance(message.content, str) else message.content
    blocks = [{"text": block} if isinstance(block, str) else block for block in content]
    texts = [block.get("text") for block in blocks if block.get("type", "text") == "text"]
    return utf8_text("\n".join(text for text in texts if isinstance(text, str) and text).strip())


def as_turns(history: Sequence[str | MessageLikeRepresentation]) -> list[str]:
    """A conversation as a list of texts. A message, pair or dict becomes "role: text", and is left out if it has no
    text; a string stays as it is. Raises InputError if `history` is unordered, or an item is no message."""
    if not is_ordered(history):
        expected = "expected a list of messages or strings, oldest first"
        advice = "; give history.messages" if hasattr(history, "messages") else ""
        if isinstance(history, Mapping) and "messages" in history:  # the state of an agent
            advice = '; give history["messages"]'
        raise InputError(f"history is {type(history).__name__}; {expected}{advice}")
    turns = (turn if isinstance(turn, str) else _turn_text(index, turn) for index, turn in enumerate(history))
    return [turn for turn in turns if turn is not None]


def _turn_text(index: int, turn: MessageLikeRepresentation) -> str | None:
    """ "role: text" of a message, pair or dict; None if it has no text."""
    try:
        (message,) = convert_to_messages([turn])
    except (ValueError, KeyError, TypeError, NotImplementedError) as error:
        raise InputError(
            f"history[{index}] is {turn!r:.80}; expected a message, a string, a (role, text) pair or a dict with role "
            "and content; the roles are human, ai, system and tool (with its tool_call_id)"
        ) from error
    kind = message.type.removesuffix("MessageChunk").lower()  # "AIMessageChunk" is a streamed "ai"
    role = message.role if isinstance(message, ChatMessage) else kind
    text = message_text(message)
    return f"{role}: {text}" if text else None
