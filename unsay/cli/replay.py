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
    made = conversation.replay(turn=turn, run_id=run, attempt=attempt, model=model)
    if payload:
        print_json(made.payload)
    else:
        shown = {field.name: getattr(made, field.name) for field in fields(made)}
        shown["messages"] = [message_to_dict(message) for message in made.messages]
        shown["recorded"] = asdict(made.recorded)
        shown["again"] = made.again and {"model": model, **asdict(made.again)}
        opened.show(lambda: _Page(made, model).print(), **shown)
    if made.again is not None and made.again.error is not None:
        click.get_current_context().exit(1)


class _Page:
    """Prints a replay for a person, all of it on standard output."""

    def __init__(self, made: Replay, model: str | None) -> None:
        self._made = made
        self._model = model or ""
        self._words = Texts(chosen_language() or language_of(made.question))
        self._columns = room()

    def print(self) -> None:
        made, words = self._made, self._words
        which = words.say("attempt", turn=made.turn, attempt=made.attempt)
        how = words.say("exact" if made.exact else "planned")
        parts = " · ".join(part for part in (which, how, made.run_id) if part)
        click.echo(click.style(block(parts, indent=0), dim=True))
        for message in made.messages:
            self._print_part(_role(message, words), _content(message), dim=True)
        then, again = self._outcome(made.recorded), made.again
        if again is None:
            self._print_part(words.say("recorded"), then, bold=True)
        elif WIDE <= self._columns < UNBOUNDED:
            heads, bodies = (words.say("recorded"), self._model), (then, self._outcome(again))
            click.echo("\n" + side_by_side(heads, bodies, columns=self._columns))
        else:
            self._print_part(words.say("recorded"), then, bold=True)
            self._print_part(self._model, self._outcome(again), bold=True)

    def _print_part(self, head: str, body: str, **style: bool) -> None:
        title = one_line(head, min(self._columns, columns()))
        click.echo("\n" + click.style(title, **style))
        click.echo(block(body))

    def _outcome(self, came: Answered) -> str:
        words = self._words
        judged = words.say("score_and_reason", score=score_text(came.score), reason=came.reason)
        if came.error is not None:
            judged = words.say("failed", error=came.error, reason=came.reason)
        elif came.score is None:
            judged = words.say("unscored", reason=came.reason)
        said = "\n".join(part for part in (came.answer, *came.calls) if part.strip())
        if not said and came.error is None:
            said = words.say("silent")
        return "\n\n".join(part for part in (judged.removesuffix(": "), said) if part)


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
    asked = [call_text(each["name"], each["args"]) for each in calls]
    return "\n".join(part for part in (text_of(message), *other, *asked) if part)


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
            if (used := each.context.usage) is not None:
                prompt = used.input + used.cache_read + used.cache_creation
                told = words.say(
                    "reported",
                    input=f"{prompt:,}",
                    cached=percent(used.cache_read, prompt, words),
                    output=f"{used.output:,}",
                )
                click.echo(block(told))

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
