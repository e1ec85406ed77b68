"""Wrong arguments of public functions and constructors are our errors, with what to do."""

import asyncio
import inspect
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage

from tests.threads import open_conversation, registry_of
from unsay import (
    AsyncConversation,
    AsyncRegistry,
    ByTurns,
    Composed,
    Conversation,
    Null,
    Registry,
    Reminder,
    Settings,
    SlidingWindow,
    Summarizing,
    ThreeStage,
    TopicMemory,
    TopicScoped,
    TopicShift,
    build_graph,
    reversible,
)
from unsay.context import Rate
from unsay.errors import ConfigurationError, InputError, InvalidNameError, UnknownBranchError
from unsay.prompts import ENGLISH
from unsay.testing import Delay, Fault, ScriptedChat, ScriptedDetector, ScriptedJudge, ToolCalls

WRONG: dict[Any, list[dict[str, Any]]] = {
    build_graph: [
        {"model": 3},
        {"model": ""},
        {"judge": 3},
        {"judge": " "},
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
    ThreeStage: [{"primers": "x"}, {"x": 1}, {"summary_tokens": 0}, {"window_messages": 0}],
    Rate: [{"min_new_messages": -1}, {"min_minutes": math.nan}, {"min_minutes": math.inf}],
    Summarizing: [{"summary_ratio": "x"}, {"x": 1}, {"summary_tokens": -1}],
    ByTurns: [
        {"keep_turns": "x"},
        {"x": 1},
        {"summary_tokens": 0, "keep_turns": 1, "compress_at_turns": 9},
    ],
    Composed: [{"strategies": 3}, {}],
    Null: [{"per_turn": "x"}, {"x": 1}],
    TopicMemory: [{"topic_id": 3, "texts": ()}, {"topic_id": "x", "texts": "x"}, {}],
    TopicShift: [{"kind": 3, "similarity": 0.5}, {"kind": "new", "similarity": "x"}, {}],
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
    with pytest.raises(ConfigurationError) as error_info:
        make(**options)
    assert not options or any(
        name in str(error_info.value) or repr(value) in str(error_info.value)
        for name, value in options.items()
    )


def test_settings_without_a_name() -> None:
    """A value without its name is refused, as by the other constructors."""
    with pytest.raises(ConfigurationError, match="with its name, got 3"):
        Settings(3)


VERBS = [
    pytest.param(cls, name, parameter, id=f"{cls.__name__}.{name}-{parameter.name}")
    for cls in (Conversation, AsyncConversation, Registry, AsyncRegistry)
    for name, verb in inspect.getmembers(cls, callable)
    if not name.startswith("_")
    for parameter in inspect.signature(verb).parameters.values()
    if parameter.name != "self" and parameter.annotation is not Any
]


def use_result(result: Any) -> None:
    """Run what a verb returns: a coroutine, or an iterator that does nothing before it is read."""

    async def read_all() -> None:
        async for _ in result:
            pass

    if isinstance(result, Coroutine):
        asyncio.run(result)
    elif isinstance(result, AsyncIterator):
        asyncio.run(read_all())
    elif isinstance(result, Iterator):
        list(result)


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(("cls", "name", "parameter"), VERBS)
def test_a_wrong_type_in_a_verb_is_our_error(
    cls: Any, name: str, parameter: inspect.Parameter
) -> None:
    """Each parameter of each public method refuses an object of a foreign class, by its name."""
    parameters = inspect.signature(getattr(cls, name)).parameters.values()
    examples: dict[Any, Any] = {int: 1, int | None: 1, Sequence[str]: ["1"]}
    valid_values = {
        parameter.name: examples.get(parameter.annotation, "1")
        for parameter in parameters
        if parameter.name != "self"
        and parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_KEYWORD
    }
    options = {} if issubclass(cls, Registry | AsyncRegistry) else {"model": ScriptedChat()}
    facade = cls.open(":memory:", **options)
    label = cls.__name__ if name == "open" else name
    wrong = {**valid_values, parameter.name: object()}
    keyword_names = [
        parameter.name
        for parameter in parameters
        if parameter.kind is not parameter.POSITIONAL_ONLY
    ]
    by_place = [
        wrong[name] for name in valid_values | {parameter.name: 1} if name not in keyword_names
    ]
    by_name = {name: value for name, value in wrong.items() if name in keyword_names}
    with pytest.raises(
        InputError, match=f"{label}: {parameter.name} |no option '{parameter.name}'"
    ):
        use_result(getattr(facade, name)(*by_place, **by_name))
    facade._database.close()


@pytest.mark.parametrize("decision", [object(), {3: 4}], ids=["object", "keys"])
def test_a_decision_that_cannot_be_read(decision: Any) -> None:
    """It is refused, and the thread still waits for one."""
    options = {"settings": {"on_exhausted": "ask"}, "judge": ScriptedJudge(default=0.1)}
    with Conversation.open(
        ":memory:", model=ScriptedChat(default="Bad."), **options
    ) as conversation:
        assert "decision" == conversation.say("A question?").kind
        with pytest.raises(InputError):
            conversation.resume(decision)
        assert "answer" == conversation.resume("approve").kind


def test_a_text_that_is_unknown() -> None:
    """A misspelt text is refused with the nearest name."""
    with pytest.raises(ConfigurationError, match=r"no text 'undonee'.*'undone'"):
        replace(ENGLISH, undonee="x")  # type: ignore[call-arg]


HALF = "half \ud800 of a pair"


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    "use",
    [
        lambda conversation: conversation.say(HALF),
        lambda conversation: conversation.say("q", documents=[HALF]),
        lambda conversation: conversation.say("q", turn_id=HALF),
        lambda conversation: list(conversation.stream(HALF)),
        lambda conversation: conversation.checkpoint(HALF),
        lambda conversation: conversation.rollback(HALF),
        lambda conversation: conversation.fork(thread=HALF),
        lambda conversation: conversation.forget(turns=1, reason=HALF),
        lambda conversation: conversation.recall(HALF),
        lambda conversation: registry_of(conversation).note(HALF),
        lambda conversation: registry_of(conversation).label(name=HALF),
        lambda conversation: registry_of(conversation).label(**{HALF: "value"}),
        lambda conversation: conversation.add([("user", HALF)]),
        lambda conversation: conversation.add([HumanMessage(HALF)]),
        lambda conversation: conversation.add([HumanMessage([{"type": "text", "text": HALF}])]),
        lambda conversation: conversation.resume(HALF),
    ],
)
def test_half_of_a_surrogate_pair(use: Callable[[Conversation], object]) -> None:
    """Text that no file can hold is refused before anything is stored."""
    model = ScriptedChat(default="An answer.")
    with Conversation.open(":memory:", model=model, judge=ScriptedJudge()) as conversation:
        conversation.say("A question?")
        before = conversation.messages(), registry_of(conversation).events()
        with pytest.raises(InputError, match=r"surrogate pair|half a character|cannot be stored"):
            use(conversation)
        assert before == (conversation.messages(), registry_of(conversation).events())


@pytest.mark.parametrize("name", ["live", "LIVE", "branch-1", "cp-0a1b2c3d4e", "topic-1", "run-0f"])
def test_names_that_mean_something_else(name: str) -> None:
    """Neither a checkpoint nor a fork may have a name that other commands read otherwise."""
    model = ScriptedChat(default="An answer.")
    with Conversation.open(":memory:", model=model, judge=ScriptedJudge()) as conversation:
        conversation.say("A question?")
        with pytest.raises(InvalidNameError, match="reserved"):
            conversation.checkpoint(name)
        with pytest.raises(InvalidNameError, match="reserved"):
            conversation.fork(thread=name)
        assert "reserved" in conversation.say(f"/checkpoint {name}").text


def judge_of_three(question: str, answer: str, context: str) -> float:
    """A judge that cannot be called with the messages."""
    return float(question == answer)


def scripted_conversation() -> Conversation:
    """A conversation with one turn."""
    conversation = open_conversation(model=ScriptedChat(default="Hi"), judge=ScriptedJudge())
    conversation.say("Hello")
    return conversation


@pytest.mark.usefixtures("closes_databases")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(
            lambda: Conversation.open(":memory:", system_prompt="Be brief."),
            r"Conversation: 'system_prompt' is a setting: write settings={'system_prompt': …}",
            id="a setting as an option",
        ),
        pytest.param(
            lambda: build_graph(preset="chat"),
            r"build_graph: 'preset' is a setting: write settings={'preset': …}",
            id="a setting as an option of the graph",
        ),
        pytest.param(
            lambda: Conversation.open(":memory:", quality_treshold=0.7),
            "no option 'quality_treshold'.*settings={…} takes settings",
            id="a misspelt setting as an option",
        ),
        pytest.param(
            lambda: Conversation.open(":memory:", judge=0.5),
            r"judge must be BaseChatModel \| Runnable\[.*\] \| Callable\[.*\] \| str \| .*None, got 0.5",
            id="types without modules",
        ),
        pytest.param(
            lambda: build_graph(treshold=3),
            "it takes model=None, judge=None, summarizer=None,",
            id="names without types",
        ),
        pytest.param(
            lambda: reversible(lambda day: day),
            "it takes undo=…, confirm=False",
            id="a decorator without its call",
        ),
        pytest.param(
            lambda: build_graph(tools=[lambda word: word]),
            "cannot be a tool.*docstring",
            id="a tool without a docstring",
        ),
        pytest.param(
            lambda: Settings(quality_threshold=7),
            "quality_threshold: Input should be less than or equal to 1, got 7",
            id="a value out of range",
        ),
        pytest.param(
            lambda: Settings(quality_threshold=0.9, checkpoint_threshold=0.5),
            "cannot be used: quality_threshold 0.9 must not be above checkpoint_threshold 0.5",
            id="two values",
        ),
        pytest.param(
            lambda: Settings(session_budget_cost=1),
            r'add prices = \{"gpt-4.1-mini" = \{input = …, output = …\}\}',
            id="a budget without prices",
        ),
        pytest.param(
            lambda: scripted_conversation().rollback(1),  # type: ignore[arg-type]
            r"to must be str \| Checkpoint \| None, got 1 \(did you mean turns=1\?\)",
            id="the value of another parameter",
        ),
        pytest.param(
            lambda: scripted_conversation().say("Hi", documents="One text."),
            r"got 'One text.'; put it in a list: documents=\[…\]",
            id="one item for a list",
        ),
        pytest.param(
            lambda: scripted_conversation().edit("2", "Hi"),  # type: ignore[arg-type]
            r"turn must be int, got '2' \(did you mean turn=2\?\)",
            id="a number as text",
        ),
        pytest.param(
            lambda: scripted_conversation().rollback({"id": "cp-1", "turn": 1}),  # type: ignore[arg-type]
            r"got \{'id': 'cp-1', 'turn': 1\}; give its id: to='cp-1'",
            id="a whole checkpoint for its id",
        ),
        pytest.param(
            lambda: scripted_conversation().pins.add(AIMessage("Hello!", id="7")),  # type: ignore[arg-type]
            r"give its id: message_id='7'",
            id="a whole message for its id",
        ),
        pytest.param(
            lambda: scripted_conversation().say("Hi", documents=[Document("One text.")]),  # type: ignore[list-item]
            r"; give the texts: \[each.page_content for each in …\]",
            id="documents for texts",
        ),
        pytest.param(
            lambda: build_graph(judge=judge_of_three),
            "one argument, the messages, or with two, question and answer, and judge_of_three does not take that",
            id="a function by its name",
        ),
        pytest.param(
            lambda: ScriptedChat(replies=["Hi"]),  # type: ignore[arg-type]
            r"replies must be Mapping\[str, .*got \['Hi'\]",
            id="a scripted reply",
        ),
        pytest.param(
            lambda: scripted_conversation().edit(1, ""),
            "The new text of turn 1 is empty",
            id="an empty text",
        ),
        pytest.param(
            lambda: Registry.open(":memory:").sessions(since=datetime(2026, 1, 31)),
            "since=.* has no zone",
            id="a time without a zone",
        ),
    ],
)
def test_says_what_to_pass(call: Callable[[], Any], message: str) -> None:
    """An error shows names as they are written in a call, the value, and what is missing."""
    with pytest.raises((InputError, ConfigurationError), match=message):
        call()


