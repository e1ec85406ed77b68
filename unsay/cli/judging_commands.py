"""The commands about judging: lessons, ratings, old scores, bisection and calibration."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from unsay.cli.output import note, print_json, show, usage_error
from unsay.cli.session import Opened, on_thread
from unsay.conversation.conversation import Conversation
from unsay.errors import InputError
from unsay.judging.calibration import (
    Calibration,
    Costs,
    Labelled,
    Share,
    labels_needed,
)
from unsay.judging.calibration import (
    calibrate as calibrated,
)
from unsay.judging.heuristics import prejudge
from unsay.messages.content import language_of
from unsay.operations.commands import lessons_text
from unsay.settings import load_settings
from unsay.types import Language
from unsay.verdicts import Exchange

SETTINGS_FILE = Path("unsay.toml")


@on_thread()
def lessons(opened: Opened) -> None:
    listed = opened.conversation.lessons()
    opened.show(lambda: click.echo(lessons_text(listed, opened.labels)), lessons=list(listed))


@on_thread()
def lesson(opened: Opened, *, number: int, text: str) -> None:
    made = opened.conversation.edit_lesson(number, text)
    words = opened.labels.lesson_changed
    opened.show(lambda: words.format(number=number, text=made["text"]), lesson=made)


@on_thread()
def unlearn(opened: Opened, *, number: int) -> None:
    removed = opened.conversation.remove_lesson(number)
    opened.show(lambda: opened.labels.lesson_removed.format(number=number), lesson=removed)


@on_thread()
def rate(opened: Opened, *, turn: int, label: str, reason: str) -> None:
    made = opened.conversation.rate(turn, label, note=reason)
    question = opened.conversation.timeline().turns[turn - 1].question
    opened.show(lambda: opened.labels.rated[label].format(words=question), rating=made)


@on_thread()
def ratings(opened: Opened, *, source: str | None) -> None:
    if source is None:
        for row in opened.conversation.ratings():
            print_json(row)
        return
    count = opened.conversation.import_ratings(_rows(source))
    opened.show(lambda: f"Imported {count} ratings.", imported=count)


@on_thread()
def judge(opened: Opened, *, turn: int | None, model: str | None, judge_model: str | None) -> None:
    conversation = _with_models(opened, model, judge_model)
    judged = conversation.judge(turn=turn)
    opened.show(lambda: "\n".join(map(str, judged)), turns=[asdict(each) for each in judged])


@on_thread()
def bisect(opened: Opened, *, yes: bool, model: str | None, judge_model: str | None) -> None:
    conversation = _with_models(opened, model, judge_model)
    found = conversation.bisect()
    rolls_back = yes and found.turn is not None
    if rolls_back:
        conversation.rollback(turns=found.to_roll_back)
    opened.show(lambda: str(found), **asdict(found), rolled_back=rolls_back)
    if rolls_back:
        note(f"Rolled back {found.to_roll_back} turns; `unsay undo` restores them.")
    elif found.turn is not None:
        note(
            f"`unsay rollback --turns {found.to_roll_back}` goes back to before it, and so does --yes."
        )


def _with_models(opened: Opened, model: str | None, judge_model: str | None) -> Conversation:
    names = {"model": model, "judge_model": judge_model}
    settings = load_settings({name: given for name, given in names.items() if given is not None})
    return Conversation.open(opened.database, thread=opened.thread_id, settings=settings)


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

    Raises `InputError` if the file cannot be read, or no language has both good and bad labels.
    """
    if db is not None:
        raise usage_error("calibrate reads FILE and no database: leave --db out.")
    costs = Costs(alarm=alarm_cost, miss=miss_cost)
    made = calibrated([_labelled(row) for row in _rows(file)], costs)
    if not made:
        raise InputError(f"{file}: give ratings of both kinds, good and bad, in one language")
    thresholds = {each.language: each.threshold for each in made}
    if write:
        load_settings({"quality_thresholds": thresholds})  # for its errors
        _write_thresholds(thresholds)
    fields = [{**_figures(each, costs), "claim": each.claim or None} for each in made]
    show(
        lambda: "\n\n".join(_page(each, costs) for each in made),
        as_json=as_json,
        languages=fields,
        written=str(SETTINGS_FILE) if write else None,
    )
    if write and not as_json:
        note(f"Wrote quality_thresholds to {SETTINGS_FILE}.")


