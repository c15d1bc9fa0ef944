"""Addresses to listen on: parsed, judged, bound."""

from __future__ import annotations

import ipaddress
import socket

from lowwater.detector.errors import ConfigError

__all__ = ["Address", "bind", "check_exposure", "parse"]

Address = tuple[str, int]


def parse(key: str, text: str) -> Address:
    """Host and port of ``host:port``; an IPv6 host stands in brackets, an empty one is all addresses.

    Raises:
        ConfigError: it is no such thing; names ``key``.

    >>> parse("serve.http", "127.0.0.1:4318"), parse("serve.http", "[::1]:0"), parse("serve.http", ":4318")
    (('127.0.0.1', 4318), ('::1', 0), ('0.0.0.0', 4318))
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        msg = f"{key}: must be host:port, such as 127.0.0.1:4318 or [::1]:4318, not {text!r}"
        raise ConfigError(msg)
    return host or "0.0.0.0", int(port)  # noqa: S104 - what an empty host means; `check_exposure` judges it


def check_exposure(addresses: dict[str, Address], *, tls: bool, token: bool, insecure: bool) -> None:
    """Refuse to be reachable from elsewhere by everybody.

    Args:
        addresses: by configuration key.

    Raises:
        ConfigError: an address is not a loopback one, and there is neither TLS nor a token, and nobody insists.
    """
    if tls or token or insecure:
        return
    open_keys = [key for key, (host, _) in addresses.items() if not _is_loopback(host)]
    if open_keys:
        msg = (
            f"{', '.join(open_keys)}: would be reachable from other machines by everybody: set serve.token, or"
            " serve.tls_cert and serve.tls_key; or listen on 127.0.0.1; or insist with --insecure"
        )
        raise ConfigError(msg)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name may mean any address


def bind(key: str, address: Address) -> socket.socket:
    """A listening socket.

    Raises:
        ConfigError: the address cannot be had; names ``key`` and the remedy.
    """
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        msg = (
            f"{key}: cannot listen on {host}:{port}: {error.strerror}: another program may have it;"
            f" stop that, or set {key} to another address"
        )
        raise ConfigError(msg) from error
    return listener
