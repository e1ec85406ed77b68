"""What can be set, where it is read from, and what one run may override."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from runpy import run_path
from types import MappingProxyType
from typing import Any

import pytest
from blockbuster import BlockBuster
from hypothesis import given
from hypothesis import strategies as st

from unsay.errors import ConfigurationError
from unsay.settings.presets import PRESETS
from unsay.settings.settings import Context, Settings, context_of, load_settings

DOCS = Path(__file__).parents[2] / "docs"

OTHER: dict[str, Any] = run_path(str(DOCS / "generate_settings.py"))["EXAMPLES"]
"""For each setting a possible value that is not its default: the examples of the docs."""

NEEDS: dict[str, dict[str, Any]] = {
    f"{layer}_budget_cost": {"prices": OTHER["prices"]} for layer in ("session", "task", "agent")
}
"""What must be set for a setting to be possible."""

DEFAULTS = {name: field.default for name, field in Settings.model_fields.items()}


@pytest.fixture(autouse=True)
def write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Works in an empty folder, and writes its `unsay.toml`."""
    monkeypatch.chdir(tmp_path)

    def write(**values: Any) -> None:
        lines = [f"{name} = {toml(value)}\n" for name, value in values.items()]
        (tmp_path / "unsay.toml").write_text("".join(lines), encoding="utf-8")

    return write


def toml(value: Any) -> str:
    """A value as the file has it."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(k)} = {toml(v)}' for k, v in value.items())}}}"
    return json.dumps(value)


def value_of(settings: Settings, name: str) -> Any:
    """A setting as JSON would have it."""
    return settings.model_dump(mode="json")[name]


def variable(value: Any) -> str:
    """A value as the environment has it."""
    return value if isinstance(value, str) else json.dumps(value)


OVERRIDES = [name for name in Context.__annotations__ if name in OTHER]
"""What a context may say of the settings; the rest of it is about the run itself."""


def test_every_setting_has_a_case() -> None:
    """A new setting enters the table of `docs/generate_settings.py`."""
    assert DEFAULTS.keys() == OTHER.keys()
    assert [] == [name for name, value in OTHER.items() if DEFAULTS[name] == value]


def test_without_sources_the_defaults_hold() -> None:
    """Nothing given, nothing set, no file."""
    assert DEFAULTS == load_settings().model_dump()


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("name", OTHER)
def test_each_source_is_read(
    name: str, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting comes from the file, from the environment, or as an argument."""
    other_value = OTHER[name]
    given_value = value_of(load_settings({name: other_value, **NEEDS.get(name, {})}), name)
    for needed_name, value in NEEDS.get(name, {}).items():
        monkeypatch.setenv(f"UNSAY_{needed_name.upper()}", variable(value))
    monkeypatch.setenv(f"UNSAY_{name.upper()}", variable(other_value))
    from_environment = value_of(load_settings(), name)
    monkeypatch.delenv(f"UNSAY_{name.upper()}")
    write(**{name: other_value})

    assert [other_value] * 3 == [given_value, from_environment, value_of(load_settings(), name)]


