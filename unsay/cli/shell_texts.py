"""The Japanese of what the command line says in English: errors, notes, findings of `doctor`."""

from collections.abc import Mapping

SETUP_TEXTS: Mapping[str, str] = {
    # The sections of `unsay settings`, and where a setting comes from.
    "Models, threads and storage": "モデル、スレッド、保存先",
    "Context": "コンテキスト",
    "Judging, rollbacks and topics": "評価、ロールバック、話題",
    "Budgets and calls": "予算と呼び出し",
    "default": "既定値",
    "derived": "連動",
    "environment": "環境変数",
    "file": "ファイル",
    "argument": "引数",
    "preset": "プリセット",
    "none": "なし",
    # What `doctor` finds, and what it advises.
    "ok": "正常",
    "warning": "注意",
    "FAILED": "失敗",
    "version": "バージョン",
    "settings": "設定",
    "key": "キー",
    "server": "サーバー",
    "model": "モデル",
    "clock": "時計",
    "write": "書き込み",
    "database": "データベース",
    "lock": "ロック",
    "Correct the variable or the file unsay.toml.": (
        "環境変数またはファイル unsay.toml を修正してください。"
    ),
    "Set UNSAY_MODEL to a model's name, such as gpt-5-mini.": (
        "UNSAY_MODEL にモデル名を設定してください(例: gpt-5-mini)。"
    ),
    "No model is named.": "モデルが指定されていません。",
    "Set the key or the extra that the text names.": (
        "示されたキーを設定するか、追加のパッケージをインストールしてください。"
    ),
    "{} (its provider's key and server are not checked)": "{}(提供元のキーとサーバーは確認しません)",
    "OPENAI_API_KEY is set; characters: {}": "OPENAI_API_KEY は設定済み({}文字)",
    "OPENAI_API_KEY is not set; your own server may need none": (
        "OPENAI_API_KEY は未設定(自分のサーバーなら不要な場合があります)"
    ),
    "OPENAI_API_KEY is not set.": "OPENAI_API_KEY が設定されていません。",
    "Set it, or OPENAI_BASE_URL.": "設定するか、OPENAI_BASE_URL を設定してください。",
    "Check the network and OPENAI_BASE_URL; is your server running?": (
        "ネットワークと OPENAI_BASE_URL、サーバーが動いているかを確認してください。"
    ),
    "{} cannot be reached: {}": "{} に接続できません: {}",
    "{} refuses the key ({}).": "{} がキーを拒否しました({})。",
    "Check OPENAI_API_KEY, and that it is for this server.": (
        "OPENAI_API_KEY がこのサーバーのものか確認してください。"
    ),
    "{} answers {}.": "{} の応答は {} です。",
    "Try again later.": "しばらくしてからもう一度試してください。",
    "{} answers": "{} は応答しています",
    "{} (the server does not list its models)": "{}(サーバーはモデルの一覧を返しません)",
    "The server has no {}.": "サーバーにモデル{}がありません。",
    "Set {}, such as: {}.": "{} を設定してください(例: {})。",
    "Set the computer's clock: locks between computers and times of turns rely on it.": (
        "時計を合わせてください。コンピューター間のロックとターンの日時に使われます。"
    ),
    "It differs from the server's by {} s.": "サーバーの時計と{}秒ずれています。",
    "as the server's": "サーバーの時計と一致",
    "{} does not exist yet; `unsay chat` creates it": "{} はまだありません(`unsay chat` で作成されます)",
    "Give another with --db, or restore a backup.": (
        "--db で別のファイルを指定するか、バックアップから復元してください。"
    ),
    "{}, threads: {}": "{}、スレッド {}件",
    "{} cannot be written: {}": "{} に書き込めません: {}",
    "Change its permissions, or choose another place with --db or UNSAY_HOME.": (
        "アクセス権を変更するか、別の場所を --db か UNSAY_HOME で指定してください。"
    ),
    "{} MB are free in {}": "空き容量が{} MBです: {}",
    "Free some space.": "空き容量を増やしてください。",
    "{}, {} GB free": "{}、空き{} GB",
    "The database is locked: {}": "データベースがロックされています: {}",
    "Another program writes to it: wait, or end that program.": (
        "別のプログラムが書き込み中です。待つか、そのプログラムを終了してください。"
    ),
    "free": "ロックなし",
}


