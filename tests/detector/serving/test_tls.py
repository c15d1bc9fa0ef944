"""TLS on all three addresses, with client certificates where they are asked for."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import requests
from tests.detector.serving.conftest import Running

from lowwater.detector.errors import ConfigError

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of the server and one of a client, each its own authority."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("server", "client"):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
             "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
             "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip
    return folder


def started(folder: Path, **flags: Any) -> Running:
    cert, key = str(folder / "server.pem"), str(folder / "server.key")
    running = Running(**{"serve.tls_cert": cert, "serve.tls_key": key, "serve.http": "0.0.0.0:0", **flags})
    running.scheme = "https"
    running.addresses["http"] = ("127.0.0.1", running.addresses["http"][1])
    return running


@pytest.fixture
def mutual(folder: Path) -> Iterator[Running]:
    running = started(folder, **{"serve.tls_client_ca": str(folder / "client.pem")})
    yield running
    running.stop()


def export(running: Running, credentials: grpc.ChannelCredentials) -> bytes:
    with grpc.secure_channel(running.target(), credentials) as channel:
        method: Any = channel.unary_unary(EXPORT)
        return bytes(method(b"", timeout=5))


def post(running: Running, **options: Any) -> int:
    headers = {"content-type": "application/x-protobuf"}
    return requests.post(running.url("http", "/v1/traces"), data=b"", headers=headers, timeout=5, **options).status_code


def test_plain_text_is_refused_and_tls_is_answered(folder: Path) -> None:
    running = started(folder)
    try:
        root = (folder / "server.pem").read_bytes()
        assert post(running, verify=str(folder / "server.pem")) == 200
        assert export(running, grpc.ssl_channel_credentials(root)) == b""
        assert requests.get(running.url("admin", "/healthz"), verify=str(folder / "server.pem"), timeout=5).ok
        with pytest.raises(requests.RequestException):
            requests.get(running.url("admin", "/healthz").replace("https", "http"), timeout=5)
        with grpc.insecure_channel(running.target()) as channel:
            method: Any = channel.unary_unary(EXPORT)
            with pytest.raises(grpc.RpcError):
                method(b"", timeout=2)
    finally:
        running.stop()


def test_strangers_are_refused_where_certificates_are_asked_for(mutual: Running, folder: Path) -> None:
    root, cert, key = ((folder / name).read_bytes() for name in ("server.pem", "client.pem", "client.key"))
    own = (str(folder / "client.pem"), str(folder / "client.key"))
    assert post(mutual, verify=str(folder / "server.pem"), cert=own) == 200
    assert export(mutual, grpc.ssl_channel_credentials(root, key, cert)) == b""
    with pytest.raises(requests.RequestException):
        post(mutual, verify=str(folder / "server.pem"))
    with pytest.raises(grpc.RpcError):
        export(mutual, grpc.ssl_channel_credentials(root))


@pytest.mark.parametrize(
    ("cert", "key", "named"),
    [
        ("missing.pem", "server.key", r"serve\.tls_cert: .*cannot be read"),
        ("server.pem", "client.key", "no usable PEM certificate and key"),
        ("server.key", "server.key", "no usable PEM certificate and key"),
    ],
)
def test_what_is_no_certificate_is_named(folder: Path, cert: str, key: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Running(**{"serve.tls_cert": str(folder / cert), "serve.tls_key": str(folder / key)})
