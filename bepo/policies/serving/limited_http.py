"""HTTP to endpoints that may be broken or hostile, with limits on the time and size of an answer."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio
import httpx2

MOST_BYTES = 1 << 24
"""Maximum size of an answer with any status. A long response with its reasoning has about 100 kB."""
_LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
_OF_THE_BODY = ("content-length", "transfer-encoding")  # headers about how an answer was sent


class LimitedTransport(httpx2.AsyncBaseTransport):
    """Reads each answer as a whole, within a time limit and up to ``MOST_BYTES``.

    httpx's timeout is for each read, so an endpoint that sends a byte now and then would never time out. Compressed
    answers are refused, because a few kilobytes can unpack to any size.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, seconds: float) -> None:
        self._inner, self._seconds = inner, seconds

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and return its answer. Raises httpx2's ``TransportError``, which the client may retry."""
        request.headers["Accept-Encoding"] = "identity"
        try:
            with anyio.fail_after(self._seconds):
                return await self._whole(request)
        except TimeoutError:
            raise httpx2.ReadTimeout(f"no whole answer within {self._seconds:g} seconds", request=request) from None

    async def _whole(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        try:
            encoding = response.headers.get("content-encoding", "identity")
            if encoding != "identity":
                raise httpx2.ReadError(f"the answer is compressed ({encoding}), although the request did not allow it")
            body = bytearray()
            async for part in response.aiter_raw():
                body += part
                if len(body) > MOST_BYTES:
                    raise httpx2.ReadError(f"the answer has more than {MOST_BYTES} bytes")
        finally:
            await response.aclose()
        headers = [(name, value) for name, value in response.headers.items() if name not in _OF_THE_BODY]
        return httpx2.Response(response.status_code, headers=headers, content=bytes(body), request=request)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


def transport(url: str, seconds: float) -> LimitedTransport:
    """Return a transport to a server, through the environment's proxy if there is one."""
    inner = httpx2.AsyncHTTPTransport(proxy=proxy_of(url), limits=_LIMITS)
    return LimitedTransport(inner, seconds)


def proxy_of(url: str) -> str | None:
    """Return the proxy for a URL (``http_proxy``, ``https_proxy``, ``all_proxy``, ``no_proxy``); None: no proxy.

    Requests to this machine never use a proxy, because a proxy would look for the server on its own machine.
    """
    parts, proxies = urlsplit(url), getproxies()
    host = parts.hostname or ""
    if is_loopback(host) or proxy_bypass(host):
        return None
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, such as ``localhost``, ``127.0.0.1`` or ``::1``."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
