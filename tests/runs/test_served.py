"""Evaluations of a served policy, against a real server in this process."""

import base64
import io
import json
import logging
import os
import shutil
import signal
import time

import numpy as np
import pytest
from PIL import Image

from bepo.core.errors import UserError
from bepo.core.places import CONF
from bepo.runs.compose import register_configs, to_config
from bepo.runs.config import identity_of
from bepo.runs.evaluate import evaluate
from bepo.store.run_files import read_run
from bepo.store.runs import run_id
from bepo.sweep.composition import composed
from tests.chat_server import cut, filtered, foreign, malformed, overlong, serving, slow, status
from tests.command import Command

register_configs()
pytestmark = pytest.mark.long
KEY = "sk-never-to-be-written-down"
SMALL = ("env=sokoban", "env.horizon=4", "evaluation.tasks=3", "evaluation.seeds=2", "tracking.mode=disabled")


def overrides(server, results, *more):
    served = ("policy=served", "policy.model=a-model", f"policy.base_url={server.url}", f"results={results}")
    return [*SMALL, *served, *more]


def configured(server, results, *more):
    return to_config(composed(CONF, "evaluate", overrides(server, results, *more)))


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def server():
    with serving(key=KEY) as running:
        yield running


def only(results):
    (path,) = results.glob("runs/*")
    return read_run(path)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The run of a server without faults, and the number of its requests."""
    results = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch, serving(key=KEY) as server:
        patch.setenv("OPENAI_API_KEY", KEY)
        evaluate(configured(server, results))
        return only(results), len(server.bodies)


def test_a_run_says_what_was_asked_and_what_it_took(undisturbed):
    run, requests = undisturbed
    rows = run.episodes()
    assert len(rows) == 6 and {row["evaluation_seed"] for row in rows} == {0, 1}
    assert run.metadata["result"]["success"] == sum(row["success"] for row in rows) / 6
    assert sum(row["calls"] for row in rows) == requests == run.metadata["served"]["answers"]
    assert run.metadata["served"]["reported"] == {"a-model": requests}
    assert run.metadata["served"]["tokens"]["response"] == 7 * requests
    assert run.metadata["protocol"]["sampling"] == {"max_tokens": 512, "temperature": 0.4}
    transcripts = run.transcripts()
    assert [t["task"] for t in transcripts] == [row["task"] for row in rows[:3]]
    for transcript in transcripts:
        assert transcript["calls"] == len(transcript["steps"]) > 0
        assert sum(step["reward"] for step in transcript["steps"]) == pytest.approx(transcript["return"])


RETRIED = {"rate limit": status(429, Retry_After="1"), "server error": status(500), "cut": cut, "slow": slow}


@pytest.mark.parametrize("fault", RETRIED)
def test_a_request_that_fails_is_sent_again(fault, server, undisturbed, tmp_path):
    server.faults += [RETRIED[fault]]
    evaluate(configured(server, tmp_path, "policy.timeout=1.2"))
    run, requests = undisturbed
    assert only(tmp_path).episodes() == run.episodes() and len(server.bodies) == requests + 1
    if fault == "rate limit":  # half a second would be the client's own choice
        first, again, _ = (
            t for t, body in zip(server.times, server.bodies) if body == server.bodies[0]
        )  # the second pass asks too
        assert again - first >= 1


LOST = {
    "status 400": (status(400), "BadRequestError 400: Error code: 400", 0),
    "no JSON": (malformed, "not a chat completion: not valid JSON", 0),
    "another model": (foreign, "answered by another-model, not by a-model", 1),
    "filtered": (filtered, "finish_reason content_filter", 1),
}


@pytest.mark.parametrize("fault", LOST)
def test_an_error_is_never_an_action(fault, server, undisturbed, tmp_path, capsys):
    """Its episode is missing, named, and tried again by the next start, which asks for nothing else."""
    send, words, useless = LOST[fault]
    server.faults += [send]
    config = configured(server, tmp_path)
    with pytest.raises(UserError, match=r"1 of 6 episodes are missing"):
        evaluate(config)
    run, requests = undisturbed
    found = only(tmp_path)
    ((reason, count),) = found.metadata["result"]["missing"].items()
    assert words in reason and count == 1 and found.metadata["result"]["success"] is None
    assert "success" not in capsys.readouterr().out
    assert [row for row in run.episodes() if row in found.episodes()] == found.episodes()
    assert len(found.episodes()) == 5 and sum(found.metadata["served"]["useless_answers"].values()) == useless
    before = len(server.bodies)
    with pytest.raises(UserError, match="no key"):  # what is there stays, if it cannot be tried again
        evaluate(configured(server, tmp_path, "policy.key_env=NO_SUCH_KEY"))
    assert only(tmp_path).metadata == found.metadata
    evaluate(config)
    assert only(tmp_path).episodes() == run.episodes() and only(tmp_path).metadata["result"]["missing"] == {}
    assert len(server.bodies) == requests + 1 > before
    evaluate(config)
    assert len(server.bodies) == requests + 1


def too_long(words, code=None, status=400):
    return lambda handler, body: handler.send(status, {"error": {"message": words, "code": code}})


OVERLONG = {
    "vLLM": overlong,
    "OpenAI": too_long("Please shorten it.", "context_length_exceeded"),
    "llama.cpp": too_long("the request exceeds the available context size. try increasing the context size"),
    "SGLang": too_long("The input (65 tokens) is longer than the model's context length (64 tokens)."),
    "TGI": too_long("`inputs` tokens + `max_new_tokens` must be <= 64. Given: 60 `inputs` tokens", status=422),
    "Anthropic": too_long("prompt is too long: 65 tokens > 64 maximum"),
    "Gemini": too_long("The input token count (65) exceeds the maximum number of tokens allowed (64)."),
}


@pytest.mark.parametrize("endpoint", OVERLONG)
def test_a_prompt_that_exceeds_the_context_fails_its_episode(endpoint, server, undisturbed, tmp_path, capsys):
    """It stays among those that are counted: 1 of 6 here, whatever the others come to."""
    server.faults += [status(500), OVERLONG[endpoint]] if endpoint == "vLLM" else [OVERLONG[endpoint]]
    success = evaluate(configured(server, tmp_path))
    found, run = only(tmp_path), undisturbed[0]
    (row,) = [row for row in found.episodes() if row["overlong"]]
    assert row["success"] is False and row["calls"] == row["steps"] == 0
    others = [row for row in found.episodes() if not row["overlong"]]
    assert len(others) == 5 and all(row in run.episodes() for row in others)
    result, expected = found.metadata["result"], {"success": success, "updates": 0, "missing": {}, "overlong": 1}
    assert {name: result[name] for name in expected} == expected
    assert success == sum(row["success"] for row in others) / 6
    assert "1 failed because a prompt exceeded the model's context" in capsys.readouterr().out


def answered(handler, body):
    handler.complete(body)


def test_success_counts_every_episode(server, tmp_path):
    """Only the tasks that are solved are answered, as far as the context goes: not all of the tasks are solved."""
    more = ("evaluation.tasks=12", "evaluation.seeds=1", "env.horizon=1", "policy.concurrency=1")
    evaluate(configured(server, tmp_path / "all", *more))
    solved = [row["success"] for row in only(tmp_path / "all").episodes()]
    assert 0 < sum(solved) < 12
    server.faults += [answered if one else overlong for one in solved]
    assert evaluate(configured(server, tmp_path, *more)) == sum(solved) / 12


def test_the_exit_status_says_that_episodes_are_missing(server, tmp_path):
    server.faults += [malformed]
    command = Command("bepo.evaluate", *overrides(server, tmp_path))
    out, err = command.communicate()
    assert command.returncode == 2 and "1 of 6 episodes are missing" in err and "success" not in out


def test_a_context_that_holds_no_prompt_is_refused(server, tmp_path):
    server.faults += [overlong] * 6
    with pytest.raises(UserError, match=r"every first prompt exceeds .*policy.max_response_length=512"):
        evaluate(configured(server, tmp_path))
    assert not list(tmp_path.glob("runs/*/run.json"))


def stopped(server, results, number):
    """Evaluate until seven requests have come, and send a signal; returns the exit status and what was said."""
    server.pause = 0.05
    command = Command("bepo.evaluate", *overrides(server, results, "policy.concurrency=2"))
    deadline = time.monotonic() + 120
    while len(server.bodies) < 7 and time.monotonic() < deadline:
        time.sleep(0.005)
    command.send_signal(number)
    _, told = command.communicate()
    server.pause = 0
    return command.returncode, told


def test_a_killed_evaluation_goes_on_without_paying_twice(server, undisturbed, tmp_path):
    stopped(server, tmp_path, signal.SIGKILL)
    (path,) = tmp_path.glob("runs/*")
    assert not (path / "run.json").exists()
    with (path / "answers.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"request": "torn')
    evaluate(configured(server, tmp_path))
    run, requests = undisturbed
    found = only(tmp_path)
    assert found.episodes() == run.episodes() and found.metadata["served"] == run.metadata["served"] | {
        "base_url": server.url
    }
    assert requests <= len(server.bodies) <= requests + 2  # those under way at the kill
    assert len(found.metadata["sessions"]) == 2


def in_progress(server, results, number):
    """A run of which so many answers are here; returns its folder."""
    server.faults += [answered] * number + [status(401)]
    with pytest.raises(UserError, match="401"):
        evaluate(configured(server, results, "policy.concurrency=1"))
    (path,) = results.glob("runs/*")
    return path


def test_a_changed_answer_is_refused_by_its_line(server, tmp_path):
    answers = in_progress(server, tmp_path, 3) / "answers.jsonl"
    whole = answers.read_bytes()
    lines = whole.splitlines(keepends=True)
    begin = len(lines[0])
    for place in range(begin, begin + len(lines[1]), 7):
        answers.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(UserError, match=r"answers\.jsonl: line \d changed since it was written"):
            evaluate(configured(server, tmp_path))
    answers.write_bytes(whole)
    assert evaluate(configured(server, tmp_path)) >= 0


def test_answers_of_another_run_are_refused(server, tmp_path):
    """Its requests are the same: a label is no part of them."""
    answers = in_progress(server, tmp_path / "other", 3) / "answers.jsonl"
    path = in_progress(server, tmp_path, 0)
    shutil.copy(answers, path)
    assert evaluate(configured(server, tmp_path)) >= 0  # the same run, in another folder
    path = in_progress(server, tmp_path / "labelled", 0)
    shutil.rmtree(path)
    labelled = configured(server, tmp_path / "labelled", "policy.label=b")
    folder = tmp_path / "labelled" / "runs" / run_id(identity_of(labelled))
    folder.mkdir()
    shutil.copy(answers, folder)
    with pytest.raises(UserError, match=r"answers\.jsonl: line 1 changed"):
        evaluate(labelled)


def test_answers_of_before_they_had_digests_are_read(server, undisturbed, tmp_path):
    answers = in_progress(server, tmp_path, 3) / "answers.jsonl"
    old = [
        {k: v for k, v in json.loads(line).items() if k not in ("digest", "number")}
        for line in answers.read_text(encoding="utf-8").splitlines()
    ]
    answers.write_text("".join(json.dumps(row) + "\n" for row in old), encoding="utf-8")
    before = len(server.bodies)
    evaluate(configured(server, tmp_path))
    run, requests = undisturbed
    assert only(tmp_path).episodes() == run.episodes() and len(server.bodies) - before == requests - len(old)


def test_changed_rows_of_a_pass_in_progress_are_refused(server, undisturbed, tmp_path):
    """Here one of the three tasks would be solved that was not."""
    run, requests = undisturbed
    first = sum(row["calls"] for row in run.episodes() if row["evaluation_seed"] == 0)
    episodes = in_progress(server, tmp_path, first + 1) / "episodes.jsonl"
    whole = episodes.read_text(encoding="utf-8")
    assert whole.count('"success": ') == 3
    episodes.write_text(whole.replace('"success": false', '"success": true', 1), encoding="utf-8")
    with pytest.raises(UserError, match=r"episodes\.jsonl: changed since it was written"):
        evaluate(configured(server, tmp_path))
    episodes.write_text(whole + '{"evaluation_seed": 1, "torn', encoding="utf-8")
    evaluate(configured(server, tmp_path))
    assert only(tmp_path).episodes() == run.episodes()
    assert not (episodes.parent / "passes.json").exists()
    assert len(server.bodies) <= requests + 2


def test_ctrl_c_keeps_what_is_under_way_and_says_how_to_go_on(server, undisturbed, tmp_path):
    code, told = stopped(server, tmp_path, signal.SIGINT)
    assert code == 130 and "Traceback" not in told
    assert "stopping: " in told and "interrupted" in told.splitlines()[-1]
    evaluate(configured(server, tmp_path))
    run, requests = undisturbed
    assert only(tmp_path).episodes() == run.episodes() and len(server.bodies) == requests


def test_no_request_is_sent_beyond_the_budget(server, undisturbed, tmp_path):
    run, requests = undisturbed
    with pytest.raises(UserError, match=r"policy.budget_tokens=3000 is used up: \d+ tokens are paid for"):
        evaluate(configured(server, tmp_path, "policy.budget_tokens=3000"))
    sent = len(server.bodies)
    assert 0 < sent < requests
    prices = ("policy.price_prompt=1000000", "policy.price_response=2000000")
    with pytest.raises(UserError, match=r"policy\.budget_money=1 is used up"):
        evaluate(configured(server, tmp_path, *prices, "policy.budget_money=1"))
    assert len(server.bodies) == sent
    evaluate(configured(server, tmp_path, *prices, "policy.budget_money=1e9"))
    found = only(tmp_path)
    assert found.episodes() == run.episodes() and len(server.bodies) == requests
    tokens = found.metadata["served"]["tokens"]
    assert found.metadata["served"]["cost"] == tokens["prompt"] + 2 * tokens["response"]


def test_the_cost_is_estimated_before_anything_is_sent(server, tmp_path, capsys):
    with pytest.raises(UserError, match="used up: 0 tokens"):
        evaluate(configured(server, tmp_path, "policy.budget_tokens=1"))
    assert "at most 24 requests to a-model" in capsys.readouterr().out and not server.bodies


@pytest.mark.parametrize("limit", [1, 3])
def test_so_many_requests_are_under_way_at_a_time(limit, server, tmp_path):
    server.pause = 0.02
    evaluate(configured(server, tmp_path, f"policy.concurrency={limit}"))
    assert server.most_at_once <= limit


NAMES = [
    ("gpt-4o", "gpt-4o-2024-08-06", True),
    ("gpt-4o", "gpt-4o-mini", False),
    ("gemini-2.5-pro", "models/gemini-2.5-pro-preview-05-06", True),
    ("/a/folder/", "/a/folder", True),
    ("/a/folder", "/a/folder2", False),
]


@pytest.mark.parametrize("asked, reported, same", NAMES)
def test_a_version_of_a_model_is_the_model(asked, reported, same, server, tmp_path):
    server.model = reported
    config = configured(server, tmp_path, f"policy.model={asked}", "evaluation.tasks=1", "evaluation.seeds=1")
    if same:
        evaluate(config)
        assert only(tmp_path).metadata["served"]["reported"].keys() == {reported}
    else:
        with pytest.raises(UserError, match=f"no episode got an answer .answered by {reported}, not by {asked}"):
            evaluate(config)


REFUSED = {
    "no key": (["policy.key_env=NO_SUCH_KEY"], "no key in the environment variable NO_SUCH_KEY"),
    "wrong key": (["policy.key_env=WRONG_KEY"], "401"),
    "no model": (["policy.model="], "policy.model is empty"),
    "no endpoint": (["policy.base_url=http://127.0.0.1:9/v1", "policy.retries=0"], "no endpoint answers"),
    "credentials": (["policy.base_url=http://me:secret@host/v1"], "holds credentials"),
    "no URL": (["policy.base_url=here"], "http"),
    "constrained": (["policy.constrained=true"], "policy=served"),
    "no prices": (["policy.budget_money=3"], "needs policy.price_prompt"),
    "training": (["updates=2"], "policy=served: cannot be trained"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_asked_is_refused_in_one_line(case, server, tmp_path, monkeypatch):
    monkeypatch.setenv("WRONG_KEY", "sk-wrong")
    more, words = REFUSED[case]
    with pytest.raises(UserError, match=words) as caught:
        evaluate(configured(server, tmp_path, *more))
    assert "\n" not in str(caught.value) and "secret" not in str(caught.value) and "sk-wrong" not in str(caught.value)
    assert not server.bodies and not list(tmp_path.glob("runs/*/run.json"))


def test_the_key_is_in_no_file_and_no_output(server, tmp_path, capfd, caplog):
    """Not in W&B's offline files either, nor where the server repeats it."""
    caplog.set_level(logging.DEBUG)
    server.faults += [lambda handler, body: handler.send(400, {"error": {"message": f"no: {handler.headers}"}})]
    with pytest.raises(UserError, match=r"episodes are missing .*\*\*\*") as told:
        evaluate(configured(server, tmp_path, "tracking.mode=offline"))
    out, err = capfd.readouterr()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("wandb" in path.parts for path in files)
    for text in (
        out,
        err,
        str(told.value),
        caplog.text,
        *(path.read_bytes().decode(errors="replace") for path in files),
    ):
        assert KEY not in text


