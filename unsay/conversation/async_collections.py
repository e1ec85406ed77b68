"""Written by `docs/generate_async.py` from `collections.py`."""

from collections.abc import Mapping
from typing import Any

from unsay.conversation import memory
from unsay.conversation.facade import Part, checks_arguments
from unsay.effects import adrive
from unsay.memory.lessons import Lesson, Rating
from unsay.types import Pin


@checks_arguments
class AsyncPins(Part):
    """`Pins` for async code."""

    async def add(
        self, message_id: str | None = None, *, turn: int | None = None
    ) -> tuple[Pin, ...]:
        """As `Pins.add`."""
        return await adrive(self._handle.alone(memory.pin(self._handle, message_id, turn=turn)))

    async def remove(
        self, message_id: str | None = None, *, turn: int | None = None
    ) -> tuple[Pin, ...]:
        """As `Pins.remove`."""
        return await adrive(self._handle.alone(memory.unpin(self._handle, message_id, turn=turn)))

    async def list(self) -> tuple[Pin, ...]:
        """As `Pins.list`."""
        return await adrive(self._handle.reading(memory.pins))


@checks_arguments
class AsyncLessons(Part):
    """`Lessons` for async code."""

    async def list(self) -> tuple[Lesson, ...]:
        """As `Lessons.list`."""
        return await adrive(self._handle.reading(memory.lessons))

    async def change(self, lesson: str | int, text: str) -> Lesson:
        """As `Lessons.change`."""
        return await adrive(self._handle.alone(memory.edit_lesson(self._handle, lesson, text)))

    async def remove(self, lesson: str | int) -> Lesson:
        """As `Lessons.remove`."""
        return await adrive(self._handle.alone(memory.remove_lesson(self._handle, lesson)))


@checks_arguments
class AsyncRatings(Part):
    """`Ratings` for async code."""

    async def add(self, turn: int, label: str, *, note: str = "") -> Rating:
        """As `Ratings.add`."""
        return await adrive(self._handle.alone(memory.rate(self._handle, turn, label, note=note)))

    async def list(self) -> tuple[Mapping[str, Any], ...]:
        """As `Ratings.list`."""
        return await adrive(self._handle.reading(memory.ratings))
