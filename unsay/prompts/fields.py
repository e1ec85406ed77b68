"""Every text that a model or a person reads, with English and Japanese in one place."""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Self

from unsay.errors import ConfigurationError
from unsay.prompts.base import Table, Text
from unsay.prompts.model_texts import ModelTexts
from unsay.types import Language


@dataclass(frozen=True, kw_only=True, repr=False)
class Texts(ModelTexts):
    """All texts in one language: those for a model, and those below for a person."""

    # What a person is asked, and what an order did.
    ask_person: Text = Text(
        "Every draft was rejected. Deliver the best one, edit it, ask for another, or reject it? {reasons}",
        "すべての下書きが不合格でした。最良の下書きを届けますか、直しますか、もう一度試しますか、却下しますか? {reasons}",
    )
    ask_budget: Text = Text(
        "This call goes over what may be spent. Allow it, or end the turn? {limits}",
        "この呼び出しは予算を超えます。許可しますか、それともここで終えますか? {limits}",
    )
    ask_undo: Text = Text(
        "Going back takes {call} off the record. Take back in the world what it did as well?",
        "戻ると{call}の記録がなくなります。実際に行われたことも取り消しますか。",
    )
    refused: Text = Text("Nothing was changed: {reason}", "何も変更していません: {reason}")
    declined: Text = Text(
        "No answer: it would have gone over a budget, and a person said no. Say it again, "
        "or raise the budget.",
        "予算を超えるため、承認されず、回答はありません。もう一度質問するか、予算を増やしてください。",
    )
    no_answer: Text = Text(
        "No answer was delivered; the question was set aside.",
        "回答は届けられませんでした。質問は保管されています。",
    )
    rolled_back: Text = Text(
        "Went back to {where}. Turns: {turns}. Messages set aside: {removed}; /undo brings them back.",
        "{where}に戻りました。残りは{turns}ターンです。{removed}件のメッセージは保管され、/undo で元に戻せます。",
    )
    undone: Text = Text(
        "Undone. Turns: {turns}. Messages set aside: {removed}; brought back: {restored}.",
        "元に戻しました。残りは{turns}ターンです。{removed}件を保管し、{restored}件を復元しました。",
    )
    redone: Text = Text(
        "Redone. Turns: {turns}. Messages set aside: {removed}; brought back: {restored}.",
        "やり直しました。残りは{turns}ターンです。{removed}件を保管し、{restored}件を復元しました。",
    )
    at_start: Text = Text("the start of the conversation", "会話の始め")
    at_checkpoint: Text = Text("checkpoint {name}", "チェックポイント {name} ")
    at_message: Text = Text("“{words}”", "「{words}」")
    effects_undone: Text = Text("Taken back: {calls}.", "取り消しました: {calls}。")
    effects_left: Text = Text(
        "Not taken back, what it did stands: {calls}.", "取り消せず、行われたままです: {calls}。"
    )
    effects_unknown: Text = Text(
        "Perhaps taken back, please look: {calls}.",
        "取り消されたかもしれません。ご確認ください: {calls}。",
    )
    effects_returned: Text = Text(
        "Back on the record, but taken back before and not done again: {calls}.",
        "記録には戻りましたが、以前に取り消され、再び行われてはいません: {calls}。",
    )

    # Checkpoints and the timeline.
    checkpoint_made: Text = Text(
        "Checkpoint {name} is set.", "チェックポイント {name} を設定しました。"
    )
    no_checkpoints: Text = Text("There is no checkpoint yet.", "チェックポイントはまだありません。")
    checkpoint_line: Text = Text(
        "{id}  {name}  turn {turn}  score {score}  {topic}",
        "{id}  {name}  ターン{turn}  スコア{score}  {topic}",
    )
    timeline_line: Text = Text("{turn}. {score}  {question}", "{turn}. {score}  {question}")
    no_turns: Text = Text("Nothing has been said yet.", "まだ何も話していません。")
    pinned_label: Text = Text("pinned", "ピン留め")
    forgotten_label: Text = Text("forgotten", "忘却中")

    # Pins and what was forgotten.
    pinned: Text = Text(
        "Pinned: “{words}”. No view leaves it out; /unpin takes the pin off.",
        "ピン留めしました: 「{words}」。常にモデルに見せます。/unpin で外せます。",
    )
    unpinned: Text = Text("No longer pinned: “{words}”.", "ピンを外しました: 「{words}」。")
    forgot: Text = Text(
        "Forgotten: “{words}”. The model is told nothing of it any more, and the record keeps it: "
        "/undo lets the model see it again.",
        "忘れました: 「{words}」。今後モデルには伝えませんが、記録には残ります。"
        "/undo で元に戻せます。",
    )
    forgotten_line: Text = Text(
        "{id}  {kind}  “{words}”  {reason}",
        "{id}  {kind}  「{words}」  きっかけ: {reason}",
    )
    no_forgotten: Text = Text("Nothing is forgotten.", "忘れたものはありません。")

    # What a recall found. The reasons are named as in `recall.Why`.
    recalled_list: Text = Text(
        "Found, and shown to the model with your next question:",
        "見つかりました。次の質問と一緒にモデルに見せます:",
    )
    recalled_line: Text = Text(
        "{turn}. {speaker}: “{words}” ({why})",
        "ターン{turn} {speaker}: 「{words}」({why})",
    )
    recalled_none: Text = Text(
        "Nothing that was said bears on “{words}”.",
        "「{words}」に関わる発言は見つかりませんでした。",
    )
    recall_reasons: Table = Table.of(
        {
            "words": ("has {words}", "{words} を含む"),
            "meaning": ("means something like it", "意味が近い"),
            "nearby": ("stands next to such a message", "該当する発言の隣にある"),
            "step": ("belongs to the message beside it", "隣の発言と一組である"),
            "asked": ("was asked for", "指定された"),
        }
    )

    # Who uses the window, and what was spent.
    tokens_window: Text = Text(
        "Window: {used} of {window} tokens ({share})",
        "文脈: {window}トークンのうち{used}({share})",
    )
    tokens_used: Text = Text("Window: {used} tokens", "文脈: {used}トークン")
    tokens_unknown: Text = Text(
        "No call tells yet who uses the window.", "文脈の内訳が分かる呼び出しは、まだありません。"
    )
    tokens_spent: Text = Text("Spent: {total} tokens", "消費: {total}トークン")
    tokens_least: Text = Text(
        "Spent, as far as is at hand: {total} tokens", "消費(手元で分かる範囲): {total}トークン"
    )
    tokens_flow: Text = Text(
        "{input} in ({cached} cached), {output} out",
        "入力{input}(うちキャッシュ{cached})、出力{output}",
    )
    tokens_cost: Text = Text(", cost {cost}", "、費用は{cost}")
    tokens_budget: Text = Text("{used} of {limit} ({share})", "{limit}のうち{used}({share})")
    tokens_names: Table = Table.of(
        {
            "system": ("system", "システム"),
            "tools": ("tools", "ツール"),
            "summary": ("summary", "要約"),
            "recents": ("recents", "最近の会話"),
            "recalled": ("recalled", "想起"),
            "reply": ("reply, at most", "回答(最大)"),
            "live": ("live", "現在の枝"),
            "abandoned": ("taken back", "取り消した分"),
            "judging": ("judging", "採点"),
            "summaries": ("summaries", "要約の作成"),
            "titles": ("titles", "題名"),
            "session": ("session budget", "セッションの予算"),
            "task": ("task budget", "タスクの予算"),
            "agent": ("agent budget", "エージェントの予算"),
        }
    )

    # Reasons by their English sentence; one that is not listed stays English.
    rules: Table = Table(
        {},
        {
            "no compensation is registered": "取り消す方法が登録されていません",
            "no result of the call is known": "呼び出しの結果が分かりません",
            "the call itself failed": "呼び出し自体が失敗しました",
            "the message was copied here from elsewhere": "ほかから写されたメッセージです",
            "a person declined it": "確認が得られませんでした",
            "the call returned to the record first": "先に記録へ戻りました",
            "The answer is empty.": "回答が空です。",
            "The answer refuses the request.": "回答が依頼を断っています。",
            "The answer declines in part.": "回答が依頼の一部を断っています。",
            "The answer only says that it does not know.": "回答が「分からない」としか述べていません。",
            "The answer repeats itself.": "回答が同じことを繰り返しています。",
            "The answer repeats the question.": "回答が質問を繰り返しているだけです。",
            "The answer repeats an earlier answer to another question.": "別の質問への以前の回答を繰り返しています。",
            "The provider cut the answer off at its length limit.": "回答が長さの上限で途切れています。",
            "The answer's last code block is never closed.": "最後のコードブロックが閉じられていません。",
            "The answer stops in the middle of a sentence.": "回答が文の途中で終わっています。",
            "The answer shares no word with the question or the talk before it.": "回答に質問や直前の会話と共通する語がありません。",
            "The answer tells the judge what to say.": "回答が評価者に指示を出しています。",
            "The answer takes up the question at a fitting length.": "回答が適切な長さで質問に応えています。",
            "The answer takes up the question in part, or briefly.": "回答が質問に一部だけ、または短く応えています。",
            "The answer hardly takes up the question.": "回答が質問にほとんど応えていません。",
            "The question has no telling words.": "質問に手がかりとなる語がありません。",
            "The document shares words with the question.": "文書に質問と共通する語があります。",
            "The document shares no word with the question.": "文書に質問と共通する語がありません。",
            "the model broke off, and another one answers": "モデルの応答が途切れたため、別のモデルが回答します",
            "the view was too long for the model, and a shorter one is sent": (
                "モデルにとって長すぎたため、短くして送り直します"
            ),
            "the model returned nothing": "モデルが何も返しませんでした。",
        },
    )

    def with_read_tool(self) -> Self:
        """Return a copy whose shortened tool results name the tool that reads them in full."""
        made = copy(self)
        # Not by `replace`: these texts have a placeholder more than those they take the place of.
        vars(made)["result_truncated"] = self.readable_truncated
        vars(made)["result_cleared"] = self.readable_cleared
        return made


ENGLISH = Texts("en")
JAPANESE = Texts("ja")


def by_language(prompts: Texts | Iterable[Texts] | None = None) -> Mapping[Language, Texts]:
    """Return the catalogue of each language, ours where `prompts` has none.

    Raises:
        ConfigurationError: `prompts` has something else than catalogues, or two of one language.
    """
    given = (
        [prompts] if isinstance(prompts, Texts) or not isinstance(prompts, Iterable) else prompts
    )
    chosen: dict[Language, Texts] = {}
    for each in () if prompts is None else given:
        if not isinstance(each, Texts):
            raise ConfigurationError(
                f"prompts={each!r}: give a catalogue, such as dataclasses.replace(ENGLISH, ...) "
                "with ENGLISH from unsay.prompts"
            )
        if each.language in chosen:
            raise ConfigurationError(f"prompts: two catalogues have language={each.language!r}")
        chosen[each.language] = each
    return {"en": ENGLISH, "ja": JAPANESE, **chosen}
