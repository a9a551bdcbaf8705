"""The player of evaluation episodes with a served policy."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from importlib.metadata import version
from typing import Any

from bepo.core.phases import note
from bepo.policies.serving.endpoint import Endpoint, prompt_tokens
from bepo.rollouts.prompting.chat import Request
from bepo.rollouts.prompting.episodes import Episode, PromptedPass, episode_row, transcripts_of
from bepo.rollouts.task_sets import TaskSet
from bepo.runs.config import Config
from bepo.runs.players import Pass
from bepo.store.answers import ANSWERS, Answers
from bepo.store.runs import RunFolder


class ServedPlayer:
    """Plays with a served policy. See ``bepo.runs.players.Player`` for the methods."""

    def __init__(self, config: Config, folder: RunFolder) -> None:
        """Connect to the endpoint. Raises ``UserError`` without a model, a key or an endpoint."""
        self._config, self._open = config, ExitStack()
        try:
            url = self._open.enter_context(config.policy.endpoint(folder.path))
            self._endpoint = Endpoint(config.policy, url, Answers(folder.path / ANSWERS, folder.id))
            self._open.callback(self._endpoint.close)
            self._endpoint.check()
        except BaseException:
            self._open.close()
            raise
        asked, sampling = config.prompting, config.evaluation
        stop = ("\n",) if asked.stop_at_newline else () if asked.method == "direct" else ("Observation:",)
        self._template = Request(
            place="",
            prompt="",
            max_tokens=config.policy.max_response_length,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            stop=stop,
        )
        self._pass = PromptedPass(config.env, config.agent, asked, self._endpoint, self._template)

    def estimate(self, tasks: TaskSet) -> str:
        """Return the largest number of requests of an evaluation and their estimated cost, in words."""
        requests = len(tasks) * self._config.evaluation.seeds * self._pass.requests
        first = [prompt_tokens(self._request(prompt)) for prompt in self._pass.first_prompts(tasks.tasks)]
        prompt, response = requests * sum(first) / len(first), requests * self._template.max_tokens
        cost = self._endpoint.cost(prompt, response)
        price = "no prices are set" if cost is None else f"{cost:.2f} in money"
        paid = sum(self._endpoint.answers.tokens())
        return (
            f"at most {requests:,} requests to {self._config.policy.served_model}: {prompt:,.0f} prompt tokens if all "
            f"prompts are as long as the first ones, at most {response:,.0f} response tokens, {price}; "
            f"{len(self._endpoint.answers.rows):,} answers ({paid:,} tokens) are stored already"
        )

    def play(self, tasks: TaskSet, seed: int) -> Pass:
        """Play one episode of each task; an episode without an answer is missing."""
        episodes = self._pass.play(tasks, seed)
        self._note_empty_answers()

        def row_of(episode: Episode) -> dict[str, Any]:
            return episode_row(episode, tasks.split, seed, self._pass.trials)

        rows = [row_of(episode) for episode in episodes if not episode.missing]
        missing = Counter(episode.missing for episode in episodes if episode.missing)
        return Pass(rows, transcripts_of(episodes, row_of), missing)

    def _note_empty_answers(self) -> None:
        """Report how many answers have no text. They count as invalid actions."""
        answers = [row for row in self._endpoint.answers.rows if "text" in row]
        empty = [row for row in answers if not row["text"]]
        if empty:
            cut = sum(row["finish_reason"] == "length" for row in empty)
            limit = f"policy.max_response_length={self._template.max_tokens}"
            note(f"{len(empty)} of {len(answers)} answers have no text, {cut} of them because of {limit}")

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata for ``run.json``: the endpoint, the models that it reported, what was sent, and its cost."""
        rows = self._endpoint.answers.rows
        prompt, response = self._endpoint.answers.tokens()
        return {
            "backend": "served",
            "device": "endpoint",
            "world_size": 0,
            "versions": {name: version(name) for name in ("openai", "numpy", "hydra-core", "wandb")},
            "served": {
                "base_url": self._endpoint.base_url,
                "model": self._config.policy.served_model,
                "reported": dict(Counter(row["model"] for row in rows if "text" in row)),
                "fingerprints": dict(Counter(str(row["fingerprint"]) for row in rows if "text" in row)),
                "answers": sum("text" in row for row in rows),
                "empty_answers": sum(row.get("text") == "" for row in rows),
                "estimated_usage": sum("estimated" in row["usage"] for row in rows),
                "useless_answers": dict(Counter(row["error"] for row in rows if "error" in row)),
                "tokens": {"prompt": prompt, "response": response},
                "cost": self._endpoint.cost(prompt, response),
            },
            "protocol": self._protocol(),
        }

    def _protocol(self) -> dict[str, Any]:
        """Return the prompting of the policy, in the words of a table."""
        asked, agent, direct = self._config.prompting, self._config.agent, self._config.prompting.method == "direct"
        sent = self._endpoint.body(self._request(""))
        shown = "steps" if agent.history_observations else "actions"
        return {
            "method": asked.method,
            "profile": asked.profile,
            "history": f"{agent.history_length} {shown}" if direct else "whole episode",
            "admissible": agent.shows_actions if direct else asked.admissible,
            "thought_takes_step": not direct and asked.thoughts == "own_step",
            "split": vars(self._config.env).get("test_split", "test"),
            "system_prompt": "none",
            "chat_template": "the endpoint's" if self._config.policy.weights is None else "the checkpoint's",
            "sampling": {name: value for name, value in sent.items() if name not in ("messages", "model")},
            "responses": self._pass.calls,
            "trials": self._pass.trials,
        }

    def _request(self, prompt: str) -> Request:
        return Request(**{**vars(self._template), "prompt": prompt})

    def close(self) -> None:
        """Close the connections, and end the server if one was started."""
        self._open.close()
