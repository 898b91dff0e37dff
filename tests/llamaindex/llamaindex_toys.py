"""Models that say what a test tells them, for engines and agents; and the pages of a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode


def page_nodes(page: int) -> list[TextNode]:
    """The two nodes of a page of a.pdf, which a reader gave as a document of its own."""
    return [
        TextNode(
            id_=f"{page}/{start}",
            text=f"Page {page} from {start}.",
            metadata={"file_path": "a.pdf"},
            start_char_idx=start,
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"page {page}")},
        )
        for start in (0, 400)
    ]


class AskingLLM(FunctionCallingLLM):
    """Calls a tool once with what it is told to, then answers with what the tool said."""

    tool: str
    arguments: dict[str, Any]

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True)

    def _reply(self, messages: Sequence[ChatMessage]) -> ChatResponse:
        if messages[-1].role == "tool":
            return ChatResponse(message=ChatMessage(role="assistant", content=f"I read: {messages[-1].content}"))
        call = ToolSelection(tool_id="1", tool_name=self.tool, tool_kwargs=self.arguments)
        return ChatResponse(message=ChatMessage(role="assistant", content="", additional_kwargs={"calls": [call]}))

    def get_tool_calls_from_response(self, response: ChatResponse, *_: Any, **__: Any) -> list[ToolSelection]:
        return response.message.additional_kwargs.get("calls", [])

    def _prepare_chat_with_tools(self, tools: Any, chat_history: Any = None, **_: Any) -> dict[str, Any]:
        return {"messages": list(chat_history or [])}

    async def achat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        return self._reply(messages)

    def chat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        return self._reply(messages)

    async def astream_chat(self, messages: Sequence[ChatMessage], **_: Any) -> Any:
        reply = self._reply(messages)

        async def once() -> Any:
            yield reply

        return once()

    def stream_chat(self, messages: Sequence[ChatMessage], **_: Any) -> Any:
        yield self._reply(messages)

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=prompt)

    async def acomplete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=prompt)

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        yield CompletionResponse(text=prompt)

    async def astream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        async def once() -> Any:
            yield CompletionResponse(text=prompt)

        return once()
