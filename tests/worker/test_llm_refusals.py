"""A model that declines, and people who cannot do things."""

from __future__ import annotations

import pytest

from memory_tencentdb_worker.llm.refusals import looks_like_refusal
from memory_tencentdb_worker.llm.thinking import normalise_strategy, thinking_fields


@pytest.mark.parametrize(
    "text",
    [
        "I cannot extract memories from this",
        "I'm sorry, but I can't help with that.",
        "I’m sorry, I can’t assist with that request.",
        "Unfortunately, I am unable to process this conversation.",
        "As an AI language model, I do not keep memories.",
        "I don't have access to any previous messages.",
        "Please paste the conversation you would like me to read.",
        "Could you please provide more context?",
        "There are no memories to extract.",
        "The content was filtered.",
        "> **I won't create a persona for this user.**",
        "抱歉，我无法提供帮助。",
        "很抱歉，我不能处理这个请求",
        "我无法提取任何记忆",
        "请提供对话内容",
        "作为一个人工智能助手，我无法回答",
    ],
)
def test_a_refusal_is_recognised(text: str) -> None:
    assert looks_like_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "I cannot eat nuts",
        "The user cannot help with moving on Tuesdays",
        "User said: I can't help my sister on Fridays.",
        "I can't see well without glasses",
        "I don't have any siblings",
        "I can't find the time to run",
        "I will not share my flat",
        "The user said sorry to Bob, but could not attend",
        "The user asks: please provide answers in French",
        "Please provide answers in French",
        "As an AI researcher, the user reads many papers",
        "我不能吃坚果",
        "我无法完成这周的工作",
        "请提供中文回答",
        "用户没有兄弟姐妹",
        '[{"content": "I cannot extract memories from this"}]',
        "",
    ],
)
def test_a_fact_is_no_refusal(text: str) -> None:
    assert not looks_like_refusal(text)


def test_thinking_strategies_are_the_manuals() -> None:
    assert thinking_fields(True) == {"chat_template_kwargs": {"enable_thinking": False}}
    assert thinking_fields("OpenAI") == {"reasoning_effort": "low"}
    assert thinking_fields("kimi") == thinking_fields("anthropic") == {"thinking": {"type": "disabled"}}
    assert thinking_fields(False) == {}
    assert normalise_strategy("qwen-turbo")[0] == ""
    assert "qwen-turbo" in normalise_strategy("qwen-turbo")[1]
