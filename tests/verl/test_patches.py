"""The functions of verl that the project uses beyond its public interface have not changed.

A test that fails here names the functions that another version of verl has changed. Read each again beside what uses it
(``bepo/training/verl/patches.py``, ``trainer.py``, ``agent_loop.py``), then write its new digest down.
"""

import ast
import hashlib
import inspect
from importlib.metadata import version
from pathlib import Path

import pytest
import verl
from bepo_verl_cpu import platform
from ray.runtime_context import RuntimeContext
from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

from bepo.envs.sokoban import Sokoban
from bepo.policies.tiny_vl import TinyVL
from bepo.rollouts.agent import Agent
from bepo.training.verl import patches, trainer
from bepo.training.verl.lifetime import MARK
from bepo.training.verl.machine import NEEDED

FOLDER = Path(verl.__path__[0])
REACHES = {  # file of verl, function -> the first digits of the SHA-256 of its source
    ("trainer/ppo/v1/trainer_base.py", "PPOTrainer.init"): "05e8f13d662d",
    ("trainer/ppo/v1/trainer_base.py", "PPOTrainer._init_dataloader"): "408844c11e0c",
    ("trainer/ppo/v1/trainer_base.py", "PPOTrainer.on_init_end"): "351bd36c9425",
    ("trainer/ppo/v1/trainer_base.py", "PPOTrainer.get_llm_client"): "045c3a1c321e",
    ("trainer/ppo/v1/trainer_base.py", "PPOTrainer._balance_batch"): "a75e85a91778",
    ("trainer/ppo/v1/trainer_base.py", "PPOTrainer._get_required_batch_multiple"): "9e9322b25a2a",
    ("trainer/ppo/v1/trainer_base.py", "PPOTrainer._compute_old_log_prob"): "83f5ebb52f22",
    ("trainer/ppo/v1/trainer_base.py", "PPOTrainer._compute_ref_log_prob"): "78f6630e855f",
    ("trainer/ppo/v1/trainer_base.py", "PPOTrainer._compute_values"): "1e3a1b65f940",
    ("trainer/ppo/v1/trainer_base.py", "PPOTrainer._update_critic"): "a0f6143d26bb",
    ("trainer/ppo/v1/trainer_base.py", "PPOTrainer._update_actor"): "82879aeff227",
    ("trainer/ppo/v1/replay_buffer.py", "ReplayBuffer._wait_for_next_poll"): "daeb02f4ccba",
    ("trainer/ppo/v1/replay_buffer.py", "ReplayBuffer.sample"): "c996482f947f",
    ("trainer/ppo/v1/agent_loop_tq.py", "AgentLoopWorkerTQ._agent_loop_postprocess"): "22fb25639254",
    ("trainer/ppo/v1/agent_loop_tq.py", "AgentLoopManagerTQ"): "2c2014d24f19",
    ("trainer/ppo/padding_utils.py", "upsample_batch_to_divisible_size"): "712c98ce70fa",
    ("workers/engine_workers.py", "TrainingWorker.train_mini_batch"): "db1122bf51bb",
    ("workers/utils/losses.py", "ppo_loss"): "d7a7f4ab82c8",
    ("utils/model.py", "load_valuehead_model"): "d7528f4ff909",
    ("models/transformers/qwen2_vl.py", "_get_input_embeds"): "9c26194f2dc3",
    ("utils/tensordict_utils.py", "maybe_fix_3d_position_ids"): "7e4d7c28b350",
    ("workers/rollout/vllm_rollout/vllm_rollout.py", "ServerAdapter.__init__"): "e33055e903e3",
    ("workers/rollout/vllm_rollout/vllm_async_server.py", "vLLMHttpServer.__init__"): "b586321c0814",
    ("workers/rollout/vllm_rollout/utils.py", "vLLMColocateWorkerExtension._get_zmq_handle"): "5aa212f30783",
    ("utils/checkpoint/fsdp_checkpoint_manager.py", "FSDPCheckpointManager.save_checkpoint"): "104e3a827bc7",
    ("utils/checkpoint/fsdp_checkpoint_manager.py", "FSDPCheckpointManager.load_checkpoint"): "901122dd65ca",
    ("utils/model.py", "extract_multi_modal_inputs"): "2c29f286747d",
    ("workers/engine/fsdp/transformer_impl.py", "FSDPEngineWithLMHead.prepare_model_inputs"): "ef54213906ac",
    ("workers/engine/fsdp/transformer_impl.py", "FSDPEngine._build_module"): "d8c47c162dc9",
    ("workers/engine/fsdp/transformer_impl.py", "FSDPEngine._merged_lora_per_tensor_param"): "505191e108ad",
    ("utils/fsdp_utils.py", "offload_fsdp_model_to_cpu"): "5c7217e63fa4",
    ("utils/model.py", "convert_weight_keys"): "2134d00a0dc2",
    ("utils/experimental/torch_functional.py", "FusedLinearForPPO.forward"): "68e82912d07c",
    ("experimental/agent_loop/agent_loop.py", "AgentLoopWorker._compute_multi_modal_inputs"): "57ce6f0ea395",
    ("workers/utils/padding.py", "response_from_nested"): "2a6e6e07c81a",
    ("workers/utils/padding.py", "no_padding_2_padding"): "c37d19e7d9c3",
    ("utils/checkpoint/checkpoint_manager.py", "BaseCheckpointManager.should_save_hf_model"): "a85952405a10",
    ("utils/fsdp_utils.py", "_select_fsdp2_wrap_targets"): "f738ec112a90",
    ("utils/fsdp_utils.py", "get_fsdp_full_state_dict"): "31c46688922d",
    ("utils/fsdp_utils.py", "merged_lora_context"): "6e3bd15f6f34",
    ("utils/fsdp_utils.py", "normalize_peft_param_name"): "21c9316ed2e6",
    ("utils/distributed.py", "initialize_global_process_group_ray"): "e9ec517a0089",
}

