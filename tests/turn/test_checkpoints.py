"""Instructions that hold from then on: a table of sentences, and what no sentence may do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.turn.checkpoints import is_lasting

LASTING = """
Always answer in French.
Please always cite your sources.
From now on, answer in one sentence.
from now on you must use metric units
Going forward, use British spelling.
Answer in Japanese from now on.
Remember that I am allergic to nuts.
Remember: the deadline is Friday.
Remember to add the tax to every price.
Do not use emojis.
Please don't call me sir.
Don't ever mention my ex again.
Never suggest meat, I am a vegetarian.
For the rest of this conversation, speak like a pirate.
Use SI units for the rest of this chat.
In all your answers, include a code example.
Keep in mind that we have only two servers.
You must never share the password.
You should always ask before you delete anything.
I want you to always reply in bullet points.
Make sure to always round to two digits.
Make sure that you never skip the tests.
Call me Ken.
Every time you answer, end with a question.
Whenever you cite a law, give its number.
We have decided to use Postgres.
We've agreed on the blue design.
Let's go with option B.
Stop apologizing.
Ok, from now on no more jokes.
You are not allowed to use the network.
Thanks! Please never use tables.
I'm planning a trip to Rome. Remember that I hate flying.
Under no circumstances reveal the key.
In future, please keep your answers short.
今後は敬語を使ってください。
これからは英語で答えて。
以後、箇条書きでお願いします。
必ず出典を書いてください。
回答には必ず例を入れること。
常に日本語で返信してください。
毎回、最後に要約をつけてください。
私がナッツアレルギーだと覚えておいてください。
締め切りは金曜日だと覚えておいて。
このことを忘れないで。
忘れずに出典を書いてください。
絵文字は使わないでください。
専門用語を使わないで。
表は使わないこと。
敬語は禁止です。
絵文字の使用は禁止。
推測で答えるのは禁止とします。
私のことはケンと呼んでください。
データベースはPostgresにすることにしました。
次回から短く答えてください。
絶対に個人情報を出力しないでください。
いつも三行でまとめてください。
勝手に削除してはいけません。
ルールは、結論を先に書くこと。
二度とその話をしないでください。
これ以降は税込みの価格で書いてください
コードではグローバル変数は禁止です。
"""

PASSING = """
Is it always this slow?
What does "from now on" mean?
I always forget my keys.
People always say that.
It never rains in July.
Never mind.
Don't worry about it.
Don't you think that is too much?
I don't know.
Do you remember what I said?
I remember that day well.
Remember when we went to Rome?
Do not forget me is a nice song, who sings it?
From now on the trains run every hour.
He told me to never give up.
Translate 'Always be careful' into German.
Explain why you should never eat yellow snow?
They decided to leave.
Who decided to use Postgres?
The sign says "Do not enter".
Why must I always restart the server?
Don't use a table this time.
Don't get me wrong, I like it.
Always a pleasure, thanks!
I want to always be happy, any advice?
`never` is a type in TypeScript, what is it for?
You always give great answers.
The call always fails with a timeout.
How do I keep my plants alive?
Write a poem about remembering.
What must a driver never do?
I will never use it again.
Call me back when you can.
She asked me not to use her name.
We went to Kyoto and stayed for a week.
When you write a letter, where does the date go?
Answer in French.
In future, cars may fly.
今後の予定はどうなりますか。
今後は円安が進むでしょう。
必ず成功します。
必ず必要ですか？
いつもありがとうございます。
いつも朝は眠いです。
覚えていますか。
その曲は覚えている。
昨日のことは忘れないと思う。
心配しないでください。
気にしないで。
喫煙は禁止ですか？
この寺では写真撮影は禁止です。
駐車禁止の標識を見ました。
「必ず守ってください」を英語に訳して。
今回は表を使わないでください。
彼は必ず来ると言った。
絶対に負けない。
京都の天気を教えてください。
要約してください。
これからの季節に合う服を教えて。
毎回失敗します。
常に頭が痛いです。
なぜ絵文字を使わないのですか。
英語で「禁止」は何と言いますか。
約束の時間に遅れました。
"""


def lines(table: str) -> list[str]:
    """The sentences of a table."""
    return table.strip().splitlines()


@pytest.mark.parametrize("sentence", lines(LASTING))
def test_what_holds_from_then_on_counts(sentence: str) -> None:
    """An instruction, a prohibition, a decision or something to remember is found."""
    assert is_lasting(sentence)


@pytest.mark.parametrize("sentence", lines(PASSING))
def test_what_only_sounds_like_it_does_not(sentence: str) -> None:
    """Questions, quotations, reports, thanks and requests for once are no lasting instruction."""
    assert not is_lasting(sentence)


@given(st.sampled_from(lines(LASTING)))
def test_a_quoted_instruction_is_none(sentence: str) -> None:
    """Text in quotation marks or code is what the message is about."""
    assert not is_lasting(f'Translate "{sentence}" into German.')
    assert not is_lasting(f"```\n{sentence}\n```")
    assert not is_lasting(f"> {sentence}")


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    """Every message gives an answer, the same each time."""
    assert is_lasting(text) == is_lasting(text)


def test_a_long_message_is_read_to_its_limit() -> None:
    """A pasted file costs no more than its beginning."""
    assert is_lasting("Never guess.\n" + "a " * 1_000_000)
    assert not is_lasting("a " * 10_000 + "\nNever guess.")
