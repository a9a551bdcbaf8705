"""Log-probabilities by verl's fused kernels: those of the model by itself, under FSDP2, and of responses alone."""

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from transformers import Qwen2Config, Qwen2ForCausalLM
from verl.models.transformers.dense_common import forward_with_torch_backend
from verl.utils.experimental import torch_functional
from verl.utils.experimental.torch_functional import FusedLinearForPPO
from verl.utils.fsdp_utils import apply_fsdp2

from bepo.training.verl.patches import NO_LABEL, before_responses, patch_training

patch_training()


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    place = tmp_path_factory.mktemp("group") / "store"
    torch.distributed.init_process_group("gloo", init_method=f"file://{place}", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("tied", [False, True])
def test_the_head_is_gathered(mesh, monkeypatch, tied):
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = Qwen2Config(vocab_size=99, num_key_value_heads=2, tie_word_embeddings=tied, **sizes)
    model, ids = Qwen2ForCausalLM(config), torch.randint(99, (1, 50))
    labels = ids.roll(-1, 1)
    expected = model(ids).logits.log_softmax(-1).gather(-1, labels[..., None])[..., 0]
    expected.sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    monkeypatch.setattr(Qwen2ForCausalLM, "forward", forward_with_torch_backend)
    apply_fsdp2(model, {"mesh": mesh, "reshard_after_forward": True}, {})
    found = model(input_ids=ids, shift_labels=labels, return_dict=True).log_probs
    found.sum().backward()
    torch.testing.assert_close(found, expected.detach(), rtol=0, atol=1e-5)
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad.full_tensor(), gradients[name], rtol=1e-4, atol=1e-4)


def test_tokens_whose_predictions_are_read():
    """Two transitions end to end: prompts of 3 and 1 tokens, responses of 2 and 3."""
    found = before_responses(torch.tensor([0, 5, 9]), torch.tensor([2, 3]))
    assert found.tolist() == [0, 0, 1, 1, 0, 1, 1, 1, 0]


def test_logits_of_prompts_are_not_computed(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(50, 8, generator=generator, requires_grad=True)
    hidden = torch.randn(2, 600, 8, generator=generator, requires_grad=True)
    labels = torch.randint(50, (2, 600), generator=generator)
    read = torch.rand(2, 600, generator=generator) < 0.2
    rows, theirs = [], torch_functional._fused_linear_for_ppo_fwd
    count = lambda hidden_states, **more: rows.append(len(hidden_states)) or theirs(hidden_states, **more)  # noqa: E731
    monkeypatch.setattr(torch_functional, "_fused_linear_for_ppo_fwd", count)
    results = []
    for given in (labels, labels.masked_fill(~read, NO_LABEL)):
        rows.append(0)
        log_probs, entropy = FusedLinearForPPO()(hidden, weights, given, 0.7)
        (2 * log_probs + entropy)[read].sum().backward()
        results.append([log_probs[read], entropy[read], hidden.grad, weights.grad])
        hidden.grad = weights.grad = None
    assert rows == [0, 512, 512, 176, 0, int(read.sum())]
    assert not log_probs[~read].any() and not entropy[~read].any()
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)
