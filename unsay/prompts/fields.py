"""The fields of a catalogue; each language fills in all of them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """All texts in one language; braces are filled by `str.format`."""

    judge_system: str
    """Tells a judge what to grade, that fenced text is data, and how to reply."""

    judge_request: str
    """`{material}` is fenced."""

    document_system: str
    """The same for a retrieved document: does it help to answer the question?"""

    document_request: str
    """`{material}` is fenced."""

    summary_judge_system: str
    """The same for a summary: is it true to the messages?"""

    summary_judge_request: str
    """`{material}` is fenced."""

    document: str
    """Hands a retrieved document to the answering model; `{document}` is fenced."""

    run_reminders: str
    """Hands the operator's instructions over in a system message; `{reminders}` are fenced."""

    turn_reminders: str
    """Ends a question, and hands the operator's instructions over; `{reminders}` are fenced."""

    turn_hints: str
    """Ends a question, and hands over what this attempt is told beside it, as `{hints}`."""

    summary_system: str
    summary_request: str
    """`{material}` is fenced."""

    summary_heading: str
    fold_system: str
    """Tells a summarizer what to keep of older messages that its summary replaces."""

    fold_earlier: str
    """Hands a summarizer what was summarized before; `{summaries}` are fenced."""

    fold_request: str
    """Asks for the summary of the messages above; `{tokens}` at most."""

    fold_rolling: str
    """Asks for one summary of the messages and of the earlier summaries; `{tokens}` at most."""

    fold_heading: str
    result_truncated: str
    """Stands in a view between a tool result's beginning and end; `{removed}` characters."""

    result_cleared: str
    """Stands in a view for a tool result of `{chars}` characters."""

    result_truncated_here: str
    """In place of `result_truncated` where the model has the tool `{tool}`; `{removed}`, `{id}`, `{start}`."""

    result_cleared_here: str
    """In place of `result_cleared` where the model has the tool `{tool}`; `{chars}`, `{id}`."""

    result_forgotten: str
    """Stands in a view for a tool result of `{chars}` characters that a person had forgotten."""

    media_left_out: str
    """Stands in a view for a tool's image or file; `{kind}`, `{format}`, `{bytes}`."""

    recalled_heading: str
    recalled_list: str
    recalled_line: str
    """One message of it; `{turn}`, `{speaker}`, `{words}`, `{why}`."""

    recalled_none: str
    """Notice when nothing is relevant; `{words}`."""

    recall_reasons: Mapping[str, str]
    """By `recall.Why`; `{words}` are those of the question."""

    local_summary: str
    """A summary made without a model; `{questions}` are the user's own."""

    title_system: str
    retry: str
    """Tells the next attempt why the last was rejected; `{attempt}`, `{reasons}`.

    `unsay.testing` reads its line with the number of the attempt.
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
    at_checkpoint: str
    """Names a checkpoint; `{name}`."""

    at_message: str
    """Names a place by its words; `{words}`."""

    checkpoint_made: str
    """Notice after a checkpoint by order; `{name}`."""

    no_checkpoints: str
    checkpoint_line: str
    """One line of the list; `{id}`, `{name}`, `{score}`, `{topic}`, `{turn}`."""

    timeline_line: str
    """One line of the timeline; `{turn}`, `{score}`, `{question}`."""

    pinned: str
    """Notice after a pin; `{words}`."""

    unpinned: str
    """Notice after a pin was taken off; `{words}`."""

    forgot: str
    """Notice after something was forgotten; `{words}`."""

    forgotten_line: str
    """One line of what is forgotten; `{id}`, `{kind}`, `{words}`, `{reason}`."""

    no_forgotten: str
    pinned_mark: str
    forgotten_mark: str
    no_turns: str
    tokens_window: str
    """Stands over who used the window at a call; `{used}`, `{window}`, `{share}`."""

    tokens_used: str
    """The same for a window of unknown size; `{used}`."""

    tokens_unknown: str
    tokens_spent: str
    """Stands over what was spent; `{total}`."""

    tokens_least: str
    """The same if only a part was counted; `{total}`."""

    tokens_flow: str
    """One purpose; `{input}`, `{cached}`, `{output}`."""

    tokens_cost: str
    """Follows where prices are known; `{cost}`."""

    tokens_budget: str
    """One budget; `{used}`, `{limit}`, `{share}`."""

    tokens_names: Mapping[str, str]
    refused: str
    """Notice when a command cannot be carried out; `{reason}`."""

    declined: str
    no_answer: str
    rules: Mapping[str, str]
    """Reasons of the local checks by their English sentence; a missing one stays English."""

    opening: str
    interrupted_tool: str
    ask_person: str
    """Describes the drafts to the person who decides; `{reasons}`."""

    ask_budget: str
    """Asks a person whether a call may go over budgets; `{limits}`."""

    ask_undo: str
    """Asks a person whether to undo what a tool did; `{call}`."""

    effects_undone: str
    """Part of a notice: tool calls that were undone; `{calls}`."""

    effects_left: str
    """Part of a notice: tool calls that were not undone; `{calls}`."""

    effects_unknown: str
    """Part of a notice: tool calls whose undoing a crash interrupted; `{calls}`."""

    effects_returned: str
    """Part of a notice: calls in the transcript again, but still undone in the world; `{calls}`."""
