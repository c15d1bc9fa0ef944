"""The HTML report in a real Chromium: no request, no error, readable by keyboard and screen reader, quick when it is long."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from lowwater.detector.cli import main

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
AXE = ROOT / "tests" / "node" / "node_modules" / "axe-core" / "axe.min.js"
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    assert found, "tests need Chromium (Debian: apt-get install chromium)"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


def report(folder: Path, *traces: Path) -> Path:
    path = folder / "report.html"
    assert main(["replay", *map(str, traces), "--html", str(path), "--calls", "none"]) in (0, 3)
    return path


def opened(browser: Browser, path: Path, **options: Any) -> tuple[Page, list[str]]:
    """The page, and what went wrong while it was loaded: errors and requests."""
    page = browser.new_page(**options)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url) if not request.url.startswith("file:") else None)
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.goto(path.as_uri())
    return page, wrong


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["incident", "fanout", "healthy", "refused"])
def test_it_loads_silently_and_everybody_can_read_it(browser: Browser, name: str, scheme: str, tmp_path: Path) -> None:
    page, wrong = opened(browser, report(tmp_path, EXAMPLES / f"{name}.otlp.jsonl"), color_scheme=scheme)
    for details in page.query_selector_all("summary"):
        details.click()
    # The page's policy forbids scripts from outside, so that axe comes in through the debugger.
    session = page.context.new_cdp_session(page)
    session.send("Runtime.evaluate", {"expression": AXE.read_text()})
    found = session.send(
        "Runtime.evaluate",
        {
            "expression": "axe.run().then(r => JSON.stringify(r.violations))",
            "awaitPromise": True,
            "returnByValue": True,
        },
    )
    violations = json.loads(found["result"]["value"])
    assert [(each["id"], each["nodes"][0]["html"][:120]) for each in violations] == []
    assert wrong == []
    page.close()


@pytest.mark.parametrize("width", [320, 1_024, 2_560])
def test_the_page_fits_its_window(browser: Browser, width: int, tmp_path: Path) -> None:
    path = report(tmp_path, EXAMPLES / "incident.otlp.jsonl")
    page, _ = opened(browser, path, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_the_verdict_comes_first(browser: Browser, tmp_path: Path) -> None:
    page, _ = opened(
        browser, report(tmp_path, EXAMPLES / "incident.otlp.jsonl"), viewport={"width": 1_100, "height": 500}
    )
    assert page.inner_text("h1") == "Silent starvation: incident-researcher"
    first = page.query_selector("article")
    assert first is not None
    box = first.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 500  # what is wrong and what to do, without scrolling
    assert "release scratchpad" in first.inner_text()
    page.close()


def test_a_chart_is_read_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, report(tmp_path, EXAMPLES / "incident.otlp.jsonl"))
    page.focus(".chart")
    said = page.locator("output").first
    assert said.inner_text().startswith("turn 22 ")
    page.keyboard.press("ArrowLeft")
    assert said.inner_text().startswith("turn 21 ")
    page.keyboard.press("Home")
    assert said.inner_text().startswith("turn 1 ")
    assert "left for working" in said.inner_text()
    page.keyboard.press("ArrowLeft")
    assert said.inner_text().startswith("turn 1 ")
    page.close()


def test_every_control_is_reached_with_tab(browser: Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, report(tmp_path, EXAMPLES / "incident.otlp.jsonl"))
    seen = []
    for _ in range(12):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.tagName + '.' + document.activeElement.className"))
    assert {"BUTTON.", "A.", "SUMMARY.", "DIV.chart"} <= set(seen)
    page.close()


def test_light_and_dark_can_be_chosen(browser: Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, report(tmp_path, EXAMPLES / "incident.otlp.jsonl"), color_scheme="light")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.click("#theme")
    assert page.evaluate(colour) != light
    page.click("#theme")
    assert page.evaluate(colour) == light
    page.close()


def test_hostile_names_are_text(browser: Browser, tmp_path: Path) -> None:
    text = (EXAMPLES / "incident.otlp.jsonl").read_text()
    hostile = text.replace("incident-researcher", json.dumps(HOSTILE)[1:-1]).replace(
        "incident-desk", json.dumps(HOSTILE)[1:-1]
    )
    traces = tmp_path / "traces.jsonl"
    traces.write_text(hostile)
    page, wrong = opened(browser, report(tmp_path, traces))
    assert wrong == []
    assert "lowwater" in page.title()
    assert "</script>" in page.inner_text("h1")
    page.close()


def test_no_text_of_the_trace_is_in_it(tmp_path: Path) -> None:
    canary = "canary-5b1d-never-leave"
    text = (EXAMPLES / "incident.otlp.jsonl").read_text()
    assert "checkout" in text
    traces = tmp_path / "traces.jsonl"
    traces.write_text(text.replace("checkout", canary))
    assert canary not in report(tmp_path, traces).read_text()


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    first = report(tmp_path, EXAMPLES / "fanout.otlp.jsonl").read_bytes()
    assert report(tmp_path, EXAMPLES / "fanout.otlp.jsonl").read_bytes() == first


def test_five_thousand_calls_open_quickly(browser: Browser, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert (
        main(["simulate", "healthy_compaction", "starvation", "--runs", "70", "--no-content", "--out", str(out)]) == 0
    )
    path = report(tmp_path, *sorted(out.glob("*.otlp.jsonl")))
    assert path.stat().st_size < 6 << 20
    started = time.monotonic()
    page, wrong = opened(browser, path)
    page.click("summary >> nth=0")
    assert time.monotonic() - started < 10  # about one second on an idle machine
    assert wrong == []
    assert page.locator("article").count() > 60
    calls = int(page.inner_text("p.soft >> nth=0").split()[0].replace(",", ""))
    assert calls >= 5_000
    page.close()
