"""Rows that were evaluated without training, in the tables."""

import pytest

import bepo
from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.output.ledger import ledger
from bepo.explore.index import summary, whole_episodes
from bepo.store.json_files import read_object
from bepo.store.run_files import read_run
from bepo.store.runs import RunFolder
from tests.chat_server import overlong, serving
from tests.command import Command
from tests.stored_runs import rewrite, write_run
from tests.tables import artefact_of

KINDS = ("pick_and_place_simple", "look_at_obj_in_light")
SERVED = {"model": "gpt-4o-2024-08-06", "reported": {"gpt-4o-2024-08-06": 9}}
PROTOCOL = {
    "profile": "table",
    "responses": 50,
    "history": "2 steps",
    "admissible": True,
    "thought_takes_step": False,
    "split": "valid_seen",
    "system_prompt": "none",
    "sampling": {"temperature": 0.4, "max_tokens": 512},
    "chat_template": "the endpoint's",
}


def write_evaluation(results, settings, passes, missing=(), solved_at=None, **facts):
    """A stored evaluation: ``missing`` are (pass, task) that the endpoint did not answer."""
    settings = {"env.name": "alfworld", "prompting.method": "direct", "prompting.profile": "table", **settings}
    folder = write_run(results, "prompting", settings, passes, kinds=KINDS, tier=facts.pop("tier", "paper"))
    rows = [row | {"update": 0} for row in folder.rows("episodes") if row["split"] == "test" and row["update"] == 2]
    rows = [row for row in rows if (row["evaluation_seed"], row["task"]) not in missing]
    for row, trial in zip(rows, solved_at or ()):
        row["solved_at"] = trial
    folder.rewrite("metrics", [])
    folder.rewrite("episodes", rows)
    count = {"RateLimitError 429": len(missing)} if missing else {}
    result = {"success": 0.5, "updates": 0, "missing": count}
    kept = read_object(folder.path / "run.json", "run file")
    (folder.path / "run.json").unlink()
    kept = {k: v for k, v in kept.items() if k not in ("digest", "files", "format_version", "run_id")}
    RunFolder(results, folder.id).complete(kept | {"result": result} | facts)
    return folder


def table(results, tier="paper"):
    return artefact_of(results, "main-results", tier)


def entry(found, path):
    return {entry.path: entry for entry in found.entries}[f"main-results/ALFWorld/All/{path}"]


def notes(found):
    return "\n".join(found.notes)


CLOSED = {"model": "closed", "policy.name": "served", "policy.model": "gpt-4o-2024-08-06"}


def test_rows_are_those_of_the_paper(tmp_path):
    write_evaluation(tmp_path, CLOSED, ((1, 0), (1, 1)), protocol=PROTOCOL, served=SERVED)
    for model, passes in (("small", ((0, 0),)), ("large", ((1, 1),))):
        for method in ("direct", "react", "reflexion"):
            settings = {"model": model, "policy.name": "vllm", "policy.path": "Qwen", "prompting.method": method}
            write_evaluation(tmp_path, settings, passes, protocol=PROTOCOL, served=SERVED)
    found = table(tmp_path)
    assert entry(found, "GPT-4o/closed").reproduced.mean == 75
    for name in ("Qwen2.5", "ReAct", "Reflexion"):
        assert entry(found, f"{name}/1.5B").reproduced.mean == 0 and entry(found, f"{name}/7B").reproduced.mean == 100
    assert not any(study.skipped for study in artefacts()["main-results"].load(Source(tmp_path), "paper").values())
    (text,) = [note for note in found.notes if note.startswith("GPT-4o (")]
    for words in ("temperature 0.4", "2 steps", "valid_seen", "system prompt none", "thoughts do not take a step"):
        assert words in text
    assert "deviation 35.36 as of a sample, 25.00 as of a population" in text
    assert "reported gpt-4o-2024-08-06" in text


def test_another_closed_model_is_a_row_of_its_own(tmp_path):
    mini = CLOSED | {"policy.model": "gpt-4o-mini"}
    write_evaluation(tmp_path, mini, ((1, 0),), protocol=PROTOCOL, served=SERVED)
    found = table(tmp_path)
    assert entry(found, "GPT-4o/closed").reproduced is None
    assert entry(found, "gpt-4o-mini/closed").reproduced.mean == 50


def test_the_original_protocol_is_a_row_of_its_own(tmp_path):
    asked = {"model": "small", "policy.name": "vllm", "prompting.method": "react"}
    write_evaluation(tmp_path, asked, ((1, 0),), protocol=PROTOCOL, served=SERVED)
    write_evaluation(tmp_path, asked | {"prompting.profile": "original"}, ((1, 1),), protocol=PROTOCOL, served=SERVED)
    found = table(tmp_path)
    assert entry(found, "ReAct/1.5B").reproduced.mean == 50
    assert entry(found, "ReAct, its own protocol/1.5B").reproduced.mean == 100


