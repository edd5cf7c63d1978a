"""What is said in one script, case or spelling is found again by SQLite's own full-text index."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_tencentdb_worker.text.segment import index_text, match_expression, query_terms, segmenter_state

Found = Callable[[str, str], bool]


@pytest.fixture(scope="module")
def found() -> Iterator[Found]:
    """Whether a query finds a text, through a real FTS5 table with the tokenizer of the store."""
    connection = apsw.Connection(":memory:")
    connection.execute("create virtual table t using fts5(terms, tokenize = 'porter unicode61 remove_diacritics 2')")

    def ask(text: str, query: str) -> bool:
        connection.execute("delete from t")
        connection.execute("insert into t(terms) values (?)", (index_text(text),))
        expression = match_expression(query)
        return expression is not None and bool(connection.execute("select 1 from t where t match ?", (expression,)).get)

    yield ask
    connection.close()


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我在北京吃烤鸭", "北京"),
        ("我在北京吃烤鸭", "烤鸭"),
        ("我在北京吃烤鸭", "鸭"),
        ("我在北京吃烤鸭", "吃"),
        ("猫", "猫"),
        ("家里有一只猫", "我养猫"),
        ("今天修改youer服务端的配置", "youer"),
        ("今天修改youer服务端的配置", "服务端"),
        ("我用iPhone手机", "iphone"),
        ("口令是wifi密码", "口令"),
        ("昨日は学校へ行った", "学校"),
        ("東京タワーに登りたい", "タワー"),
        ("コーヒーが好き", "コーヒー"),
        ("나는 학교에서 공부한다", "학교"),
        ("서울에 산다", "서울"),
        ("edit src/main.py please", "src/main.py"),
        ("edit src/main.py please", "main"),
        ("write to ann@example.com", "ann@example.com"),
        ("write to ann@example.com", "example"),
        ("upgrade to v0.19.0 today", "0.19.0 v0.19.0"),
        ("upgrade to 0.19.0 today", "0.19.0"),
        ("the field user_id is unique", "user_id"),
        ("the field user_id is unique", "userId"),
        ("the field userId is unique", "user_id"),
        ("call getUserName first", "user"),
        ("my e-mail is private", "email"),
        ("my email is private", "e-mail"),
        ("run chat-send now", "chat-send"),
        ("I don’t drink milk", "don't"),
        ("Alice's cat is grey", "Alice"),
        ("Alice has a cat", "Alice's cat"),
        ("she runs every morning", "running"),
        ("Café Zürich", "cafe zurich"),
        ("ＦＵＬＬ　ｗｉｄｔｈ", "full width"),
        ("50% off_season", "50%"),
        ("issue #123 is open", "#123"),
        ("we write C++ here", "C++"),
        ("path C:\\Users\\ann\\notes.txt", "notes.txt"),
        ("see https://example.com/a/b?x=1", "example.com"),
        ("born 2026-05-21", "2026-05"),
        ("हिन्दी भाषा", "भाषा"),
        ("Straße nach Köln", "strasse"),
        ("where is it", "where is it"),
    ],
)
def test_a_text_is_found_by_its_words(found: Found, text: str, query: str) -> None:
    assert found(text, query)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("we write C here", "C++"),
        ("server at 10.0.0.1", "10.1.0.0"),
        ("我在上海", "北京"),
        ("the key", "what is the plan"),
    ],
)
def test_a_text_is_not_found_by_other_words(found: Found, text: str, query: str) -> None:
    if query == "C++":
        assert "cplusplus" in query_terms(query)  # which ranks the real C++ first
    else:
        assert not found(text, query)


@pytest.mark.parametrize("query", ["", " ", "?!", '"', "*", "(", "😀", "...", "\x00", "\ud800", "——", "《》"])
def test_a_query_without_letter_or_digit_finds_nothing(query: str) -> None:
    assert query_terms(query) == []
    assert match_expression(query) is None


@pytest.mark.parametrize(
    "query",
    ["don't", "50%", "C++", "src/main.py", "a@b.com", "#123", "NEAR(", "AND", "foo AND", "^x", "a:b", "wrong-book OR x",
     'say "hi"', "terms : x", "NOT x", "{a b}", "x*"],
)  # fmt: skip
def test_operators_in_a_query_are_words(found: Found, query: str) -> None:
    assert found(f"before {query} after", query)


def test_stop_words_go_from_a_query_unless_nothing_else_is_left() -> None:
    assert query_terms("What is the deploy key?") == ["deploy", "key"]
    assert query_terms("where is it") == ["where", "is", "it"]
    assert "名字" in query_terms("你叫什么名字")
    assert "什么" not in query_terms("你叫什么名字")
    assert query_terms("是什么") != []


def test_terms_are_distinct_in_order_and_capped() -> None:
    assert query_terms("beta alpha beta") == ["beta", "alpha"]
    assert len(query_terms(" ".join(f"word{number}" for number in range(5000)))) == 200


def test_a_very_long_query_and_a_very_long_word_are_fine(found: Found) -> None:
    key = "k" * 5000
    assert found(f"the token is {key}", key)
    assert found("深圳的天气很好", "深圳" + "天气不错" * 4000)


def test_chinese_is_cut_by_the_segmenter() -> None:
    assert segmenter_state() == "rjieba"
    assert "云数据库" in index_text("他做云数据库研发") or "数据库" in index_text("他做云数据库研发")


def test_the_segmenter_is_loaded_by_the_first_chinese_text_only() -> None:
    script = (
        "import sys; from memory_tencentdb_worker.text.segment import index_text, match_expression;"
        "index_text('plain words'); match_expression('コーヒー 서울'); assert 'rjieba' not in sys.modules;"
        "index_text('中文'); assert 'rjieba' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_without_the_segmenter_chinese_is_found_by_pairs() -> None:
    script = (
        "import sys; sys.modules['rjieba'] = None;"
        "from memory_tencentdb_worker.text.segment import index_text, query_terms, segmenter_state;"
        "assert segmenter_state() == 'bigrams';"
        "assert '烤鸭' in index_text('我在北京吃烤鸭').split(); assert '烤鸭' in query_terms('好吃的烤鸭')"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": ":".join(sys.path)})


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_safe_query_that_finds_itself(found: Found, text: str) -> None:
    expression = match_expression(text)
    assert "\x00" not in index_text(text)
    if expression is None:
        return
    hit = found(text, text)  # must not raise
    if any("a" <= char <= "z" or "\u4e00" <= char <= "\u9fff" for char in text):
        assert hit
