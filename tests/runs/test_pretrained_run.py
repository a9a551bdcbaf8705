"""A run of pretrained weights with adapters, through the real command. The weights are tiny and random."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir

import bepo
from bepo.core.errors import UserError
from bepo.core.places import CONF
from bepo.runs.compose import register_configs, to_config
from bepo.runs.config import Config
from bepo.store.files import digest, digest_of_file
from bepo.store.run_files import read_run
from tests.command import SMALLEST, launch, rows, run, stop_after
from tests.pretrained import save_tiny

pytestmark = pytest.mark.slow  # these train


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """Overrides of a run at tier desktop whose weights are those of a tiny model."""
    folder = save_tiny(tmp_path_factory.mktemp("weights"))
    return (
        *(word for word in SMALLEST if not word.startswith("policy.")),
        "tier=desktop",
        "env.min_solution=1",
        "updates=5",
        "checkpoint_every=1",
        "policy=pretrained",
        f"policy.path={folder}",
        "policy.constrained=true",
        "policy.lora.rank=4",
        "policy.lora.layers=1",
        "+policy.warm_start={target_success: 1, episodes: 8, max_steps: 4, check_every: 2, batch_size: 8}",
        "agent.style=brief",
        "agent.history_length=0",
        "training.learning_rate=1e-2",
    )


@pytest.fixture(scope="module")
def whole(settings, tmp_path_factory):
    results = tmp_path_factory.mktemp("whole")
    code, _, err = run(*settings, f"results={results}")
    assert code == 0, err
    (path,) = results.glob("runs/*")
    return results, read_run(path)


def test_a_killed_run_continues_with_the_same_numbers(settings, whole, tmp_path):
    process = launch(*settings, f"results={tmp_path}")
    stop_after(process, tmp_path, 2, signal.SIGKILL)
    process.communicate()
    code, _, err = run(*settings, f"results={tmp_path}")
    assert code == 0, err
    assert rows(tmp_path, "metrics") == rows(whole[0], "metrics")
    assert rows(tmp_path, "episodes") == rows(whole[0], "episodes")
    assert all(row["train/kl"] > 0 for row in rows(tmp_path, "metrics")[1:])


def test_the_warm_start_and_the_policy_are_folders_of_peft(settings, whole):
    results, stored = whole
    (start_folder,) = [folder for folder in (results / "warm_starts").iterdir() if folder.is_dir()]
    for folder in (start_folder, stored.policy()):
        files = {file.name for file in folder.iterdir()}
        assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"} <= files
        assert "model.safetensors" not in files
    sealed = json.loads((start_folder / "warm_start.json").read_text(encoding="utf-8"))
    assert [row["step"] for row in sealed["curve"]] == [2, 4]
    files = sorted(Path(stored.config["policy"]["path"]).iterdir())
    assert sealed["weights"] == digest("\n".join(map(digest_of_file, files))) == stored.metadata["weights"]["digest"]


def test_a_run_is_evaluated_with_its_adapters(whole):
    results, stored = whole
    found = bepo.evaluate(run=stored.id, results=str(results))
    last = [row["success"] for row in stored.rows("episodes") if row["update"] == 5 and row["split"] == "test"]
    assert found.episodes.success.mean() == pytest.approx(np.mean(last))


def test_adapters_on_other_weights_are_refused(whole):
    results, stored = whole
    (weights,) = Path(stored.config["policy"]["path"]).glob("*.safetensors")
    before = weights.read_bytes()
    try:
        weights.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        with pytest.raises(UserError, match=f"run={stored.id}: its adapters were trained on other weights"):
            bepo.evaluate("evaluation.seeds=3", run=stored.id, results=str(results))
    finally:
        weights.write_bytes(before)


def composed(overrides: list[str]) -> Config:
    register_configs()
    with initialize_config_dir(str(CONF)):
        return to_config(compose("train", overrides))


@pytest.mark.parametrize("policy", ["smollm2", "served", "vllm", "tiny"])
def test_other_policies_take_the_environment_of_tier_desktop(policy):
    config = composed(["tier=desktop", "env=alfworld", f"policy={policy}", "updates=0"])
    assert config.env.horizon == 20 and config.agent.list_actions


def test_alfworld_at_tier_desktop_lists_no_actions_and_shows_the_last_three(settings, tmp_path):
    of_sokoban = ("env.", "agent.history_length", "updates", "+policy.warm_start")
    preset = composed(["tier=desktop", "env=alfworld"]).agent
    words = (
        f"agent.{name}={getattr(preset, name)}" for name in ("list_actions", "history_length", "history_observations")
    )
    own = ("env=alfworld", "env.horizon=6", "updates=1", f"results={tmp_path}", *words)
    code, _, err = run(*(word for word in settings if not word.startswith(of_sokoban)), *own)
    assert code == 0, err
    (path,) = tmp_path.glob("runs/*")
    steps = read_run(path).transcripts()[0]["steps"]
    prompts = [step["prompt"] for step in steps]
    assert [prompt.count("Before: ") for prompt in prompts] == [min(number, 3) for number in range(len(prompts))]
    assert all("Actions: " not in prompt and step["valid"] for prompt, step in zip(prompts, steps))
