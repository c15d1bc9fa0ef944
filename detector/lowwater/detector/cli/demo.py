"""``lowwater demo``: simulated agents that go wrong within a minute, sent to a real detector by the official exporter."""

from __future__ import annotations

import argparse
import asyncio
import logging
import time

from lowwater.detector.cli.arguments import Commands, add_command
from lowwater.detector.cli.codes import EXIT_OK

__all__ = ["add"]

_CAST = (
    ("healthy", 0, "a healthy fleet: nothing should be said about it"),
    ("starvation", 3, "an agent loses its notes while tool results stay"),
    ("fanout_overrun", 12, "subagents each in budget, together beyond it"),
    ("compaction_debt", 20, "an agent whose compaction does not come"),
)
"""Scenarios, the second at which each begins, and what it shows."""

_STORY_SECONDS = 20.0
"""What a scenario's minutes are squeezed into."""


def add(commands: Commands) -> None:
    """Add ``lowwater demo``."""
    command = add_command(commands, "demo", "watch simulated agents go wrong within a minute", _run)
    command.add_argument("--for", dest="seconds", type=float, metavar="SECONDS", help="end by itself after so long")
    command.add_argument("--seed", type=int, default=1, metavar="N", help="other agents (1)")
    command.add_argument("--admin", default="127.0.0.1:9464", metavar="ADDRESS", help="metrics (127.0.0.1:9464)")
    command.add_argument("--grpc", default="127.0.0.1:0", metavar="ADDRESS", help="OTLP over gRPC (any free port)")


def _run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    logging.basicConfig(level=logging.ERROR)
    try:
        asyncio.run(_demo(options))
    except KeyboardInterrupt:
        print("stopped")
    return EXIT_OK


async def _demo(options: argparse.Namespace) -> None:
    from lowwater.detector.serving.service import Service  # noqa: PLC0415 - slow, and --help needs none of it
    from lowwater.detector.settings import load  # noqa: PLC0415
    from lowwater.detector.simulation.live import Player  # noqa: PLC0415

    flags = {"serve.grpc": options.grpc, "serve.http": "", "serve.admin": options.admin, "serve.state": "memory"}
    service = Service(load(None, {}, flags))
    await service.start()
    host, port = service.addresses["admin"]
    print("A real detector listens; simulated agents send to it through the OTLP exporter.")
    print(f"  metrics   http://{host}:{port}/metrics")
    print(f"  findings  http://{host}:{port}/v1/findings")
    print(f"  arriving  lowwater doctor --live http://{host}:{port}  (in another terminal)\n")
    grpc_host, grpc_port = service.addresses["grpc"]
    player = Player(f"http://{grpc_host}:{grpc_port}", options.seed, _STORY_SECONDS)
    started = time.monotonic()
    waiting, told = list(_CAST), set[tuple[str, str, str]]()
    try:
        while options.seconds is None or time.monotonic() - started < options.seconds:
            now = time.monotonic() - started
            while waiting and waiting[0][1] <= now:
                name, _, what = waiting.pop(0)
                player.begin(name)
                print(f"{now:5.0f} s  {name}: {what}", flush=True)
            await asyncio.to_thread(player.play)
            for line in await service.firing():
                key = (line["id"], line["state"], line["severity"])
                if key not in told:
                    told.add(key)
                    print(_told(now, line), flush=True)
            await asyncio.sleep(0.25)
            if player.idle and not waiting and options.seconds is None and now > _CAST[-1][1] + 2 * _STORY_SECONDS:
                break
    finally:
        await asyncio.to_thread(player.close)
        await service.stop()
    print(f"\nThat was {player.sent:,} spans and {len(told)} findings. In production: lowwater serve")


def _told(now: float, line: dict[str, object]) -> str:
    kind = str(line["kind"]).replace("_", " ")
    who = line["agent"] or line["pool"] or line["service"]
    return f"{now:5.0f} s  {str(line['severity']).upper():6} {kind}: {who}, {str(line['reason']).replace('_', ' ')}"
