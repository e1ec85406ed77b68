"""The checkpoints of a thread: making, finding and thinning them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from unicodedata import normalize

from langchain_core.messages import AnyMessage

from unsay.errors import (
    AmbiguousCheckpointError,
    CheckpointExistsError,
    ConflictError,
    InvalidNameError,
    UnknownCheckpointError,
)
from unsay.messages.annotations import turn_numbers
from unsay.messages.content import same_name
from unsay.storage.items import digest_of
from unsay.types import Checkpoint, CheckpointReason, Offloaded

NAMED_LIMIT = 200
# Most unnamed ones: the newest half without gaps, and the older ones with growing gaps.
UNNAMED_LIMIT = 32

_CONTROLS = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
# What `diff` reads as the current branch, and how ids begin: a name must not be mistaken for them.
RESERVED = re.compile(r"live|branch-.*|(cp|forgot|topic|run)-[0-9a-f]+", re.IGNORECASE)
_NAME = re.compile(rf"[^\s/{_CONTROLS}][^{_CONTROLS}]{{0,63}}")


def make_checkpoint(
    *,
    message_id: str | None,
    turn: int,
    score: float | None,
    topic: str,
    reason: CheckpointReason,
    created_at: str,
    name: str | None = None,
) -> Checkpoint:
    """Return a checkpoint of these fields; its id is a hash of its message's id.

    A `message_id` of `None` is the beginning of the transcript; a `name` of `None` is unnamed.
    """
    # A node that runs twice makes the same checkpoint.
    return Checkpoint(
        id=f"cp-{digest_of(message_id or '')[:10]}",
        name=name,
        message_id=message_id,
        turn=turn,
        score=score,
        topic=topic,
        reason=reason,
        created_at=created_at,
    )


def beside_named(checkpoints: Sequence[Checkpoint], new: Checkpoint) -> Checkpoint:
    """Return the new checkpoint with the id under which `add_checkpoint` must get it.

    It gets the id of a checkpoint with the same message and name, if there is one. If it has a
    name, and its own id is that of a checkpoint with another name, it gets a new id, so that both
    exist. Otherwise it keeps its id; `add_checkpoint` merges it with one of this id, if any.
    """
    there = [each for each in checkpoints if each["message_id"] == new["message_id"]]
    same = next((each for each in there if same_name(each["name"], new["name"])), None)
    if same is not None:
        return {**new, "id": same["id"]}
    if new["name"] is None or not any(each["id"] == new["id"] and each["name"] for each in there):
        return new
    return {**new, "id": id_with_name(new["message_id"], new["name"])}


def id_with_name(message_id: str | None, name: str) -> str:
    """Return a checkpoint's id made of its message and name, so that one message can have several."""
    seed = f"{message_id}\x00{name}"
    return f"cp-{digest_of(seed)[:10]}"


def check_name(name: str) -> str:
    """Return a name in NFC, without surrounding spaces.

    Raises:
        InvalidNameError: It is empty, too long, starts with a slash, has control characters, is a
            word that means something else (`live`), or is written like an id.
    """
    stripped = normalize("NFC", name.strip())
    if not _NAME.fullmatch(stripped):
        raise InvalidNameError(code="checkpoint_name", name=name)
    if RESERVED.fullmatch(stripped):
        raise InvalidNameError(code="checkpoint_name_reserved", name=name, better=stripped)
    return stripped


def add_checkpoint(checkpoints: Sequence[Checkpoint], new: Checkpoint) -> list[Checkpoint]:
    """Return the checkpoints with one more, thinned to `UNNAMED_LIMIT` unnamed ones.

    If one has the id of `new` already, none is added: that one gets the name of `new`, if there is
    one, and the score of `new` if it has none. `beside_named` decides the id of `new` before.

    Raises:
        CheckpointExistsError: Another checkpoint has this name.
        ConflictError: The thread has `NAMED_LIMIT` named checkpoints.
    """
    others = [checkpoint for checkpoint in checkpoints if checkpoint["id"] != new["id"]]
    if new["name"] and any(same_name(checkpoint["name"], new["name"]) for checkpoint in others):
        raise CheckpointExistsError(code="checkpoint_exists", name=new["name"])
    merged: list[Checkpoint] = []
    for checkpoint in checkpoints:
        score = new["score"] if checkpoint["score"] is None else checkpoint["score"]
        name = new["name"] or checkpoint["name"]
        both: Checkpoint = {**checkpoint, "name": name, "score": score}
        merged.append(both if checkpoint["id"] == new["id"] else checkpoint)
    if len(others) == len(checkpoints):
        merged.append(new)
    if sum(checkpoint["name"] is not None for checkpoint in merged) > NAMED_LIMIT:
        raise ConflictError(code="too_many_checkpoints", limit=NAMED_LIMIT)
    return thin(merged, limit=UNNAMED_LIMIT)


