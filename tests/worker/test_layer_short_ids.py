"""The ids of a call are short for the model and whole for everybody else."""

from __future__ import annotations

from memory_tencentdb_worker.layers.short_ids import ShortIds

MESSAGE, ATOM = "l0_0123456789abcdef", "m_fedcba9876543210"


def test_an_id_has_one_short_name_in_a_call() -> None:
    ids = ShortIds()
    assert [ids.short(MESSAGE), ids.short(ATOM), ids.short(MESSAGE)] == ["l0_1", "m_2", "l0_1"]


def test_an_answer_gets_its_ids_back_wherever_it_may_name_them() -> None:
    ids = ShortIds()
    ids.short(MESSAGE), ids.short(ATOM)
    answer = {
        "decisions": [{"record_id": "m_2", "target_ids": "m_2, l0_1", "merged_content": "m_2"}],
        "lines": [{"text": "l0_1", "sources": ["[l0_1]", ATOM, "l0_9", 7]}],
    }
    assert ids.restored(answer) == {
        "decisions": [{"record_id": ATOM, "target_ids": [ATOM, MESSAGE], "merged_content": "m_2"}],
        "lines": [{"text": "l0_1", "sources": [MESSAGE, ATOM, "l0_9", 7]}],
    }


def test_an_id_of_another_form_stands_as_it_is() -> None:
    ids = ShortIds()
    assert ids.short("m_1700000000_ab") == "m_1700000000_ab"
    assert ids.restored({"id": "m_1700000000_ab"}) == {"id": "m_1700000000_ab"}
