"""Measure token estimates against real vocabularies: `python benchmarks/tokens.py FILE… [--json]`.

A file is a text of any kind, or holds one conversation a line (`.jsonl`): `{"utts": [{"role",
"text"}]}`, `{"messages": [{"role", "content"}]}` or `{"turns": [{"speaker", "text"}]}`; a `.json`
file may be a list of messages. A long text counts as several, of 4,000 characters each.

What is measured is a whole prompt, framing and all, beside the same prompt counted by the real
vocabulary. NAME is `o200k`, `cl100k`, `claude` (of the second generation) or `deepseek`.

- `mean_error`, `worst_over`, `worst_under`: of the estimate of `o200k`, as shares of the truth; the
  worst are of one conversation or text, the largest over all files.
- `mean_error_NAME`, `worst_over_NAME`, `worst_under_NAME`: the same of each vocabulary.
- `default_error_NAME`: the mean error of what is estimated where nothing is known of the model.
- `calibrated_error_NAME`: its mean error on the second half of each conversation, once the model
  has reported the prompts of the first half.
- `ratio_error_NAME`: the same of the plain ratio: the second half as estimated, times reported over
  estimated tokens of the first half. What is learned should not be worse.
- `seed_error`: the mean error of the rule of thumb, four characters a token, on `o200k`.
- `megabytes_per_second`: of processor time, the estimate of all the file's words.

Intervals are of 95 %, by conversation or text.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages.utils import convert_to_messages
from report import Figure, Figures, resampled, run, shown, unreadable
from seed_estimate import seed_estimate
from vocabularies import Encoder, encoders

from unsay.messages.content import text_of
from unsay.tokens.counter import TokenCounter
from unsay.tokens.estimate import Vocabulary, estimate

Conversation = Sequence[BaseMessage]

PIECE = 4_000
"""Characters of a long text that are counted together."""

DEFAULT = "o200k"
"""The vocabulary that is estimated where nothing is known of the model."""

FIGURES = ("mean_error", "worst_over", "worst_under", "seed_error", "megabytes_per_second")

real = cache(encoders)


def conversations(path: Path) -> list[Conversation]:
    """Read a file.

    Raises:
        ValueError: A line of it is not of the format; the message names it.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [_row(path, number, line) for number, line in _lines(text)]
    if path.suffix == ".json" and (messages := _messages(text)):
        return [messages]
    pieces = (text[start : start + PIECE] for start in range(0, len(text), PIECE))
    return [[HumanMessage(piece)] for piece in pieces]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())


