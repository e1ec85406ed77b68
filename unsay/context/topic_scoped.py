"""Each topic has a context of its own, and it is there again when the talk returns to it."""

from dataclasses import dataclass, field, replace

from unsay.context.compaction import with_partners
from unsay.context.plan import Plan, Situation
from unsay.context.strategy import PerTurn, Strategy, check_strategy, planned, tried
from unsay.context.three_stage import ThreeStage
from unsay.context.topics import by_topic, current_topic_id, opened_topics, standing
from unsay.effects import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicScoped:
    """Shows the topic under way, and within it what another strategy shows.

    What was said on other topics is left out; pins and the running question are
    shown wherever they were said. Each topic keeps its own fold.
    """

    within: Strategy = field(default_factory=ThreeStage)

    def __post_init__(self) -> None:
        check_strategy(self.within)

    @property
    def per_turn(self) -> PerTurn:
        """When the other strategy is asked."""
        return True

    def plan(self, now: Situation) -> Steps[Plan]:
        """The topic's view."""
        scoped = self.scoped(now)
        return (yield from planned(self.within, scoped))

    def reduce(self, now: Situation) -> Steps[Plan]:
        """A smaller view of the topic."""
        return (yield from tried(self.within.reduce, self.scoped(now)))

    def scoped(self, now: Situation) -> Situation:
        """The situation of the topic under way; all of it where there are no topics."""
        segments = standing(now.messages, now.segments)
        topic = current_topic_id(segments)
        if topic is None:
            return now
        grouped = by_topic(now.messages, segments)
        opened = opened_topics(segments, now.unfolded)
        shown = now.earlier | {m.id for name in opened for m in grouped.get(name, [])}
        firm = with_partners(now.messages, now.pins | now.pending)
        kept = {
            message.id
            for index, message in enumerate(now.messages)
            if message.id in shown or index in firm or message.type == "system"
        }
        known = {each["topic_id"] for each in segments}
        folds = {k: v for k, v in now.fold.get("topics", {}).items() if k in known}
        return replace(
            now,
            messages=[each for each in now.messages if each.id in kept],
            elsewhere=(*now.elsewhere, *(m.id or "" for m in now.messages if m.id not in kept)),
            fold={**now.fold, "topics": folds} if now.fold.get("topics") else now.fold,
            topic_id=topic,
        )
