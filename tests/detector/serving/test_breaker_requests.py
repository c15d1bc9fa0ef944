"""What senders do that is nobody's fault, or somebody's intent: they leave early, and they compress absurdly."""

from __future__ import annotations

import asyncio
import gzip
import time
from typing import Any

import grpc
import pytest
from tests.detector.serving.conftest import Running
from tests.detector.serving.test_receivers import TRACES, post, spans

from lowwater.detector.receivers.inflate import Body
from lowwater.detector.receivers.refusal import Refusal


def test_senders_that_leave_before_the_answer_keep_nobody_waiting(running: Running) -> None:
    """Deadlines end while a group is being committed: the others of the group are answered, and no room is lost."""
    body = spans(400).SerializeToString()
    codes: list[grpc.StatusCode] = []

    async def send_and_leave() -> None:
        async with grpc.aio.insecure_channel(running.target()) as channel:
            export: Any = channel.unary_unary(TRACES)

            async def one(number: int) -> None:
                try:
                    await export(body, timeout=0.002 * (1 + number % 20))
                except grpc.aio.AioRpcError as error:
                    codes.append(error.code())

            for _ in range(5):
                await asyncio.gather(*(one(number) for number in range(40)))

    asyncio.run(send_and_leave())
    assert grpc.StatusCode.DEADLINE_EXCEEDED in codes
    for _ in range(3):
        assert post(running, body).status_code == 200
    assert running.metric("lowwater_detector_faults_total", fault="fault") == 0
    assert running.service.core._queued == 0
    assert running.metric("lowwater_detector_requests_total", protocol="grpc", code="CANCELLED") > 0


def test_a_question_that_nobody_waits_for_any_more_costs_no_reading(running: Running) -> None:
    core = running.service.core
    core.ask(lambda: time.sleep(0.2))
    assert not core.ask(lambda: None).cancel()
    assert post(running, spans(1).SerializeToString()).status_code == 200
    assert running.metric("lowwater_detector_faults_total", fault="fault") == 0


def test_a_body_of_a_million_empty_members_costs_no_time() -> None:
    bomb = gzip.compress(b"") * 1_000_000
    started = time.process_time()
    with pytest.raises(Refusal):
        Body(64 << 20, "gzip").feed(bomb)
    assert time.process_time() - started < 1


def test_a_body_of_some_members_is_whole_however_it_comes() -> None:
    parts = [bytes([number]) * 70_000 for number in range(50)]
    packed = b"".join(gzip.compress(part, 0) for part in parts)
    for size in (len(packed), 65_537, 1_000):
        body = Body(8 << 20, "gzip")
        for start in range(0, len(packed), size):
            body.feed(packed[start : start + size])
        assert body.end() == b"".join(parts)