LISTED = {name.split(".")[-1] for _, name in REACHES}


def digest(file: str, name: str) -> str:
    """Return the digest of a function's source, or what happened to it."""
    path = FOLDER / file
    if not path.exists():
        return "no such file"
    text = path.read_text(encoding="utf-8")
    nodes: list[ast.AST] = [ast.parse(text)]
    for part in name.split("."):
        nodes = [n for node in nodes for n in ast.iter_child_nodes(node) if getattr(n, "name", None) == part]
    source = ast.get_source_segment(text, nodes[-1]) if nodes else None
    return hashlib.sha256(source.encode()).hexdigest()[:12] if source else "no such function"


def test_verl_is_as_it_was_read():
    found = {(file, name): digest(file, name) for file, name in REACHES}
    changed = {
        f"{file}: {name}": found[file, name] for (file, name), was in REACHES.items() if found[file, name] != was
    }
    assert not changed and version("verl") == NEEDED["verl"]


def test_the_list_has_every_method_of_verls_trainer_that_ours_calls_or_replaces():
    nodes = list(ast.walk(ast.parse(inspect.getsource(trainer.StagedTrainer))))
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef)} - {"__init__"}
    names |= {n.attr for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)}
    of_verl = {name for name in names if callable(getattr(trainer.PPOTrainerSync, name, None))}
    assert len(of_verl) > 8 and of_verl <= LISTED


@pytest.mark.parametrize("module", [patches, platform])
def test_the_list_has_every_function_of_verl_that_is_replaced(module):
    assignments = [n for n in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(n, ast.Assign)]
    targets = [target for assignment in assignments for target in assignment.targets]
    replaced = {target.attr for target in targets if isinstance(target, ast.Attribute)}
    of_others = {"get_job_id", "_ragged_idx", "CPUOffloadPolicy"}  # of Ray and torch
    assert replaced - of_others and replaced - of_others <= LISTED


def test_every_engine_has_weight_sockets_of_its_own(monkeypatch):
    """verl names both ends by Ray's id of the job, which every Ray of one run gives alike."""
    monkeypatch.setattr(patches, "_job_id", lambda context: "01000000")
    names = []
    for mark in ("one", "two"):
        monkeypatch.setenv(MARK, mark)
        names.append(RuntimeContext.get_job_id(object()))
    assert names == ["01000000-one", "01000000-two"]
    monkeypatch.delenv(MARK)
    assert RuntimeContext.get_job_id(object()) == "01000000"
    source = (FOLDER / "workers/rollout/vllm_rollout/utils.py").read_text(encoding="utf-8")
    assert len("/tmp/rl-colocate-zmq-01000000-" + "f" * 32 + "-replica-99-rank-7.sock") < 108  # of a socket's path
    assert "rl-colocate-zmq-{job_id}" in source


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_critic_has_the_attention_that_its_config_asks_for(tmp_path, attention):
    import torch
    from transformers import AutoConfig, Qwen2Config, Qwen2ForCausalLM

    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    Qwen2ForCausalLM(Qwen2Config(vocab_size=99, num_key_value_heads=2, **sizes)).save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path, attn_implementation=attention, num_labels=1)
    critic = verl.utils.model.load_valuehead_model(str(tmp_path), torch.float32, config, False)
    assert critic.config._attn_implementation == attention and critic.score.out_features == 1


@pytest.mark.parametrize("frozen", [True, False, None])
def test_a_frozen_vision_tower_gets_no_gradient(monkeypatch, frozen):
    agent = Agent(style="compact", history_observations=False)
    model = TinyVL(warm_start=None, num_hidden_layers=1).build(Sokoban(observation="rgb"), agent, "cpu").model
    if frozen is not None:  # as settings.py tells verl
        model.config.freeze_vision = frozen
    patches.patch_training()
    monkeypatch.setitem(patches._theirs, "build", lambda engine: model)
    assert FSDPEngine._build_module is patches.build_module
    trained = {name for name, p in patches.build_module(object()).named_parameters() if p.requires_grad}
    assert any("visual" in name for name in trained) != bool(frozen)
    assert trained >= {name for name, _ in model.named_parameters() if "visual" not in name}