def _rows(path: str) -> list[dict[str, Any]]:
    """Read the objects of a JSON Lines file; empty lines are skipped.

    Raises `InputError` if the file cannot be read, or a line is not an object with the label `good`
    or `bad`; the error names the line.
    """
    rows = []
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read: {reason}") from error
    for number, row in enumerate(text.splitlines(), 1):
        if not row.strip():
            continue
        try:
            parsed = json.loads(row)
        except ValueError as error:
            raise InputError(f"{path}, line {number}: this is not JSON: {error}") from error
        if not isinstance(parsed, dict) or parsed.get("label") not in ("good", "bad"):
            raise InputError(f"{path}, line {number}: give an object with the label good or bad")
        rows.append(parsed)
    return rows


def _labelled(row: Mapping[str, Any]) -> Labelled:
    """Return a row's label with its stored score, else with the score of the local checks."""
    question, answer = str(row.get("question", "")), str(row.get("answer", ""))
    score, earlier = row.get("score"), row.get("earlier") or ()
    if not isinstance(score, int | float):
        pairs = tuple((str(pair[0]), str(pair[1])) for pair in earlier)
        score = prejudge(Exchange(question=question, answer=answer, earlier=pairs)).score
    given = row.get("lang")
    language = given if given in ("en", "ja") else language_of(question or answer)
    return Labelled(
        question=question, language=language, score=float(score), good=row["label"] == "good"
    )


def _figures(made: Calibration, costs: Costs) -> dict[str, Any]:
    found = made.held_out
    return {
        "language": made.language,
        "threshold": made.threshold,
        "labels": made.labels,
        "held_out": {
            **asdict(found),
            "alarm_share": found.alarms.value,
            "alarm_interval": list(found.alarms.interval),
            "caught_share": found.caught.value,
            "caught_interval": list(found.caught.interval),
            "cost": found.cost(costs),
        },
        "curve": [
            {"threshold": t, **asdict(each), "cost": each.cost(costs)} for t, each in made.curve
        ],
    }


def _page(made: Calibration, costs: Costs) -> str:
    found = made.held_out
    rows = [
        f"{made.language}: quality threshold {made.threshold:.2f}, from {made.labels} labels",
        "                 passes  fails",
        f"  rated good     {found.good_passed:6}  {found.good_failed:5}",
        f"  rated bad      {found.bad_passed:6}  {found.bad_failed:5}",
        f"  false alarms   {_share(found.alarms)}",
        f"  caught         {_share(found.caught)}",
        "  threshold  good that fail  bad that pass    cost",
        *(
            f"  {t:9.2f}  {each.good_failed:14}  {each.bad_passed:13}  {each.cost(costs):6.1f}"
            for t, each in made.curve
        ),
    ]
    needed = labels_needed()
    refused = (
        f"No claim: {needed} good labels without an alarm are needed to say that at most 5 % of good "
        f"answers fail; there are {found.alarms.items}, {found.alarms.hits} of them with an alarm."
    )
    return "\n".join([*rows, f"  {made.claim or refused}"])


def _share(share: Share) -> str:
    if share.value is None:
        return "-"
    low, high = share.interval
    return f"{share.value:.1%} (95 %: {low:.1%} to {high:.1%}; {share.items} labels)"


def _write_thresholds(thresholds: Mapping[Language, float]) -> None:
    """Write the thresholds to `SETTINGS_FILE`, which is created if needed; its other lines stay."""
    text = SETTINGS_FILE.read_text(encoding="utf-8") if SETTINGS_FILE.exists() else ""
    values = ", ".join(f"{language} = {value}" for language, value in thresholds.items())
    entry = f"quality_thresholds = {{{values}}}\n"
    old = re.compile(r"^quality_thresholds\s*=.*\n?", re.MULTILINE)
    # Before all tables: a key after `[presets.…]` would belong to that table.
    text = old.sub(lambda _: entry, text) if old.search(text) else entry + text
    SETTINGS_FILE.write_text(text, encoding="utf-8")
