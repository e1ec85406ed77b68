"""The commands about judging: lessons, ratings, old scores, bisection and calibration."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

import unsay
from unsay.cli.output import fields_of, note, print_json, show, usage_error
from unsay.cli.run import (
    Opened,
    existing_thread,
    listed_database,
    notice_command,
    on_thread,
    rows_of,
    settings_of,
)
from unsay.cli.terminal import aligned
from unsay.errors import InputError
from unsay.evaluation import judging
from unsay.graph.builder import make_services
from unsay.history.threads import search_sessions
from unsay.judging import calibration
from unsay.judging.calibration import Calibration, Confusion, Costs, Labelled, Share
from unsay.judging.heuristics import prejudge
from unsay.messages.content import language_of
from unsay.orders import order as orders
from unsay.prompts.catalogue import Texts
from unsay.protocols import Exchange
from unsay.results.lists import lessons_text
from unsay.results.results import score_text
from unsay.settings.settings import load_settings
from unsay.types import Language

SETTINGS_FILE = Path("unsay.toml")


@on_thread()
def lessons(opened: Opened) -> None:
    thread_lessons = opened.conversation.lessons.list()
    opened.show(
        lambda: click.echo(lessons_text(thread_lessons, opened.labels)),
        lessons=list(thread_lessons),
    )


lesson = notice_command(
    lambda number, text: orders.ChangeLesson(lesson=str(number), text=text), "lesson"
)
unlearn = notice_command(lambda number: orders.ChangeLesson(lesson=str(number)), "lesson")
rate = notice_command(
    lambda turn, label, reason: orders.Rate(turn=turn, label=label, note=reason), "rating"
)


def ratings(
    *, thread: str | None, everywhere: bool, source: str | None, db: str | None, as_json: bool
) -> None:
    if everywhere and thread is not None:
        raise usage_error("Give --thread or --all, not both.")
    if everywhere and source is not None:
        raise usage_error("Give --import or --all, not both.")
    if everywhere:
        with listed_database(db) as database:
            for each in rows_of(database, search_sessions, "sessions", {}).items:
                _print_ratings(unsay.Conversation.open(database, thread=each.thread_id))
        return
    with existing_thread(db, thread, as_json=as_json) as open_thread:
        if source is None:
            _print_ratings(open_thread.conversation)
            return
        count = judging.import_ratings(open_thread.conversation, _rows(source))
        open_thread.show(lambda: open_thread.labels.say("imported", count=count), imported=count)


def _print_ratings(conversation: "unsay.Conversation") -> None:
    for row in conversation.ratings.list():
        print_json(row)


@on_thread()
def judge(opened: Opened, *, turn: int | None, model: str | None, judge_model: str | None) -> None:
    conversation = _with_models(opened, model, judge_model)
    judged_turns = judging.judge(conversation, turn=turn)
    texts = opened.labels

    def row(each: judging.JudgedTurn) -> str:
        verdict = each.verdict
        return texts.say(
            "judged_turn",
            turn=each.turn,
            score=score_text(verdict.score),
            outcome=texts.table("outcomes")[verdict.outcome],
            question=each.question,
            reason=verdict.reason,
        )

    rows = "\n".join(map(row, judged_turns)) or texts.say("no_turns")
    opened.show(lambda: rows, turns=judged_turns)


@on_thread()
def bisect(opened: Opened, *, yes: bool, model: str | None, judge_model: str | None) -> None:
    conversation = _with_models(opened, model, judge_model)
    bisection = judging.bisect(conversation)
    rolls_back = yes and bisection.turn is not None
    if rolls_back:
        conversation.rollback(turns=bisection.to_roll_back)
    texts = opened.labels
    name = "bisected_nothing" if bisection.confirmed else "bisected_unjudged"
    name = name if bisection.turn is None else "bisected"
    opened.show(lambda: texts.say(name, **fields_of(bisection)), bisection, rolled_back=rolls_back)
    if bisection.turn is not None and not bisection.confirmed:
        note(texts.say("bisected_unsure"))
    if rolls_back:
        note(texts.say("bisected_back", count=bisection.to_roll_back))
    elif bisection.turn is not None:
        note(texts.say("bisected_offer", count=bisection.to_roll_back))


def _with_models(
    opened: Opened, model: str | None, judge_model: str | None
) -> "unsay.Conversation":
    settings = settings_of({"model": model, "judge_model": judge_model})
    if settings.judging == "model" and settings.judge_model is None:
        _ = make_services(settings=settings).model  # for its error, once instead of for each turn
    return unsay.Conversation.open(opened.database, thread=opened.thread_id, settings=settings)


def calibrate(
    *,
    file: str,
    alarm_cost: float,
    miss_cost: float,
    write: bool,
    db: str | None,
    as_json: bool,
) -> None:
    """Print the calibration of the labels in a file, and with `write` store its thresholds.

    The threshold of a language with too few good labels is not stored.

    Raises:
        UsageError: `db` is given, but this command reads no database.
        InputError: The file cannot be read, no language has both good and bad labels, no threshold
            is left to store, or `SETTINGS_FILE` cannot be changed.
        ConfigurationError: With `write`, another setting is impossible.
    """
    if db is not None:
        raise usage_error("calibrate reads FILE and no database: leave --db out.")
    costs = Costs(alarm=alarm_cost, miss=miss_cost)
    calibrations = calibration.calibrate([_labelled(row) for row in _rows(file)], costs)
    if not calibrations:
        raise InputError(f"{file}: give ratings of both kinds, good and bad, in one language")
    few = [
        each for each in calibrations if each.held_out.alarms.items < calibration.labels_needed()
    ]
    thresholds = {each.language: each.threshold for each in calibrations if each not in few}
    if write:
        if not thresholds:
            raise InputError(
                f"{file} has too few good labels to write a threshold: "
                f"{', '.join(map(_good_labels, few))}. Label more answers, to several questions, or "
                "leave --write out to see the figures"
            )
        load_settings({"quality_thresholds": thresholds})  # for its errors
        _write_thresholds(thresholds)
    show(
        lambda: "\n\n".join(_page(each, costs) for each in calibrations),
        as_json=as_json,
        languages=[_figures(each, costs) for each in calibrations],
        written=str(SETTINGS_FILE) if write else None,
    )
    if write and not as_json:
        note(Texts(calibrations[0].language).say("calibrated_written", file=SETTINGS_FILE))
        for each in few:
            texts = Texts(each.language)
            note(texts.say("calibrated_few", labels=_good_labels(each)))


def _good_labels(made: Calibration) -> str:
    """Return how many good labels a calibration has and how many it needs, such as `en 12 of 59`."""
    # If all labels are of one question, none can be decided without the others.
    good = made.curve[0][1].alarms.items
    count = good if good < calibration.labels_needed() else made.held_out.alarms.items
    return f"{made.language} {count} of {calibration.labels_needed()}"


def _rows(path: str) -> list[dict[str, Any]]:
    """Read the objects of a JSON Lines file; empty lines are skipped.

    Raises `InputError` if the file cannot be read, or a line is not an object with the label `good`
    or `bad` and fields of the right form; the error names the line.
    """
    rows = []
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read: {reason}") from error
    # Not `splitlines`: JSON does not escape U+2028, which that takes for the end of a line.
    for number, row in enumerate(text.split("\n"), 1):
        if not row.strip():
            continue
        try:
            record = json.loads(row)
        except ValueError as error:
            raise InputError(f"{path}, line {number}: this is not JSON: {error}") from error
        if problem := _problem_of(record):
            raise InputError(f"{path}, line {number}: {problem}")
        rows.append(record)
    return rows


def _problem_of(row: Any) -> str:
    """Return what a row must have instead, for an error; empty if the row can be used."""
    if not isinstance(row, dict) or row.get("label") not in ("good", "bad"):
        return "give an object with the label good or bad"
    for name in ("question", "answer"):
        if not isinstance(row.get(name, ""), str):
            return f"{name} must be a text, got {row[name]!r}"
    score, earlier = row.get("score"), row.get("earlier") or []
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if score is not None and not (is_number and 0 <= score <= 1):
        return f"score must be a number from 0 to 1 or null, got {score!r}"
    if not isinstance(earlier, list) or any(
        not isinstance(pair, list) or list(map(type, pair)) != [str, str] for pair in earlier
    ):
        return "earlier must be a list of pairs, each a question and its answer"
    return ""


def _labelled(row: Mapping[str, Any]) -> Labelled:
    """Return a row's label with its stored score, else with the score of the local checks."""
    question, answer = row.get("question", ""), row.get("answer", "")
    score, earlier = row.get("score"), row.get("earlier") or ()
    if score is None:
        pairs = tuple((past_question, replied) for past_question, replied in earlier)
        score = prejudge(Exchange(question=question, answer=answer, earlier=pairs)).score
    row_language = row.get("lang")
    language = row_language if row_language in ("en", "ja") else language_of(question or answer)
    return Labelled(
        question=question, language=language, score=float(score), good=row["label"] == "good"
    )


