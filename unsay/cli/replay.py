"""`unsay replay`, and a turn's contexts: what a model was sent, and what came of it."""

from dataclasses import asdict, fields

import click
from langchain_core.messages import AIMessage, BaseMessage, message_to_dict

from unsay.cli.output import call_text, chosen_language, print_json, usage_error
from unsay.cli.run import Opened, on_thread
from unsay.cli.terminal import UNBOUNDED, WIDE, aligned, block, columns, room, side_by_side
from unsay.context.manifest import CallContext, write_ranges
from unsay.conversation.branching import LIVE
from unsay.conversation.conversation import Conversation
from unsay.conversation.model_calls import PENDING, Answered, Replay, TurnCall, TurnCalls
from unsay.messages.content import language_of, preview, text_of
from unsay.orders.parse import score_text
from unsay.prompts.catalogue import Texts
from unsay.results.timeline import one_line
from unsay.results.usage import percent, window_text
from unsay.settings.settings import load_settings


def _check(*, model: str | None, judge_model: str | None, payload: bool, **_others: object) -> None:
    if model is None and judge_model is not None:
        raise usage_error("--judge-model needs --model, whose answer it judges.")
    if model is not None and payload:
        raise usage_error("--payload sends no request: leave --model out.")


@on_thread(_check)
def replay(
    opened: Opened,
    *,
    turn: int | None,
    run: str | None,
    attempt: int | None,
    model: str | None,
    judge_model: str | None,
    payload: bool,
) -> None:
    settings = load_settings({} if judge_model is None else {"judge_model": judge_model})
    if settings.model is None and model is not None:
        # Without a configured judge the other model judges itself.
        settings = load_settings({"model": model, "judge_model": settings.judge_model})
    conversation = Conversation.open(opened.database, thread=opened.thread_id, settings=settings)
    result = conversation.replay(turn=turn, run_id=run, attempt=attempt, model=model)
    if payload:
        print_json(result.payload)
    else:
        report = {field.name: getattr(result, field.name) for field in fields(result)}
        report["messages"] = [message_to_dict(message) for message in result.messages]
        report["recorded"] = asdict(result.recorded)
        report["again"] = result.again and {"model": model, **asdict(result.again)}
        opened.show(lambda: _Page(result, model).print(), **report)
    if result.again is not None and result.again.error is not None:
        click.get_current_context().exit(1)


class _Page:
    """Prints a replay for a person, all of it on standard output."""

    def __init__(self, made: Replay, model: str | None) -> None:
        self._made = made
        self._model = model or ""
        self._words = Texts(chosen_language() or language_of(made.question))
        self._columns = room()

    def print(self) -> None:
        result, words = self._made, self._words
        attempt_label = words.say("attempt", turn=result.turn, attempt=result.attempt)
        exactness = words.say("exact" if result.exact else "planned")
        parts = " · ".join(part for part in (attempt_label, exactness, result.run_id) if part)
        click.echo(click.style(block(parts, indent=0), dim=True))
        for message in result.messages:
            self._print_part(_role(message, words), _content(message), dim=True)
        recorded_text, other_answer = self._outcome(result.recorded), result.again
        if other_answer is None:
            self._print_part(words.say("recorded"), recorded_text, bold=True)
        elif WIDE <= self._columns < UNBOUNDED:
            heads, bodies = (
                (words.say("recorded"), self._model),
                (recorded_text, self._outcome(other_answer)),
            )
            click.echo("\n" + side_by_side(heads, bodies, columns=self._columns))
        else:
            self._print_part(words.say("recorded"), recorded_text, bold=True)
            self._print_part(self._model, self._outcome(other_answer), bold=True)

    def _print_part(self, head: str, body: str, **style: bool) -> None:
        title = one_line(head, min(self._columns, columns()))
        click.echo("\n" + click.style(title, **style))
        click.echo(block(body))

    def _outcome(self, came: Answered) -> str:
        words = self._words
        verdict_text = words.say(
            "score_and_reason", score=score_text(came.score), reason=came.reason
        )
        if came.error is not None:
            verdict_text = words.say("failed", error=came.error, reason=came.reason)
        elif came.score is None:
            verdict_text = words.say("unscored", reason=came.reason)
        answer_text = "\n".join(part for part in (came.answer, *came.calls) if part.strip())
        if not answer_text and came.error is None:
            answer_text = words.say("silent")
        return "\n\n".join(part for part in (verdict_text.removesuffix(": "), answer_text) if part)


def _role(message: BaseMessage, words: Texts) -> str:
    roles = {
        "human": words.say("user"),
        "ai": words.say("assistant"),
        "system": words.say("system"),
        "tool": words.say("tool"),
    }
    role = roles.get(message.type, message.type)
    return f"{role} {message.name}" if message.name else role


def _content(message: BaseMessage) -> str:
    content = message.content if isinstance(message.content, list) else []
    kinds = [each.get("type") for each in content if isinstance(each, dict)]
    other = [f"[{kind}]" for kind in kinds if kind not in (None, "text")]
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    call_texts = [call_text(each["name"], each["args"]) for each in calls]
    return "\n".join(part for part in (text_of(message), *other, *call_texts) if part)


def print_context(opened: Opened, made: TurnCalls) -> None:
    """Print the model calls of a turn, as text or as JSON; there is at least one.

    Of each call: the messages that it was sent, those that were left out, and its tokens.
    """

    def show() -> None:
        words = Texts(chosen_language() or language_of(made.question))
        head = words.say("context", turn=made.turn, question=preview(made.question))
        click.echo(click.style(block(head, indent=0), bold=True))
        for each in made.calls:
            click.echo()
            click.echo(block(_head(each, words), indent=0))
            costs = window_text(each.context, words).split("\n")
            for line in (*_rules(each.context, words), *costs):
                click.echo(block(line))
            if (usage := each.context.usage) is not None:
                prompt = usage.input + usage.cache_read + usage.cache_creation
                usage_line = words.say(
                    "reported",
                    input=f"{prompt:,}",
                    cached=percent(usage.cache_read, prompt, words),
                    output=f"{usage.output:,}",
                )
                click.echo(block(usage_line))

    opened.show(show, **made.to_dict())


def _head(call: TurnCall, words: Texts) -> str:
    context = call.context
    parts = [words.say("call", attempt=context.attempt, call=context.call), context.model]
    if call.branch == PENDING:
        parts.append(words.say("pending"))
    elif call.branch != LIVE:
        parts.append(words.say("call_removed", branch=call.branch))
    if call.score is not None:
        parts.append(words.say("score", score=score_text(call.score)))
    if call.words:
        parts.append(words.say("at_message", words=call.words))
    return " · ".join(filter(None, parts))


def _rules(context: CallContext, words: Texts) -> list[str]:
    rows = []
    for rule in filter(lambda rule: rule.places, (context.sent, *context.rules)):
        places = write_ranges(rule.places).replace(",", ", ")
        count = words.say("messages", places=places, count=f"{len(rule.places):,}")
        rows.append((words.table("context_rules").get(rule.name, rule.name), count))
    lines = list(aligned(rows))
    if context.unplaced:
        lines.append(words.say("unplaced", count=context.unplaced))
    return lines if context.fits else [words.say("changed"), *lines]