SHELL_TEXTS: Mapping[str, str] = {
    # What `unsay` alone prints.
    "Chat with an LLM that judges its answers, and roll back bad ones.": (
        "回答を自分で評価するLLMとチャットし、うまくいかない回答を巻き戻せます。"
    ),
    "Commands:": "コマンド:",
    "Play a scripted conversation; no API key needed.": "台本どおりの会話を再生する(APIキーは不要)",
    "Check key, server, model, database and clock, and say what to do.": (
        "キー、サーバー、モデル、データベース、時計を確認し、対処法を示す"
    ),
    "Chat in the terminal; /help lists the commands.": (
        "ターミナルでチャットする(/help でコマンドの一覧を表示)"
    ),
    "Send TEXT (- reads standard input) and print the answer.": (
        "TEXT を送り(- は標準入力)、回答を表示する"
    ),
    "List the conversations, newest first.": "会話の一覧を新しい順に表示する",
    "Show the turns with their scores, checkpoints and branches.": (
        "ターンとそのスコア、チェックポイント、ブランチを表示する"
    ),
    "Undo the last operation, such as a turn or a rollback.": (
        "直前の操作(ターンやロールバックなど)を元に戻す"
    ),
    "`unsay --help` lists all commands, `unsay COMMAND --help` explains one.": (
        "`unsay --help` で全コマンドの一覧を、`unsay コマンド --help` で各コマンドの説明を表示します(英語)。"
    ),
    # Why an answer has no score, or failed without a judge.
    "a person wrote it": "人が書いた回答です",
    "judging is off": "評価はオフになっています",
    "the answer is not text": "回答がテキストではありません",
    "the model returned nothing": "モデルの回答が空でした",
    "the judge failed: {}": "評価でエラーが発生しました: {}",
    "the judge was silent for {} s": "{}秒待っても評価が返りませんでした",
    "the judge was not asked: {}": "評価を依頼しませんでした: {}",
    "the judges do not agree: {}": "評価が分かれました: {}",
    "it entered together with many others": "多くのメッセージと一緒に追加されました",
    "it is forgotten": "送信対象から外れています",
    "no judge is configured and the agent that answers is no chat model": (
        "評価モデルが設定されておらず、回答するエージェントはチャットモデルではありません"
    ),
    # Click's own errors.
    "No such command {}. Did you mean {}?": "コマンド{}はありません。{}のことですか?",
    "No such command {}.": "コマンド{}はありません。",
    "No such option {}. Did you mean {}?": "オプション{}はありません。{}のことですか?",
    "No such command {}. (Did you mean one of: {}?)": (
        "コマンド{}はありません。次のいずれかですか: {}。"
    ),
    "No such option {}. (Did you mean one of: {}?)": (
        "オプション{}はありません。次のいずれかですか: {}。"
    ),
    "No such option {}.": "オプション{}はありません。",
    "Invalid value for {}: {} is not one of {}.": "{0}の値{1}は使えません。次から選んでください: {2}。",
    "Invalid value for {}: {} is not a label: write NAME=VALUE.": (
        "{1}はラベルではありません。名前=値 の形で指定してください。"
    ),
    "Missing argument {}. Choose from: {}.": "引数{}がありません。次から選んでください: {}。",
    "Missing argument {}.": "引数{}がありません。",
    "Missing option {}.": "オプション{}が必要です。",
    "Option {} requires an argument.": "オプション{}には値が必要です。",
    "Option {} does not take a value.": "オプション{}に値は指定できません。",
    "Got unexpected extra argument ({}).": "余分な引数があります({})。",
    "Got unexpected extra arguments ({}).": "余分な引数があります({})。",
    "A thread is named with --thread ID.": "スレッドは --thread ID で指定します。",
    "Options come after the command.": "オプションはコマンドの後に指定してください。",
    "A TEXT of several words needs quotes.": "空白を含む文は引用符で囲んでください。",
    "A TEXT that begins with a dash comes after --.": (
        "- で始まる文は、-- の後に指定してください。"
    ),
    "Try {}.": "{}で使い方を表示できます。",
    # Options that are wrong or exclude each other.
    "{} must not be empty.": "{} を空にすることはできません。",
    "{} must be a whole number, got {}.": "{} には整数を指定してください(入力: {})。",
    "{} must be a number, got {}.": "{} には数値を指定してください(入力: {})。",
    "{} must be {} or more, got {}.": "{} には{}以上の値を指定してください(入力: {})。",
    "{} must be {} to {}, got {}.": "{} には{}から{}までの値を指定してください(入力: {})。",
    "Name the conversation once: as THREAD or with --thread.": (
        "スレッドは、THREAD か --thread のどちらか一方で指定してください。"
    ),
    "The decision edit:TEXT needs a text: write the answer after edit:": (
        "edit: の後に、修正した回答を書いてください"
    ),
    "Give exactly one of TEXT (- reads standard input), --resume and --decide.": (
        "TEXT(- は標準入力)、--resume、--decide のいずれか1つを指定してください。"
    ),
    "--turn-id needs TEXT and --thread.": "--turn-id には TEXT と --thread が必要です。",
    "--answer needs --turn-id.": "--answer には --turn-id が必要です。",
    "--file needs TEXT.": "--file には TEXT が必要です。",
    "Give a message's ID or --turn, not both.": (
        "メッセージのIDか --turn のどちらか一方を指定してください。"
    ),
    "Give exactly one of WHAT, --turn and --results-below.": (
        "WHAT、--turn、--results-below のいずれか1つを指定してください。"
    ),
    "Give --import or --all, not both.": ("--import か --all のどちらか一方を指定してください。"),
    "Give --thread or --all, not both.": ("--thread か --all のどちらか一方を指定してください。"),
    "--verify checks the whole event log: leave the filters out.": (
        "--verify はイベントログ全体を確認します。絞り込みの指定を外してください。"
    ),
    "calibrate reads FILE and no database: leave --db out.": (
        "calibrate はデータベースを使いません。--db を外してください。"
    ),
    "--judge-model needs --model, whose answer it judges.": (
        "--judge-model には、評価する回答のモデルを指定する --model が必要です。"
    ),
    "--payload sends no request: leave --model out.": (
        "--payload はリクエストを送信しません。--model を外してください。"
    ),
    "The label {} is both set and removed: give one of the two.": (
        "ラベル{}に設定と削除の両方が指定されています。どちらか一方にしてください。"
    ),
    "A purge cannot be undone: confirm it with --yes.": (
        "削除は取り消せません。--yes を付けて実行してください。"
    ),
    "Type y or n.": "y(はい)か n(いいえ)を入力してください。",
    "Give a checkpoint ({}) or a number of turns ({}), not both": (
        "チェックポイント({})かターン数({})のどちらか一方を指定してください"
    ),
    "--tools {} must be MODULE:FUNCTION, such as mytools:weather": (
        "--tools の値{}は使えません。mytools:weather のように、モジュール:関数 の形で指定してください"
    ),
    # Before the next one: what Python says of the module may be like it.
    "--tools {} cannot be imported: {}": "--tools の{}を読み込めません: {}",
    "--tools {}: {} has no {}": "--tools の{}: {}に{}はありません",
    "--tools {}: {} is neither a tool nor a function": "--tools の{}: {}はツールでも関数でもありません",
    "--mcp needs the extra mcp: pip install 'unsay[mcp]'": (
        "--mcp には追加のパッケージが必要です: pip install 'unsay[mcp]'"
    ),
    "--mcp: server {} does not answer: {}. Run its command by hand, or open its URL, to see why": (
        "--mcp: サーバー{}が応答しません: {}。コマンドを直接実行するか、URLを開いて、原因を確認してください"
    ),
    "--mcp: the command {} of server {} was not found": (
        "--mcp: コマンド{}(サーバー{})が見つかりません"
    ),
    "--mcp {} names no servers. It must be JSON such as {} or {}": (
        "--mcp の{}にサーバーがありません。次のどちらかの形のJSONにしてください: {} または {}"
    ),
    "--mcp {} is not JSON: {}. It must be JSON such as {} or {}": (
        "--mcp の{}はJSONではありません: {}。次のどちらかの形のJSONにしてください: {} または {}"
    ),
    "A context of {} messages, about {} tokens, is too long for the model, and the strategy {} cannot make it smaller: {}. {}": (
        "モデルに送るメッセージ({0}件、約{1}トークン)が長すぎ、これ以上短くできません。ピン留めを外すか(/unpin)、質問を短くするか、コンテキストウィンドウの大きいモデルを使うか、新しい会話を始めてください"
    ),
    "--file {} is not UTF-8 text; only text and images (GIF, JPEG, PNG, WebP) can be attached": (
        "--file の{}はUTF-8のテキストではありません。添付できるのはテキストと画像(GIF、JPEG、PNG、WebP)です"
    ),
    "--file {} cannot be read: {}": "--file の{}を読み込めません: {}",
    "--mcp {} cannot be read: {}": "--mcp の{}を読み込めません: {}",
    "{} cannot be read: {}": "{} を読み込めません: {}",
    "The input is not UTF-8 text: convert it to UTF-8 first": (
        "入力がUTF-8のテキストではありません。UTF-8に変換してください"
    ),
    "The message is not UTF-8 text: convert it to UTF-8 first": (
        "メッセージがUTF-8のテキストではありません。UTF-8に変換してください"
    ),
    "Standard input is not UTF-8 text: convert it to UTF-8 first": (
        "標準入力がUTF-8のテキストではありません。UTF-8に変換してください"
    ),
    "{} is not a command with a schema; `unsay --help` lists them": (
        "{}は、スキーマのあるコマンドではありません。`unsay --help` で一覧を表示できます"
    ),
    "--{} {} is not a time: give ISO 8601 with a zone, such as {} or {}": (
        "--{} の値{}は日時ではありません。{} や {} のように、タイムゾーン付きのISO 8601で指定してください"
    ),
    "--cursor {} is not from this list: give the cursor of the page before, or none for the first page": (
        "--cursor の値{}はこの一覧のものではありません。前のページのカーソルを指定するか、先頭のページなら省いてください"
    ),
    # Threads and databases that are not there.
    "This thread has no checkpoint {}; the newest: {}. A number of turns is given with --turns": (
        "チェックポイント{}はありません。最新のものは {} です。ターン数は --turns で指定します"
    ),
    "This thread has no checkpoint {}; it has none yet. A number of turns is given with --turns": (
        "チェックポイント{}はありません。まだ1件も作成されていません。ターン数は --turns で指定します"
    ),
    "There is no database file {}: check --db, or begin one with `unsay chat --db {}`": (
        "データベースのファイル{}がありません。--db を確認するか、`unsay chat --db {}` で作成してください"
    ),
    "There is no database at {} yet; `unsay chat` creates one": (
        "データベース{}はまだありません。`unsay chat` で作成されます"
    ),
    "There is no thread in {} yet; `unsay chat` starts one": (
        "{}にスレッドはまだありません。`unsay chat` で始められます"
    ),
    "There is no thread in {} yet; `unsay chat` starts one.": (
        "{}にスレッドはまだありません。`unsay chat` で始められます。"
    ),
    "There is no thread {} in {} yet: it begins with its first message; {} lists all threads": (
        "スレッド{}は{}にまだありません。最初のメッセージで始まります。{} で一覧を表示できます"
    ),
    "There is no thread {} in {}; nothing was deleted. `unsay threads` lists the threads": (
        "スレッド{}は{}にありません。何も削除していません。`unsay threads` で一覧を表示できます"
    ),
    "Thread {} has no label {}; `unsay label` lists its labels": (
        "スレッド{}にラベル{}はありません。`unsay label` で一覧を表示できます"
    ),
    "The thread {} was ended at {}: it takes no new messages. To continue, begin another thread, or fork this one": (
        "スレッド{}は{}に終了しているため、新しいメッセージは送れません。続けるには、別のスレッドを始めるか、`unsay fork` で分岐してください"
    ),
    "{} cannot name a thread: use 1 to {} printable characters": (
        "{}はスレッドのIDに使えません。表示できる文字で、1文字以上{}文字以内にしてください"
    ),
    "There is a thread {} already; give another name, or none for a new one": (
        "スレッド{}はすでにあります。別の名前を指定するか、省略してください"
    ),
    "Message {} is not in the transcript; {} lists its messages": (
        "メッセージ{}は会話にありません。{} で一覧を表示できます"
    ),
    "The label {}: {} cannot be stored: give names and values as text, and names of 1 character or more": (
        "ラベル{}(値{})は保存できません。1文字以上の名前を付けてください"
    ),
    "No failed request of run {} is kept; {} lists the runs, and a turn that succeeded is replayed by its number": (
        "実行{}に、不合格や失敗のリクエストは残っていません。{} で実行の一覧を表示できます。成功したターンは番号で指定してください"
    ),
    "The model called tools in {} steps without an answer: raise {}, or ask for less at once": (
        "ツールを{}回呼び出しても回答がありませんでした。{} を増やすか、一度に頼む内容を減らしてください"
    ),
    "{} is neither 'live' nor the id of a branch, a checkpoint or a thread; {} and {} list them": (
        "{}は、live、ブランチ、チェックポイント、スレッドのいずれでもありません。{} と {} で一覧を表示できます"
    ),
    "{} was locked by another process for {} s: try again when that process is done. Nothing that was stored is lost": (
        "{}は別のプロセスが{}秒間ロックしていました。そのプロセスの終了後に、もう一度実行してください。保存済みの内容は失われていません"
    ),
    "Another turn of the thread {} is running{} and did not end within {} s: try again when it has ended, or raise UNSAY_THREAD_WAIT_SECONDS. Nothing was stored": (
        "スレッド{0}では別のターンが実行中で、{2}秒待っても終わりませんでした。終了後にもう一度試すか、UNSAY_THREAD_WAIT_SECONDS を増やしてください。何も保存していません"
    ),
    "This process did not renew its lease in time, and another process took over the thread: check its timeline, then repeat this. Nothing that was stored is lost": (
        "別のプロセスがこのスレッドを引き継ぎました。タイムラインを確認してから、もう一度実行してください。保存済みの内容は失われていません"
    ),
    "There is no thread {}: list the threads to see their ids, or begin this one with its first message": (
        "スレッド{}はありません。`unsay threads` で一覧を表示するか、最初のメッセージを送って始めてください"
    ),
    "{} is damaged, or it is not a SQLite file ({}): restore a backup, or give another path. unsay did not change the file": (
        "{}は壊れているか、SQLiteのファイルではありません({})。バックアップから復元するか、別のファイルを指定してください。ファイルは変更していません"
    ),
    "{} is a database of another program: give another path": (
        "{}は別のプログラムのデータベースです。別のファイルを指定してください"
    ),
    "{} cannot be written ({}): give this user write access to the file and its folder, or choose another path, on the command line by --db or UNSAY_HOME": (
        "{}に書き込めません({})。ファイルとフォルダーへの書き込みを許可するか、書き込める場所を --db か UNSAY_HOME で指定してください"
    ),
    "{} cannot be written ({}): choose another path, on the command line by --db or UNSAY_HOME": (
        "{}に書き込めません({})。別の場所を --db か UNSAY_HOME で指定してください"
    ),
    "{} could not be read or written ({}){}": "{}の読み書きに失敗しました({}){}",
    "{} is not a supported database: give a path, sqlite:///path, or postgresql://user:password@host:port/name": (
        "{}は対応していないデータベースです。ファイルのパス、sqlite:///パス、または postgresql://ユーザー:パスワード@ホスト:ポート/名前 を指定してください"
    ),
    "A postgresql:// URL needs more packages ({}): pip install 'unsay[postgres]'": (
        "postgresql:// のURLには追加のパッケージが必要です({}): pip install 'unsay[postgres]'"
    ),
    "{} was written by a newer version of unsay (layout {}, this version reads {}): upgrade unsay. The database is unchanged": (
        "{}は新しいバージョンの unsay で作成されています(形式{}、このバージョンは{})。unsay を更新してください。データベースは変更していません"
    ),
    "{} was written by an older version of unsay (layout {}, this version reads {}): give another path. The database is unchanged": (
        "{}は古いバージョンの unsay で作成されています(形式{}、このバージョンは{})。別のファイルを指定してください。データベースは変更していません"
    ),
    "{} cannot be opened ({}): check that the server runs, and that host and port are right": (
        "{}に接続できません({})。サーバーが動いているか、ホストとポートが正しいか確認してください"
    ),
    # Turns, branches and past requests.
    "Turn {} has no attempt {}; there are {}": "ターン{}に試行{}はありません。試行は{}回です",
    "No failed request of attempt {} is kept; {} lists the runs, and a turn that succeeded is replayed by its number": (
        "試行{}に、不合格や失敗のリクエストは残っていません。{} で実行の一覧を表示できます。成功したターンは番号で指定してください"
    ),
    "The turn id {} was used for {}, so it cannot be used for {}: send the same words to get their answer, or give the new ones a new id. Nothing was stored": (
        "ターンのID{}は{}に使用済みのため、{}には使えません。同じ文を送るか、別のIDを指定してください。何も保存していません"
    ),
    "The turn {} got no answer of its own, and other messages follow its question: send the message under a new id. Nothing was stored": (
        "ターン{}には回答がなく、質問のあとに別のメッセージがあります。新しいIDで送ってください。何も保存していません"
    ),
    "Message {} is not in this branch": "メッセージ{}はこのブランチにありません",
    "The messages {} do not end in an answer, and a question alone would wait for one: pick its answer too, or ask it again": (
        "指定したメッセージ({})が回答で終わっていません。質問とその回答を一緒に指定するか、もう一度質問してください"
    ),
    # Models, keys, budgets and settings.
    "There is no model to answer with: set UNSAY_MODEL to a model's name and OPENAI_API_KEY (or OPENAI_BASE_URL for a server of your own), or name a model with {}; `unsay demo` needs neither": (
        "回答するモデルが指定されていません。UNSAY_MODEL にモデル名を、OPENAI_API_KEY にキーを設定してください(自分のサーバーなら、キーの代わりに OPENAI_BASE_URL にアドレス)。モデルは --model でも指定できます。`unsay demo` にはどちらも不要です"
    ),
    "There is no key for model {}: set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own (Ollama, vLLM, llama.cpp); `unsay demo` needs neither": (
        "モデル{}のキーがありません。OPENAI_API_KEY を設定するか、自分のサーバー(Ollama、vLLM、llama.cpp)なら OPENAI_BASE_URL を設定してください。`unsay demo` にはどちらも不要です"
    ),
    "Model {} needs a package that is not installed ({}): install `unsay[providers]`, or the package langchain-{}": (
        "モデル{}に必要なパッケージがありません({})。`unsay[providers]` か langchain-{} をインストールしてください"
    ),
    "Model {} cannot be used: {}": "モデル{}は使えません: {}",
    "The model could not be reached ({}). {}": (
        "モデルに接続できませんでした({})。サーバーとネットワークを確認してください(`unsay doctor` で調べられます)。質問は残っています。同じ質問を送ると再開し、別の質問を送ると置き換わります"
    ),
    "The model's server failed or limits its calls ({}). {}": (
        "モデルのサーバーでエラーが発生したか、呼び出しが制限されています({})。少し待ってから試してください。続く場合は、サーバーと利用制限を確認してください。質問は残っています。同じ質問を送ると再開し、別の質問を送ると置き換わります"
    ),
    "The connection to the model broke off in its reply ({}). {}": (
        "モデルの回答の途中で接続が切れました({})。サーバーとネットワークを確認してください。質問は残っています。同じ質問を送ると再開し、別の質問を送ると置き換わります"
    ),
    "The quota of the model's provider is exhausted ({}). {}": (
        "モデルの提供元の利用枠(quota)を使い切りました({})。待っても回復しません。提供元でクレジットや上限を追加するか、別のモデルを使ってください。質問は残っています。同じ質問を送ると再開し、別の質問を送ると置き換わります"
    ),
    "The model did not answer in time ({}). {}": (
        "モデルから時間内に応答がありませんでした({})。サーバーを確認するか、model_timeout_seconds を大きくしてください。質問は残っています。同じ質問を送ると再開し、別の質問を送ると置き換わります"
    ),
    "The model's server sent a reply that its client cannot read ({}). {}": (
        "モデルのサーバーの応答を読み取れません({})。OPENAI_BASE_URL がモデルのAPIのアドレス(http://127.0.0.1:11434/v1 など)か確認してください。質問は残っています。同じ質問を送ると再開し、別の質問を送ると置き換わります"
    ),
    "The model's provider failed ({}). {}": (
        "モデルの提供元でエラーが発生しました({})。質問は残っています。同じ質問を送ると再開し、別の質問を送ると置き換わります"
    ),
    "The model's client cannot send these messages ({}). Remove what it names, such as an image or a file, or use a model that takes it. {}": (
        "このモデルには送れない内容があります({})。示された画像やファイルなどを外すか、対応するモデルを使ってください。質問は残っています。同じ質問を送ると再開し、別の質問を送ると置き換わります"
    ),
    "The provider refused the request ({}). Check the model's name, OPENAI_API_KEY and OPENAI_BASE_URL. {}": (
        "モデルの提供元がリクエストを拒否しました({})。モデル名、OPENAI_API_KEY、OPENAI_BASE_URL を確認してください。質問は残っています。同じ質問を送ると再開し、別の質問を送ると置き換わります"
    ),
    "The model's server sent invalid JSON ({}). {}": (
        "モデルのサーバーの応答がJSONとして正しくありません({})。質問は残っています。同じ質問を送ると再開し、別の質問を送ると置き換わります"
    ),
    "{} failed {} times in a row: try again in {} s, or set a fallback_model": (
        "{}が{}回続けて失敗しました。{}秒後にもう一度試すか、fallback_model を設定してください"
    ),
    "The context is longer than the model's window ({}). Roll back, start a new topic, or use a model with a larger window.": (
        "コンテキストがモデルのウィンドウより長くなっています({})。前に戻るか、新しい話題を始めるか、ウィンドウの大きいモデルを使ってください。"
    ),
    "The model was not asked: {}. Raise {}, set budget_mode to 'ask' or 'soft', or begin a new {}": (
        "モデルに質問していません: {}。{} を増やすか、budget_mode を ask か soft に設定してください"
    ),
    "A person declined the call: {}. Raise {}, then ask again": (
        "呼び出しは承認されませんでした: {}。{}を増やしてから、もう一度質問してください"
    ),
    "The model returned an empty answer in {} attempts: ask again in other words, or choose another model": (
        "モデルの回答が{}回とも空でした。言い方を変えて質問するか、別のモデルを選んでください"
    ),
    "There is no setting {}: did you mean {}?": "設定{}はありません。{}のことですか?",
    "There is no setting for the variable {}: did you mean {}?": (
        "環境変数{}に対応する設定はありません。{}のことですか?"
    ),
    "These settings cannot be used: {}": "設定に使えない値があります: {}",
    "These settings cannot be used: {}: there is no such setting (did you mean {}?) (from {})": (
        "設定 {} はありません。{}のことですか? ({}の指定)"
    ),
    "These settings cannot be used: {}: there is no such setting (`unsay settings` lists them) (from {})": (
        "設定 {} はありません。`unsay settings` で一覧を表示できます({}の指定)"
    ),
    "The file {} cannot be read: {}": "ファイル{}を読み込めません: {}",
    "There is no preset {}{}: write one of {}, or add it under `presets`": (
        "プリセット{}はありません{}。{} のいずれかを指定するか、`presets` に追加してください"
    ),
    "This thread waits for a person's decision, on rejected drafts, a budget or a tool: {}. Nothing was changed": (
        "判断待ちのターンがあります。`unsay say --decide approve` か `--decide reject` で決めてください。何も変更していません"
    ),
    "A person must confirm that these calls are undone: {}. Nothing was changed: run the command on a terminal, where it asks about each of them": (
        "次の呼び出しの取り消しには確認が必要です: {}。何も変更していません。ターミナルで実行すると1件ずつ確認できます"
    ),
    # Notes.
    "thread {}": "スレッド {}",
    "more rows: --cursor {}": "続きがあります: --cursor {}",
    "No thread matches.": "条件に合うスレッドはありません。",
    "No event matches.": "条件に合うイベントはありません。",
    "No run matches.": "条件に合う実行はありません。",
    "stopped; `unsay say --thread {} --resume` continues": (
        "停止しました。`unsay say --thread {} --resume` で再開できます"
    ),
    "decide: unsay say --thread {} --decide approve|reject": (
        "判断してください: unsay say --thread {} --decide approve(許可)|reject(却下)"
    ),
    'decide: unsay say --thread {} --decide approve|reject|edit:TEXT|"instructions"': (
        '判断してください: unsay say --thread {} --decide approve(採用)|reject(却下)|edit:修正した回答|"次の試行への指示"'
    ),
    "The model had answered, and the answer was not saved: {}": (
        "モデルは回答しましたが、保存できませんでした: {}"
    ),
    **SETUP_TEXTS,
}