def _figures(made: Calibration, costs: Costs) -> dict[str, Any]:
    def decisions(at: Confusion) -> dict[str, Any]:
        return {**fields_of(at), "cost": at.cost(costs)}

    held_out = decisions(made.held_out)
    for name, share in (("alarm", made.held_out.alarms), ("caught", made.held_out.caught)):
        held_out |= {f"{name}_share": share.value, f"{name}_interval": share.interval}
    curve = [{"threshold": t, **decisions(each)} for t, each in made.curve]
    return {**fields_of(made), "held_out": held_out, "curve": curve, "claim": made.claim or None}


def _page(made: Calibration, costs: Costs) -> str:
    """Return the text on one language's fitted threshold and how well it decides, in that language."""
    texts, held_out = Texts(made.language), made.held_out
    good, bad = texts.say("calibrated_rows").split("|")
    table = aligned(
        [
            texts.say("calibrated_heads").split("|"),
            (good, str(held_out.good_passed), str(held_out.good_failed)),
            (bad, str(held_out.bad_passed), str(held_out.bad_failed)),
        ]
    )
    rows = [["  " + head for head in texts.say("calibrated_columns").split("|")]]
    for t, each in made.curve:
        sign = ">" if t == made.threshold else " "
        figures = (str(each.good_failed), str(each.bad_passed), f"{each.cost(costs):.1f}")
        rows.append([f"{sign} {t:.2f}", *(f"  {figure}" for figure in figures)])
    head = texts.say(
        "calibrated", language=made.language, threshold=f"{made.threshold:.2f}", labels=made.labels
    )
    parts = [
        texts.say("calibrated_held_out"),
        *table,
        texts.say("calibrated_alarms", share=_share(held_out.alarms, texts)),
        texts.say("calibrated_caught", share=_share(held_out.caught, texts)),
        texts.say("calibrated_curve"),
        *aligned(rows),
        texts.say(
            "calibrated_claim" if made.claim else "calibrated_no_claim",
            share=f"{calibration.ALARM_SHARE:.0%}",
            needed=calibration.labels_needed(),
            labels=held_out.alarms.items,
            alarms=held_out.alarms.hits,
        ),
    ]
    return "\n".join([head, *(f"  {part}".rstrip() for part in parts)])


