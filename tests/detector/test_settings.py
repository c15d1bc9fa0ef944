"""Configuration is checked whole, whatever it comes from, and every wrong key is named with the right one."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from lowwater.detector.cli import main
from lowwater.detector.config import DetectorConfig, ServeConfig
from lowwater.detector.errors import ConfigError
from lowwater.detector.settings import load


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "lowwater.toml"
    path.write_text(text)
    return path


def test_nothing_given_is_the_defaults() -> None:
    loaded = load(None, {"HOME": "/", "LOWWATER_CORPUS": "x"})
    assert (loaded.detector, loaded.serve, loaded.sources) == (DetectorConfig(), ServeConfig(), {})


def test_the_command_line_beats_the_environment_beats_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, '[serve]\nhttp = ":1"\ngrpc = ":2"\nadmin = ":3"\n[detector]\nfire_after_turns = 9\n')
    environ = {"LOWWATER_SERVE_GRPC": ":5", "LOWWATER_SERVE_ADMIN": ":6", "LOWWATER_DETECTOR_FIRE_AFTER_TURNS": "7"}
    loaded = load(path, environ, {"serve.admin": ":8"})
    assert (loaded.serve.http, loaded.serve.grpc, loaded.serve.admin) == (":1", ":5", ":8")
    assert loaded.detector.fire_after_turns == 7
    assert loaded.sources == {
        "serve.http": "file",
        "serve.grpc": "environment",
        "serve.admin": "command line",
        "detector.fire_after_turns": "environment",
    }


@pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("No", False), ("maybe", None), ("", None)])
def test_words_for_yes_and_no(text: str, value: bool | None) -> None:
    environ = {"LOWWATER_SERVE_SYNC": text}
    if value is None:
        with pytest.raises(ConfigError, match=r"environment: serve\.sync: must be true or false"):
            load(None, environ)
    else:
        assert load(None, environ).serve.sync is value


@pytest.mark.parametrize(
    ("text", "environ", "named"),
    [
        ("[serve]\nhtpp = ':1'\n", {}, "serve.htpp: unknown key; did you mean http"),
        ("", {"LOWWATER_SERVE_HTPP": ":1"}, "LOWWATER_SERVE_HTPP: unknown variable; did you mean LOWWATER_SERVE_HTTP"),
        ("[serve]\nhttp = 4318\n", {}, "serve.http: must be a string"),
        ("[serve]\nmax_contexts = 0\n", {}, "serve.max_contexts: must be a positive number"),
        ("", {"LOWWATER_SERVE_MAX_CONTEXTS": "1.5"}, "serve.max_contexts: must be a whole number"),
        ("[serve]\nwebhook_min_severity = 'loud'\n", {}, "must be one of info, ticket, page"),
        ("[serve]\ntls_cert = 'a'\n", {}, "serve.tls_cert and serve.tls_key: give both"),
        ("[serve]\nhttp = ''\ngrpc = ''\n", {}, "give at least one address"),
        ("[serve]\notlp_metrics = true\n", {}, "needs serve.otlp_endpoint"),
        ("[server]\n", {}, "server: unknown section; did you mean serve"),
        ("serve = 3\n", {}, "serve: must be a table"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, environ: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(written(tmp_path, text), environ)
    assert named in str(raised.value)


def test_all_faults_are_listed_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, "[serve]\nhtpp = ':1'\nsync = 3\n[detector]\nloop_calls = -1\n[[override]]\nceiling = 1\n")
    with pytest.raises(ConfigError) as raised:
        load(path, {"LOWWATER_SERVE_TOKN": "x"})
    assert len(str(raised.value).splitlines()) == 5


def test_a_secret_is_never_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "[serve]\ntoken = 'hunter2'\nwebhook_secret = 'hunter2'\n")
    for arguments in (["config", "show", "--config", str(path)], ["config", "show", "--json", "--config", str(path)]):
        assert main(arguments) == 0
        shown = capsys.readouterr().out
        assert "hunter2" not in shown
        assert "(set)" in shown
    with pytest.raises(ConfigError) as raised:
        load(written(tmp_path, "[serve]\ntoken = ['hunter2']\n"))
    assert "hunter2" not in str(raised.value)


def test_what_is_shown_can_be_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "[detector]\nretriever_tools = ['a\\\\b', 'c']\n[serve]\nsync = false\n[[override]]\nagent = 'r'\ntick_seconds = 5\n"
    first = load(written(tmp_path, text), {"LOWWATER_SERVE_HTTP": "[::1]:0"})
    assert main(["config", "show", "--config", str(written(tmp_path, text))]) == 0
    shown = capsys.readouterr().out
    again = load(written(tmp_path, shown), {"LOWWATER_SERVE_HTTP": "[::1]:0"})
    assert (again.detector, again.serve) == (first.detector, first.serve)
    assert set(tomllib.loads(shown)["serve"]) == {item.name for item in dataclasses.fields(ServeConfig)}


def test_sources_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWWATER_SERVE_MAX_SERIES", "77")
    assert main(["config", "show"]) == 0
    assert "max_series = 77  # environment" in capsys.readouterr().out
    assert main(["config", "show", "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document["serve"]["max_series"] == 77
    assert document["sources"] == {"serve.max_series": "environment"}
