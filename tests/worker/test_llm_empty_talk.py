"""What a model says instead of a fact, and people's sentences that resemble it."""

from __future__ import annotations

import pytest

from memory_tencentdb_worker.llm.empty_talk import says_nothing

EMPTY = (
    "You are welcome.",
    "不客气！",
    "I will remember that.",
    "I'll keep that in mind.",
    "Noted.",
    "Got it! I've saved this to my memory.",
    "Sure, I'll remember that for next time.",
    "The assistant will remember this.",
    "I have noted your preferences.",
    "Thanks for telling me! I'll make a note of that.",
    "Understood, I will keep it in mind going forward.",
    "Okay.",
    "好的，我会记住的。",
    "我已经记下了您的偏好。",
    "我记住了。",
    "明白，我会把这些记录下来。",
    "没问题！",
    "Could you clarify which project you mean?",
    "What would you like me to remember?",
    "Which city do you mean?",
    "Do you want me to save this?",
    "请问您是指哪个项目？",
    "您希望我记住什么？",
    "string",
    "...",
    "N/A",
    "无",
    "<content>",
)

FACTS = (
    "You are welcome in the user's house, says his mother.",
    "No problem of algebra scares the user.",
    "I will remember my mother's birthday on May 4.",
    "The user will remember to water the plants.",
    "The user has saved 3,000 euros for a canoe.",
    "I keep bees.",
    "I have noted errors in chapter 3",
    "The user keeps a note of every bird.",
    "我记住了三千个单词。",
    "用户会记住每个人的名字。",
    "我记录每天的体重。",
    "Could Marta please confirm the date? She said June.",
    "The user asks what to remember.",
    "The user wants to know which city Jonas means.",
    "Noted physicist Ada Byron is the user's aunt.",
    "The user took note of the address: Rua 5",
    "I will remember Paris",
    "Sure is the user's cat.",
    "Perfect pitch runs in the user's family.",
    "无锡是用户的家乡。",
    "没有兄弟姐妹。",
    "I made it to Lagos",
    "好的习惯：用户每天早起。",
    "The user wants me to add tests to each change.",
    "I remember everything from 1999",
    "Persona 5 is the user's favourite game",
)


@pytest.mark.parametrize("text", EMPTY)
def test_a_promise_a_question_back_or_a_placeholder_says_nothing(text: str) -> None:
    assert says_nothing(text)


@pytest.mark.parametrize("text", FACTS)
def test_a_sentence_that_resembles_one_is_a_fact(text: str) -> None:
    assert not says_nothing(text)


@pytest.mark.parametrize("part", ["ok ", "noted, ", "好的，", "I will remember that ", "which "])
def test_long_hostile_text_is_judged_at_once(part: str) -> None:
    assert not says_nothing(part * 3_000 + "x")
    says_nothing((part * 100)[:290] + "x")