def _share(share: Share, texts: Texts) -> str:
    if share.value is None:
        return "–"
    low, high = (f"{bound:.1%}" for bound in share.interval)
    return texts.say(
        "calibrated_share", value=f"{share.value:.1%}", low=low, high=high, items=share.items
    )


def _write_thresholds(thresholds: Mapping[Language, float]) -> None:
    """Write the thresholds to `SETTINGS_FILE`, which is created if needed.

    Its other lines, and the threshold of another language, stay. Raises `InputError`, and writes
    nothing, if the file is not TOML or has the thresholds as a table of their own; `OSError` if it
    cannot be read or written.
    """
    text = SETTINGS_FILE.read_text(encoding="utf-8") if SETTINGS_FILE.exists() else ""
    old_values = _settings_in(text).get("quality_thresholds", {})
    values = ", ".join(f"{lang} = {value}" for lang, value in {**old_values, **thresholds}.items())
    entry = f"quality_thresholds = {{{values}}}\n"
    old = re.compile(r"^quality_thresholds\s*=.*\n?", re.MULTILINE)
    # Before all tables: a key after `[presets.…]` would belong to that table.
    text = old.sub(lambda _: entry, text) if old.search(text) else entry + text
    _settings_in(text)  # for its error, before the file is changed
    SETTINGS_FILE.write_text(text, encoding="utf-8")


def _settings_in(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"{str(SETTINGS_FILE.absolute())!r} cannot be changed: {error}; correct the line, or "
            "remove the table [quality_thresholds]"
        ) from error
