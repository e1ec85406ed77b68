"""The Japanese of what `unsay settings` and `unsay doctor` say in English."""

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
