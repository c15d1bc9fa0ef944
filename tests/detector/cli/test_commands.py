"""The command as people run it: in a process of its own, 80 columns, on good and bad input."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


def lowwater(
    *arguments: str | Path, stdin: bytes | None = None, columns: int = 80
) -> subprocess.CompletedProcess[bytes]:
    """Run ``lowwater`` with the interpreter of the tests."""
    return subprocess.run(
        [sys.executable, "-m", "lowwater.detector.cli", *map(str, arguments)],
        input=stdin, capture_output=True, check=False, timeout=120, env={**os.environ, "COLUMNS": str(columns)},
    )  # fmt: skip


def test_replay_shows_findings_contexts_and_who_holds_the_tokens() -> None:
    done = lowwater("replay", EXAMPLES / "incident.otlp.jsonl")
    text = done.stdout.decode()
    assert done.returncode == 0
    assert done.stderr == b""
    assert "PAGE   silent starvation · incident-researcher" in text
    assert "who holds it" in text
    assert "starved" in text


def test_the_output_fits_80_columns() -> None:
    for name in ("incident", "fanout", "refused", "healthy"):
        text = lowwater("replay", EXAMPLES / f"{name}.otlp.jsonl").stdout.decode()
        assert max(len(line) for line in text.splitlines()) <= 80


def test_a_healthy_run_has_no_findings() -> None:
    text = lowwater("replay", EXAMPLES / "healthy.otlp.jsonl").stdout.decode()
    assert "No findings." in text


def test_json_is_one_document_with_everything() -> None:
    done = lowwater("replay", "--json", EXAMPLES / "fanout.otlp.jsonl")
    document = json.loads(done.stdout)
    assert document["schema"] == "lowwater.replay/1"
    assert document["counts"]["calls"] == 22
    assert {finding["kind"] for finding in document["findings"]} == {"fanout_overcommitted", "fanout_overrun"}
    assert document["pools"][0]["width"] == 4


def test_ledger_and_findings_are_written_as_json_lines(tmp_path: Path) -> None:
    ledger, findings = tmp_path / "l.jsonl", tmp_path / "f.jsonl"
    done = lowwater("replay", "--ledger", ledger, "--findings", findings, EXAMPLES / "incident.otlp.jsonl")
    assert done.returncode == 0
    entries = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert len(entries) == 22
    assert {entry["schema"] for entry in entries} == {"lowwater.ledger/1"}
    assert all(
        entry["input_tokens"]
        == entry["reserved"]["system"]
        + entry["reserved"]["tools"]
        + entry["retrieval_tokens"]
        + entry["scratchpad_tokens"]
        + entry["working_tokens"]
        for entry in entries
    )
    lines = [json.loads(line) for line in findings.read_text().splitlines()]
    assert {line["schema"] for line in lines} == {"lowwater.finding/1"}
    assert {line["state"] for line in lines} <= {"firing", "resolved"}


def test_standard_input_and_compression() -> None:
    data = (EXAMPLES / "incident.otlp.jsonl").read_bytes()
    plain = lowwater("replay", "--json", "-", stdin=data)
    packed = lowwater("replay", "--json", "-", stdin=gzip.compress(data))
    assert plain.returncode == packed.returncode == 0
    assert json.loads(plain.stdout)["findings"] == json.loads(packed.stdout)["findings"] != []


def test_fail_on_makes_it_a_check() -> None:
    assert lowwater("replay", "--fail-on", "page", EXAMPLES / "incident.otlp.jsonl").returncode == 4
    assert lowwater("replay", "--fail-on", "info", EXAMPLES / "healthy.otlp.jsonl").returncode == 0


def test_doctor_says_what_is_there_and_what_would_fix_the_gaps() -> None:
    done = lowwater("doctor", EXAMPLES / "refused.otlp.jsonl")
    text = done.stdout.decode()
    assert done.returncode == 0
    assert "openinference" in text
    assert "Counted once" in text
    assert "requirement_tokens" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    document = json.loads(lowwater("doctor", "--json", EXAMPLES / "refused.otlp.jsonl").stdout)
    assert document["schema"] == "lowwater.doctor/1"
    assert {gap["what"] for gap in document["gaps"]} >= {"working-set requirement"}


# --- bad input -------------------------------------------------------------------------------------------------------


def readable(done: subprocess.CompletedProcess[bytes]) -> str:
    """Standard error, which never holds a traceback."""
    text = done.stderr.decode()
    assert "Traceback" not in text
    assert "Traceback" not in done.stdout.decode("utf-8", "replace")
    return text


def test_a_missing_file_is_named() -> None:
    done = lowwater("replay", "no/such/file.jsonl")
    assert done.returncode == 2
    assert "no/such/file.jsonl" in readable(done)


@pytest.mark.parametrize(
    "data",
    [b"", b"\n\n", b"\x00\x01\x02\xff" * 500, b"{", b"[]", b"null", b'{"a": 1}', b'[{"role": 1}]', b"<html></html>", b"\xef\xbb\xbf",
     b'{"resourceSpans": 7}', b'{"resourceSpans": [null, {"scopeSpans": [{"spans": [1, null, {}]}]}]}', b"interactions: [", b"\x1f\x8b\x08\x00",
     b"\x28\xb5\x2f\xfd\x00", b'{"trajectory": [{"observation": 1, "messages": 3}]}', b'[' * 5000, b'{"messages": [{"role": "user", "content": null}, {"role": "assistant", "content": {"a": []}}]}',
     b'{"trace": {}, "observations": [7, {"id": "x"}]}', b"interactions:\n- request: 7\n  response: {body: {string: !!binary AAAA}}\n"],
    ids=range(20),
)  # fmt: skip
def test_rubbish_gets_a_message_and_a_code_never_a_traceback(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "rubbish"
    path.write_bytes(data)
    for command in ("replay", "doctor"):
        done = lowwater(command, path)
        readable(done)
        assert done.returncode in (0, 2, 3)
        if done.returncode:
            assert "rubbish" in done.stderr.decode()


def test_the_readable_part_is_read_and_the_rest_named_by_line(tmp_path: Path) -> None:
    lines = (EXAMPLES / "incident.otlp.jsonl").read_bytes().splitlines()
    path = tmp_path / "mixed.jsonl"
    path.write_bytes(b"\n".join([lines[0], b"{broken", *lines[1:], lines[-1][:1000]]))
    done = lowwater("replay", "--json", path)
    assert done.returncode == 3
    assert json.loads(done.stdout)["counts"]["calls"] == 22
    assert "line 2" in readable(done)


def test_a_truncated_gzip_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    data = gzip.compress((EXAMPLES / "incident.otlp.jsonl").read_bytes())
    path = tmp_path / "cut.gz"
    path.write_bytes(data[: len(data) * 3 // 4])
    done = lowwater("replay", "--json", path)
    assert done.returncode == 3
    assert json.loads(done.stdout)["counts"]["calls"] > 0
    readable(done)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[detector]\nfire_after_turn = 3\n", "did you mean fire_after_turns"),
        ("[detektor]\n", "did you mean detector"),
        ("[detector]\ntrigger_ratio = 1.5\n", "ratio"),
        ("[[override]]\nrequirement_tokens = -4\n", "override[1].requirement_tokens"),
        ("[[override]]\nceiling = 4\n", "ceiling_tokens"),
        ("not toml", "not TOML"),
    ],
)
def test_a_wrong_configuration_is_refused_by_key(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text)
    done = lowwater("replay", "--config", path, EXAMPLES / "healthy.otlp.jsonl")
    assert done.returncode == 2
    assert named in readable(done)


def test_configuration_declares_per_agent(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('[[override]]\nagent = "handover-*"\nrequirement_tokens = 5500\n')
    document = json.loads(lowwater("replay", "--json", "--config", path, EXAMPLES / "healthy.otlp.jsonl").stdout)
    assert document["counts"]["calls"] == 7


def test_an_unknown_format_lists_the_known_ones() -> None:
    done = lowwater("replay", "--format", "xml", EXAMPLES / "healthy.otlp.jsonl")
    assert done.returncode == 2
    assert "otlp-json" in readable(done)


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m lowwater.detector.cli replay {EXAMPLES / 'incident.otlp.jsonl'} | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr.decode()


def test_what_is_read_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes((EXAMPLES / "healthy.otlp.jsonl").read_bytes())
    (tmp_path / "link.jsonl").symlink_to(path)
    for arguments in (
        ("--ledger", path, path),
        ("--findings", tmp_path / "link.jsonl", path),
        ("--ledger", path, tmp_path),
        ("--ledger", tmp_path / "out", "--findings", tmp_path / "out", path),
    ):
        done = lowwater("replay", *arguments)
        assert done.returncode == 2
        assert "Name another file to write" in readable(done)
    assert path.read_bytes() == (EXAMPLES / "healthy.otlp.jsonl").read_bytes()
    assert not (tmp_path / "out").exists()


def test_silence_on_what_cannot_be_judged_is_not_health(tmp_path: Path) -> None:
    spans = [
        {"traceId": "a" * 32, "spanId": f"{n:016x}", "name": "chat", "startTimeUnixNano": n, "endTimeUnixNano": n + 1,
         "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}]}
        for n in range(1, 4)
    ]  # fmt: skip
    path = tmp_path / "blind.jsonl"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    text = " ".join(lowwater("replay", path).stdout.decode().split())
    assert "No findings" not in text
    assert "3 of 3 calls could not be judged" in text


@pytest.mark.parametrize("command", ["replay", "doctor"])
def test_a_full_disk_is_an_error_and_no_traceback(command: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lowwater.detector.cli", command, str(EXAMPLES / "healthy.otlp.jsonl")],
            stdout=full, stderr=subprocess.PIPE, check=False, timeout=120,
        )  # fmt: skip
    assert done.returncode == 2
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr


def test_the_fixes_that_doctor_prints_are_configuration(tmp_path: Path) -> None:
    text = lowwater("doctor", EXAMPLES / "healthy.otlp.jsonl", columns=200).stdout.decode()
    fixes = [line.partition(" in --config")[0].strip(" →") for line in text.splitlines() if "override = " in line]
    assert fixes
    for fix in fixes:
        (tmp_path / "fix.toml").write_text(fix.replace(" N}", " 5000}") + "\n")
        assert lowwater("doctor", "--config", tmp_path / "fix.toml", EXAMPLES / "healthy.otlp.jsonl").returncode == 0


@pytest.mark.parametrize("name", ["gen_ai.agent.name", "gen_ai.conversation.id", "gen_ai.request.model"])
def test_a_name_that_no_encoding_can_write_is_read(tmp_path: Path, name: str) -> None:
    line = (EXAMPLES / "healthy.otlp.jsonl").read_text().splitlines()[0]
    span = (
        '{"traceId":"aa","spanId":"bb","name":"chat","startTimeUnixNano":1,"endTimeUnixNano":2,"attributes":['
        '{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.usage.input_tokens","value":{"intValue":5}},'
        f'{{"key":"{name}","value":{{"stringValue":"a\\ud800b"}}}}]}}'
    )
    path = tmp_path / "surrogate.jsonl"
    path.write_text(line + "\n" + f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{span}]}}]}}]}}\n')
    done = lowwater("replay", "--ledger", tmp_path / "out", path)
    assert done.returncode == 0, readable(done)
    assert "a?b" in (tmp_path / "out").read_text() or "model" in name
