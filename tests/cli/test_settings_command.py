import json

import pytest

from tests.cli.conftest import Run, run_json
from unsay.settings.settings import SECTIONS, Settings


def test_settings_name_their_source(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """For programs and for people, from each place that a setting can come from."""
    monkeypatch.setenv("UNSAY_MAX_ROLLBACKS", "3")
    monkeypatch.setenv("UNSAY_PRESET", "chat")
    monkeypatch.setenv("UNSAY_QUALITY_THRESHOLD", "0.9")
    with open("unsay.toml", "w", encoding="utf-8") as file:
        file.write('system_prompt = "Sei kurz."\njudging = "local"\n')
    rows = {row["name"]: row for row in run_json(run, "settings", "--model", "m")["settings"]}

    expected = {
        "model": ("m", "argument"),
        "recents": (10, "preset"),
        "max_rollbacks": (3, "environment"),
        "judging": ("local", "file"),
        "primers": (2, "preset"),
        "stream": ("live", "default"),
        "checkpoint_threshold": (0.9, "derived"),
    }
    assert expected == {name: (rows[name]["value"], rows[name]["source"]) for name in expected}
    assert rows.keys() == Settings.model_fields.keys()
    assert "UNSAY_RECENTS" == rows["recents"]["variable"]
    output = run("settings", "--model", "m").stdout
    assert '  argument     model = "m"\n' in output
    assert "  environment  max_rollbacks = 3\n" in output
    assert '  file         system_prompt = "Sei kurz."\n' in output
    assert len(Settings.model_fields) + len(SECTIONS) == len(output.splitlines())


def test_settings_show_no_key(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the key nor the server's address with a password is printed."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://me:secret@localhost/v1")
    for options in ([], ["--json"]):
        result = run("settings", *options)
        assert 0 == result.exit_code
        assert "secret" not in result.output


def test_an_impossible_setting_ends_the_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names it."""
    monkeypatch.setenv("UNSAY_MAX_ROLLBACKS", "many")
    result = run("settings", "--json")
    assert 1 == result.exit_code
    assert "max_rollbacks" in json.loads(result.stdout)["error"]["message"]
