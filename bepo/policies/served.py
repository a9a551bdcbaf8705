"""A model behind an OpenAI-compatible endpoint: it can be evaluated, not trained."""

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
    """What every served policy has: limits of concurrency, retries and cost, none of which changes an answer.

    Prices are per million tokens, in any one currency; there are no built-in ones.
    """

    seeded: bool = False
    """Send each request a seed of its own, derived from the evaluation seed; not every endpoint knows the field."""
    extra: dict[str, Any] = setting(factory=dict)
    """Further fields of every request, such as ``reasoning_effort: low``; a field that is null is not sent."""
    reasoning_as_answer: bool = setting(False, neutral=True)
    """Where an answer has no content, read the reasoning that the endpoint keeps apart from it (``reasoning_content``,
    ``reasoning``). Without it, an answer that was not cut and has only reasoning is an error."""
    concurrency: int = setting(8, at_least=1, identity=False)
    """So many requests are under way at a time."""
    retries: int = setting(6, at_least=0, identity=False)
    """A request that fails is sent again so many times, after the time that the endpoint asks for (Retry-After, up to
    two minutes), else after half a second and then twice as long each time."""
    timeout: float = setting(600.0, above=0, at_most=604_800, identity=False)
    """Seconds after which an incomplete answer is given up."""
    budget_tokens: int | None = setting(None, at_least=0, identity=False)
    """No request is sent that could make the tokens of prompts and responses of the run more than this."""
    budget_money: float | None = setting(None, at_least=0, identity=False)
    """No request is sent that could make the run cost more than this; needs both prices."""
    price_prompt: float | None = setting(None, at_least=0, identity=False)
    """The price of a million tokens of prompts."""
    price_response: float | None = setting(None, at_least=0, identity=False)
    """The price of a million tokens of responses."""

    served: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.constrained:
            raise UserError(f"policy.constrained=true: policy={self.name} cannot be kept to admissible actions")
        if self.budget_money is not None and None in (self.price_prompt, self.price_response):
            raise UserError("policy.budget_money needs policy.price_prompt and policy.price_response")

    def build(self, env: Environment, agent: Agent, device: str) -> LanguageModel:
        """Raise ``UserError``: there are no weights here."""
        raise UserError(f"policy={self.name} has no weights to train: python -m bepo.evaluate evaluates it")

    @property
    def served_model(self) -> str:
        """The model as requests name it."""
        raise NotImplementedError

    @property
    def key(self) -> str:
        """The key of the endpoint, which is written nowhere; empty where there is none."""
        return ""

    @contextmanager
    def endpoint(self, folder: Path) -> Iterator[str]:
        """Have the endpoint running for the time of a ``with`` block, and yield its base URL.

        ``folder`` is the run's, for what a server prints. Raises ``UserError`` where it cannot be had.
        """
        raise NotImplementedError
        yield ""


@register
@dataclass
class Served(ServedPolicy):
    """Any OpenAI-compatible endpoint; ``base_url`` says where, ``model`` what, ``key_env`` who pays.

    Where a model is served does not change what it is: the URL is no part of a run's identity. Two models need two
    names; for servers that call every model the same, ``label`` tells them apart.
    """

    name: Literal["served"] = "served"
    model: str = ""
    """The model as the endpoint calls it, such as ``gpt-4o-2024-08-06``."""
    label: str = setting("", neutral=True)
    """What tells this model from another that is served under the same name."""
    base_url: str = setting("https://api.openai.com/v1", identity=False)
    """Where the endpoint is, without credentials."""
    key_env: str = setting("OPENAI_API_KEY", identity=False)
    """The environment variable with the key; empty for an endpoint that needs none."""

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
        """Return that there is no key in the environment, where the endpoint needs one."""
        if not self.key_env or self.key:
            return None
        return Missing(
            f"policy=served: no key in the environment variable {self.key_env}", f"export {self.key_env}=..."
        )

    @contextmanager
    def endpoint(self, folder: Path) -> Iterator[str]:
        """Yield the base URL. Raises ``UserError`` without a model or a key."""
        if not self.model:
            raise UserError("policy.model is empty: name the model as the endpoint calls it")
        if missing := self.missing():
            raise missing
        check_network()
        yield self.base_url


def checked_url(name: str, value: str, schemes: Sequence[str]) -> ParseResult:
    """Return the parts of a URL. Raises ``UserError``, which calls it ``name``, where no request can be sent to it."""
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
    """Raise ``UserError`` for a proxy or a file of certificates in the environment that no request can use."""
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
    """Return a URL as a message may show it: without user and password."""
    before, at, host = url.rpartition("@")
    return repr(f"{before.partition('://')[0]}://***@{host}" if at else url)
