"""A model behind an OpenAI-compatible endpoint. It can be evaluated, but not trained."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import ParseResult, urlparse
from urllib.request import getproxies

from bepo.core.errors import Missing, UserError
from bepo.core.settings import setting
from bepo.envs import Environment
from bepo.policies import PolicyConfig, register
from bepo.rollouts.agent import Agent

if TYPE_CHECKING:
    from bepo.policies.lm.language_model import LanguageModel

_PROXIES = ("http", "https", "socks5", "socks5h")


@dataclass
class ServedPolicy(PolicyConfig):
    """The base class of served policies. Limits on concurrency, retries and cost do not change answers.

    Prices are per million tokens, in one currency of your choice. No prices are built in.
    """

    seeded: bool = False
    """Whether to send a seed with each request, derived from the evaluation seed. Some endpoints refuse the field."""
    extra: dict[str, Any] = setting(factory=dict)
    """Further fields of every request, such as ``reasoning_effort: low``; null fields are not sent."""
    reasoning_as_answer: bool = setting(False, neutral=True)
    """Whether to read the reasoning (``reasoning_content`` or ``reasoning``) if an answer has no content. If false, an
    uncut answer with only reasoning is an error."""
    concurrency: int = setting(8, at_least=1, identity=False)
    """Maximum number of simultaneous requests."""
    retries: int = setting(6, at_least=0, identity=False)
    """Number of retries of a failed request. The delay is the endpoint's (Retry-After, up to two minutes), else half a
    second, doubled each time."""
    timeout: float = setting(600.0, above=0, at_most=604_800, identity=False)
    """Timeout for a complete answer, in seconds."""
    budget_tokens: int | None = setting(None, at_least=0, identity=False)
    """Maximum number of prompt and response tokens of the run. Requests that could exceed it are not sent."""
    budget_money: float | None = setting(None, at_least=0, identity=False)
    """Maximum cost of the run. Requests that could exceed it are not sent. Needs both prices."""
    price_prompt: float | None = setting(None, at_least=0, identity=False)
    """Price of a million prompt tokens."""
    price_response: float | None = setting(None, at_least=0, identity=False)
    """Price of a million response tokens."""

    served: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.constrained:
            raise UserError(f"policy.constrained=true: policy={self.name} cannot be restricted to admissible actions")
        if self.budget_money is not None and None in (self.price_prompt, self.price_response):
            raise UserError("policy.budget_money needs policy.price_prompt and policy.price_response")

    def build(self, env: Environment, agent: Agent, device: str) -> LanguageModel:
        """Raise ``UserError``: a served policy has no weights in this process."""
        raise UserError(f"policy={self.name} has no weights to train: python -m bepo.evaluate evaluates it")

    @property
    def served_model(self) -> str:
        """The name of the model in requests."""
        raise NotImplementedError

    @property
    def key(self) -> str:
        """The endpoint's key, which is never written to a file; empty: no key."""
        return ""

    @contextmanager
    def endpoint(self, folder: Path) -> Iterator[str]:
        """Keep the endpoint running during a ``with`` block, and yield its base URL.

        ``folder`` is the run's folder, for the server's log. Raises ``UserError`` if the endpoint does not start.
        """
        raise NotImplementedError
        yield ""


@register
@dataclass
class Served(ServedPolicy):
    """Any OpenAI-compatible endpoint.

    The URL is not part of the run ID, because the same model may be served elsewhere. Two models need different names;
    if a server gives them the same name, use ``label``.
    """

    name: Literal["served"] = "served"
    model: str = ""
    """The endpoint's name of the model, such as ``gpt-4o-2024-08-06``."""
    label: str = setting("", neutral=True)
    """A label that distinguishes models that are served under the same name."""
    base_url: str = setting("https://api.openai.com/v1", identity=False)
    """The base URL of the endpoint, without credentials."""
    key_env: str = setting("OPENAI_API_KEY", identity=False)
    """The environment variable with the key; empty: the endpoint needs no key."""

    method_version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        url = checked_url("policy.base_url", self.base_url, ("http", "https"))
        if url.username or url.password or url.query:
            raise UserError(
                f"policy.base_url holds credentials or a query ({url.hostname}): put the key into the environment "
                "variable that policy.key_env names"
            )

    @property
    def served_model(self) -> str:
        """The model as requests name it."""
        return self.model

    @property
    def key(self) -> str:
        """The key from the environment."""
        return os.environ.get(self.key_env, "").strip() if self.key_env else ""

    def missing(self) -> Missing | None:
        """Return ``Missing`` if the endpoint needs a key that is not in the environment, else None."""
        if not self.key_env or self.key:
            return None
        return Missing(
            f"policy=served: no key in the environment variable {self.key_env}", f"export {self.key_env}=..."
        )

    @contextmanager
    def endpoint(self, folder: Path) -> Iterator[str]:
        """Yield the base URL. Raises ``UserError`` without a model or a key."""
        if not self.model:
            raise UserError("policy.model is empty: set it to the endpoint's name of the model")
        if missing := self.missing():
            raise missing
        check_network()
        yield self.base_url


def checked_url(name: str, value: str, schemes: Sequence[str]) -> ParseResult:
    """Return the parts of a URL. Raises ``UserError`` about the setting ``name`` if the URL is not usable."""
    try:
        url = urlparse(value)
        if url.scheme not in schemes or not url.hostname or not value.isprintable() or " " in value:
            raise ValueError("no scheme or host")
        if url.port == 0:
            raise ValueError("port 0")
        url.hostname.encode("ascii").decode().encode("idna")  # an empty label, or one of more than 63 characters
        return url
    except ValueError as error:
        words = f"write {' or '.join(schemes)}, then ://host[:port]/path, in ASCII (xn--... for other letters)"
        raise UserError(f"{name}={_shown(value)}: {words} ({type(error).__name__ if value else 'empty'})") from None


def check_network() -> None:
    """Raise ``UserError`` if an environment variable names an unusable proxy or certificate file."""
    for scheme, proxy in getproxies().items():
        if scheme in ("http", "https", "all"):
            checked_url(f"{scheme}_proxy", proxy if "://" in proxy else f"http://{proxy}", _PROXIES)
    places = {name: os.environ[name] for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)}
    for name, place in places.items():
        is_file = name == "SSL_CERT_FILE"
        try:
            if not is_file and not os.path.isdir(place):
                raise NotADirectoryError("not a folder")
            if is_file and os.path.exists(place) and not os.path.isfile(place):
                raise OSError("not a file")
            ssl.create_default_context(cafile=place if is_file else None, capath=None if is_file else place)
        except OSError as error:
            what = "a file of certificates (PEM)" if is_file else "a folder of certificates"
            raise UserError(f"{name}={place}: must be {what}, or not set ({error.strerror or error})") from None


def _shown(url: str) -> str:
    """Return a URL for a message, without user and password."""
    before, at, host = url.rpartition("@")
    return repr(f"{before.partition('://')[0]}://***@{host}" if at else url)
