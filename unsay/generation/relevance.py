"""Relevance: judge what a search found, and search again with another query."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from unsay.effects import Steps
from unsay.generation.judge import ask_judge, texts_for
from unsay.judging.verdict import document_request, relevance, verdict_of_rules
from unsay.judging.vocabulary import units
from unsay.messages.annotations import (
    annotate,
    annotation_of,
    found_nothing,
    is_document,
    is_irrelevant,
    with_annotation,
    with_verdict,
)
from unsay.messages.content import text_of
from unsay.protocols import Verdict
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.tools import is_retrieval
from unsay.transcript.pending import unjudged_documents
from unsay.transcript.record import add_note, log_verdict
from unsay.types import Turn

REWRITTEN = "rewritten"
"""Annotation of a search that unsay made; its value is the number of the search, from 1."""

# A document or search result below it is left out of contexts. Source: own.
RELEVANCE = 0.5
# Most searches with another query after one that found nothing relevant.
MAX_SEARCHES = 2
# Most documents that one turn judges, the newest; older ones stay unscored.
MAX_DOCUMENTS = 10

# Words and numbers of any script; of Japanese, runs of katakana or of kanji.
_LETTER = r"(?![ぁ-ヿ一-龯々])[^\W_]"
_WORDS = re.compile(rf"{_LETTER}(?:{_LETTER}|['.-](?={_LETTER}))*|[ァ-ヶー]+|[一-龯々]+")

# Names of the argument that holds the words of a search, where a tool has several text arguments.
_QUERIES = ("query", "q", "question", "search_query", "search", "keywords", "words", "text")


def judge_document(question: AnyMessage, document: AnyMessage, scope: Scope) -> Steps[Verdict]:
    """Return a verdict on whether a document or search result is relevant to the question.

    It is `unscored` without a working judge, or if the call would exceed a budget; no error is
    raised. With `judging="local"` the words that both share decide, and no model is asked.
    """
    question_text, document_text = text_of(question), text_of(document)
    if scope.settings.judging == "local":
        rules = relevance(question_text, document_text)
        return verdict_of_rules(rules, texts_for(question_text, scope), quality_threshold=RELEVANCE)
    request = partial(document_request, question_text, document_text)
    key = document.id or ""
    return (yield from ask_judge(request, question_text, scope, key=key, threshold=RELEVANCE))


def judge_documents(state: State, scope: Scope, turn: Turn) -> Steps[Update]:
    """Judge the documents that came with a question; contexts leave out those that fail.

    Only the newest `MAX_DOCUMENTS` are judged. The update is empty without new documents,
    without a question, or with `judging="off"`.
    """
    waiting = unjudged_documents(state["messages"], turn["pending"])
    question = next((m for m in state["messages"] if m.id == turn["question_id"]), None)
    if not waiting or question is None or scope.settings.judging == "off":
        return Update()
    stamped = []
    for document in waiting[-MAX_DOCUMENTS:]:
        judged_document = yield from _judged(question, document, state, scope)
        log_verdict(judged_document, scope)
        stamped.append(judged_document)
    history = add_note(state, scope, "evaluate_quality", "documents_judged", None)
    return Update(messages=stamped, state_history=history)


def judge_results(
    state: State, scope: Scope, done: Sequence[AnyMessage]
) -> Steps[list[AnyMessage]]:
    """Judge the search results in `done`, a draft's messages so far, that have no verdict yet.

    Returns them with their verdicts; empty if there are none, without a question, and with
    `judging="off"`.
    """
    question = _question(state)
    if question is None or scope.settings.judging == "off":
        return []
    searches = {each.name for each in scope.services.tools if is_retrieval(each)}
    unjudged = [
        m
        for m in done
        if isinstance(m, ToolMessage) and m.name in searches and m.status != "error"
        if "outcome" not in annotation_of(m)
    ]
    results_by_id = {}
    for result in unjudged:
        results_by_id[result.id] = yield from _judged(question, result, state, scope)
    return list(results_by_id.values())


def _judged(
    question: AnyMessage, found: AnyMessage, state: State, scope: Scope
) -> Steps[AnyMessage]:
    """Return a document or a search result with the verdict on it, which is streamed as well."""
    verdict = yield from judge_document(question, found, scope)
    scope.emit("verdict", of="document", message_id=found.id, **asdict(verdict))
    number = state["turn"]["number"] if "turn" in state else 0
    return with_verdict(found, verdict, turn=number, topic=state.get("current_topic", ""))


def next_search(state: State, scope: Scope, done: Sequence[AnyMessage]) -> AIMessage | None:
    """Return the call of the next search, with another query, if all that was found is irrelevant.

    `done` are the draft's messages so far; documents that came with the question count too. `None`
    without a question; if something relevant was found or nothing was judged; if `MAX_SEARCHES` are
    made; or if no other query or no tool that takes one is left. The search is streamed; the caller
    adds it to the draft.
    """
    findings = [*_documents(state), *done]
    own_searches = [m for m in done if isinstance(m, AIMessage) and REWRITTEN in annotation_of(m)]
    question = _question(state)
    if question is None or not found_nothing(findings) or len(own_searches) >= MAX_SEARCHES:
        return None
    call = _last_search(done, scope) or _first_search(scope)
    if call is None:
        return None
    tool, args, name = call
    tried = {_plain(text) for text in (args.get(name), *_queries(done, name)) if text}
    queries = (str(query) for query in _rewritten(question, findings))
    query = next((each for each in queries if each and _plain(each) not in tried), None)
    if query is None:
        return None
    number = len(own_searches) + 1
    # The id follows from the turn: a step that runs again after a crash makes the same call.
    identity = f"search-{state['turn']['question_id']}-{len(state['turn']['rejections'])}-{number}"
    tool_call = {"name": tool, "args": {**args, name: query}, "id": identity, "type": "tool_call"}
    message = AIMessage("", id=f"{identity}-call", tool_calls=[tool_call])
    scope.emit("search_again", query=query, number=number)
    return annotate(message, **{REWRITTEN: number})


def findings_of(messages: Iterable[AnyMessage]) -> dict[str, dict[str, Any]]:
    """Return, by message id, the annotations about searches, which `with_findings` puts back.

    They are the verdicts on results, and the number of each search that unsay itself made.
    """
    annotations = {m.id or "": annotation_of(m) for m in messages if m.type in ("ai", "tool")}
    return {
        name: each for name, each in annotations.items() if REWRITTEN in each or "outcome" in each
    }


def with_findings(
    messages: Iterable[AnyMessage], findings: Mapping[str, Mapping[str, Any]]
) -> list[AnyMessage]:
    """Return the messages with exactly these findings, given by message id as `findings_of` does.

    Any other annotation is dropped, such as one that a tool wrote.
    """
    return [with_annotation(message, findings.get(message.id or "", {})) for message in messages]


def nothing_relevant(state: State, done: Iterable[AnyMessage] = ()) -> bool:
    """Return whether the turn's documents and search results that were judged are all irrelevant.

    `done` are the draft's messages so far. `False` if none has a verdict.
    """
    return found_nothing([*_documents(state), *done])


def _question(state: State) -> AnyMessage | None:
    question_id = state["turn"]["question_id"] if state.get("turn") else None
    return next(
        (m for m in reversed(state["messages"]) if question_id and m.id == question_id), None
    )


def _documents(state: State) -> list[AnyMessage]:
    pending = state["turn"]["pending"] if state.get("turn") else ()
    return [m for m in state["messages"] if m.id in pending and is_document(m)]


def _last_search(
    done: Sequence[AnyMessage], scope: Scope
) -> tuple[str, dict[str, Any], str] | None:
    """Return the newest search of a draft: its tool, its arguments, and the name of its query.

    `None` if the draft has no search with such an argument.
    """
    tools = {each.name: each for each in scope.services.tools if is_retrieval(each)}
    calls = (c for m in reversed(done) if isinstance(m, AIMessage) for c in m.tool_calls)
    for call in calls:
        if call["name"] in tools and (name := _query_name(tools[call["name"]].args)):
            return call["name"], dict(call["args"]), name
    return None


def _first_search(scope: Scope) -> tuple[str, dict[str, Any], str] | None:
    """Return a search by the first tool marked `retrieval` that needs only a query; else `None`.

    It has the tool's name, no arguments, and the name of the argument for the query.
    """
    for tool in scope.services.tools:
        name = _query_name(tool.args) if is_retrieval(tool) else None
        schema = convert_to_openai_tool(tool)["function"]["parameters"]
        if name and not set(schema.get("required", ())) - {name}:
            return tool.name, {}, name
    return None


def _query_name(properties: dict[str, Any]) -> str | None:
    """Return the name of the text argument with the query: a known one, or the only text argument.

    `None` without such an argument. `properties` are a tool's arguments by name, as JSON Schema.
    """
    texts = [name for name, each in properties.items() if _is_text(each)]
    return next((name for name in _QUERIES if name in texts), texts[0] if len(texts) == 1 else None)


def _is_text(described: Any) -> bool:
    """Return whether an argument takes free text, by its JSON Schema; it may take other types too.

    An argument that takes any value (the schema `true`) is not meant for text.
    """
    kinds = [described, *described.get("anyOf", ())] if isinstance(described, dict) else []
    plain = (each for each in kinds if isinstance(each, dict) and not {"enum", "const"} & set(each))
    types = (each.get("type") for each in plain)
    return any("string" in each if isinstance(each, list) else each == "string" for each in types)


def _queries(done: Sequence[AnyMessage], name: str) -> list[str]:
    calls = (call for m in done if isinstance(m, AIMessage) for call in m.tool_calls)
    return [str(call["args"][name]) for call in calls if name in call["args"]]


def _rewritten(question: AnyMessage, found: Sequence[AnyMessage]) -> list[str]:
    """Return other queries: those that judges suggested, newest first, then three of the question.

    The three: all words of the question except very common ones; the two longest of these; the
    longest. Queries can be equal or empty.
    """
    suggested = [annotation_of(m).get("query") for m in reversed(found) if is_irrelevant(m)]
    found_words = dict.fromkeys(_WORDS.findall(text_of(question)))
    words = [word for word in found_words if units(word) or word[0].isdigit()]
    longest = sorted(words, key=len, reverse=True)
    # A search that needs all words finds more with fewer of them.
    local = (" ".join(w for w in words if w in longest[:n]) for n in (len(words), 2, 1))
    return [*(each for each in suggested if isinstance(each, str)), *local]


def _plain(query: str) -> str:
    return " ".join(query.casefold().split())
