"""``lowwater serve``: the detector as one more OTLP endpoint."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from lowwater.detector.cli.arguments import Commands, add_command
from lowwater.detector.cli.codes import EXIT_OK
from lowwater.detector.settings import Loaded, load

__all__ = ["add"]

_FLAGS = ("grpc", "http", "admin", "state", "findings")


def add(commands: Commands) -> None:
    """Add ``lowwater serve``."""
    command = add_command(commands, "serve", "take OTLP traces and logs, and tell findings and metrics", _run)
    command.add_argument("--config", metavar="FILE", help="TOML with thresholds, declared values and [serve]")
    command.add_argument("--grpc", metavar="ADDRESS", help="OTLP over gRPC (127.0.0.1:4317)")
    command.add_argument("--http", metavar="ADDRESS", help="OTLP over HTTP (127.0.0.1:4318)")
    command.add_argument("--admin", metavar="ADDRESS", help="metrics, health and findings (127.0.0.1:9464)")
    command.add_argument("--state", metavar="FILE", help="file of the state, or memory (lowwater.db)")
    command.add_argument("--findings", metavar="FILE", help="write findings as JSON lines; - is standard output")
    command.add_argument(
        "--insecure", action="store_true", help="listen beyond this machine without TLS and without a token"
    )


def _run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    flags = {f"serve.{name}": value for name in _FLAGS if (value := getattr(options, name)) is not None}
    if options.insecure:
        flags["serve.insecure"] = True
    loaded = load(Path(options.config) if options.config else None, os.environ, flags)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(_serve(loaded))
    return EXIT_OK


async def _serve(loaded: Loaded) -> None:
    from lowwater.detector.serving.service import Service  # noqa: PLC0415 - slow, and --help needs none of it

    log = logging.getLogger("lowwater")
    stop = asyncio.Event()

    def on_signal(name: str) -> None:
        if stop.is_set():
            log.warning("%s again: leaving at once; what was acknowledged is in the state", name)
            os._exit(128 + signal.Signals[name])
        log.info("%s: stopping; again to leave at once", name)
        stop.set()

    service = Service(loaded)
    for name in ("SIGTERM", "SIGINT"):
        asyncio.get_running_loop().add_signal_handler(signal.Signals[name], on_signal, name)
    await service.start()
    where = ", ".join(f"{key} on {host}:{port}" for key, (host, port) in sorted(service.addresses.items()))
    log.info("ready: %s; state in %s", where, loaded.serve.state)
    await stop.wait()
    await service.stop()
    log.info("stopped")