def test_what_changes_the_answers_is_in_the_id(server, tmp_path):
    def identifier(*more):
        return run_id(identity_of(configured(server, tmp_path, *more)))

    plain = identifier()
    how = ("concurrency=1", "retries=0", "timeout=9", "budget_tokens=9", "price_prompt=1", "key_env=OTHER")
    for text in (*how, "base_url=https://elsewhere/v1"):
        assert identifier(f"policy.{text}") == plain
    assert identifier("seed=3", "training.epochs=4", "credit=grpo", "rollout.tasks=9") == plain
    for text in ("policy.model=b", "policy.label=b", "policy.seeded=true", "+policy.extra.reasoning_effort=low"):
        assert identifier(text) != plain
    others = (
        "evaluation.temperature=0",
        "evaluation.tasks=4",
        "agent.history_length=0",
        "policy.max_response_length=9",
    )
    for text in (*others, "prompting.profile=original"):
        assert identifier(text) != plain


def test_pictures_and_further_fields_are_sent(server, tmp_path):
    more = ["env.observation=rgb", "policy.seeded=true", "+policy.extra={reasoning_effort: low, max_tokens: null}"]
    config = configured(server, tmp_path, *more)
    evaluate(config)
    body = server.bodies[0]
    assert body["reasoning_effort"] == "low" and "max_tokens" not in body and body["seed"] >= 0
    before, picture, after = body["messages"][0]["content"]
    data = picture["image_url"]["url"].removeprefix("data:image/png;base64,")
    seen = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
    tasks = json.loads(next(tmp_path.glob("task_sets/*test*")).read_text(encoding="utf-8"))["tasks"]
    shown = [config.env.start([type_of(task)]).observations[0].image for task in tasks]
    assert any(np.array_equal(seen, image) for image in shown)
    assert "<image>" not in before["text"] + after["text"]
    assert len({json.dumps(b["messages"]) + str(b["seed"]) for b in server.bodies}) == len(server.bodies)


def type_of(task):
    from bepo.envs import Task

    return Task(**task)


def test_help_needs_no_client():
    command = Command("bepo.evaluate", "policy=served", "--help")
    out, _ = command.communicate()
    assert command.returncode == 0 and "key_env: OPENAI_API_KEY" in out and os.environ["OPENAI_API_KEY"] not in out
