"""Several threads of one database beside their models; both must always agree."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from tests.graph.differential import MAX_ROLLBACKS, Line, RefusedError, Said
from tests.graph.kit import config
from tests.graph.machine_kit import (
    KNOWN,
    LEADS,
    PROCESSES,
    REFUSALS,
    SETTINGS,
    WINDOW,
    Actors,
    Script,
    told,
)
from tests.reading import branches, in_thread, replayed
from unsay.budget.limits import CircuitPolicy
from unsay.conversation.conversation import Conversation
from unsay.errors import ModelError
from unsay.messages.content import text_of
from unsay.storage.base import Database

MACHINES = settings(max_examples=max(1, settings().max_examples // 4), stateful_step_count=15)
"""How much happens; a machine takes as long as a dozen of other examples."""

THREADS = Bundle("threads")
WHO = st.integers(0, PROCESSES - 1)
PLACES = st.integers(0, 9)
TURNS = st.integers(1, 3)
HOW = st.sampled_from((None, None, "turns", "name"))

_NUMBER = re.compile(r"#(\d+)")


class Differential(Script, RuleBasedStateMachine):
    """Threads that anything may happen to, in a database that two processes hold open."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, Line] = {}
        self.actors: dict[str, Actors] = {}
        self.heard: dict[str, set[str]] = {}
        self.names: list[str] = []
        self.windowed: set[str] = set()
        self.number = 0
        self.open: list[tuple[Database, dict[str, Conversation]]] = []
        self.patch = pytest.MonkeyPatch()
        # A model that failed often is called again at once.
        self.patch.setattr("unsay.llm.gateway.POLICY", CircuitPolicy(failures=1_000))
        self.enter()

    def connect(self) -> Database:
        """Open the database again."""
        raise NotImplementedError

    def disconnect(self, database: Database) -> None:
        """Close what `connect` opened."""
        database.close()

    def enter(self) -> None:
        """All processes start."""
        self.open = [(self.connect(), {}) for _ in range(PROCESSES)]

    def leave(self) -> None:
        """All processes end."""
        for database, _ in self.open:
            self.disconnect(database)
        self.open = []

    def teardown(self) -> None:
        """All processes end."""
        self.leave()
        self.patch.undo()

    @initialize(target=THREADS)
    def begin(self) -> Any:
        """The first thread."""
        return self._begun("t0", Line())

    @rule(target=THREADS)
    def begin_another(self) -> Any:
        """Another thread."""
        name = f"t{len(self.lines)}"
        if len(self.lines) % 2:
            self.windowed.add(name)
        return self._begun(name, Line())

    @rule(
        name=THREADS,
        who=WHO,
        lead=st.sampled_from(LEADS),
        failures=st.sampled_from((0, 0, 0, 1, 2, MAX_ROLLBACKS + 1)),
        score=st.sampled_from((0.9, 0.9, 0.6)),
    )
    def say(self, name: str, who: int, lead: str, failures: int, score: float) -> None:
        """A turn; its first drafts may fail, and the best one is delivered if all do."""
        whole = failures in (0, MAX_ROLLBACKS + 1)
        if not whole and "S4" in KNOWN and name in self.windowed:
            return
        question = self._question(name, lead)
        drafts = [self._answer(name, 0.1) for _ in range(failures)]
        drafts += [] if failures > MAX_ROLLBACKS else [self._answer(name, score)]
        self._perform(name, who, question, drafts)
        if failures > MAX_ROLLBACKS:
            drafts = [*drafts[1:], drafts[0]]
        self.lines[name].say(question, drafts)

    @rule(name=THREADS, who=WHO, leads=st.lists(st.sampled_from(LEADS), min_size=2, max_size=4))
    def converse(self, name: str, who: int, leads: Sequence[str]) -> None:
        """Several good turns, one process after the other."""
        for turn, lead in enumerate(leads):
            self.say(name, (who + turn) % PROCESSES, lead, 0, 0.9)

    @rule(one=THREADS, other=THREADS)
    def speak_at_once(self, one: str, other: str) -> None:
        """Two threads have a turn at the same time, each in another process."""
        if one == other:
            return
        turns = [(name, self._question(name, ""), self._answer(name, 0.9)) for name in (one, other)]
        with ThreadPoolExecutor(PROCESSES) as pool:
            doing = [
                pool.submit(self._perform, name, who, question, [answer])
                for who, (name, question, answer) in enumerate(turns)
            ]
        for each, (name, question, answer) in zip(doing, turns, strict=True):
            each.result()
            self.lines[name].say(question, [answer])

    @rule(name=THREADS, who=WHO, then=st.sampled_from(("again", "other", "undo")))
    def fail(self, name: str, who: int, then: str) -> None:
        """The model cannot be reached; another process resumes the turn, or does not."""
        line, question = self.lines[name], self._question(name, "")
        conversation = self._talk(name, who)
        self.actors[name].prepare([("unreachable",)])
        with pytest.raises(ModelError):
            conversation.say(question)
        line.ask(question)
        self.readings_are_the_models()
        if then == "undo":
            self._talk(name, 1 - who).undo()
            line.undo_question()
            return
        again = question if then == "again" else self._question(name, "")
        answer = self._answer(name, 0.9)
        self._perform(name, 1 - who, again, [answer])
        if then == "again":  # the same message, which the model of the thread adds once more below
            del line.ever[line.transcript.pop().serial]
        else:
            line.unask()
        line.say(again, [answer])

    @rule(name=THREADS, who=WHO)
    def undo(self, name: str, who: int) -> None:
        """Somebody takes the newest step back."""
        self._both(name, self.lines[name].undo, self._talk(name, who).undo)

    @rule(name=THREADS, who=WHO)
    def redo(self, name: str, who: int) -> None:
        """Somebody makes the step again that was undone last."""
        self._both(name, self.lines[name].redo, self._talk(name, who).redo)

    @rule(name=THREADS, who=WHO, how=HOW, turns=TURNS, place=PLACES)
    def rollback(self, name: str, who: int, how: str | None, turns: int, place: int) -> None:
        """Somebody goes back."""
        way = self._way(how, turns, place)
        line, conversation = self.lines[name], self._talk(name, who)
        self._both(name, partial(line.rollback, **way), partial(conversation.rollback, **way))

    @rule(
        name=THREADS,
        who=WHO,
        verb=st.sampled_from(("undo", "redo", "rollback", "rollback", "checkpoint", "timeline")),
        turns=st.sampled_from((None, 1, 2)),
    )
    def order(self, name: str, who: int, verb: str, turns: int | None) -> None:
        """Somebody types an order; the graph obeys it."""
        line = self.lines[name]
        annotation = self._name()
        doings: dict[str, Callable[[Collection[int]], None]] = {
            "undo": line.undo,
            "redo": line.redo,
            "rollback": lambda keep: line.rollback(turns=turns, keep=keep),
            "checkpoint": lambda keep: line.checkpoint(annotation, keep),
            "timeline": lambda _: None,
        }
        words = {
            "rollback": f"/rollback {turns or ''}".strip(),
            "checkpoint": f"/checkpoint {annotation}",
        }
        order = words.get(verb, f"/{verb}")
        self._perform(name, who, order, [])
        line.order(doings[verb])

    @rule(name=THREADS, who=WHO)
    def checkpoint(self, name: str, who: int) -> None:
        """Somebody marks a point."""
        annotation = self._name()
        line, conversation = self.lines[name], self._talk(name, who)
        self._both(
            name, partial(line.checkpoint, annotation), partial(conversation.checkpoint, annotation)
        )

    @rule(name=THREADS, who=WHO)
    def retry(self, name: str, who: int) -> None:
        """Somebody wants another answer to the last question."""
        if "R1" in KNOWN and self.lines[name].waiting():
            return
        answer = self._answer(name, 0.9)
        self.actors[name].prepare([("answer", answer[0], None)])
        line, conversation = self.lines[name], self._talk(name, who)
        self._both(name, partial(line.retry, answer[0]), conversation.retry)

    @rule(name=THREADS, who=WHO, turn=TURNS)
    def edit(self, name: str, who: int, turn: int) -> None:
        """Somebody puts a question in other words."""
        if self.lines[name].waiting():
            return
        question, answer = self._question(name, ""), self._answer(name, 0.9)
        self.actors[name].prepare([("answer", answer[0], None)])
        line, conversation = self.lines[name], self._talk(name, who)
        real = partial(conversation.edit, turn, question)
        self._both(name, partial(line.edit, turn, question, answer[0]), real)

    @rule(name=THREADS, who=WHO, turn=TURNS)
    def remove_turn(self, name: str, who: int, turn: int) -> None:
        """Somebody takes one turn out."""
        line, conversation = self.lines[name], self._talk(name, who)
        self._both(name, partial(line.remove_turn, turn), partial(conversation.remove, turn))

    @rule(name=THREADS, who=WHO, place=PLACES)
    def restore(self, name: str, who: int, place: int) -> None:
        """Somebody brings back what was taken off."""
        line, conversation = self.lines[name], self._talk(name, who)
        if not line.left:
            return
        base, tail = line.left[-1 - place % len(line.left)]
        branch = self._cut(conversation, tail)
        self._both(name, partial(line.restore, base, tail), partial(conversation.restore, branch))

    @rule(name=THREADS, who=WHO, other=THREADS, place=PLACES)
    def pick(self, name: str, who: int, other: str, place: int) -> None:
        """Somebody takes an answer over from a thread, maybe this one."""
        line, conversation = self.lines[name], self._talk(name, who)
        said = self.lines[other].transcript
        found = [i for i, each in enumerate(said) if each.role == "ai"]
        if not found or not line.transcript:
            return
        end = found[place % len(found)]
        chosen = said[max(0, end - 1) : end + 1]
        ids = self._ids(other)
        self.heard[name] |= set(_NUMBER.findall(" ".join(each.text for each in chosen)))
        wanted = [ids[self.lines[other].transcript.index(each)] for each in chosen]
        self._both(name, partial(line.pick, chosen), partial(conversation.pick, wanted, other))

    @rule(target=THREADS, name=THREADS, who=WHO, how=HOW, turns=TURNS, place=PLACES)
    def fork(self, name: str, who: int, how: str | None, turns: int, place: int) -> Any:
        """Continue in a fork."""
        way = self._way(how, turns, place)
        real = {"at" if key == "to" else key: value for key, value in way.items()}
        line, conversation, new = self.lines[name], self._talk(name, who), f"t{len(self.lines)}"
        made = self._both(
            name, partial(line.fork, **way), partial(conversation.fork, thread=new, **real)
        )
        if made is None:
            return multiple()
        if name in self.windowed:
            self.windowed.add(new)
        return self._begun(new, made)

    @rule(name=THREADS, who=WHO, kinds=st.sampled_from((("human", "ai"), ("ai",), ("human",))))
    def put_in(self, name: str, who: int, kinds: Sequence[Any]) -> None:
        """A host puts messages in the transcript."""
        made = [
            (role, self._question(name, "") if role == "human" else self._answer(name, 0.9)[0])
            for role in kinds
        ]
        self._talk(name, who).add([(role, text) for role, text in made])
        self.lines[name].put_in(made)

    @rule(name=THREADS, who=WHO, place=PLACES, node=st.booleans())
    def remove(self, name: str, who: int, place: int, *, node: bool) -> None:
        """A host takes a message off the transcript, by the conversation or by the graph."""
        if (found := self._some_message(name, place)) is None:
            return
        message, message_id = found
        gone = [RemoveMessage(id=message_id)]
        conversation = self._talk(name, who)
        held = conversation.graph.get_state(config(name)).values.get("messages", [])
        if node and message_id in {each.id for each in held}:
            values = {"messages": gone}
            conversation.graph.update_state(config(name), values, as_node="create_checkpoint")
        else:
            conversation.add(gone)
        self.lines[name].take_out(message)

    @rule(name=THREADS, who=WHO, place=PLACES)
    def replace(self, name: str, who: int, place: int) -> None:
        """A host puts other words in the place of a question."""
        found = self._some_message(name, place)
        if found is None or found[0].role != "human":
            return
        message, message_id = found
        words = self._question(name, "")
        self._talk(name, who).add([HumanMessage(words, id=message_id)])
        self.lines[name].replace(message, words)

    @rule(name=THREADS, who=WHO)
    def clear(self, name: str, who: int) -> None:
        """A host empties the transcript."""
        self._talk(name, who).add([RemoveMessage(id=REMOVE_ALL_MESSAGES)])
        self.lines[name].clear()

    @rule()
    def look_for_all(self) -> None:
        """Every message is in the transcript or in a branch, and the event log gives the transcript."""
        for name, line in self.lines.items():
            conversation = self._talk(name)
            kept = {text for branch in branches(conversation) for _, text in told(branch.messages)}
            assert set() == line.lost() - kept
            if line.transcript:
                assert line.told() == told(replayed(conversation).messages)

    @rule()
    def restart(self) -> None:
        """All processes end, and others go on."""
        self.leave()
        self.enter()

    @invariant()
    def readings_are_the_models(self) -> None:
        """A process that opens the database now reads in every thread what its model holds."""
        with self._fresh() as reader:
            for name, line in self.lines.items():
                assert line.told() == told(reader(name).messages())

    @invariant()
    def nobody_hears_another_thread(self) -> None:
        """What models and judges were shown was said in their own threads."""
        for name, actors in self.actors.items():
            assert [] == actors.told
            shown = " ".join(text_of(m) for view in actors.views for m in view)
            assert set() == set(_NUMBER.findall(shown)) - self.heard[name]
            actors.begin()

    @contextmanager
    def _fresh(self) -> Iterator[Callable[[str], Conversation]]:
        """Threads as a process sees them that opens the database now."""
        database = self.connect()
        try:
            first = Conversation.open(database, thread="reader")
            yield lambda name: in_thread(first, name)
        finally:
            self.disconnect(database)

    def _begun(self, name: str, line: Line) -> str:
        self.lines[name], self.actors[name] = line, Actors()
        said = " ".join(each.text for each in line.transcript)
        self.heard[name] = set(_NUMBER.findall(said))
        return name

    def _talk(self, name: str, who: int = 0) -> Conversation:
        database, talks = self.open[who]
        if name not in talks:
            parts = self.actors[name].parts("scripted")
            given = {**SETTINGS, "summaries": "local", **(WINDOW if name in self.windowed else {})}
            talks[name] = Conversation.open(database, thread=name, settings=given, **parts)
        return talks[name]

    def _perform(
        self, name: str, who: int, words: str, drafts: Sequence[tuple[str, float]]
    ) -> None:
        """A turn with these drafts."""
        conversation = self._talk(name, who)
        self.actors[name].prepare([("answer", text, None) for text, _ in drafts])
        reply = conversation.say(words)
        assert ("answer" if drafts else "notice") == reply.kind

    def _both(self, name: str, model: Callable[[], Any], real: Callable[[], Any]) -> Line | None:
        """Do a thing to both; what the model refuses, the thread must refuse."""
        try:
            made = model()
        except RefusedError:
            self.actors[name].begin()
            with pytest.raises(REFUSALS):
                real()
            return None
        real()
        assert made is None or isinstance(made, Line)
        return made

    def _ids(self, name: str) -> list[str]:
        return [message.id or "" for message in self._talk(name).messages()]

    def _some_message(self, name: str, place: int) -> tuple[Said, str] | None:
        """A message of the conversation itself, and its id; `None` where there is none."""
        line = self.lines[name]
        said = line.transcript
        if not said:
            return None
        message = said[place % len(said)]
        return message, self._ids(name)[line.transcript.index(message)]

    def _cut(self, conversation: Conversation, tail: Sequence[Said]) -> str:
        """Id of the branch that holds these words."""
        wanted = [(each.role, each.text) for each in tail]
        found = [branch.id for branch in branches(conversation) if told(branch.messages) == wanted]
        assert found
        return str(found[-1])
