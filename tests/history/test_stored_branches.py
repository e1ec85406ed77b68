"""Where branches are kept."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from tests.history.log_kit import store_branch, stored_branch
from unsay.effects import drive
from unsay.errors import ConflictError, DatabaseCorruptError, UnknownBranchError
from unsay.history.branch import (
    BRANCH_REFS,
    INLINE_BRANCHES,
    Label,
    LiveBranch,
    add_reference,
    branches_namespace,
    list_stored_branches,
    put_branches,
    read_branches,
    reference,
    replace_tail,
)
from unsay.messages.annotations import annotate, notice
from unsay.moves.restore import find_stored_branch
from unsay.storage.pages import EMPTY
from unsay.storage.sqlite import open_database
from unsay.types import BranchRef, Checkpoint, Segment, StoredBranch

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


def branch(
    *messages: AnyMessage, name: str = "branch-1", drafts: tuple[AnyMessage, ...] = ()
) -> StoredBranch:
    """A branch of these messages."""
    return StoredBranch(
        id=name,
        kind="person",
        base=None,
        reason="昨日 🙈",
        created_at="2026-01-01T00:00:00+00:00",
        messages=list(messages),
        drafts=list(drafts),
        checkpoints=[
            Checkpoint(
                id="cp-1",
                name="夕食",
                message_id="a",
                turn=1,
                score=None,
                topic="",
                reason="order",
                created_at="",
            )
        ],
        segments=[Segment(topic_id="t", start="a")],
    )


def through_store(value: StoredBranch, store: BaseStore | None = None) -> StoredBranch:
    """The branch after a journey through a store: by default the text of one that keeps JSON."""
    store = store or InMemoryStore()
    store_branch(store, "t", value)
    for item in store.search(("unsay",), limit=10):
        json_value = json.loads(json.dumps(item.value, allow_nan=False))
        store.put(item.namespace, item.key, json_value, index=False)
    return stored_branch(store, "t")


MESSAGES = {
    "question": HumanMessage("カルチョフィ🥬\x00\n", id="a", name="ann"),
    "system": SystemMessage("Be brief.", id="a"),
    "image": HumanMessage([{"type": "text", "text": "What is it?"}, IMAGE], id="a"),
    "image bytes": HumanMessage([{"type": "image", "data": b"\x89PNG\xff\x00"}], id="a"),
    "tool call": AIMessage(
        [{"type": "thinking", "thinking": "hm", "signature": "EqQB"}, {"type": "text", "text": ""}],
        id="a",
        tool_calls=[{"name": "add", "args": {"x": 1.5, "y": [None, "é"]}, "id": "call-1"}],
        invalid_tool_calls=[
            {
                "name": "sub",
                "args": "{",
                "id": "call-2",
                "error": "no JSON",
                "type": "invalid_tool_call",
            }
        ],
        usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
    ),
    "tool result": ToolMessage(
        "4", id="a", tool_call_id="call-1", name="add", status="error", artifact={"rows": [1, 2]}
    ),
    "marks": annotate(
        AIMessage("4", id="a", response_metadata={"finish_reason": "stop", "logprobs": -9999.0}),
        outcome="failed",
        score=0.1,
        reason="wrong",
    ),
    "notice": notice("Went back.", "a", ["b"]),
    "odd keys and numbers": AIMessage(
        "4", id="a", additional_kwargs={"k": {1: 2}}, response_metadata={"p": -math.inf}
    ),
    "other roles": ChatMessage("no", role="critic", id="a"),
    "function": FunctionMessage("4", name="add", id="a"),
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_a_branch_is_the_same_after_the_store(message: AnyMessage, tmp_path: Path) -> None:
    """Every possible transcript is read back unchanged, from text and from the file."""
    before = branch(message, drafts=(message.model_copy(update={"id": "draft"}),))
    after = through_store(before)
    database = open_database(tmp_path / "t.db")
    after_file = through_store(before, database.store)
    database.close()

    assert before == after == after_file
    assert [type(message)] == [type(message) for message in after["messages"]]
    assert [message] == before["messages"]


@given(
    text=st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    arguments=st.dictionaries(
        st.text(alphabet=st.characters(exclude_categories=["Cs"])),
        st.one_of(
            st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(allow_nan=False)
        ),
    ),
    name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
)
def test_any_words_and_arguments_are_kept(text: str, arguments: dict[str, Any], name: str) -> None:
    """No text, number or id is changed on the way."""
    call = {"name": "f", "args": arguments, "id": name, "type": "tool_call"}
    before = branch(HumanMessage(text, id=name), AIMessage(text, id="a", tool_calls=[call]))
    assume(name != "a")

    assert before == through_store(before)


def test_half_a_character_does_not_stop_a_rollback() -> None:
    """A model's broken emoji is kept as a checkpoint would keep it: as a question mark."""
    after = through_store(branch(AIMessage("\ud83d!", id="a")))

    assert ["?!"] == [message.content for message in after["messages"]]


def test_an_empty_branch_is_kept() -> None:
    """Empty lists are lists again."""
    empty = replace_tail(
        LiveBranch(messages=()), None, label=Label(kind="undo", reason="", created_at="")
    )

    store = InMemoryStore()
    drive(put_branches(store, "t", [empty.branch], {empty.branch["id"]: {}}, EMPTY))
    assert empty.branch == stored_branch(store, "t")


