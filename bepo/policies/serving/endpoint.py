"""Requests to an OpenAI-compatible endpoint: concurrent, paid for only once, and within the budget."""

from __future__ import annotations

import base64
import io
import logging
import math
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import openai
from anyio.from_thread import start_blocking_portal
from PIL import Image

from bepo.core.errors import UserError, printable
from bepo.core.phases import note, report_within
from bepo.envs import IMAGE
from bepo.policies.served import ServedPolicy
from bepo.policies.serving.completion import Malformed, read_completion
from bepo.policies.serving.limited_http import transport
from bepo.rollouts.collect import Overlong
from bepo.rollouts.prompting.chat import Answer, Failure, Request
from bepo.store.answers import Answers, request_digest

CHARACTERS_A_TOKEN = 3
"""Estimated characters per token of a prompt, until the endpoint has counted the tokens."""
IMAGE_TOKENS = 1500
"""Estimated tokens of a picture."""
for _name in ("httpx2", "openai"):  # they log a line for each request
    logging.getLogger(_name).setLevel(logging.WARNING)
_HOPELESS = (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError)
_VERSION = r"([-@:](\d.*|v\d.*|latest|preview.*))?"  # suffix of a model's name, such as a date
_CONFIRMED = ("stop", "length")
_OVERLONG_STATUS = (400, 413, 422)
_OVERLONG = re.compile(
    "|".join(
        (
            r"context[ _](length|window|size)",  # OpenAI, vLLM, SGLang, llama.cpp, Mistral
            r"maximum (model|input|prompt) length",
            r"prompt is too long",  # Anthropic
            r"input token count .*exceeds",  # Gemini
            r"max_new_tokens` must be <=",  # Text Generation Inference
        )
    ),
    re.IGNORECASE,
)
"""Messages of endpoints that a prompt exceeds the model's context. OpenAI's code is ``context_length_exceeded``."""


class BudgetUsedUp(UserError):
    """The next request could exceed the budget."""