def test_no_reader_states_a_rate_where_episodes_are_missing(tmp_path):
    """Here the other three come to 2 of 3; all four would come to 2, 3 or 4 of 4."""
    run = write_evaluation(tmp_path, CLOSED, ((1, 0), (1, 1)), missing={(1, "t0")}, protocol=PROTOCOL, served=SERVED)
    item = artefacts()["main-results"]
    studies = item.load(Source(tmp_path), "paper")
    assert entry(item.build(studies), "GPT-4o/closed").reproduced is None
    (why,) = {line for study in studies.values() for line in study.skipped if run.id in line}
    assert "1 of 4 episodes are missing (1 x RateLimitError 429)" in why
    (row,) = ledger(tmp_path).to_dict("records")
    assert row["status"] == "partial 0/?" and row["success"] is None
    (loaded,) = bepo.load(str(run.path)).runs.to_dict("records")
    assert loaded["status"] == "partial" and loaded["success"] is None
    stored = read_run(run.path)
    assert summary(stored, [])["success"] is None and whole_episodes(stored) == []


def test_overlong_episodes_are_counted_under_the_table(tmp_path):
    result = {"success": 0.75, "updates": 0, "missing": {}, "overlong": 1}
    write_evaluation(tmp_path, CLOSED, ((1, 0), (1, 1)), protocol=PROTOCOL, served=SERVED, result=result)
    found = table(tmp_path)
    assert entry(found, "GPT-4o/closed").reproduced.mean == 75
    assert "1 of 4 episodes failed because a prompt exceeded the model's context" in notes(found)


def test_reflexion_is_never_one_number(tmp_path):
    asked = {"model": "small", "policy.name": "vllm", "prompting.method": "reflexion", "prompting.trials": 10}
    write_evaluation(tmp_path, asked, ((1, 1), (1, 0)), solved_at=[1, 3, 4, None], protocol=PROTOCOL, served=SERVED)
    expected = "success by number of trials: 25.0 after 1, 25.0 after 2, 50.0 after 3, 75.0 after 5, 75.0 after 10"
    assert expected in notes(table(tmp_path))


SHORT = ("evaluation.tasks=2", "tracking.mode=disabled", "progress=false")


def evaluated(results, *overrides):
    """A real evaluation, as from a shell."""
    command = Command("bepo.evaluate", *SHORT, f"results={results}", *overrides)
    _, err = command.communicate()
    assert command.returncode == 0, err


@pytest.mark.slow
def test_a_tiny_model_imitates_and_knows_no_language(tmp_path):
    warm_start = ("policy.warm_start.episodes=4", "policy.warm_start.max_steps=1", "policy.warm_start.check_every=1")
    small = ("env=alfworld", "env.horizon=3", "rollout.train_tasks=8", "evaluation.seeds=2", "+study.name=prompting")
    evaluated(tmp_path, *small, *warm_start)
    found = table(tmp_path, "smoke")
    assert entry(found, "Qwen2.5/1.5B").reproduced is not None
    (text,) = [note for note in found.notes if note.startswith("Qwen2.5 (")]
    for words in ("imitation only", "2 steps, no admissible", "samples admissible actions only", "split valid_seen"):
        assert words in text
    for words in ("system prompt none", "temperature 0.4", "max_tokens 10", "model tiny", "as of a population"):
        assert words in text
    last = {row[1].text: row[-1].text for row in found.rows if row[2].text == "reported"}
    assert last["ReActᶜʳ"] == last["Reflexionᶜʳ"] == last["GPT-4oᶜ"] == ""
    assert "Does not apply to models without language at tier smoke: ReAct (1.5B, 7B), Reflexion" in notes(found)
    assert "Not run at tier smoke: GPT-4o (closed), " in notes(found)


@pytest.mark.slow
def test_a_served_model_fills_its_row(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    with serving(key="a-key") as server:
        server.model = "gpt-4o-2024-08-06"
        server.faults += [overlong]
        asked = (
            "policy=gpt_4o",
            f"policy.base_url={server.url}",
            "env=webshop",
            "env.data=generated",
            "env.products=60",
        )
        evaluated(tmp_path, "tier=paper", "env.horizon=2", "evaluation.seeds=1", "+study.name=prompting_closed", *asked)
    found = table(tmp_path)
    assert {e.path: e for e in found.entries}["main-results/WebShop/Succ./GPT-4o/closed"].reproduced.mean == 0
    (text,) = [note for note in found.notes if note.startswith("GPT-4o (")]
    for words in ("shows 2 steps, admissible actions", "temperature 0.4", "reported gpt-4o-2024-08-06"):
        assert words in text
    assert "1 of 2 episodes failed because a prompt exceeded the model's context" in text


def test_passes_that_lack_episodes_without_a_reason_are_no_passes(tmp_path):
    run = write_evaluation(tmp_path, CLOSED, ((1, 0), (1, 1)), missing={(1, "t0")}, protocol=PROTOCOL, served=SERVED)
    rewrite(run.path, lambda facts: facts["result"].pop("missing"))
    assert entry(table(tmp_path), "GPT-4o/closed").reproduced is None
