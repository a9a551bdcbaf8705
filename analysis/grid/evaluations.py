"""Notes on rows that were evaluated without training: the prompting protocol of each."""

from collections.abc import Iterable, Iterator, Mapping
from statistics import fmean, pstdev, stdev
from typing import Any

from analysis.data.methods import environment_name
from analysis.data.runs import Run
from analysis.grid.parts import Line
from bepo.rollouts.agent import Agent

AFTER = (1, 2, 3, 5, 10)
"""The numbers of trials after which the success of Reflexion is reported."""


def of_evaluations(lines: Iterable[Line]) -> Iterator[str]:
    """Yield a paragraph for each run without training in the lines."""
    for line in lines:
        runs = {run.id: run for entry in line.entries for run in entry.runs if run.is_evaluation}
        for run in sorted(runs.values(), key=lambda run: (run.env, run.id)):
            yield f"{line.name} ({environment_name(run.env)}, {run.model}): {'; '.join(_facts(run))}."


def _facts(run: Run) -> Iterator[str]:
    """Yield the protocol of a run, the spread of its passes, and the reasons of early failures."""
    if protocol := run.metadata.get("protocol"):
        yield from _asked(protocol, run.metadata["served"])
    else:
        if run.config["policy"].get("warm_start"):
            tiny = run.config["policy"]["name"].startswith("tiny")
            yield f"imitation only: a {'tiny' if tiny else 'pretrained'} model after its warm start"
        yield from _asked_here(run.config)
    passes = run.passes().to_numpy(float).mean(axis=1).tolist()
    if len(passes) > 1:
        spread = f"deviation {stdev(passes):.2f} as of a sample, {pstdev(passes):.2f} as of a population"
        yield f"success {fmean(passes):.1f} over {len(passes)} passes, {spread}"
    if "solved_at" in run.final:
        at = run.final["solved_at"].to_numpy(float)
        trials = int(run["prompting.trials"] or run.config["prompting"]["trials"])
        shares = ", ".join(f"{100 * float((at <= n).mean()):.1f} after {n}" for n in AFTER if n <= trials)
        yield f"success by number of trials: {shares}"
    if overlong := run.metadata["result"].get("overlong"):
        yield f"{overlong} of {len(run.final)} episodes failed because a prompt exceeded the model's context"


def _asked_here(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the protocol of a policy that runs in this process: that of the training agent."""
    agent, policy, evaluation = config["agent"], config["policy"], config["evaluation"]
    shown = "steps" if agent["history_observations"] else "actions"
    yield f"shows {agent['history_length']} {shown}, {'' if Agent(**agent).shows_actions else 'no '}admissible actions"
    yield "samples admissible actions only" if policy["constrained"] else "samples any words"
    yield "thoughts do not take a step"
    yield f"split {config['env'].get('test_split', 'test')}, system prompt none"
    sampling = {name: evaluation[name] for name in ("temperature", "top_p", "top_k")}
    sampling |= {"max_tokens": policy["max_response_length"]}
    yield f"sampling {', '.join(f'{name} {value}' for name, value in sampling.items())}"
    yield f"chat template the checkpoint's, model {policy.get('path') or policy['name']}"


def _asked(protocol: dict[str, Any], served: dict[str, Any]) -> Iterator[str]:
    yield f"protocol {protocol['profile']}, {protocol['responses']} responses at most"
    yield f"shows {protocol['history']}, {'' if protocol['admissible'] else 'no '}admissible actions"
    yield "a thought takes a step" if protocol["thought_takes_step"] else "thoughts do not take a step"
    yield f"split {protocol['split']}, system prompt {protocol['system_prompt']}"
    yield f"sampling {', '.join(f'{name} {value}' for name, value in protocol['sampling'].items())}"
    reported = ", ".join(served["reported"])
    yield f"chat template {protocol['chat_template']}, model {served['model']} (reported {reported})"
