"""The whole of ``lowwater serve``: built from its configuration, run until stopped, stopped without loss.

::

    gRPC  --+--> intake --decode thread--> core thread --> SQLite        feeders --> JSONL, OTLP logs, webhook
    HTTP  --+                                 |  outbox ------------------^
    admin <-- registry, diagnosis ------------+
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc
from opentelemetry.sdk.resources import Resource

from lowwater.collectors.reading import Reading
from lowwater.detector.config import ServeConfig
from lowwater.detector.diagnosis import Diagnosis
from lowwater.detector.errors import ConfigError
from lowwater.detector.findings import Severity
from lowwater.detector.ledger import LedgerEntry
from lowwater.detector.metrics.catalogue import CLOSED
from lowwater.detector.metrics.exposition import scrape
from lowwater.detector.metrics.otlp import MetricsExport
from lowwater.detector.metrics.registry import Registry
from lowwater.detector.pipeline import Output
from lowwater.detector.receivers.grpc import options, services
from lowwater.detector.receivers.http import OtlpHttp
from lowwater.detector.receivers.intake import Intake
from lowwater.detector.runtimes.core import Core
from lowwater.detector.runtimes.live import LiveDetector
from lowwater.detector.runtimes.store import Store
from lowwater.detector.serving.addresses import Address, bind, check_exposure, parse
from lowwater.detector.serving.admin import Admin, Answer
from lowwater.detector.serving.http_server import HttpServer
from lowwater.detector.serving.watch import Watch
from lowwater.detector.settings import Loaded
from lowwater.detector.sinks.base import Feeder, Sink
from lowwater.detector.sinks.jsonl import JsonLines
from lowwater.detector.sinks.otlp_logs import OtlpLogs
from lowwater.detector.sinks.webhook import Webhook

__all__ = ["Service"]

_log = logging.getLogger(__name__)

_MEMORY = "memory"
_MEMORY_STATES = 100_000
"""States of a detector without a file, whose store is memory, too."""


class Service:
    """A detector that listens.

    Args:
        loaded: the configuration.

    Attributes:
        addresses: where it listens, by ``grpc``, ``http`` and ``admin``, once `start` is done.

    Raises:
        ConfigError: something cannot be had as configured.
        InputError: state or findings cannot be opened.
    """

    def __init__(self, loaded: Loaded) -> None:
        config = self._config = loaded.serve
        wanted = {key: getattr(config, key) for key in ("grpc", "http", "admin")}
        self._wanted = {key: parse(f"serve.{key}", text) for key, text in wanted.items() if text}
        check_exposure(
            {f"serve.{key}": address for key, address in self._wanted.items()},
            tls=bool(config.tls_cert),
            token=bool(config.token),
            insecure=config.insecure,
        )
        self.addresses: dict[str, Address] = {}
        self._resource = Resource.create({"service.name": "lowwater"})
        registry = Registry(config.max_series)
        self.watch = Watch(
            registry,
            version=version("lowwater"),
            max_contexts=config.max_contexts,
            forget_after_seconds=config.forget_after_seconds,
        )
        self._diagnosis = Diagnosis()
        self._diagnosis_lock = threading.Lock()
        tls = _tls(config)  # before anything is opened
        in_memory = config.state == _MEMORY
        store = Store(None if in_memory else Path(config.state), sync=config.sync)
        self.live = LiveDetector(
            loaded.detector,
            store,
            observe=self._observe,
            told=self.watch.told,
            max_contexts=config.max_contexts,
            max_stored=min(config.max_stored_states, _MEMORY_STATES) if in_memory else config.max_stored_states,
            resolve_idle_seconds=config.resolve_idle_seconds,
            forget_after_seconds=config.forget_after_seconds,
        )
        self.watch.attach(self.live)
        self._feeders = [Feeder(sink, self.watch.sink_failed, store.cursor(sink.name)) for sink in self._sinks()]
        self.watch.feed(self._feeders)
        self.core = Core(
            self.live,
            self.watch,
            outlets=self._feeders,
            max_waiting=config.max_waiting_readings,
            checkpoint_seconds=config.checkpoint_seconds,
            look_seconds=config.look_seconds,
        )
        self.intake = Intake(
            self.live.ingest,
            self.core.submit,
            self.watch,
            is_full=lambda: self.core.is_full,
            observe=self._diagnose,
            token=config.token or None,
            max_request_bytes=config.max_request_bytes,
            max_inflight_bytes=config.max_inflight_bytes,
        )
        self._export = (
            MetricsExport(
                registry,
                config.otlp_endpoint,
                config.otlp_protocol,
                config.otlp_metrics_seconds,
                self._resource,
                self.watch.sink_failed,
                start_ns=self.watch.start_ns,
            )
            if config.otlp_metrics
            else None
        )
        self._tls = tls
        self._https: list[HttpServer] = []
        self._grpc: grpc.aio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._ready = False

    def _sinks(self) -> list[Sink]:
        config = self._config
        sinks: list[Sink] = []
        if config.findings:
            sinks.append(JsonLines(config.findings))
        if config.otlp_endpoint and config.otlp_logs:
            sinks.append(OtlpLogs(config.otlp_endpoint, config.otlp_protocol, self._resource))
        if config.webhook_url:
            least = Severity[config.webhook_min_severity.upper()]
            secret, token = config.webhook_secret or None, config.webhook_token or None
            sinks.append(Webhook(config.webhook_url, min_severity=least, secret=secret, token=token))
        return sinks

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, and take up what a crash left.

        Raises:
            ConfigError: an address cannot be had.
        StateError: what is in the state file cannot be read.
        """
        with ExitStack() as undo:
            apps = {"http": OtlpHttp(self.intake), "admin": self._admin()}
            for key, app in apps.items():
                if key in self._wanted:
                    listener = bind(f"serve.{key}", self._wanted[key])
                    undo.callback(listener.close)
                    server = HttpServer(
                        app, listener, max_request_bytes=self._config.max_request_bytes, tls=_context(self._tls)
                    )
                    self._https.append(server)
                    self.addresses[key] = (self._wanted[key][0], server.port)
            if "grpc" in self._wanted:
                self.addresses["grpc"] = self._bind_grpc(self._wanted["grpc"])
            undo.pop_all()
        for thread in (*self._feeders, self.core, *([self._export] if self._export is not None else [])):
            thread.start()
        await asyncio.to_thread(self.core.ready.wait)
        if self.core.error is not None:
            raise self.core.error
        if self._grpc is not None:
            await self._grpc.start()
        self._tasks = [asyncio.create_task(server.serve()) for server in self._https]
        while not all(server.started for server in self._https):
            await asyncio.sleep(0.01)
        self._ready = True

    def _bind_grpc(self, address: Address) -> Address:
        server = self._grpc = grpc.aio.server(options=options(self._config.max_request_bytes))
        server.add_generic_rpc_handlers(tuple(services(self.intake)))
        host, port = address
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if self._tls is None:
                bound = server.add_insecure_port(target)
            else:
                bound = server.add_secure_port(target, self._tls.grpc())
        except RuntimeError as error:
            msg = (
                f"serve.grpc: cannot listen on {target}: another program may have it;"
                " stop that, or set serve.grpc to another address"
            )
            raise ConfigError(msg) from error
        return host, bound

    async def stop(self) -> None:
        """Take nothing new, answer what is under way, make everything durable, deliver what is on its way, end."""
        self._ready = False
        self.intake.close()
        seconds = self._config.drain_seconds
        if self._grpc is not None:
            await self._grpc.stop(min(5.0, seconds))
        await asyncio.to_thread(self.intake.join)
        self.core.stop()
        await asyncio.to_thread(self.core.join)
        until = time.monotonic() + seconds + 1
        for feeder in self._feeders:
            feeder.stop(seconds)
        if self._export is not None:
            self._export.stop()
        for thread in (*self._feeders, *([self._export] if self._export is not None else [])):
            await asyncio.to_thread(thread.join, max(0.0, until - time.monotonic()))
        # What was delivered in the last moments is remembered, so that it is not delivered again.
        cursors = {feeder.name: feeder.done for feeder in self._feeders}
        if cursors:
            self.live.store.delivered(cursors)
        self.live.store.close()
        for server in self._https:
            server.stop()
        await asyncio.gather(*self._tasks)

    # --- what is seen ------------------------------------------------------------------------------------------------

    def _observe(self, output: Output, provisional: bool, now_ns: int) -> None:
        self.watch.observe(output, provisional, now_ns)
        if isinstance(output, LedgerEntry) and not provisional:
            with self._diagnosis_lock:
                self._diagnosis.add(output)

    def _diagnose(self, reading: Reading) -> None:
        with self._diagnosis_lock:
            self._diagnosis.observe(reading)

    # --- the admin endpoint ------------------------------------------------------------------------------------------

    def _admin(self) -> Admin:
        return Admin(
            self._metrics,
            {"/v1/findings": self._findings, "/v1/doctor": self._doctor},
            lambda: "" if self._ready else "not ready",
            lambda: "" if self.core.is_alive() or not self._ready else "the core thread has ended",
            self.intake.check_token,
        )

    async def _metrics(self, headers: Mapping[str, str]) -> Answer:
        accept, encodings = headers.get("accept", ""), headers.get("accept-encoding", "")
        fields, body = await asyncio.to_thread(scrape, self.watch.registry, accept, encodings)
        return 200, fields, body

    async def firing(self) -> list[dict[str, Any]]:
        """Lines of the findings that fire."""
        return await asyncio.wrap_future(self.core.ask(lambda: list(self.live.shown.firing.values())))

    async def _findings(self) -> Any:
        return {"schema": "lowwater.findings/1", "findings": await self.firing()}

    async def _doctor(self) -> Any:
        counts = await asyncio.wrap_future(self.core.ask(lambda: dict(self.live.pipeline.assembler.counts)))
        with self._diagnosis_lock:
            diagnosis = dataclasses.asdict(self._diagnosis)
        value = self.watch.registry.value
        received = {
            f"{signal} over {protocol}": value(f"lowwater_detector_{signal}_received_total", (protocol,))
            for signal in ("spans", "logs")
            for protocol in ("grpc", "http")
        }
        dropped = {
            reason: items
            for reason in CLOSED["reason"]
            if (items := value("lowwater_detector_spans_dropped_total", (reason,)))
        }
        return {
            "schema": "lowwater.doctor.live/1",
            "diagnosis": diagnosis,
            "duplicates": counts,
            "times": dict(self.live.ingest.times),
            "received": received,
            "dropped": dropped,
            "last_span_seconds": value("lowwater_detector_last_span_timestamp_seconds"),
            "lag_seconds": value("lowwater_detector_lag_seconds"),
            "late": value("lowwater_detector_late_total"),
        }


