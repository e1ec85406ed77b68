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

    summary_judge_system: str
    """Tells a judge to weigh whether a summary tells what was said, and how to reply."""

    summary_judge_request: str
    """Asks for that verdict; `{material}` is fenced."""

    document: str
    """Hands a retrieved document to the answering model; `{document}` is fenced."""

    run_reminders: str
    """Hands the operator's instructions over in a system message; `{reminders}` are fenced."""

    turn_reminders: str
    """Ends a question, and hands the operator's instructions over; `{reminders}` are fenced."""

    turn_hints: str
    """Ends a question, and hands over what this attempt is told beside it, as `{hints}`."""

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

    result_truncated_here: str
    """In place of `result_truncated` where the model has the tool `{tool}`; `{removed}`, `{id}`, `{start}`."""

    result_cleared_here: str
    """In place of `result_cleared` where the model has the tool `{tool}`; `{chars}`, `{id}`."""

    result_forgotten: str
    """Stands in a view for a tool result of `{chars}` characters that a person had forgotten."""

    media_left_out: str
    """Stands in a view for a tool's image or file; `{kind}`, `{format}`, `{bytes}`."""

    recalled_heading: str
    """Stands over the earlier messages that a view shows again."""

    recalled_list: str
    """Notice over what was recalled by order."""

    recalled_line: str
    """One message of it; `{turn}`, `{speaker}`, `{words}`, `{why}`."""

    recalled_none: str
    """Notice when nothing bears on the words; `{words}`."""

    recall_reasons: Mapping[str, str]
    """By `recall.Why`, in words; those of the question are `{words}`."""

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

    pinned: str
    """Notice after a pin; `{words}`."""

    unpinned: str
    """Notice after a pin was taken off; `{words}`."""

    forgot: str
    """Notice after something was forgotten; `{words}`."""

    forgotten_line: str
    """One line of what is forgotten; `{id}`, `{kind}`, `{words}`, `{reason}`."""

    no_forgotten: str
    """Notice when nothing is forgotten."""

    pinned_mark: str
    """Stands in the timeline behind a turn that is pinned."""

    forgotten_mark: str
    """Stands in the timeline behind a turn that is forgotten."""

    no_turns: str
    """Notice when nothing has been said."""

    tokens_window: str
    """Stands over who used the window at a call; `{used}`, `{window}`, `{share}`."""

    tokens_used: str
    """The same where nobody knows how large the window is; `{used}`."""

    tokens_unknown: str
    """In its place where no call tells who used the window."""

    tokens_spent: str
    """Stands over what was spent; `{total}`."""

    tokens_least: str
    """The same where not all was looked at; `{total}`."""

    tokens_flow: str
    """Of one purpose; `{input}`, `{cached}`, `{output}`."""

    tokens_cost: str
    """Follows where prices are known; `{cost}`."""

    tokens_budget: str
    """Of a budget; `{used}`, `{limit}`, `{share}`."""

    tokens_names: Mapping[str, str]
    """What a person calls the parts of a window, the purposes and the layers of budgets."""

    refused: str
    """Notice when an order cannot be carried out; `{reason}`."""

    declined: str
    """Notice when a person said no to a call over a budget."""

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

    ask_budget: str
    """Asks a person whether a call may go over budgets; `{limits}`."""

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
