"""Summaries in conversations: who makes them, when, and what every number of a preset changes."""

import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from tests.graph.kit import config
from tests.tiers import sampled
from unsay import Conversation
from unsay.context import Composed, SlidingWindow, Summarizing, ThreeStage, windows
from unsay.errors import ConfigurationError
from unsay.graph import build_graph
from unsay.protocols import TopicShift
from unsay.settings.settings import Context
from unsay.testing import ScriptedChat, ScriptedDetector, ScriptedJudge

INSTRUCTIONS = ("You summarize", "あなたは会話の")
SUMMARY = "They chose the Hakone Maru at 9:15."
PLAIN = {"topics": "off", "recall_tokens": 0, "judging": "off"}
SHIFTS = ScriptedDetector(
    shifts={"trains": TopicShift(kind="new", similarity=0.125), "BACK": "back"},
    default=TopicShift(kind="same", similarity=0.75),
)


def is_summary_request(messages: Sequence[BaseMessage]) -> bool:
    """Whether a model is asked for a summary."""
    return messages[0].text.startswith(INSTRUCTIONS)


def reply(messages: Sequence[BaseMessage]) -> str:
    """A summary where one is requested, else an answer of some eighty tokens."""
    return SUMMARY if is_summary_request(messages) else "We take it. " + "word " * 80


def model() -> ScriptedChat:
    """A model that answers and summarizes."""
    return ScriptedChat(script=reply)


def contexts(chat: ScriptedChat) -> list[list[str]]:
    """What was sent for answers, oldest first, as `role: words`, with one key in all fences."""
    calls = [call for call in chat.calls if not is_summary_request(call)]
    return [
        [re.sub(r'key="\d{15}"', 'key="0"', f"{m.type}: {m.text}") for m in call] for call in calls
    ]


def summary_requests(chat: ScriptedChat) -> int:
    """How often a summary was requested."""
    return sum(map(is_summary_request, chat.calls))


def spoken(chat: Any, turns: int, **options: Any) -> Conversation:
    """A conversation of so many turns."""
    conversation = Conversation.open(":memory:", model=chat, judge=ScriptedJudge(), **options)
    for number in range(turns):
        conversation.say(f"Question {number}?")
    return conversation


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("strategy", ["three_stage", "summarizing"])
def test_the_answering_model_summarizes(strategy: str) -> None:
    """With `model=` alone 120 messages are summarized by it, and its words are in the context."""
    chat = model()
    settings = {**PLAIN, "strategy": strategy, "context_window_tokens": 3_000}
    spoken(chat, 60, settings=settings).close()

    assert summary_requests(chat) >= 2
    assert any(SUMMARY in text for text in contexts(chat)[-1])


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"settings": {"summaries": "local"}}, id="local"),
        pytest.param({"summarizer": ScriptedChat(default=SUMMARY)}, id="another model"),
    ],
)
def test_the_answering_model_is_not_asked(options: dict[str, Any]) -> None:
    """Where summaries are local or another model makes them."""
    chat = model()
    settings = {**PLAIN, "context_window_tokens": 3_000, **options.get("settings", {})}
    spoken(chat, 30, **{**options, "settings": settings}).close()

    assert 0 == summary_requests(chat)
    assert any("<summary" in text for text in contexts(chat)[-1])