@dataclasses.dataclass(frozen=True, slots=True)
class _Tls:
    """Certificates, read once."""

    cert_path: str
    key_path: str
    client_ca_path: str
    cert: bytes
    key: bytes
    client_ca: bytes | None

    def grpc(self) -> grpc.ServerCredentials:
        return grpc.ssl_server_credentials(
            [(self.key, self.cert)], self.client_ca, require_client_auth=self.client_ca is not None
        )


def _tls(config: ServeConfig) -> _Tls | None:
    if not config.tls_cert:
        return None
    read: dict[str, bytes] = {}
    for key in ("tls_cert", "tls_key", "tls_client_ca"):
        path = getattr(config, key)
        try:
            read[key] = Path(path).read_bytes() if path else b""
        except OSError as error:
            msg = f"serve.{key}: {path}: cannot be read: {error.strerror}: name a readable PEM file"
            raise ConfigError(msg) from error
    found = _Tls(
        config.tls_cert, config.tls_key, config.tls_client_ca,
        read["tls_cert"], read["tls_key"], read["tls_client_ca"] or None,
    )  # fmt: skip
    _context(found)
    return found


def _context(tls: _Tls | None) -> ssl.SSLContext | None:
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.cert_path, tls.key_path)
        if tls.client_ca_path:
            context.load_verify_locations(tls.client_ca_path)
            context.verify_mode = ssl.CERT_REQUIRED
    except (ssl.SSLError, OSError) as error:
        msg = f"serve.tls_cert, serve.tls_key: no usable PEM certificate and key: {error}"
        raise ConfigError(msg) from error
    return context