def _row(path: Path, number: int, line: str) -> Conversation:
    try:
        row = json.loads(line)
        if "messages" in row:
            return convert_to_messages(row["messages"])
        return [_said(each, row) for each in row.get("utts") or row["turns"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise unreadable(path, number, error) from error


def _said(utterance: Mapping[str, Any], row: Mapping[str, Any]) -> BaseMessage:
    """An utterance as a message; of two speakers the first is the user."""
    if "role" in utterance:
        is_user = utterance["role"] == "user"
    else:
        is_user = utterance["speaker"] == row["turns"][0]["speaker"]
    return (HumanMessage if is_user else AIMessage)(utterance["text"])


def _messages(text: str) -> Conversation:
    """The messages that a JSON file holds; none where it holds something else."""
    try:
        held = json.loads(text)
        return convert_to_messages(held["messages"] if isinstance(held, dict) else held)
    except (AttributeError, KeyError, NotImplementedError, TypeError, ValueError):
        return []


def measure(path: Path) -> dict[str, Figure]:
    """Give the figures of one file.

    Raises:
        ValueError: The file has no words, or a line is not of the format.
    """
    said = conversations(path)
    if not any(text_of(message).strip() for messages in said for message in messages):
        raise ValueError(f"{path}: no words to count; --help has the format")
    figures: dict[str, Figure] = {}
    for name, encode in real().items():
        truth = [TokenCounter(encode=encode).count(messages) for messages in said]
        own = _errors(said, truth, TokenCounter(vocabulary=_known(name)).count)
        figures |= {f"{figure}_{name}": value for figure, value in _summed(own).items()}
        if name == DEFAULT:
            figures = {**_summed(own), **figures}
            figures["seed_error"] = _mean(_errors(said, truth, seed_estimate))
        else:
            figures[f"default_error_{name}"] = _mean(_errors(said, truth, TokenCounter().count))
        calibrated, plain = _second_halves(said, encode)
        figures[f"calibrated_error_{name}"] = _mean(calibrated)
        figures[f"ratio_error_{name}"] = _mean(plain)
    figures["megabytes_per_second"] = _speed(said)
    return figures


def _known(name: str) -> Vocabulary:
    return next(known for known in get_args(Vocabulary) if known == name)


def _errors(
    said: Sequence[Conversation], truth: Sequence[int], count: Callable[[Conversation], int]
) -> list[float]:
    pairs = zip(said, truth, strict=True)
    return [count(messages) / tokens - 1 for messages, tokens in pairs if tokens]


def _second_halves(
    said: Sequence[Conversation], encode: Encoder
) -> tuple[list[float], list[float]]:
    """Errors on what follows the first half, whose prompts' costs are known: learned, and as a ratio."""
    exact, estimated = TokenCounter(encode=encode), TokenCounter()
    errors, plain = [], []
    for messages in said:
        half = len(messages) // 2
        if half < 2:
            continue
        counter = TokenCounter()
        for end in range(1, half + 1):
            # A prompt ends with a question; the last one here with the half, for the same text.
            if isinstance(messages[end - 1], HumanMessage) or end == half:
                sent = messages[:end]
                counter = counter.observe(sent, {"input_tokens": exact.count(sent)})
        truth = exact.count(messages[half:])
        errors.append(counter.count(messages[half:]) / truth - 1)
        ratio = exact.count(messages[:half]) / estimated.count(messages[:half])
        plain.append(ratio * estimated.count(messages[half:]) / truth - 1)
    return errors, plain


def _summed(errors: Sequence[float]) -> dict[str, Figure]:
    return {
        "mean_error": _mean(errors),
        "worst_over": Figure(value=max([0.0, *errors]), items=len(errors)),
        "worst_under": Figure(value=abs(min([0.0, *errors])), items=len(errors)),
    }


def _mean(errors: Sequence[float]) -> Figure:
    def mean(sample: Sequence[float]) -> float | None:
        return sum(map(abs, sample)) / len(sample) if sample else None

    return Figure(value=mean(errors), items=len(errors), interval=resampled(errors, mean))


def _speed(said: Sequence[Conversation]) -> Figure:
    """How fast all the words are estimated, the best of three times."""
    words = "\n".join(text_of(message) for messages in said for message in messages)
    estimate(words[:1])
    taken = []
    for _ in range(3):
        started = time.process_time()
        estimate(words)
        taken.append(time.process_time() - started)
    size = len(words.encode("utf-8", "surrogatepass")) / 1e6
    return Figure(value=size / min(taken) if min(taken) else None, items=len(said))


def table(rows: Mapping[str, Figures]) -> str:
    """Give the figures as tables for people: the default's, then every vocabulary's."""
    width = max(len(name) for name in rows)
    lines = [" " * width + "".join(f"  {name:>24}" for name in FIGURES)]
    for name, figures in rows.items():
        cells = [figures[key] for key in FIGURES if key in figures]
        lines.append(f"{name:<{width}}" + "".join(f"  {shown(cell):>24}" for cell in cells))
    rest = [(key, figure) for key, figure in rows["overall"].items() if key not in FIGURES]
    return "\n".join([*lines, "", *(f"{key:<28}  {shown(figure)}" for key, figure in rest)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the files that the command line names."""
    return run(
        measure,
        table,
        description=__doc__ or "",
        wanted="Name at least one file of text or of conversations",
        arguments=arguments,
    )


if __name__ == "__main__":
    sys.exit(main())