@pytest.mark.usefixtures("closes_databases")
@pytest.mark.parametrize(("verb", "option"), [("forget", "turns"), ("pins.add", "turn")])
def test_a_turn_in_place_of_an_id(verb: str, option: str) -> None:
    """The error names the argument that takes a turn."""
    conversation = scripted_conversation()
    with pytest.raises(UnknownBranchError, match=f"A turn is given with the option {option}=…$"):
        attrgetter(verb)(conversation)("9")


def booking(day: str) -> str:
    """Book a day."""
    return day


def test_an_undo_whose_parameters_are_unknown_is_refused() -> None:
    """Some builtins have no signature."""
    with pytest.raises(ConfigurationError, match="pass a function with named parameters"):
        reversible(undo={"Monday": 1}.pop)(booking)


@pytest.mark.parametrize(
    ("describe", "problem"),
    [
        (
            "the day {dya}",
            r"placeholder \{dya\} that no call of the tool fills: use \{args\}, \{day\}, ",
        ),
        ("the day {day", "expected '}' before end of string; write {{ or }} for a brace"),
        ("the day {}", r"placeholder \{\} that no call"),
    ],
)
def test_a_description_that_no_call_fills_is_refused(describe: str, problem: str) -> None:
    """Where the tool is declared, as a misspelt parameter of its undo is."""
    with pytest.raises(ConfigurationError, match=problem):
        reversible(undo=lambda day: None, describe=describe)(booking)
    for good in ("the day {day}", "{args[day]} {result}", "{{day}}"):
        reversible(undo=lambda day: None, describe=good)(booking)


def test_two_tools_with_one_name_are_refused() -> None:
    """No provider accepts them, and only one of them would ever run."""
    with pytest.raises(ConfigurationError, match="Several tools have the name 'booking'"):
        build_graph(ScriptedChat(), tools=[booking, booking])


def test_composed_takes_a_list() -> None:
    """It is kept as a tuple."""
    assert Composed(strategies=(Null(),)) == Composed(strategies=[Null()])


def test_a_title_that_no_model_can_write_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A title in place of a model is taken for a model's name, and nothing else would say so."""
    options = {"model": ScriptedChat(default="Hi"), "judge": ScriptedJudge()}
    with Conversation.open(":memory:", title="My trip", **options) as conversation:
        conversation.say("Hello")
    assert "event=title_failed" in caplog.text
    assert "model 'My trip'" in caplog.text
