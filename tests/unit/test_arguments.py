"""Wrong arguments of public functions and constructors are our errors, with what to do."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from unsay import (
    ByTurns,
    Composed,
    Conversation,
    Reminder,
    Settings,
    SlidingWindow,
    Summarizing,
    ThreeStage,
    TopicScoped,
    build_graph,
    reversible,
)
from unsay.errors import ConfigurationError, InputError, InvalidNameError
from unsay.prompts import ENGLISH
from unsay.testing import Delay, Fault, ScriptedChat, ScriptedDetector, ScriptedJudge, ToolCalls

WRONG: dict[Any, list[dict[str, Any]]] = {
    build_graph: [
        {"model": 3},
        {"judge": 3},
        {"summarizer": 3},
        {"tools": 3},
        {"tools": [3]},
        {"detector": 3},
        {"reminders": [3]},
        {"strategy": 3},
        {"embeddings": 3},
        {"prompts": 3},
        {"settings": 3},
        {"settings": {"quality_threshold": 3}},
        {"checkpointer": 3},
        {"store": 3},
        {"clock": 3},
        {"modle": "x"},
    ],
    Settings: [{"quality_threshold": 3}, {"quality": 1}, {"language": "fr"}],
    ScriptedJudge: [{"scores": 3}, {"scores": {"x": None}}, {"scors": {}}, {"default": None}],
    ScriptedChat: [{"replies": 3}, {"replies": {"x": 3}}, {"default": 3}, {"reply": ""}],
    ScriptedDetector: [{"shifts": 3}, {"default": 3}, {"shift": {}}],
    ToolCalls: [{"calls": 3}, {"calls": []}, {}],
    Fault: [{"error": 3}, {}],
    Delay: [{"seconds": "x", "reply": ""}, {"seconds": 1}],
    SlidingWindow: [{"window_size": "x"}, {"size": 3}],
    ThreeStage: [{"primers": "x"}, {"x": 1}],
    Summarizing: [{"summary_ratio": "x"}, {"x": 1}],
    ByTurns: [{"keep_turns": "x"}, {"x": 1}],
    Composed: [{"strategies": 3}, {}],
    TopicScoped: [{"within": "x"}, {"x": 1}],
    Reminder: [{"reminder_id": 3, "text": "x"}, {"reminder_id": "x"}],
    reversible: [{"undo": 3}, {}],
    type(ENGLISH): [{"language": "fr"}, {"language": "en", "foo": ""}],
}

CALLS = [
    pytest.param(make, options, id=f"{make.__name__}-{options}")
    for make, several in WRONG.items()
    for options in several
]


@pytest.mark.parametrize(("make", "options"), CALLS)
def test_a_wrong_argument_is_our_error(
    make: Callable[..., object], options: dict[str, Any]
) -> None:
    """It is a `ConfigurationError` that names the argument."""
    with pytest.raises(ConfigurationError) as raised:
        make(**options)
    assert not options or any(
        name in str(raised.value) or repr(value) in str(raised.value)
        for name, value in options.items()
    )


def test_a_text_that_is_unknown() -> None:
    """A misspelt text is refused with the nearest name."""
    with pytest.raises(ConfigurationError, match=r"no text 'undonee'.*'undone'"):
        replace(ENGLISH, undonee="x")  # type: ignore[call-arg]


HALF = "half \ud800 of a pair"


@pytest.mark.parametrize(
    "use",
    [
        lambda talk: talk.say(HALF),
        lambda talk: talk.say("q", documents=[HALF]),
        lambda talk: talk.say("q", turn_id=HALF),
        lambda talk: list(talk.stream(HALF)),
        lambda talk: talk.checkpoint(HALF),
        lambda talk: talk.rollback(HALF),
        lambda talk: talk.fork(thread=HALF),
        lambda talk: talk.forget(turns=1, reason=HALF),
        lambda talk: talk.recall(HALF),
        lambda talk: talk.note(HALF),
        lambda talk: talk.label(name=HALF),
        lambda talk: talk.label(**{HALF: "value"}),
        lambda talk: talk.add([("user", HALF)]),
        lambda talk: talk.add([HumanMessage(HALF)]),
        lambda talk: talk.add([HumanMessage([{"type": "text", "text": HALF}])]),
        lambda talk: talk.resume(HALF),
    ],
)
def test_half_of_a_surrogate_pair(use: Callable[[Conversation], object]) -> None:
    """Text that no file can hold is refused before anything is stored."""
    model = ScriptedChat(default="An answer.")
    with Conversation.open(":memory:", model=model, judge=ScriptedJudge()) as talk:
        talk.say("A question?")
        before = talk.messages(), talk.events()
        with pytest.raises(InputError, match=r"surrogate pair|cannot be stored"):
            use(talk)
        assert before == (talk.messages(), talk.events())


@pytest.mark.parametrize("name", ["live", "LIVE", "branch-1", "cp-0a1b2c3d4e", "topic-1", "run-0f"])
def test_names_that_mean_something_else(name: str) -> None:
    """Neither a checkpoint nor a fork may have a name that other commands read otherwise."""
    model = ScriptedChat(default="An answer.")
    with Conversation.open(":memory:", model=model, judge=ScriptedJudge()) as talk:
        talk.say("A question?")
        with pytest.raises(InvalidNameError, match="reserved"):
            talk.checkpoint(name)
        with pytest.raises(InvalidNameError, match="reserved"):
            talk.fork(thread=name)
        assert "reserved" in talk.say(f"/checkpoint {name}").text