@pytest.mark.parametrize(
    ("one", "second_id"),
    [
        pytest.param("a.b", "a_b", id="a dot and a wildcard"),
        pytest.param("a.b", "a%2Eb", id="a dot and its escape"),
        pytest.param("t1", "t10", id="a beginning"),
        pytest.param("a%", "ab", id="a percent"),
        pytest.param("a/b", "a%2Fb", id="a slash and its escape"),
        pytest.param("a'b", 'a"b', id="quotes"),
        pytest.param("A", "a", id="cases"),
        pytest.param("é", "e\u0301", id="two forms of a letter"),
    ],
)
def test_threads_are_kept_apart(one: str, second_id: str, tmp_path: Path) -> None:
    """Threads with similar ids neither see nor overwrite one another's branches."""
    database = open_database(tmp_path / "t.db")
    for store in (database.store, InMemoryStore()):
        for thread in (one, second_id):
            store_branch(store, thread, branch(HumanMessage(thread, id="a")))
        branches = [stored_branch(store, thread) for thread in (one, second_id)]
        assert [one, second_id] == [each["messages"][0].content for each in branches]
    database.close()


@given(one=st.text(min_size=1), second_id=st.text(min_size=1))
def test_namespaces_tell_all_threads_apart(one: str, second_id: str) -> None:
    """Different ids have different places that any store accepts."""
    try:
        namespaces = [branches_namespace(item) for item in (one, second_id)]
    except UnicodeEncodeError:
        return
    store = InMemoryStore()
    for namespace in namespaces:
        store.put(namespace, "k", {})

    assert (one == second_id) == (namespaces[0] == namespaces[1])
    assert {"."} & set("".join(namespaces[0])) == set()


@pytest.mark.parametrize(
    ("inline", "body"),
    [pytest.param(True, {"body"}, id="no store"), pytest.param(False, set(), id="a store")],
)
def test_a_reference_names_its_branch(*, inline: bool, body: set[str]) -> None:
    """The state names a branch with its size, and carries it only where no store does."""
    whole_branch = branch(
        HumanMessage("a", id="a"), drafts=(AIMessage("b", id="b"), AIMessage("c", id="c"))
    )
    ref = reference(whole_branch, inline=inline)

    assert BranchRef(
        id="branch-1",
        kind="person",
        base=None,
        reason="昨日 🙈",
        created_at="2026-01-01T00:00:00+00:00",
        size=3,
    ) == {key: value for key, value in ref.items() if key != "body"}
    assert body == ref.keys() - BranchRef.__required_keys__
    assert [whole_branch] * len(body) == [ref[key] for key in body]  # type: ignore[literal-required]


@pytest.mark.parametrize(
    ("inline", "limit"),
    [
        pytest.param(True, INLINE_BRANCHES, id="no store"),
        pytest.param(False, BRANCH_REFS, id="a store"),
    ],
)
def test_references_are_bounded(*, inline: bool, limit: int) -> None:
    """The newest are kept, in the order in which they were made."""
    refs: list[BranchRef] = []
    for index in range(limit + 3):
        refs = add_reference(refs, reference(branch(name=f"branch-{index}"), inline=inline))

    assert [f"branch-{index}" for index in range(3, limit + 3)] == [ref["id"] for ref in refs]


def test_a_branch_made_again_replaces_itself() -> None:
    """A node run twice leaves one reference, the newest."""
    refs = [reference(branch(name=item), inline=False) for item in ("one", "two")]

    assert [refs[1], refs[0]] == add_reference(refs, refs[0])


@pytest.mark.parametrize(
    ("name", "branch_ids"),
    [
        pytest.param("branch-ab1", "branch-ab1", id="an id"),
        pytest.param("branch-ab", "branch-ab", id="an id that begins another"),
        pytest.param("branch-c", "branch-c2", id="the beginning of one"),
        pytest.param("branch-ab12", UnknownBranchError, id="longer than any"),
        pytest.param("branch-", UnknownBranchError, id="the beginning of all"),
        pytest.param("branch-a", ConflictError, id="the beginning of two"),
    ],
)
def test_a_branch_is_found_by_the_beginning_of_its_id(
    name: str, branch_ids: str | type[Exception]
) -> None:
    """A beginning is enough if only one id has it; otherwise an error says why."""
    branches = [branch(name=item) for item in ("branch-ab", "branch-ab1", "branch-c2")]
    if isinstance(branch_ids, str):
        assert branch_ids == find_stored_branch(branches, name)["id"]
    else:
        with pytest.raises(branch_ids, match=name):
            find_stored_branch(branches, name)


def test_a_branch_without_its_messages_is_damaged() -> None:
    """A store without checksums can give back an item that lost a part."""
    with pytest.raises(DatabaseCorruptError, match="A stored branch"):
        drive(read_branches(InMemoryStore(), "t", [{"id": "a"}]))


def test_branches_of_two_lines_keep_their_words() -> None:
    """A host went back to a state whose event log was shorter: positions after it are used twice."""
    store = InMemoryStore()
    for number, text in enumerate(("one", "two")):
        of_line = branch(HumanMessage(text, id="a"), name=f"branch-{number}")
        store_branch(store, "t", of_line)
    stored = drive(list_stored_branches(store, "t"))

    assert ["one", "two"] == [each["messages"][0].content for each in stored]
