"""The texts of LangChain messages and of conversations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from langchain_core.messages import BaseMessage, MessageLikeRepresentation, convert_to_messages
from pydantic import BaseModel

from umi_common.errors import InputError
from umi_common.types import utf8_text


def message_text(message: BaseMessage) -> str:
    """The text of a message without tool calls and reasoning, in characters that UTF-8 can hold; "" if it is empty."""
    if isinstance(message.content, str):
        return utf8_text(message.content.strip())
    blocks = [block if isinstance(block, str) else block.get("text", "") for block in message.content]
    return utf8_text("\n".join(block for block in blocks if isinstance(block, str) and block).strip())


def as_turns(history: Sequence[str | MessageLikeRepresentation]) -> list[str]:
    """A conversation as a list of texts; a message, pair or dict becomes "role: text", a string stays as it is.

    Raises:
        InputError: If `history` is not a list, or an item cannot be read as a message.
    """
    if isinstance(history, (str, Mapping, BaseModel)) or not isinstance(history, Iterable):
        expected = "expected a list of messages or strings, oldest first"
        advice = "; give history.messages" if hasattr(history, "messages") else ""
        raise InputError(f"history is {type(history).__name__}; {expected}{advice}")
    return [turn if isinstance(turn, str) else _turn_text(index, turn) for index, turn in enumerate(history)]


def _turn_text(index: int, turn: MessageLikeRepresentation) -> str:
    try:
        (message,) = convert_to_messages([turn])
    except (ValueError, NotImplementedError) as error:
        raise InputError(
            f"history[{index}] is {turn!r:.80}; expected a message, a string, a (role, text) pair or a dict with role "
            "and content; the roles are human, ai, system and tool"
        ) from error
    role = message.type.removesuffix("MessageChunk").lower()  # "AIMessageChunk" is a streamed "ai"
    return f"{role}: {message_text(message)}"