class Endpoint:
    """A served model. ``answers`` has the answers that are paid for; their requests are not sent again.

    An event loop in a separate thread sends the requests, so that an answer can be cancelled at any point.
    """

    def __init__(self, policy: ServedPolicy, base_url: str, answers: Answers) -> None:
        self.policy, self.base_url, self.answers = policy, base_url, answers
        self._lock, self._reserved = Lock(), np.zeros(2, int)  # reserved tokens of prompts and responses
        try:
            http = openai.DefaultAsyncHttpxClient(transport=transport(base_url, policy.timeout))
            self._client = openai.AsyncOpenAI(
                api_key=policy.key or "none",
                base_url=base_url,
                max_retries=policy.retries,
                timeout=policy.timeout,
                http_client=http,
            )
        except Exception as error:  # any type: a malformed URL, proxy or certificate
            raise UserError(f"{base_url}: cannot be used ({self._words(error)})") from None
        self._open = ExitStack()
        self._loop = self._open.enter_context(start_blocking_portal())

    def check(self) -> None:
        """Raise ``UserError`` if the base URL does not answer, or refuses the key. This check is free."""
        try:
            client = self._client.with_options(max_retries=min(1, self.policy.retries))
            self._loop.call(client.models.with_raw_response.list)
        except openai.APIConnectionError as error:
            raise UserError(f"{self.base_url}: no endpoint answers ({self._words(error)})") from None
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise UserError(f"{self.base_url}: {self._words(error)}") from None
        except (openai.OpenAIError, ValueError):
            return  # some endpoints cannot list their models

    def ask(self, requests: Sequence[Request]) -> list[Answer | Failure | Overlong]:
        """Return the answer to each request; see ``bepo.rollouts.prompting.chat.Chat``."""
        with ThreadPoolExecutor(self.policy.concurrency) as pool:
            try:
                answers = []
                for answer in pool.map(self._one, requests):
                    answers.append(answer)
                    report_within(f"{len(answers)} of {len(requests)} answers of this round")
                return answers
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    note("stopping: waiting for the answers of sent requests, to keep them; no more requests are sent")
                pool.shutdown(cancel_futures=True)  # wait for sent requests, because they are paid for
                raise

    def cost(self, prompt: float, response: float) -> float | None:
        """Return the price of some numbers of tokens; None if the prices are not set."""
        prices = self.policy.price_prompt, self.policy.price_response
        return None if None in prices else (prompt * prices[0] + response * prices[1]) / 1e6  # pyright: ignore

    def close(self) -> None:
        """Close the connections, and cancel all requests."""
        self._loop.call(self._client.close)
        self._loop.call(self._loop.stop, True)
        self._open.close()

    def body(self, request: Request) -> dict[str, Any]:
        """Return the body of a request: a chat completion of one user message."""
        policy, sampled = self.policy, {"temperature": request.temperature, "max_tokens": request.max_tokens}
        body = {"model": policy.served_model, "messages": [{"role": "user", "content": _content(request)}], **sampled}
        body |= {"top_p": request.top_p} if request.top_p != 1 else {}
        body |= {"top_k": request.top_k} if request.top_k != -1 else {}
        body |= {"stop": list(request.stop)} if request.stop else {}
        body |= {"seed": request.seed % 2**31} if policy.seeded else {}
        return {name: value for name, value in (body | policy.extra).items() if value is not None}

    # --- one request -----------------------------------------------------------------------------------------

    def _one(self, request: Request) -> Answer | Failure | Overlong:
        body = self.body(request)
        key = request_digest(request.place, body)
        known = self.answers.get(key)
        if known is None:
            reserved = self._reserve(request)
            try:
                known = self._send(body, request)
            finally:
                with self._lock:
                    self._reserved -= reserved
            if "text" in known or known["usage"]:
                self.answers.add({"request": key, "place": request.place, **known})
        if "error" in known:
            return Failure(known["error"])
        return Overlong(known["overlong"]) if "overlong" in known else Answer(known["text"])

    def _send(self, body: dict[str, Any], request: Request) -> dict[str, Any]:
        """Send a request, and return the columns of an answer's row: the text, the error, or ``overlong``."""
        known = {"model", "messages", "temperature", "max_tokens", "top_p", "stop", "seed"}
        named = {name: value for name, value in body.items() if name in known}
        extra = {name: value for name, value in body.items() if name not in known}
        create: Callable[..., Any] = self._client.chat.completions.with_raw_response.create
        try:
            response = self._loop.call(partial(create, **named, extra_body=extra or None))
        except _HOPELESS as error:
            raise UserError(f"{self.base_url}: {self._words(error)}") from None
        except (openai.OpenAIError, ValueError) as error:  # ValueError: JSON cannot hold a further field
            return {"overlong" if _is_overlong(error) else "error": self._words(error), "usage": {}}
        return self._read(response.content, body["model"], request)

    def _read(self, body: bytes, model: str, request: Request) -> dict[str, Any]:
        """Return the columns of an answer's row for a body, which may be malformed."""
        try:
            completion = read_completion(body)
        except Malformed as error:
            return {"error": f"not a chat completion: {error}", "usage": {}}
        text, reason, reported = completion.text, completion.finish_reason, completion.model
        usage: dict[str, Any] = completion.usage or _estimated(request, text)
        if not _same_model(model, reported):
            return {"error": f"answered by {reported}, not by {model}", "usage": usage}
        if reason not in _CONFIRMED:
            return {"error": f"no answer: finish_reason {reason}", "usage": usage}
        if not text and completion.reasoning and self.policy.reasoning_as_answer:
            text = completion.reasoning
        if not text and completion.reasoning and reason == "stop":
            why = "no content, only reasoning_content, which policy.reasoning_as_answer=true reads"
            return {"error": why, "usage": usage}
        about = {"finish_reason": reason, "model": reported, "fingerprint": completion.fingerprint, "usage": usage}
        return {"text": text, **about}

    def _reserve(self, request: Request) -> np.ndarray:
        """Reserve the tokens that a request may take. Raises ``BudgetUsedUp``."""
        asked = np.array([prompt_tokens(request), request.max_tokens])
        with self._lock:
            prompt, response = np.array(self.answers.tokens()) + self._reserved + asked
            cost, policy = self.cost(prompt, response), self.policy
            for name, value, limit in (
                ("budget_tokens", prompt + response, policy.budget_tokens),
                ("budget_money", cost, policy.budget_money),
            ):
                if limit is not None and value is not None and value > limit:
                    paid = sum(self.answers.tokens())
                    raise BudgetUsedUp(
                        f"policy.{name}={limit:g} is used up: {paid} tokens are paid for, and the next request could "
                        f"exceed it; repeat the command with a larger budget to continue"
                    )
            self._reserved += asked
        return asked

    def _words(self, error: Exception) -> str:
        """Return an error in one line of at most 200 characters, without the key."""
        status = error.status_code if isinstance(error, openai.APIStatusError) else None
        cause = error.__cause__ if isinstance(error, openai.APIConnectionError) and error.__cause__ else error
        words = printable(" ".join(str(cause).split())) or type(cause).__name__
        if self.policy.key:
            words = words.replace(self.policy.key, "***")
        name = type(error).__name__
        return f"{name}{f' {status}' if status else ''}: {words}"[:200]


def prompt_tokens(request: Request) -> int:
    """Return an estimate of a prompt's tokens."""
    return math.ceil(len(request.prompt) / CHARACTERS_A_TOKEN) + IMAGE_TOKENS * (request.image is not None)


def _estimated(request: Request, text: str) -> dict[str, Any]:
    """Return an estimate of the used tokens, if the endpoint's count is missing or implausible."""
    response = math.ceil(len(text) / CHARACTERS_A_TOKEN)
    return {"prompt": prompt_tokens(request), "response": response, "estimated": True}


def _is_overlong(error: Exception) -> bool:
    """Return whether an endpoint refused a request because it exceeds the model's context."""
    if not isinstance(error, openai.APIStatusError) or error.status_code not in _OVERLONG_STATUS:
        return False
    return error.code == "context_length_exceeded" or _OVERLONG.search(str(error)) is not None


def _same_model(asked: str, reported: str) -> bool:
    """Return whether a reported name is the requested name, or a version of it."""
    a, b = (name.lower().rstrip("/").rsplit("/", 1)[-1] for name in (asked, reported))
    return re.fullmatch(re.escape(a) + _VERSION, b) is not None


def _content(request: Request) -> str | list[dict[str, Any]]:
    """Return the content of the user message: text, or text around a picture."""
    if request.image is None:
        return request.prompt
    before, _, after = request.prompt.rpartition(IMAGE)
    file = io.BytesIO()
    Image.fromarray(request.image).save(file, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    parts = [{"type": "text", "text": before}, {"type": "image_url", "image_url": {"url": url}}]
    return [*parts, {"type": "text", "text": after}] if after else parts
