"""An episode as text for the terminal: observations, responses, actions, and every estimator's advantages."""

from __future__ import annotations

from collections.abc import Iterator

from bepo.core.errors import UserError
from bepo.explore.compare import first_difference, pairs
from bepo.explore.episodes import EpisodeGroup, episodes
from bepo.explore.groups import Plain
from bepo.explore.index import check_comparable
from bepo.explore.names import label_of
from bepo.store.run_files import StoredRun

_INDENT = "    "


def transcript(run: StoredRun, source: str | None, number: int) -> Iterator[str]:
    """Yield the lines of one episode.

    ``source`` is ``test episodes`` or ``update 50`` (None: the first of the run). ``number`` counts from 1, as on the
    page. Raises ``UserError`` if the episode does not exist.
    """
    every = list(episodes(run))
    sources = list(dict.fromkeys(group.source for group in every))
    if not sources:
        raise UserError(f"run {run.id}: has no rollouts and no transcripts, so no episode can be shown")
    source = source or sources[0]
    if source not in sources:
        raise UserError(f"--from {source!r}: run {run.id} has no such episodes; choices: {', '.join(sources)}")
    members = [(group, m) for group in every if group.source == source for m in range(len(group.summaries))]
    if not 1 <= number <= len(members):
        raise UserError(f"--episode {number}: {source} of run {run.id} has episodes 1 to {len(members)}")
    group, member = members[number - 1]
    config = run.config
    yield f"run {run.id}: {label_of(config['credit'])} on {config['env']['name']}, seed {config['seed']}"
    yield from _episode(group, member, f"{source}, episode {number} of {len(members)}")


def _episode(group: EpisodeGroup, member: int, title: str) -> Iterator[str]:
    summary, episode, texts = group.summaries[member], group.content["episodes"][member], group.content["texts"]
    kind = f" ({summary['kind']})" if summary["kind"] else ""
    yield f"{title}, task {summary['task']}{kind}"
    first = sum(len(earlier["action"]) for earlier in group.content["episodes"][:member])
    for t in range(len(episode["action"])):
        yield f"\n--- step {t + 1}"
        yield from (_INDENT + line for line in texts[episode["observation"][t]].splitlines())
        if "response" in episode:
            yield f"response: {texts[episode['response'][t]]}"
        yield f"action:   {_action(episode, texts, t)}   reward {episode['reward'][t]:g}"
        if group.content["strips"]:
            shown = (f"{strip['label']} {strip['advantage'][first + t]:+.2f}" for strip in group.content["strips"])
            yield f"credit:   {', '.join(shown)}"
    yield f"\n{summary['end']}: return {summary['return']:g}, score {summary['score']:g}, {summary['steps']} steps"


def _action(episode: Plain, texts: list[str], t: int) -> str:
    action = "(no action)" if episode["action"][t] is None else texts[episode["action"][t]]
    return action if episode["valid"][t] else f"{action} (invalid)"


def comparison(a: StoredRun, b: StoredRun) -> Iterator[str]:
    """Yield a line for each test task of both runs: which run solved it, and the first step at which they differ.

    Raises ``UserError`` if the runs have no task in common.
    """
    check_comparable(a, b)
    left, right = a.transcripts(), b.transcripts()
    counts = {"both": 0, "only A": 0, "only B": 0, "neither": 0}
    for name, run in (("A", a), ("B", b)):
        yield f"{name}: run {run.id}, {label_of(run.config['credit'])} seed {run.config['seed']}"
    for i, j in pairs(left, right):
        solved = bool(left[i]["success"]), bool(right[j]["success"])
        who = {(True, True): "both", (True, False): "only A", (False, True): "only B"}.get(solved, "neither")
        counts[who] += 1
        t = first_difference(left[i], right[j])
        where = "equal" if t is None else f"step {t + 1}: {_at(left[i], t)} / {_at(right[j], t)}"
        yield f"{left[i]['task']}  {who:8} {where}"
    yield ", ".join(f"{name} solved {n}" if name != "neither" else f"neither {n}" for name, n in counts.items())


def _at(row: Plain, t: int) -> str:
    return str(row["steps"][t]["action"]) if t < len(row["steps"]) else "ended"
