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
    roles_and_texts,
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
        process=WHO,
        lead=st.sampled_from(LEADS),
        failures=st.sampled_from((0, 0, 0, 1, 2, MAX_ROLLBACKS + 1)),
        score=st.sampled_from((0.9, 0.9, 0.6)),
    )
    def say(self, name: str, process: int, lead: str, failures: int, score: float) -> None:
        """A turn; its first drafts may fail, and the best one is delivered if all do."""
        is_whole = failures in (0, MAX_ROLLBACKS + 1)
        if not is_whole and "S4" in KNOWN and name in self.windowed:
            return
        question = self._question(name, lead)
        drafts = [self._answer(name, 0.1) for _ in range(failures)]
        drafts += [] if failures > MAX_ROLLBACKS else [self._answer(name, score)]
        self._perform(name, process, question, drafts)
        if failures > MAX_ROLLBACKS:
            drafts = [*drafts[1:], drafts[0]]
        self.lines[name].say(question, drafts)

    @rule(name=THREADS, process=WHO, leads=st.lists(st.sampled_from(LEADS), min_size=2, max_size=4))
    def converse(self, name: str, process: int, leads: Sequence[str]) -> None:
        """Several good turns, one process after the other."""
        for turn, lead in enumerate(leads):
            self.say(name, (process + turn) % PROCESSES, lead, 0, 0.9)

    @rule(one=THREADS, other_name=THREADS)
    def speak_at_once(self, one: str, other_name: str) -> None:
        """Two threads have a turn at the same time, each in another process."""
        if one == other_name:
            return
        turns = [
            (name, self._question(name, ""), self._answer(name, 0.9)) for name in (one, other_name)
        ]
        with ThreadPoolExecutor(PROCESSES) as pool:
            doing = [
                pool.submit(self._perform, name, process, question, [answer])
                for process, (name, question, answer) in enumerate(turns)
            ]
        for item, (name, question, answer) in zip(doing, turns, strict=True):
            item.result()
            self.lines[name].say(question, [answer])

    @rule(name=THREADS, process=WHO, next_step=st.sampled_from(("again", "other", "undo")))
    def fail(self, name: str, process: int, next_step: str) -> None:
        """The model cannot be reached; another process resumes the turn, or does not."""
        line = self.lines[name]
        question = self._question(name, "")
        conversation = self._conversation(name, process)
        self.actors[name].prepare([("unreachable",)])
        with pytest.raises(ModelError):
            conversation.say(question)
        line.ask(question)
        self.readings_are_the_models()
        if next_step == "undo":
            self._conversation(name, 1 - process).undo()
            line.undo_question()
            return
        second_question = question if next_step == "again" else self._question(name, "")
        answer = self._answer(name, 0.9)
        self._perform(name, 1 - process, second_question, [answer])
        if (
            next_step == "again"
        ):  # the same message, which the model of the thread adds once more below
            del line.ever[line.transcript.pop().serial]
        else:
            line.unask()
        line.say(second_question, [answer])

    @rule(name=THREADS, process=WHO)
    def undo(self, name: str, process: int) -> None:
        """Somebody takes the newest step back."""
        self._both(name, self.lines[name].undo, self._conversation(name, process).undo)

    @rule(name=THREADS, process=WHO)
    def redo(self, name: str, process: int) -> None:
        """Somebody makes the step again that was undone last."""
        self._both(name, self.lines[name].redo, self._conversation(name, process).redo)

    @rule(name=THREADS, process=WHO, target_kind=HOW, turns=TURNS, position=PLACES)
    def rollback(
        self, name: str, process: int, target_kind: str | None, turns: int, position: int
    ) -> None:
        """Somebody goes back."""
        target = self._way(target_kind, turns, position)
        line = self.lines[name]
        conversation = self._conversation(name, process)
        self._both(name, partial(line.rollback, **target), partial(conversation.rollback, **target))

    @rule(
        name=THREADS,
        process=WHO,
        verb=st.sampled_from(("undo", "redo", "rollback", "rollback", "checkpoint", "timeline")),
        turns=st.sampled_from((None, 1, 2)),
    )
    def order(self, name: str, process: int, verb: str, turns: int | None) -> None:
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
        text = {
            "rollback": f"/rollback {turns or ''}".strip(),
            "checkpoint": f"/checkpoint {annotation}",
        }
        order = text.get(verb, f"/{verb}")
        self._perform(name, process, order, [])
        line.order(doings[verb])

    @rule(name=THREADS, process=WHO)
    def checkpoint(self, name: str, process: int) -> None:
        """Somebody marks a point."""
        annotation = self._name()
        line = self.lines[name]
        conversation = self._conversation(name, process)
        self._both(
            name, partial(line.checkpoint, annotation), partial(conversation.checkpoint, annotation)
        )

    @rule(name=THREADS, process=WHO)
    def retry(self, name: str, process: int) -> None:
        """Somebody wants another answer to the last question."""
        if "R1" in KNOWN and self.lines[name].waiting():
            return
        answer = self._answer(name, 0.9)
        self.actors[name].prepare([("answer", answer[0], None)])
        line = self.lines[name]
        conversation = self._conversation(name, process)
        self._both(name, partial(line.retry, answer[0]), conversation.retry)

    @rule(name=THREADS, process=WHO, turn=TURNS)
    def edit(self, name: str, process: int, turn: int) -> None:
        """Somebody puts a question in other words."""
        if self.lines[name].waiting():
            return
        question = self._question(name, "")
        answer = self._answer(name, 0.9)
        self.actors[name].prepare([("answer", answer[0], None)])
        line = self.lines[name]
        conversation = self._conversation(name, process)
        real = partial(conversation.edit, turn, question)
        self._both(name, partial(line.edit, turn, question, answer[0]), real)

    @rule(name=THREADS, process=WHO, turn=TURNS)
    def remove_turn(self, name: str, process: int, turn: int) -> None:
        """Somebody takes one turn out."""
        line = self.lines[name]
        conversation = self._conversation(name, process)
        self._both(name, partial(line.remove_turn, turn), partial(conversation.remove, turn))

    @rule(name=THREADS, process=WHO, position=PLACES)
    def restore(self, name: str, process: int, position: int) -> None:
        """Somebody brings back what was taken off."""
        line = self.lines[name]
        conversation = self._conversation(name, process)
        if not line.left:
            return
        base, tail = line.left[-1 - position % len(line.left)]
        branch = self._cut(conversation, tail)
        self._both(name, partial(line.restore, base, tail), partial(conversation.restore, branch))

    @rule(name=THREADS, process=WHO, other_name=THREADS, position=PLACES)
    def pick(self, name: str, process: int, other_name: str, position: int) -> None:
        """Somebody takes an answer over from a thread, maybe this one."""
        line = self.lines[name]
        conversation = self._conversation(name, process)
        transcript = self.lines[other_name].transcript
        answer_indexes = [i for i, item in enumerate(transcript) if item.role == "ai"]
        if not answer_indexes or not line.transcript:
            return
        end = answer_indexes[position % len(answer_indexes)]
        picked_messages = transcript[max(0, end - 1) : end + 1]
        ids = self._ids(other_name)
        self.heard[name] |= set(
            _NUMBER.findall(" ".join(message.text for message in picked_messages))
        )
        message_ids = [
            ids[self.lines[other_name].transcript.index(message)] for message in picked_messages
        ]
        self._both(
            name,
            partial(line.pick, picked_messages),
            partial(conversation.pick, message_ids, other_name),
        )

    @rule(target=THREADS, name=THREADS, process=WHO, target_kind=HOW, turns=TURNS, position=PLACES)
    def fork(
        self, name: str, process: int, target_kind: str | None, turns: int, position: int
    ) -> Any:
        """Continue in a fork."""
        target = self._way(target_kind, turns, position)
        real = {"at" if key == "to" else key: value for key, value in target.items()}
        line = self.lines[name]
        conversation = self._conversation(name, process)
        new = f"t{len(self.lines)}"
        new_line = self._both(
            name, partial(line.fork, **target), partial(conversation.fork, thread=new, **real)
        )
        if new_line is None:
            return multiple()
        if name in self.windowed:
            self.windowed.add(new)
        return self._begun(new, new_line)

    @rule(name=THREADS, process=WHO, kinds=st.sampled_from((("human", "ai"), ("ai",), ("human",))))
    def put_in(self, name: str, process: int, kinds: Sequence[Any]) -> None:
        """A host puts messages in the transcript."""
        new_line = [
            (role, self._question(name, "") if role == "human" else self._answer(name, 0.9)[0])
            for role in kinds
        ]
        self._conversation(name, process).add([(role, text) for role, text in new_line])
        self.lines[name].put_in(new_line)

    @rule(name=THREADS, process=WHO, position=PLACES, node=st.booleans())
    def remove(self, name: str, process: int, position: int, *, node: bool) -> None:
        """A host takes a message off the transcript, by the conversation or by the graph."""
        if (found_message := self._some_message(name, position)) is None:
            return
        message, message_id = found_message
        removals = [RemoveMessage(id=message_id)]
        conversation = self._conversation(name, process)
        messages = conversation.graph.get_state(config(name)).values.get("messages", [])
        if node and message_id in {message.id for message in messages}:
            values = {"messages": removals}
            conversation.graph.update_state(config(name), values, as_node="create_checkpoint")
        else:
            conversation.add(removals)
        self.lines[name].take_out(message)

    @rule(name=THREADS, process=WHO, position=PLACES)
    def replace(self, name: str, process: int, position: int) -> None:
        """A host puts other words in the place of a question."""
        found_message = self._some_message(name, position)
        if found_message is None or found_message[0].role != "human":
            return
        message, message_id = found_message
        question = self._question(name, "")
        self._conversation(name, process).add([HumanMessage(question, id=message_id)])
        self.lines[name].replace(message, question)

    @rule(name=THREADS, process=WHO)
    def clear(self, name: str, process: int) -> None:
        """A host empties the transcript."""
        self._conversation(name, process).add([RemoveMessage(id=REMOVE_ALL_MESSAGES)])
        self.lines[name].clear()

    @rule()
    def look_for_all(self) -> None:
        """Every message is in the transcript or in a branch, and the event log gives the transcript."""
        for name, line in self.lines.items():
            conversation = self._conversation(name)
            kept_branches = {
                text
                for branch in branches(conversation)
                for _, text in roles_and_texts(branch.messages)
            }
            assert set() == line.lost() - kept_branches
            if line.transcript:
                assert line.told() == roles_and_texts(replayed(conversation).messages)

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
                assert line.told() == roles_and_texts(reader(name).messages())

    @invariant()
    def nobody_hears_another_thread(self) -> None:
        """What models and judges were shown was said in their own threads."""
        for name, actors in self.actors.items():
            assert [] == actors.told
            text = " ".join(text_of(m) for view in actors.views for m in view)
            assert set() == set(_NUMBER.findall(text)) - self.heard[name]
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
        self.lines[name] = line
        self.actors[name] = Actors()
        text = " ".join(message.text for message in line.transcript)
        self.heard[name] = set(_NUMBER.findall(text))
        return name

    def _conversation(self, name: str, process: int = 0) -> Conversation:
        database, conversations = self.open[process]
        if name not in conversations:
            parts = self.actors[name].parts("scripted")
            options = {
                **SETTINGS,
                "summaries": "local",
                **(WINDOW if name in self.windowed else {}),
            }
            conversations[name] = Conversation.open(
                database, thread=name, settings=options, **parts
            )
        return conversations[name]

    def _perform(
        self, name: str, process: int, text: str, drafts: Sequence[tuple[str, float]]
    ) -> None:
        """A turn with these drafts."""
        conversation = self._conversation(name, process)
        self.actors[name].prepare([("answer", text, None) for text, _ in drafts])
        reply = conversation.say(text)
        assert ("answer" if drafts else "notice") == reply.kind

    def _both(self, name: str, model: Callable[[], Any], real: Callable[[], Any]) -> Line | None:
        """Do a thing to both; what the model refuses, the thread must refuse."""
        try:
            new_model = model()
        except RefusedError:
            self.actors[name].begin()
            with pytest.raises(REFUSALS):
                real()
            return None
        real()
        assert new_model is None or isinstance(new_model, Line)
        return new_model

    def _ids(self, name: str) -> list[str]:
        return [message.id or "" for message in self._conversation(name).messages()]

    def _some_message(self, name: str, position: int) -> tuple[Said, str] | None:
        """A message of the conversation itself, and its id; `None` where there is none."""
        line = self.lines[name]
        transcript = line.transcript
        if not transcript:
            return None
        message = transcript[position % len(transcript)]
        return message, self._ids(name)[line.transcript.index(message)]

    def _cut(self, conversation: Conversation, tail: Sequence[Said]) -> str:
        """Id of the branch that holds these words."""
        roles_and_words = [(item.role, item.text) for item in tail]
        ids = [
            branch.id
            for branch in branches(conversation)
            if roles_and_texts(branch.messages) == roles_and_words
        ]
        assert ids
        return str(ids[-1])
