"""The verdict on a turn's draft."""

from dataclasses import asdict, replace

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.generation.context_builder import AttemptContext
from unsay.generation.judge import exchange_of, judge_exchange
from unsay.generation.relevance import nothing_relevant
from unsay.generation.topic_intent import topics_to_label
from unsay.tokens.pricing import merged
from unsay.tracing import send_score
from unsay.verdicts import Verdict

# Answers that the judge never skips: those of the first turns of a thread, and every eighth one.
FIRST_JUDGED = 4
JUDGED_EVERY = 8


def judge_draft(attempt: AttemptContext, draft: list[AnyMessage]) -> Steps[Verdict]:
    """Return the verdict on the attempt's draft with its tool calls, and stream the verdict.

    In most turns after the first four the judge may be skipped: see `judge_exchange`. A judge that
    fails, or whose call is over a budget, raises nothing: the verdict is unscored.
    """
    state, scope, answer = attempt.state, attempt.scope, draft[-1]
    turn = state["turn"]
    question = next(m for m in state["messages"] if m.id == turn["question_id"])
    before = [m for m in attempt.start.messages if m.id not in turn["pending"]]
    # After an interruption the steps that were finished before it are in the context already.
    pending = [m for m in attempt.start.messages if m.id in turn["pending"]]
    exchange = exchange_of(question, answer, before, [*pending, *draft[:-1]])
    exchange = replace(
        exchange, found_nothing=nothing_relevant(state, draft), topics=topics_to_label(state)
    )
    # The key is the same after a crash, so that a repeated step does not pay its judge twice.
    key = f"{turn['question_id']}-{attempt.hints.attempt}"
    is_first = not turn["rejections"]
    may_skip = is_first and turn["number"] > FIRST_JUDGED and turn["number"] % JUDGED_EVERY
    spent = merged(state.get("spent", {}), scope.step_log.spent) if may_skip else None
    verdict = yield from judge_exchange(exchange, answer, scope, key=key, spent=spent)
    scope.emit("verdict", of="draft", message_id=answer.id, **asdict(verdict))
    send_score(scope.config, verdict.score, of_graph=False)
    return verdict