def thin(checkpoints: Sequence[Checkpoint], *, limit: int) -> list[Checkpoint]:
    """Return the checkpoints without unnamed ones over the limit; older ones get sparser.

    The one that leaves the smallest gap for its age is dropped first. The newest half of the limit
    stays. Named ones are never dropped.
    """
    # One by one, so that thinning a list at once gives the same as thinning it while it grows.
    kept_checkpoints: list[Checkpoint] = []
    unnamed = 0
    for checkpoint in checkpoints:
        kept_checkpoints.append(checkpoint)
        unnamed += checkpoint["name"] is None
        if unnamed > limit:
            del kept_checkpoints[_least_missed(kept_checkpoints, (limit + 1) // 2)]
            unnamed -= 1
    return kept_checkpoints


def _least_missed(kept: Sequence[Checkpoint], recent: int) -> int:
    """Return the index of the unnamed checkpoint to drop; the newest `recent` ones are safe."""
    unnamed = [index for index, checkpoint in enumerate(kept) if checkpoint["name"] is None]
    turns = [1, *(checkpoint["turn"] for checkpoint in kept)]
    newest = max(turns)

    def missed(index: int) -> float:
        gap = turns[index + 2] - turns[index]
        return gap / (newest - turns[index + 1] + 1)

    return min(unnamed[: len(unnamed) - recent], key=missed)


def find_checkpoint(checkpoints: Sequence[Checkpoint], reference: str) -> Checkpoint:
    """Return the checkpoint with this name, id, or unique beginning of an id; names compare in NFC.

    Raises:
        UnknownCheckpointError: No checkpoint matches; the message lists the newest ones.
        AmbiguousCheckpointError: Several ids have this beginning.
    """
    name_or_id = reference.strip()
    for key in ("name", "id"):
        for checkpoint in checkpoints:
            if name_or_id and same_name(checkpoint[key], name_or_id):
                return checkpoint
    # An empty text is the beginning of every id.
    matches = [c for c in checkpoints if name_or_id and c["id"].startswith(name_or_id)]
    if len(matches) > 1:
        raise AmbiguousCheckpointError(
            code="checkpoint_ambiguous", count=len(matches), name=reference, ids=_listed(matches)
        )
    if matches:
        return matches[0]
    if not checkpoints:
        raise UnknownCheckpointError(code="no_checkpoints", name=reference)
    raise UnknownCheckpointError(
        code="no_checkpoint", name=reference, newest=_listed(checkpoints[-10:])
    )


def _listed(checkpoints: Sequence[Checkpoint]) -> str:
    return ", ".join(
        f"{checkpoint['id']} ({checkpoint['name']})" if checkpoint["name"] else checkpoint["id"]
        for checkpoint in checkpoints
    )


def by_age(
    checkpoints: Sequence[Checkpoint], positions: Mapping[str | None, int], *, through: int
) -> list[Checkpoint]:
    """Return the checkpoints whose message is at index `through` or before, the latest first.

    `positions` has the indices by message id. A checkpoint without one is left out: it is at the
    beginning of the thread, or its message is offloaded.
    """
    candidates = [
        checkpoint
        for checkpoint in checkpoints
        if positions.get(checkpoint["message_id"], through + 1) <= through
    ]
    return sorted(
        candidates, key=lambda checkpoint: positions[checkpoint["message_id"]], reverse=True
    )


def renumbered(
    checkpoints: Sequence[Checkpoint], messages: Sequence[AnyMessage], offloaded: Offloaded | None
) -> list[Checkpoint]:
    """Return the checkpoints with their turn numbers counted again, after `messages` changed.

    The number counts the answered turns up to the checkpoint's message, offloaded turns included.
    A checkpoint at an offloaded message keeps its number.
    """
    before, last = (offloaded["turns"], offloaded["last"]) if offloaded else (0, None)
    turns_at = {None: 0, last: before, **turn_numbers(messages, before)}
    return [
        {**each, "turn": turns_at.get(each["message_id"], each["turn"])} for each in checkpoints
    ]


def metadata_of(
    checkpoints: Sequence[Checkpoint], messages: Sequence[AnyMessage], offloaded: Offloaded | None
) -> dict[str, Any]:
    """Return the state's `checkpoint_metadata`: it describes the last checkpoint in the transcript.

    Empty without a checkpoint. `message_count` is the number of messages up to it, with the
    offloaded ones; `None` if its own message is offloaded.
    """
    if not checkpoints:
        return {}
    before = offloaded["messages"] if offloaded else 0
    places: dict[str | None, int] = {each.id: index for index, each in enumerate(messages)}
    # At one message the checkpoint that was made last counts.
    newest = max(reversed(checkpoints), key=lambda each: places.get(each["message_id"], -1))
    if newest["message_id"] not in places:
        newest = max(reversed(checkpoints), key=lambda each: each["turn"])
    place = places.get(newest["message_id"])
    count = None if place is None else before + place + 1
    return {
        "checkpoint_id": newest["id"],
        "name": newest["name"],
        "timestamp": newest["created_at"],
        "topic": newest["topic"],
        "quality_score": newest["score"],
        "message_count": 0 if newest["message_id"] is None else count,
    }
