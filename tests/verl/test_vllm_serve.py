"""``policy=vllm`` with the real ``vllm serve``, vLLM's CPU build, and the tiny model as a checkpoint."""

import signal
import time

import pytest

from bepo.envs.sokoban import Sokoban
from bepo.policies.tiny import Tiny
from bepo.rollouts.agent import Agent
from tests.verl.command import SLOW, Command, only_run

pytestmark = pytest.mark.timeout(300 * SLOW)
ENV, AGENT = Sokoban(horizon=4), Agent(style="compact", history_observations=False)
LENGTHS = ("policy.max_prompt_length=128", "policy.max_response_length=2")
GREEDY = (
    "env.horizon=4",
    "agent.style=compact",
    "agent.history_observations=false",
    "evaluation.temperature=0.01",
    "evaluation.tasks=4",
    "evaluation.seeds=1",
    "tracking.mode=disabled",
)
SERVER = ["--enforce-eager", "--dtype=float32", "--distributed-executor-backend=uni"]  # it starts sooner


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A folder as transformers writes it: weights, config, tokenizer and chat template."""
    folder = tmp_path_factory.mktemp("checkpoint")
    tiny = Tiny(num_attention_heads=2, num_hidden_layers=1, initializer_range=0.5)
    tiny.build(ENV, AGENT, "cpu").save(folder)
    return folder


def evaluation(results, checkpoint, policy, *more):
    settings = (f"policy={policy}", f"policy.path={checkpoint}", *LENGTHS, *GREEDY, f"results={results}")
    return Command(*settings, *more, module="bepo.evaluate")


def served(results, checkpoint, *more):
    arguments = ",".join(f'"{argument}"' for argument in SERVER)
    return evaluation(results, checkpoint, "vllm", f"policy.arguments=[{arguments}]", *more)


@pytest.fixture(scope="module")
def evaluations(checkpoint, tmp_path_factory):
    """An evaluation, and one beside it that is killed in the middle; the processes that this one had started."""
    whole, cut = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("cut")
    first = served(whole, checkpoint)
    second = served(cut, checkpoint, "policy.concurrency=1", "evaluation.tasks=500")
    while second.process.poll() is None and not answers(cut):
        time.sleep(0.05)
    servers = [process for process in second.processes() if process.pid != second.process.pid]
    second.process.send_signal(signal.SIGKILL)
    killed = second.wait(60)
    return {"whole": (whole, first.wait(240)), "killed": (cut, killed, servers)}


def answers(results):
    return [
        line for path in results.glob("runs/*/answers.jsonl") for line in path.read_text(encoding="utf-8").splitlines()
    ]


def responses(results):
    return [step["response"].split() for episode in only_run(results).transcripts() for step in episode["steps"]]


def test_the_server_answers_as_the_model_does_and_is_stopped(evaluations, checkpoint, tmp_path):
    results, done = evaluations["whole"]
    assert done.code == 0 and done.orphans == [], done.err[-2000:]
    here = evaluation(tmp_path, checkpoint, "pretrained").wait(120)
    assert here.code == 0, here.err[-2000:]
    found = responses(results)
    assert found == responses(tmp_path) and len({" ".join(words) for words in found}) > 1
    facts = only_run(results).metadata["served"]
    assert facts["reported"] == {str(checkpoint): len(found)} and facts["tokens"]["prompt"] > 20 * len(found)


def test_a_killed_evaluation_leaves_no_server(evaluations):
    results, killed, servers = evaluations["killed"]
    assert killed.code == -signal.SIGKILL and len(servers) > 1 and killed.orphans == []
    assert answers(results) and not list(results.glob("runs/*/run.json"))


def test_a_prompt_that_exceeds_the_context_ends_the_same_episodes_as_in_this_process(checkpoint, tmp_path, monkeypatch):
    """Only the first prompts fit, of 40 tokens; and the server on this machine is not looked for at a proxy."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    short, found = "policy.max_prompt_length=40", []
    there, here = tmp_path / "there", tmp_path / "here"
    for results, command in (
        (there, served(there, checkpoint, short)),
        (here, evaluation(here, checkpoint, "pretrained", short)),
    ):
        done = command.wait(240)
        assert done.code == 0, done.err[-2000:]
        run = only_run(results)
        assert run.metadata["result"]["overlong"] > 0
        found.append([(row["task"], row["success"], row["steps"], row.get("overlong")) for row in run.episodes()])
    assert found[0] == [(*row, bool(cut)) for *row, cut in found[1]]
