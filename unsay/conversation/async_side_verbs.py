"""Written by `docs/generate_async.py` from `side_verbs.py`."""

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from unsay.conversation import audit, judgements, topic_summaries
from unsay.conversation.facade import OnLoop, OpenedThread, checks_arguments
from unsay.conversation.judgements import Bisection, JudgedTurn
from unsay.conversation.topic_summaries import SAMPLE, JudgedSummary
from unsay.effects import adrive
from unsay.history.runs import RunFilters, RunPage
from unsay.history.threads import ThreadInfo
from unsay.storage.base import Purged
from unsay.types import Event


@checks_arguments
class AsyncSideVerbs(OpenedThread, OnLoop):
    """`SideVerbs` for async code."""

    async def import_ratings(self, rows: Iterable[Mapping[str, Any]]) -> int:
        """As `SideVerbs.import_ratings`."""
        return await adrive(self._handle.alone(judgements.import_ratings(self._handle, rows)))

    async def judge(self, *, turn: int | None = None) -> tuple[JudgedTurn, ...]:
        """As `SideVerbs.judge`."""
        return await adrive(self._handle.alone(judgements.judge(self._handle, turn=turn)))

    async def bisect(self) -> Bisection:
        """As `SideVerbs.bisect`."""
        return await adrive(self._handle.alone(judgements.bisect(self._handle)))

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
