"""Endpoints that are broken or hostile: each ends as an episode that is missing, in one line, and none holds a run."""

import gzip
import json
import time

import pytest

from bepo.core.errors import UserError
from bepo.policies.serving.completion import Malformed, read_completion
from bepo.policies.serving.limited_http import MOST_BYTES, proxy_of
from bepo.runs.evaluate import evaluate
from tests.chat_server import serving, status
from tests.runs.test_served import configured, only

pytestmark = pytest.mark.long
QUICK = ("policy.retries=0", "policy.timeout=1", "policy.key_env=", "evaluation.tasks=2", "evaluation.seeds=1")
GOOD = {"finish_reason": "stop", "message": {"content": "<think>so</think><action>up</action>"}}


@pytest.fixture
def server():
    with serving() as running:
        yield running


def body(**changes):
    return json.dumps({"model": "a-model", "choices": [GOOD]} | changes).encode()


def saying(content):
    return body(choices=[{"finish_reason": "stop", "message": {"content": content}}])


MALFORMED = {
    "content is a list": (saying([{"type": "text", "text": "up"}]), "content is a list"),
    "content is a number": (saying(3), "content is a number"),
    "content is an object": (saying({"text": "up"}), "content is an object"),
    "content is true": (saying(True), "content is a truth value"),
    "choices is an object": (body(choices={"0": GOOD}), "choices is an object"),
    "choices is a text": (body(choices="up"), "choices is a text"),
    "choices is null": (body(choices=None), "choices is null"),
    "no choice": (body(choices=[]), "the first of choices is null"),
    "a choice is a text": (body(choices=["up"]), "the first of choices is a text"),
    "no message": (body(choices=[{"finish_reason": "stop"}]), "message is missing"),
    "message is a list": (body(choices=[{"message": []}]), "message is a list"),
    "model is a list": (body(model=["a-model"]), "model is a list"),
    "no model": (b'{"choices": [{"message": {"content": "up"}}]}', "model is missing"),
    "a list": (b"[]", "the answer is a list"),
    "a number": (b"1e999", "the answer is a number"),
    "nothing": (b"", "not valid JSON"),
    "no text": (b"\xff\xfe\x00\x80", "not valid JSON"),
    "a stream": (b'data: {"choices": []}\n\ndata: [DONE]\n\n', "not valid JSON"),
    "a page": (b"<html>502 Bad Gateway</html>", "not valid JSON"),
    "lists nested deep": (b"[" * 200_000 + b"]" * 200_000, "not valid JSON (RecursionError)"),
    "objects nested deep": (b'{"choices":' * 100_000, "not valid JSON (RecursionError)"),
    "a number of many digits": (b'{"choices": ' + b"9" * 100_000 + b"}", "not valid JSON"),
    "an error": (b'{"error": {"message": "out of memory"}}', "out of memory"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_not_a_chat_completion_is_named(case):
    data, words = MALFORMED[case]
    with pytest.raises(Malformed) as told:
        read_completion(data)
    assert words in str(told.value) and len(str(told.value)) < 200 and str(told.value).isprintable()


@pytest.mark.parametrize("case", ["content is a list", "choices is an object", "lists nested deep", "an error"])
def test_its_episode_is_missing(case, server, tmp_path):
    data, words = MALFORMED[case]
    server.faults += [lambda handler, _: handler.send(200, data)]
    with pytest.raises(UserError) as told:
        evaluate(configured(server, tmp_path, *QUICK))
    assert "1 of 2 episodes are missing" in str(told.value) and words in str(told.value)


def test_halves_of_characters_are_replaced():
    assert read_completion(saying("up \ud800")).text == "up ?"


COUNTS = {
    "text": "many",
    "a list": [3, 4],
    "texts": {"prompt_tokens": "3", "completion_tokens": "4"},
    "negative": {"prompt_tokens": -(10**9), "completion_tokens": 4},
    "NaN": {"prompt_tokens": float("nan"), "completion_tokens": 4},
    "huge": {"prompt_tokens": 10**30, "completion_tokens": 4},
    "a truth value": {"prompt_tokens": True, "completion_tokens": True},
    "half": {"prompt_tokens": 3},
    "none": None,
}


@pytest.mark.parametrize("case", COUNTS)
def test_tokens_that_cannot_be_are_estimated(case, server, tmp_path):
    """The answer counts, and so does what it costs: neither more of the budget than it can be, nor less."""
    server.faults += [lambda handler, request: handler.complete(request, usage=COUNTS[case])]
    evaluate(configured(server, tmp_path, *QUICK, "policy.concurrency=1"))
    served = only(tmp_path).metadata["served"]
    prompt = server.bodies[0]["messages"][0]["content"]
    text = server.answer(prompt)
    others = sum(len(sent["messages"][0]["content"]) // 4 for sent in server.bodies[1:])
    assert served["estimated_usage"] == 1 and served["answers"] == len(server.bodies)
    assert served["tokens"] == {
        "prompt": others - (-len(prompt) // 3),
        "response": 7 * (len(server.bodies) - 1) - (-len(text) // 3),
    }


def headed(handler, *lines):
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + b"".join(lines))


def without_end(handler, part, pause=0.0):
    """Send a part again and again until nobody reads any more; a minute at most."""
    end = time.monotonic() + 60
    try:
        while time.monotonic() < end:
            handler.wfile.write(part)
            time.sleep(pause)
    except OSError:
        return


def drips(handler, _):
    headed(handler, b"\r\n")
    without_end(handler, b" ", 0.1)


def drips_headers(handler, _):
    headed(handler)
    without_end(handler, b"X-Y: z\r\n", 0.1)


def never_ends(handler, _):
    headed(handler, b"\r\n")
    without_end(handler, b" " * 1000, 0.001)


def is_huge(handler, _):
    headed(handler, f"Content-Length: {10 * MOST_BYTES}\r\n\r\n".encode())
    without_end(handler, b" " * (1 << 20))


def is_silent(handler, _):
    without_end(handler, b"", 0.1)


MEMBER = gzip.compress(b" " * MOST_BYTES)  # a gzip stream of several members unpacks to all of them


def unpacks_without_end(handler, _):
    head = f"Content-Encoding: gzip\r\nContent-Length: {10 * len(MEMBER)}\r\n\r\n"
    headed(handler, head.encode(), *[MEMBER] * 10)


def is_a_huge_error(handler, _):
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    without_end(handler, b" " * (1 << 20))


def redirects_for_ever(handler, _):
    handler.server.faults += [redirects_for_ever]
    handler.send(307, b"", Location="/v1/chat/completions")


HELD = {
    drips: "no whole answer within 1 seconds",
    drips_headers: "",
    never_ends: "no whole answer within 1 seconds",
    is_huge: f"more than {MOST_BYTES} bytes",
    is_silent: "no whole answer within 1 seconds",
    unpacks_without_end: "compressed (gzip)",
    is_a_huge_error: f"more than {MOST_BYTES} bytes",
    redirects_for_ever: "",
}


@pytest.mark.parametrize("fault", HELD)
def test_no_answer_holds_an_evaluation(fault, server, tmp_path):
    server.faults += [fault]
    begun = time.monotonic()
    with pytest.raises(UserError) as told:
        evaluate(configured(server, tmp_path, *QUICK, "policy.concurrency=1"))
    missing = "no episode got an answer" if fault is redirects_for_ever else "1 of 2 episodes are missing"
    assert missing in str(told.value) and HELD[fault] in str(told.value)
    assert time.monotonic() - begun < 10


def test_what_a_terminal_would_act_on_is_not_printed(server, tmp_path, capfd):
    """Neither of an error's text nor of a model's name."""
    server.faults += [
        lambda handler, _: handler.send(400, {"error": {"message": "\x1b[2J\x07\u202egone"}}),
        lambda handler, request: handler.complete(request, model="\x1b]0;a\x07other"),
    ]
    with pytest.raises(UserError) as told:
        evaluate(configured(server, tmp_path, *QUICK, "evaluation.tasks=3"))
    out, err = capfd.readouterr()
    result = only(tmp_path).metadata["result"]["missing"]
    assert sum(result.values()) == 2 and all(reason.isprintable() for reason in result)
    assert str(told.value).isprintable() and not {"\x1b", "\x07", "\u202e"} & {*out, *err}


def thinking(reason, field="reasoning_content"):
    message = {"role": "assistant", "content": None, field: "<think>so</think><action>up</action>"}
    return lambda handler, request: handler.complete(request, choices=[{"message": message, "finish_reason": reason}])


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_an_answer_of_reasoning_alone_is_named_or_read(field, server, tmp_path):
    server.faults += [thinking("stop", field)]
    with pytest.raises(UserError, match=r"1 x no content, .*policy.reasoning_as_answer=true"):
        evaluate(configured(server, tmp_path / "named", *QUICK))
    server.faults += [thinking("stop", field)]
    evaluate(configured(server, tmp_path, *QUICK, "policy.reasoning_as_answer=true", "policy.concurrency=1"))
    first = only(tmp_path).transcripts()[0]["steps"][0]
    assert first["action"] == "up" and first["valid"]


def test_answers_without_text_are_counted(server, tmp_path, capfd):
    """A model that is cut while it reasons has failed, and the line says which setting cut it."""
    server.faults += [thinking("length")]
    config = configured(server, tmp_path, *QUICK, "progress=true")
    evaluate(config)
    served = only(tmp_path).metadata["served"]
    assert served["empty_answers"] == 1
    words = f"1 of {served['answers']} answers have no text, 1 of them because of policy.max_response_length=512"
    assert words in capfd.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_this_machine_is_not_asked_through_a_proxy(host, server, tmp_path, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    url = f"policy.base_url=http://{host}:{server.server_port}/v1"
    assert evaluate(configured(server, tmp_path, *QUICK, url)) >= 0


PROXIES = {
    "http://127.0.0.1:8000/v1": None,
    "http://127.8.9.10/v1": None,
    "http://[::1]:8000/v1": None,
    "http://a.localhost/v1": None,
    "http://here.example/v1": None,
    "http://there.example/v1": "http://proxy:1",
    "https://there.example/v1": "http://secure:2",
    "http://localhost.example/v1": "http://proxy:1",
}


@pytest.mark.parametrize("url", PROXIES)
def test_the_proxy_of_the_environment_is_taken(url, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://proxy:1")
    monkeypatch.setenv("https_proxy", "secure:2")
    monkeypatch.setenv("no_proxy", "here.example")
    assert proxy_of(url) == PROXIES[url]


@pytest.mark.parametrize("proxy", ["socks9://a", "http://a:port", "::"])
def test_a_proxy_that_cannot_be_is_one_line(proxy, server, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(UserError, match=r"http_proxy="):
        evaluate(configured(server, tmp_path, *QUICK, "policy.base_url=http://there.example/v1"))


def test_a_status_that_is_not_retried_says_what_it_is(server, tmp_path):
    server.faults += [status(400)]
    with pytest.raises(UserError, match="1 x BadRequestError 400"):
        evaluate(configured(server, tmp_path, *QUICK))