def test_the_stronger_source_wins(
    write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Argument before environment before file before default, setting by setting."""
    write(model="file", judge_model="file", title_model="file")
    monkeypatch.setenv("UNSAY_MODEL", "environment")
    monkeypatch.setenv("UNSAY_JUDGE_MODEL", "environment")
    monkeypatch.setenv("UNSAY_UNHEARD_OF", "ignored")
    settings = load_settings({"model": "argument"})

    assert ["argument", "environment", "file", None] == [
        settings.model,
        settings.judge_model,
        settings.title_model,
        settings.summarizer_model,
    ]


def test_settings_once_read_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not change, neither by hand nor with the environment."""
    settings = load_settings({"model": "a"})
    monkeypatch.setenv("UNSAY_MODEL", "b")

    assert settings is load_settings(settings)
    with pytest.raises(ValueError, match="frozen"):
        settings.model = "c"  # type: ignore[misc]
    assert "a" == settings.model


IMPOSSIBLE = [
    pytest.param({"quality_threshold": 1.1}, "quality_threshold: .* less than or equal", id="over"),
    pytest.param({"quality_threshold": -0.1}, "quality_threshold: .* greater", id="under"),
    pytest.param({"checkpoint_threshold": float("nan")}, "finite number", id="not a number"),
    pytest.param({"quality_threshold": "high"}, "valid number", id="a word for a number"),
    pytest.param({"judging": "maybe"}, "judging: .*'model', 'local' or 'off'", id="unknown word"),
    pytest.param({"max_rollbacks": 11}, "max_rollbacks: .* 10", id="too many"),
    pytest.param({"max_rollbacks": 1.5}, "max_rollbacks: .* integer", id="a half"),
    pytest.param({"judge_timeout_seconds": 0}, "greater than 0", id="no time"),
    pytest.param({"judge_timeout_seconds": float("inf")}, "finite", id="for ever"),
    pytest.param(
        {"judge_timeout_seconds": 1e10}, "less than or equal", id="longer than Python waits"
    ),
    pytest.param({"thread_wait_seconds": 1e10}, "less than or equal", id="too long for a thread"),
    pytest.param({"max_tool_steps": 0}, "max_tool_steps", id="no steps"),
    pytest.param({"checkpoint_on": ["mood"]}, r"checkpoint_on\.0", id="unknown reason"),
    pytest.param({"model": 4}, "model: .* string", id="a number for a name"),
    pytest.param({"preset": 4}, "preset: .* string", id="a number for a preset"),
    pytest.param(
        {"window_messages": "wide"}, "window_messages: .* integer", id="a word for a window"
    ),
    pytest.param({"task_budget_tokens": 0}, "task_budget_tokens: .* 1", id="no tokens"),
    pytest.param({"task_budget_cost": 0}, "task_budget_cost: .* 0.000001", id="no money"),
    pytest.param(
        {"task_budget_cost": 1e-7, "prices": OTHER["prices"]},
        "task_budget_cost: .* 0.000001",
        id="less money than is counted",
    ),
    pytest.param({"task_budget_cost": 1}, "needs the prices", id="money without prices"),
    pytest.param({"prices": {"m": {"input": 1}}}, "give its input and its output", id="half price"),
    pytest.param({"backpressure": [[1.5, 1]]}, r"backpressure\.0\.0", id="a share over all"),
    pytest.param({"backpressure": [[0.5, -1]]}, r"backpressure\.0\.1", id="a wait before"),
    pytest.param({"colour": "red"}, "colour: there is no such setting", id="unknown key"),
    pytest.param(
        {"quality_threshold": 0.9, "checkpoint_threshold": 0.8},
        r"0\.9 must not be above checkpoint_threshold 0\.8; raise the second as well, or lower",
        id="thresholds in the wrong order",
    ),
    pytest.param(
        {"max_rollbacks": -1, "colour": "red"}, "max_rollbacks: .*; colour: ", id="two faults"
    ),
]


@pytest.mark.parametrize(
    ("value_given", "value_used"),
    [pytest.param(1_000, 200, id="too wide"), pytest.param(0, 5, id="too narrow")],
)
def test_an_impossible_window_is_brought_in(
    value_given: int, value_used: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The nearest possible window is used, in a run's context as well, and a warning names it."""
    settings = load_settings()

    assert value_used == load_settings({"window_messages": value_given}).window_messages
    assert value_used == settings.for_run(Context(window_messages=value_given)).window_messages
    assert f"value={value_given} used={value_used}" in caplog.text


@pytest.mark.parametrize(("values", "problem"), IMPOSSIBLE)
def test_impossible_arguments_are_refused(values: dict[str, Any], problem: str) -> None:
    """Each fault is named, and nothing is ignored."""
    with pytest.raises(ConfigurationError, match=f"These settings cannot be used: .*{problem}"):
        load_settings(values)


@pytest.mark.parametrize(("values", "problem"), IMPOSSIBLE[:5] + IMPOSSIBLE[-3:])
def test_impossible_values_in_the_file_are_refused(
    values: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    """A file is read as strictly as arguments are."""
    lines = [f"{name} = {json.dumps(value).lower()}\n" for name, value in values.items()]
    (tmp_path / "unsay.toml").write_text("".join(lines))

    with pytest.raises(ConfigurationError, match=problem):
        load_settings()


def test_a_value_in_the_file_is_refused_with_the_path_of_the_file(tmp_path: Path) -> None:
    """A reader may not know that there is one, or in which folder."""
    (tmp_path / "unsay.toml").write_text('stream = "fast"\n')
    with pytest.raises(ConfigurationError) as error_info:
        load_settings()
    assert str(error_info.value).endswith(
        f"'live' or 'held', got 'fast' (from '{tmp_path}/unsay.toml')"
    )


def test_an_argument_over_a_variable_is_refused_as_an_argument(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error does not send a reader to the variable."""
    monkeypatch.setenv("UNSAY_STREAM", "held")
    with pytest.raises(ConfigurationError, match=r"'live' or 'held', got 'fast'$"):
        load_settings({"stream": "fast"})


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """As compose files write it for a value that the host does not have; other names as well."""
    for name in ("UNSAY_MODEL", "UNSAY_QUALITY_THRESHOLD", "COMPRESSION_TRIGGER_RATIO"):
        monkeypatch.setenv(name, "")
    assert Settings() == load_settings()
    assert load_settings().model is None


@pytest.mark.parametrize(
    ("commands", "problem"),
    [
        ("undo", "commands: write 'all', 'none' or a list of commands, such as \\['undo'\\]"),
        (["undoo"], r"used: commands.0: .*\(did you mean 'undo'\?\)$"),
    ],
    ids=["a text", "an unknown name"],
)
def test_commands_are_named_in_a_list(commands: Any, problem: str) -> None:
    """The error is about what was meant, not about each type that the value could have."""
    with pytest.raises(ConfigurationError, match=problem):
        load_settings({"commands": commands})


def test_a_setting_of_all_runs_in_a_context_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The log says where it belongs."""
    load_settings().for_run(Context(live_messages=30))  # type: ignore[typeddict-unknown-key]
    assert "key='live_messages' this setting holds for all runs: give it in settings" in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        pytest.param("QUALITY_THRESHOLD", "nan", "finite", id="not a number"),
        pytest.param("MAX_ROLLBACKS", "many", "valid integer", id="a word"),
        pytest.param(
            "CHECKPOINT_ON",
            "score",
            "variable UNSAY_CHECKPOINT_ON .*: write it as JSON",
            id="no JSON",
        ),
        pytest.param(
            "STREAM",
            "fast",
            r"'live' or 'held', got 'fast' \(from the variable UNSAY_STREAM\)$",
            id="the variable is named",
        ),
    ],
)
def test_impossible_variables_are_refused(
    name: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is the environment."""
    monkeypatch.setenv(f"UNSAY_{name}", value)

    with pytest.raises(ConfigurationError, match=f"These settings cannot be used: .*{problem}"):
        load_settings()


@pytest.mark.parametrize(
    ("content", "line"),
    [
        pytest.param(b"model = \n", 1, id="no TOML"),
        pytest.param(b"model = 'a'\n# \xff\xfe\n", 2, id="no text"),
        pytest.param(b"model = 'a'\nmodel = 'b'\n", 2, id="twice"),
    ],
)
def test_a_broken_file_is_refused(content: bytes, line: int, tmp_path: Path) -> None:
    """The message names the file with its folder, and the line."""
    (tmp_path / "unsay.toml").write_bytes(content)

    with pytest.raises(ConfigurationError, match=f"at line {line}") as error_info:
        load_settings()
    assert str(error_info.value).startswith(f"The file '{tmp_path}/unsay.toml' cannot be read: ")


def test_a_run_overrides_what_its_context_names() -> None:
    """The rest stays, and the settings themselves do not change."""
    settings = load_settings({"model": "a", "max_rollbacks": 3})
    run = settings.for_run(Context(quality_threshold=0.1, language="ja"))

    assert {**settings.model_dump(), "quality_threshold": 0.1, "language": "ja"} == run.model_dump()
    assert {**run.model_dump(), "max_rollbacks": 0} == run.for_run(
        Context(max_rollbacks=0)
    ).model_dump()
    assert (0.5, "auto") == (settings.quality_threshold, settings.language)


@pytest.mark.parametrize("context", [None, Context()], ids=["none", "empty"])
def test_a_run_without_overrides_has_the_settings(context: Context | None) -> None:
    """The settings are not made again."""
    settings = load_settings()

    assert settings is settings.for_run(context)


@pytest.mark.parametrize("name", OVERRIDES)
def test_every_override_is_a_setting(name: str) -> None:
    """A context has the settings' own names."""
    run = load_settings().for_run(context_of({name: OTHER[name]}))

    assert OTHER[name] == value_of(run, name)


@pytest.mark.parametrize(
    ("context", "problem"),
    [
        pytest.param(Context(max_rollbacks=99), "max_rollbacks", id="impossible"),
        pytest.param(
            Context(checkpoint_threshold=0.2), "must not be above", id="against the settings"
        ),
        pytest.param(Context(judging="mood"), "judging", id="unknown word"),  # type: ignore[arg-type]
    ],
)
def test_impossible_overrides_are_refused(context: Context, problem: str) -> None:
    """A run with an impossible context does not begin."""
    with pytest.raises(ConfigurationError, match=problem):
        load_settings().for_run(context)


def test_a_run_reads_neither_environment_nor_file(
    write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changed after the graph was built changes no run of it."""
    settings = load_settings()
    write(title_model="file", colour="red")
    monkeypatch.setenv("UNSAY_MODEL", "environment")
    run = settings.for_run(Context(max_rollbacks=1))

    assert {**DEFAULTS, "max_rollbacks": 1} == run.model_dump()


def test_overrides_do_not_block_an_event_loop() -> None:
    """A server that forbids blocking calls lets a run's context through."""
    settings = load_settings()

    async def run() -> int:
        guard = BlockBuster()
        guard.activate()
        try:
            return settings.for_run(Context(max_rollbacks=1)).max_rollbacks
        finally:
            guard.deactivate()

    assert 1 == asyncio.run(run())


@dataclass
class Foreign:
    """Another library's context."""

    max_rollbacks: int = 1


@pytest.mark.parametrize(
    ("value", "context"),
    [
        pytest.param(None, {}, id="none"),
        pytest.param(Context(language="ja"), {"language": "ja"}, id="ours"),
        pytest.param({}, {}, id="an empty dict"),
        pytest.param(MappingProxyType({"language": "ja"}), {"language": "ja"}, id="a mapping"),
        pytest.param(Foreign(), {}, id="another library's"),
        pytest.param("ja", {}, id="a text"),
    ],
)
def test_a_context_comes_in_any_form(value: object, context: Context) -> None:
    """However the host hands it over."""
    assert context == context_of(value)


@pytest.mark.parametrize("context", [{"language": None}, {"user_id": 7}], ids=["null", "foreign"])
def test_nulls_and_foreign_keys_override_nothing(context: Any) -> None:
    """The settings are not made again."""
    settings = load_settings()

    assert settings is settings.for_run(context_of(context))


@given(st.fixed_dictionaries({}, optional={name: st.just(OTHER[name]) for name in OVERRIDES}))
def test_any_overrides_hold(overrides: dict[str, Any]) -> None:
    """Any choice of overrides gives the preset's settings and, over them, those named."""
    settings = load_settings()

    preset = PRESETS[overrides["preset"]] if "preset" in overrides else {}
    assert settings.for_run(context_of(overrides)).model_dump(mode="json") == {
        **settings.model_dump(mode="json"),
        **preset,
        **overrides,
    }


def test_a_raised_quality_threshold_raises_the_other_one() -> None:
    """A checkpoint is at least as good as an answer that passes; a run may raise both as well."""
    assert 0.9 == load_settings({"quality_threshold": 0.9}).checkpoint_threshold
    assert 0.8 == load_settings({"quality_threshold": 0.6}).checkpoint_threshold
    run = load_settings({}).for_run(Context(quality_threshold=0.95))
    assert 0.95 == run.checkpoint_threshold


@pytest.mark.parametrize(
    "thresholds", [{}, {"checkpoint_threshold": 0.8}], ids=["default", "given"]
)
def test_a_threshold_of_one_language_leaves_the_other_alone(thresholds: dict[str, Any]) -> None:
    """A high one for Japanese does not raise the threshold of checkpoints, which is for both."""
    settings = load_settings({"quality_thresholds": {"ja": 0.95}, **thresholds})
    assert 0.8 == settings.checkpoint_threshold
    assert [0.5, 0.95] == [settings.quality_in("en"), settings.quality_in("ja")]


SOURCES = ("argument", "environment", "file", "preset", "run")


@pytest.mark.parametrize("quality", SOURCES)
@pytest.mark.parametrize("checkpoint", [None, *SOURCES])
def test_thresholds_of_all_sources(
    quality: str,
    checkpoint: str | None,
    write: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A high `quality_threshold` raises the other one's default; two that do not fit are refused."""
    values_by_source: dict[str, dict[str, Any]] = {name: {} for name in SOURCES}
    values_by_source[quality]["quality_threshold"] = 0.9
    if checkpoint is not None:
        values_by_source[checkpoint]["checkpoint_threshold"] = 0.7
    for name, value in values_by_source["environment"].items():
        monkeypatch.setenv(f"UNSAY_{name.upper()}", str(value))
    write(**values_by_source["file"])
    preset = (
        {"presets": {"mine": values_by_source["preset"]}, "preset": "mine"}
        if values_by_source["preset"]
        else {}
    )

    def run() -> Settings:
        return load_settings({**preset, **values_by_source["argument"]}).for_run(
            Context(**values_by_source["run"])
        )

    if checkpoint is None:
        assert 0.9 == run().checkpoint_threshold
    else:
        with pytest.raises(ConfigurationError, match=r"0\.9 must not be above .* 0\.7; raise the"):
            run()


def test_each_value_has_its_source(
    write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The strongest source that sets it; a default that another setting changed is derived."""
    write(judge_model="file", recents=1, primers=1, max_rollbacks=1)
    monkeypatch.setenv("UNSAY_RECENTS_COUNT", "2")
    monkeypatch.setenv("UNSAY_PRIMERS", "2")
    monkeypatch.setenv("UNSAY_MAX_ROLLBACKS", "3")
    settings = load_settings({"use_case_preset": "Chat", "primers": 4, "quality_threshold": 0.9})

    expected = {
        "judge_model": "file",
        "recents": "preset",
        "primers": "argument",
        "max_rollbacks": "environment",
        "preset": "argument",
        "title_model": "default",
        "checkpoint_threshold": "derived",
    }
    assert expected == {name: settings.source_of(name) for name in expected}
    run = settings.for_run(Context(max_rollbacks=0))
    assert ["argument", "file"] == [run.source_of("max_rollbacks"), run.source_of("judge_model")]


@pytest.mark.parametrize("name", ["no", "none", "undo", ""])
def test_none_allows_no_command(name: str) -> None:
    """Also none whose name is a part of the word `none`."""
    assert not load_settings({"commands": "none"}).allows(name)


class TestThresholdsByLanguage:
    """`quality_thresholds` against a `quality_threshold` from another source."""

    @pytest.fixture(autouse=True)
    def _calibrate(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("unsay.toml").write_text("quality_thresholds = {ja = 0.7}\n")

    def test_the_file_alone(self) -> None:
        """A language without a threshold of its own has the common one."""
        settings = load_settings()
        assert (0.7, 0.5) == (settings.quality_in("ja"), settings.quality_in("en"))

    def test_a_stronger_source(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The run's context, an argument and the environment overrule the file."""
        run = load_settings().for_run(Context(quality_threshold=0.4))
        argument = load_settings({"quality_threshold": 0.3})
        monkeypatch.setenv("UNSAY_QUALITY_THRESHOLD", "0.2")
        qualities = [settings.quality_in("ja") for settings in (run, argument, load_settings())]
        assert [0.4, 0.3, 0.2] == qualities
        assert "default" == argument.source_of("quality_thresholds")

    def test_the_same_source(self) -> None:
        """In one source the threshold of the language is the more exact one."""
        thresholds = {"quality_threshold": 0.3, "quality_thresholds": {"ja": 0.6}}
        assert 0.6 == load_settings(thresholds).quality_in("ja")


def test_a_misspelt_override_of_a_run(caplog: pytest.LogCaptureFixture) -> None:
    """It is one Python warning with the right name; a host's own keys are left alone."""
    settings = load_settings()
    for slip, correction in (("quality_thresold", "quality_threshold"), ("languge", "language")):
        wrong: Any = {slip: "x"}
        with pytest.warns(UserWarning, match=f"{slip!r}: did you mean {correction!r}") as warnings:
            assert settings is settings.for_run(wrong)
        assert settings is settings.for_run(wrong)
        assert 1 == len(warnings)

    hosts: Any = {"user_id": "ann", "label": "x", "model_name": "y", 3: "z", "thread_id": "t"}
    assert settings is settings.for_run({**hosts, "checkpoint_id": "1f0", "checkpoint_ns": ""})
    assert "" == caplog.text