def test_a_run_may_choose_local_summaries() -> None:
    """The compiled graph takes it from the run's context."""
    seen = []
    for context in (Context(), Context(summaries="local")):
        chat = model()
        graph = build_graph(
            chat,
            judge=ScriptedJudge(),
            detector=SHIFTS,
            checkpointer=InMemorySaver(),
            store=InMemoryStore(),
        )
        for text in ("When does the ferry go?", "And the trains?"):
            graph.invoke({"messages": [("user", text)]}, config(), context=context)
        seen.append((summary_requests(chat), SUMMARY in contexts(chat)[-1][0]))

    assert [(1, True), (0, False)] == seen


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("topics", ["off", "compaction"])
@pytest.mark.parametrize(("pause", "most"), [(10, 3), (3, 7)])
def test_a_summarizer_that_fails_is_left_alone_for_a_while(
    topics: str, pause: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed try none is made for the next `PAUSE_TURNS`."""
    monkeypatch.setattr("unsay.turn.runs.PAUSE_TURNS", pause)

    def fails(messages: Sequence[BaseMessage]) -> str:
        if is_summary_request(messages):
            raise ConnectionError("the summarizer is down")
        return reply(messages)

    chat = ScriptedChat(script=fails)
    detector = ScriptedDetector(default="new" if topics == "compaction" else "same")
    settings = {**PLAIN, "topics": topics, "context_window_tokens": 2_000}
    for part in range(2):  # the pause outlasts the process
        with Conversation.open(
            tmp_path / "t.db", thread="t", model=chat, detector=detector, settings=settings
        ) as conversation:
            for number in range(12):
                conversation.say(f"Question {12 * part + number}?")

    assert 1 <= summary_requests(chat) <= most


SETTABLE: list[tuple[str, Any, dict[str, Any]]] = [
    ("trigger_ratio", 0.4, {}),
    ("target_ratio", 0.1, {}),
    ("primers", 7, {}),
    ("recents", 4, {}),
    ("summary_tokens", 1_200, {}),
    ("window_messages", 6, {}),
    ("window_messages", 6, {"strategy": "sliding"}),
    ("per_turn", True, {"strategy": "sliding", "window_messages": 6}),
    ("summary_ratio", 0.8, {"strategy": "summarizing"}),
    ("preserve_recent_messages", 30, {"strategy": "summarizing", "summary_ratio": 0.8}),
    ("summaries", "local", {}),
    ("compression_trigger_ratio", 0.4, {}),
    ("compression_target_ratio", 0.1, {}),
    ("primers_count", 7, {}),
    ("recents_count", 4, {}),
    ("history_window_size", 6, {}),
    ("token_budget_per_agent", 1_500, {"budget_mode": "soft", "backpressure": []}),
    ("token_budget_per_task", 1_500, {"budget_mode": "soft", "backpressure": []}),
    ("use_case_preset", "CHAT", {}),
]


def settings_for(name: str, more: dict[str, Any]) -> dict[str, Any]:
    """The settings under which a conversation is told from one in which the named one differs."""
    base = {**PLAIN, "context_window_tokens": 3_000, "recents": 6, **more}
    base.pop(name.removesuffix("_count"), None)
    return base


@pytest.mark.full
@pytest.mark.parametrize(("name", "value", "more"), SETTABLE)
def test_each_number_changes_what_the_model_is_sent(
    name: str, value: Any, more: dict[str, Any]
) -> None:
    """Of a graph, and of a single run."""
    base = settings_for(name, more)

    def sent(settings: dict[str, Any], context: Any = None) -> list[list[str]]:
        chat = model()
        graph = build_graph(
            chat,
            judge=ScriptedJudge(),
            settings=settings,
            checkpointer=InMemorySaver(),
            store=InMemoryStore(),
        )
        for number in range(34):
            message = {"messages": [("user", f"Question {number}?")]}
            graph.invoke(message, config(), context=context)
        return contexts(chat)

    of_graph = sent({**base, name: value})
    assert sent(base) != of_graph
    assert of_graph == sent(base, Context(**{name: value}))  # type: ignore[typeddict-item]


@pytest.mark.parametrize("source", ["environment", "file", "preset"])
@pytest.mark.parametrize(("name", "value", "more"), sampled(SETTABLE, every=2))
def test_each_number_can_be_set_everywhere(
    name: str,
    value: Any,
    more: dict[str, Any],
    source: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its own name and by that of its source, with the same effect as in the code."""
    if source == "preset" and "preset" in name:
        pytest.skip("a preset names no preset")
    monkeypatch.chdir(tmp_path)
    base = settings_for(name, more)
    written_text = f"{name} = {json.dumps(value)}"
    settings = build_graph(model(), settings={**base, name: value}).services.settings
    if source == "environment":
        monkeypatch.setenv(f"UNSAY_{name.upper()}", json.dumps(value).strip('"'))
    elif source == "file":
        (tmp_path / "unsay.toml").write_text(written_text + "\n", encoding="utf-8")
    else:
        text = f"preset = 'mine'\n[presets.mine]\n{written_text}\n"
        (tmp_path / "unsay.toml").write_text(text, encoding="utf-8")
    graph_settings = build_graph(model(), settings=base).services.settings

    assert settings.model_dump(exclude={"preset", "presets"}) == graph_settings.model_dump(
        exclude={"preset", "presets"}
    )


@pytest.mark.parametrize("prefix", ["", "UNSAY_"])
def test_the_seeds_variable_is_read(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the article writes it, and with our prefix; 85 % is its advice for debugging."""
    monkeypatch.setenv(f"{prefix}COMPRESSION_TRIGGER_RATIO", "0.85")
    chat = model()
    spoken(chat, 1).close()
    conversation = Conversation.open(":memory:", model=chat)

    assert 0.85 == conversation.graph.services.settings.trigger_ratio
    conversation.close()


@pytest.mark.parametrize(
    ("settings", "summaries", "old"),
    [
        pytest.param({}, 1, [], id="summarize"),
        pytest.param({"on_topic_change": "keep"}, 1, ["two", "three"], id="keep"),
        pytest.param({"on_topic_change": "delete"}, 0, [], id="delete"),
    ],
)
def test_what_is_shown_of_a_topic_that_was_left(
    settings: dict[str, Any], summaries: int, old: list[str]
) -> None:
    """A summary, a summary and the newest messages, or nothing; all of it stays in the transcript."""
    chat = model()
    conversation = Conversation.open(
        ":memory:",
        model=chat,
        judge=ScriptedJudge(),
        detector=SHIFTS,
        settings={"recall_tokens": 0, "judging": "off", **settings},
    )
    for text in ("ferry one", "ferry two", "ferry three", "trains four", "tickets five"):
        conversation.say(text)
    context = contexts(chat)[-1]

    assert (summaries, summaries) == (
        summary_requests(chat),
        sum(SUMMARY in line for line in context),
    )
    assert [f"human: ferry {item}" for item in old] == [x for x in context if "human: ferry" in x]
    assert 10 == len(conversation.messages())
    conversation.say("BACK to the ferry")
    assert any("ferry one" in line for line in contexts(chat)[-1])
    conversation.close()


def test_the_similarity_is_in_the_state() -> None:
    """Of the newest question to the topic, whether it changed or not."""
    graph = build_graph(
        model(),
        judge=ScriptedJudge(),
        detector=SHIFTS,
        checkpointer=InMemorySaver(),
        store=InMemoryStore(),
    )
    seen = []
    for text in ("The ferry?", "Its price?", "The trains?"):
        graph.invoke({"messages": [("user", text)]}, config())
        seen.append(graph.get_state(config()).values["topic_similarity"])

    assert [None, 0.75, 0.125] == seen


def test_instructions_of_summarizing_are_sent() -> None:
    """To the answering model, where there is no other summarizer."""
    chat = ScriptedChat(default="We take it. " + "word " * 80)
    strategy = Summarizing(system_prompt="List the code changes.")
    spoken(chat, 34, strategy=strategy, settings={**PLAIN, "context_window_tokens": 3_000}).close()

    assert "List the code changes." in [call[0].text for call in chat.calls]


@pytest.mark.parametrize(
    ("answering", "settings"),
    [
        pytest.param(ScriptedChat(default="a"), {"summaries": "local"}, id="local"),
        pytest.param(lambda _: "a", {}, id="a function answers"),
    ],
)
@pytest.mark.parametrize("wrapped", [True, False])
def test_instructions_that_nobody_reads_are_refused(
    answering: Any, settings: dict[str, Any], *, wrapped: bool
) -> None:
    """When the graph is built."""
    strategy: Any = Summarizing(system_prompt="List the code changes.")
    strategy = Composed(strategies=(SlidingWindow(), strategy)) if wrapped else strategy
    with pytest.raises(ConfigurationError, match=r"Summarizing\(system_prompt=…\) has no effect"):
        build_graph(answering, strategy=strategy, settings=settings)


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"context_window_tokens": 1_000}, id="tokens"),
        pytest.param({"strategy": "sliding", "window_messages": 5}, id="messages"),
    ],
)
def test_pins_over_the_window_are_warned_of_once(settings: dict[str, Any]) -> None:
    """In the stream of the turn in which they no longer fit, and in the log."""
    conversation = spoken(model(), 15, settings={**PLAIN, **settings})
    for turn in range(1, 15):
        conversation.pins.add(turn=turn)
    texts = [
        event.data["text"]
        for number in range(3)
        for event in conversation.stream(f"And {number}?")
        if event.kind == "context_warning"
    ]

    (text,) = texts
    assert text.startswith("28 pinned messages")
    conversation.close()


@pytest.mark.parametrize(
    ("primers", "recents", "is_warned"),
    [(1, 50, True), (0, 30, True), (9, 4, True), (3, 20, False), (1, 10, False), (5, 30, False)],
)
def test_unbalanced_primers_and_recents_are_warned_of_once(
    primers: int, recents: int, *, is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The article's own numbers are balanced, its bad example is not."""
    windows._warn_of_balance.cache_clear()  # another test of this process may have the numbers
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            ThreeStage(primers=primers, recents=recents)

    assert is_warned == (1 == sum("unbalanced" in record.message for record in caplog.records))


@pytest.mark.parametrize(
    ("question", "answer", "kept", "lost"),
    [
        pytest.param(
            "Which ferry do we take?",
            "What a lovely trip that will become. We decided on the Hakone Maru, since it is cheaper. "
            "It leaves pier 3 at 9:15. The sea is often calm.",
            ["decided on the Hakone Maru", "pier 3 at 9:15"],
            ["often calm"],
            id="en",
        ),
        pytest.param(
            "宿はどうしますか?",
            "楽しみですね。宿は「花の宿」に決めました。料金は一人12,000円です。海はきれいです。",
            ["「花の宿」に決めました", "12,000円"],
            ["きれいです"],
            id="ja",
        ),
    ],
)
def test_a_local_summary_keeps_what_matters_of_the_answers(
    question: str, answer: str, kept: list[str], lost: list[str]
) -> None:
    """Decisions, names and numbers, and the questions."""
    chat = ScriptedChat(default=answer)
    conversation = Conversation.open(
        ":memory:",
        model=chat,
        judge=ScriptedJudge(),
        detector=SHIFTS,
        settings={"summaries": "local", "recall_tokens": 0},
    )
    conversation.say(question)
    conversation.say("And the trains?")
    head = contexts(chat)[-1][0]
    conversation.close()

    assert [question, *kept] == [item for item in (question, *kept, *lost) if item in head]
