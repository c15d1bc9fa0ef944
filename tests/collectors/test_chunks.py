"""Retrieved chunks in texts: the known templates are found, other text is left alone, no character is lost."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.collectors.chunks import is_retrieved, split_retrieval

FACTS = "a fact of note. " * 20


@pytest.mark.parametrize(
    ("before", "chunk", "after"),
    [
        ("Use ", f"<context>{FACTS}</context>", " to answer."),
        ("", f'<documents><document index="1">{FACTS}</document></documents>', "\nWhat is it?"),
        (
            "See ",
            f"<search_results>\n<search_result><content>{FACTS}</content></search_result>\n</search_results>",
            "\n",
        ),
        ("", f'<retrieved_chunks source="kb">{FACTS}</retrieved_chunks>', " Go."),
        ("Known: ", f"[Document(page_content='{FACTS}', metadata={{}})]", "\n\nQuestion: why?"),
        ("", f"Document 1: {FACTS}\nDocument 2: {FACTS}\n", "Question: why?"),
        ("", f"[unknown]\nPassage [3]. {FACTS}\n".removeprefix("[unknown]\n"), "Answer:"),
        (
            "Context information is below.\n---------------------\n",
            FACTS,
            "\n---------------------\nGiven the context information answer.",
        ),
    ],
)
def test_templates(before: str, chunk: str, after: str) -> None:
    expected = [(False, before), (True, chunk), (False, after)]
    assert list(split_retrieval(before + chunk + after)) == [part for part in expected if part[1]]


@pytest.mark.parametrize(
    "text",
    [
        "Give me the <context>",
        f"An opening <context> that nothing closes. {FACTS}",
        f"<div>{FACTS}</div>",
        f"The Document was long. {FACTS}",
        f"Please look at document 1: {FACTS}",
        f"</context>{FACTS}<context>",
        "",
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert list(split_retrieval(text)) == [(False, text)]
    assert not is_retrieved(text)


def test_a_result_is_retrieved_from_the_half_on() -> None:
    chunk = f"<source>{FACTS}</source>"
    assert is_retrieved(chunk)
    assert is_retrieved(chunk + "x" * len(chunk))
    assert not is_retrieved(chunk + "x" * (len(chunk) + 1))


PIECES = ["<context>", "</context>", "<documents>", "</documents>", "Document 1: ", "Question: ", "\n", "\n\n", "word ",
          "Document(page_content=", "Context information is below.\n---------------------\n", "---------------------",
          "<retrieved_x a='b'>", "</retrieved_x>", "é", "\r"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=50), max_size=60).map("".join))
def test_no_character_is_lost(text: str) -> None:
    segments = list(split_retrieval(text))
    assert "".join(segment for _, segment in segments) == text
    assert all(segment for _, segment in segments) or segments == [(False, "")]


@pytest.mark.parametrize(
    "text",
    [
        "<context>" * 100_000 + "</",
        "Document 1: x" + "\n" * 500_000,
        "Document 1:\n" + (" " * 1_000 + "\n") * 500,
        "Context information is below.\n---------------------\n" * 20_000,
        "".join(f"<retrieved-{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}>" for n in range(50_000)) + "</",
        "<source " + "a" * 1_000_000 + "</",
    ],
)
def test_the_time_is_linear_in_the_text(text: str) -> None:
    """A quadratic search would take minutes on these."""
    started = time.process_time()
    list(split_retrieval(text))
    assert time.process_time() - started < 5
