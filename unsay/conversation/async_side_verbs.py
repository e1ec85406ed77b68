"""Written by `docs/generate_async.py` from `side_verbs.py`."""

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from unsay.conversation import audit, judgements, memory, navigation, topic_summaries
from unsay.conversation.facade import OnLoop, OpenedThread, checks_arguments
from unsay.conversation.judgements import Bisection, JudgedTurn
from unsay.conversation.results import Checkpoint
from unsay.conversation.topic_summaries import SAMPLE, JudgedSummary
from unsay.effects import adrive
from unsay.history.runs import RunFilters, RunPage
from unsay.history.threads import ThreadInfo
from unsay.operations.lessons import Lesson, Rating
from unsay.operations.usage_report import Status
from unsay.storage.base import Purged
from unsay.types import Event, Forgotten, Pin


@checks_arguments
class AsyncSideVerbs(OpenedThread, OnLoop):
    """`SideVerbs` for async code."""

    async def start_task(self, name: str) -> Checkpoint:
        """As `SideVerbs.start_task`."""
        return await adrive(self._handle.alone(navigation.start_task(self._handle, name)))

    async def pin(
        self, message_id: str | None = None, *, turn: int | None = None
    ) -> tuple[Pin, ...]:
        """As `SideVerbs.pin`."""
        return await adrive(self._handle.alone(memory.pin(self._handle, message_id, turn=turn)))

    async def unpin(
        self, message_id: str | None = None, *, turn: int | None = None
    ) -> tuple[Pin, ...]:
        """As `SideVerbs.unpin`."""
        return await adrive(self._handle.alone(memory.unpin(self._handle, message_id, turn=turn)))

    async def pins(self) -> tuple[Pin, ...]:
        """As `SideVerbs.pins`."""
        return await adrive(self._handle.reading(memory.pins))

    async def forget_tool_results(
        self, below: float = 0.3, *, question: str | None = None, reason: str = ""
    ) -> Forgotten | None:
        """As `SideVerbs.forget_tool_results`."""
        return await adrive(
            self._handle.alone(
                memory.forget_tool_results(self._handle, below, question=question, reason=reason)
            )
        )

    async def rate(self, turn: int, label: str, *, note: str = "") -> Rating:
        """As `SideVerbs.rate`."""
        return await adrive(
            self._handle.alone(judgements.rate(self._handle, turn, label, note=note))
        )

    async def ratings(self) -> tuple[Mapping[str, Any], ...]:
        """As `SideVerbs.ratings`."""
        return await adrive(self._handle.reading(judgements.ratings))

    async def import_ratings(self, rows: Iterable[Mapping[str, Any]]) -> int:
        """As `SideVerbs.import_ratings`."""
        return await adrive(self._handle.alone(judgements.import_ratings(self._handle, rows)))

    async def lessons(self) -> tuple[Lesson, ...]:
        """As `SideVerbs.lessons`."""
        return await adrive(self._handle.reading(judgements.lessons))

    async def edit_lesson(self, lesson: str | int, text: str) -> Lesson:
        """As `SideVerbs.edit_lesson`."""
        return await adrive(self._handle.alone(judgements.edit_lesson(self._handle, lesson, text)))

    async def remove_lesson(self, lesson: str | int) -> Lesson:
        """As `SideVerbs.remove_lesson`."""
        return await adrive(self._handle.alone(judgements.remove_lesson(self._handle, lesson)))

    async def judge(self, *, turn: int | None = None) -> tuple[JudgedTurn, ...]:
        """As `SideVerbs.judge`."""
        return await adrive(self._handle.alone(judgements.judge(self._handle, turn=turn)))

    async def bisect(self) -> Bisection:
        """As `SideVerbs.bisect`."""
        return await adrive(self._handle.alone(judgements.bisect(self._handle)))

    async def status(self) -> Status:
        """As `SideVerbs.status`."""
        return await adrive(self._handle.reading(audit.status))

    async def judge_summaries(
        self, sample: int | None = SAMPLE, *, seed: int = 0
    ) -> tuple[JudgedSummary, ...]:
        """As `SideVerbs.judge_summaries`."""
        return await adrive(
            self._handle.alone(topic_summaries.judge_summaries(self._handle, sample, seed=seed))
        )

    async def events(self) -> list[Event]:
        """As `SideVerbs.events`."""
        return await adrive(self._handle.reading(audit.events))

    async def runs(self, **filters: Unpack[RunFilters]) -> RunPage:
        """As `SideVerbs.runs`."""
        return await adrive(self._handle.reading(audit.runs, **filters))

    async def note(
        self, text: str, *, event_id: str | None = None, labels: Mapping[str, str] | None = None
    ) -> bool:
        """As `SideVerbs.note`."""
        return await adrive(
            self._handle.alone(audit.note(self._handle, text, event_id=event_id, labels=labels))
        )

    async def label(self, /, **labels: str | None) -> ThreadInfo:
        """As `SideVerbs.label`."""
        return await adrive(self._handle.alone(audit.label(self._handle, **labels)))

    async def end(self) -> ThreadInfo:
        """As `SideVerbs.end`."""
        return await adrive(self._handle.alone(audit.end(self._handle)))

    async def purge(self) -> Purged:
        """As `SideVerbs.purge`."""
        return await adrive(self._handle.alone(audit.purge(self._handle)))
