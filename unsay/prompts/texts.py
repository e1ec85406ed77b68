"""The fields of a catalogue; each language fills in all of them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """All texts in one language; braces are filled by `str.format`."""

    judge_system: str
    """Tells a judge what to weigh, that fenced text is data, and how to reply."""

    judge_request: str
    """Asks for the verdict; `{material}` is fenced."""

    document_system: str
    """Tells a judge to weigh whether a retrieved document helps to answer a question."""

    document_request: str
    """Asks for that verdict; `{material}` is fenced."""

    document: str
    """Hands a retrieved document to the answering model; `{document}` is fenced."""

    run_reminders: str
    """Hands the operator's instructions over in a system message; `{reminders}` are fenced."""

    turn_reminders: str
    """Ends a question, and hands the operator's instructions over; `{reminders}` are fenced."""

    summary_system: str
    """Tells a summarizer what to keep."""

    summary_request: str
    """Asks for the summary; `{material}` is fenced."""

    summary_heading: str
    """Stands over the folded topics' summaries in a view."""

    fold_system: str
    """Tells a summarizer what to keep of older messages that its summary replaces."""

    fold_earlier: str
    """Hands a summarizer what was summarized before; `{summaries}` are fenced."""

    fold_request: str
    """Asks for the summary of the messages above; `{tokens}` at most."""

    fold_rolling: str
    """Asks for one summary of the messages and of the earlier summaries; `{tokens}` at most."""

    fold_heading: str
    """Stands in a view over the summaries of what it leaves out."""

    result_truncated: str
    """Stands in a view between a tool result's beginning and end; `{removed}` characters."""

    result_cleared: str
    """Stands in a view for a tool result of `{chars}` characters."""

    media_left_out: str
    """Stands in a view for a tool's image or file; `{kind}`, `{format}`, `{bytes}`."""

    local_summary: str
    """A summary made without a model; `{questions}` are the user's own."""

    title_system: str
    """Asks a model for a thread's title."""

    retry: str
    """Tells the next attempt why the last was taken back; `{attempt}`, `{reasons}`.

    Its line with the attempt's number is read by `unsay.testing`.
    """

    retry_context: str
    """Tells an attempt that earlier messages were taken back; `{reasons}`."""

    guidance: str
    """Hands over what a person asked for; `{guidance}`."""

    rolled_back: str
    """Notice after a rollback; `{where}`, `{turns}`, `{removed}`."""

    undone: str
    """Notice after an undo; `{turns}`, `{removed}`, `{restored}`."""

    redone: str
    """Notice after a redo; `{turns}`, `{removed}`, `{restored}`."""

    at_start: str
    """Names the empty beginning of a thread."""

    at_checkpoint: str
    """Names a checkpoint; `{name}`."""

    at_message: str
    """Names a place by its words; `{words}`."""

    checkpoint_made: str
    """Notice after a checkpoint by order; `{name}`."""

    no_checkpoints: str
    """Notice when there is none."""

    checkpoint_line: str
    """One line of the list; `{id}`, `{name}`, `{score}`, `{topic}`, `{turn}`."""

    timeline_line: str
    """One line of the timeline; `{turn}`, `{score}`, `{question}`."""

    no_turns: str
    """Notice when nothing has been said."""

    refused: str
    """Notice when an order cannot be carried out; `{reason}`."""

    help: str
    """The commands."""

    no_answer: str
    """Notice when a person rejected every draft."""

    rules: Mapping[str, str]
    """What the local rules say, by their English sentence; a sentence that is missing stays."""

    opening: str
    """The user's first words in a view that would else begin with the assistant."""

    interrupted_tool: str
    """The result of a tool call that nothing answered."""

    ask_person: str
    """Describes the drafts to the person who decides; `{reasons}`."""

    ask_undo: str
    """Asks a person whether what a tool did is taken back; `{call}`."""

    effects_undone: str
    """Part of a notice: what tools did and was taken back; `{calls}`."""

    effects_left: str
    """Part of a notice: what tools did and stands; `{calls}`."""

    effects_unknown: str
    """Part of a notice: what a crash interrupted while it was taken back; `{calls}`."""

    effects_returned: str
    """Part of a notice: what stands on the record again, but not in the world; `{calls}`."""
