"""verl's own loss around ours: its value, by hand, and that padding rows change no gradient."""

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from tensordict import TensorDict
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.utils.metric import Metric
from verl.utils.torch_functional import masked_whiten
from verl.workers.config import FSDPActorConfig, PolicyLossConfig

from bepo.core.batch import RolloutBatch
from bepo.credit.ppo import PPO
from bepo.losses import Loss
from bepo.losses.cispo import CISPO
from bepo.losses.dapo import DAPO
from bepo.losses.dppo import DPPO
from bepo.losses.dr_grpo import DrGRPO
from bepo.losses.gmpo import GMPO
from bepo.losses.gspo import GSPO
from bepo.losses.ppo_clip import PPOClip
from bepo.losses.sapo import SAPO
from bepo.training.learner import low_var_kl
from bepo.training.verl.losses import actor_loss, policy_loss, value_loss
from bepo.training.verl.settings import AGGREGATION

PADS = 3
LENGTHS = (4, 2, 5)  # response tokens of the transitions without padding
PROMPT = 3


def batch(pads: int, rows: Sequence[int] = range(3)) -> TensorDict:
    """Some of three transitions and ``pads`` padding rows of one masked token, as verl lays them out."""
    generator = torch.Generator().manual_seed(0)
    lengths = [*[LENGTHS[i] for i in rows], *[1] * pads]
    draw = [torch.randn(n, generator=generator) for n in LENGTHS * 5]
    columns = {}
    for k, name in enumerate(("old_log_probs", "advantages", "ref_log_prob", "values", "returns")):
        real = draw[3 * k : 3 * k + 3]
        columns[name] = [*[real[i] for i in rows], *[torch.full((1,), 9.0)] * pads]  # whatever a padding row holds
    columns["response_mask"] = [torch.full((n,), float(i < len(rows))) for i, n in enumerate(lengths)]
    columns["prompts"] = [torch.zeros(PROMPT, dtype=torch.long)] * len(lengths)
    columns["responses"] = [torch.zeros(n, dtype=torch.long) for n in lengths]
    nested = {k: torch.nested.as_nested_tensor(v, layout=torch.jagged) for k, v in columns.items()}
    nested["responses_of_step"] = torch.full((len(lengths),), len(LENGTHS))
    return TensorDict(nested, batch_size=len(lengths))


def gradient(loss, pads: int, output: str, seed: int = 1) -> list[torch.Tensor]:
    """Return the gradient of the loss by the model's output at each token of each row."""
    data = batch(pads)
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randn(PROMPT + n, generator=generator, requires_grad=True) for n in LENGTHS]
    rows += [torch.randn(PROMPT + 1, requires_grad=True) for _ in range(pads)]
    data["input_ids"] = torch.nested.as_nested_tensor([torch.zeros(len(r)).long() for r in rows], layout=torch.jagged)
    extra = {"dp_size": 1, "batch_num_tokens": sum(LENGTHS), "global_batch_size": len(rows)}
    for name, value in extra.items():
        data.set_non_tensor(name, value)
    out = {output: torch.nested.as_nested_tensor(rows, layout=torch.jagged)}
    if output == "log_probs":
        out["entropy"] = out["log_probs"] * 0.5
    value, _ = loss(model_output=out, data=data)
    value.backward()
    return [row.grad for row in rows]


@pytest.mark.parametrize("ratio, dual_clip", [("token", None), ("action", None), ("token", 1.5)])
def test_the_policy_loss_by_hand(ratio, dual_clip):
    """Per response token max(-A r, -A clip(r)), where r is the token's ratio, or its response's geometric mean."""
    generator = torch.Generator().manual_seed(2)
    rows = [torch.randn(3, n, generator=generator) * 0.3 for n in LENGTHS]  # log-probabilities old and new, advantages
    old, new, advantage = (torch.nn.utils.rnn.pad_sequence([r[k] for r in rows], batch_first=True) for k in range(3))
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones(n) for n in LENGTHS], batch_first=True)
    expected, clipped = [], 0
    for before, after, credit in rows:
        log_ratio = (after - before).double()
        ratios = (log_ratio.mean().expand_as(log_ratio) if ratio == "action" else log_ratio).exp().tolist()
        for r, a in zip(ratios, credit.tolist()):
            bounded = min(max(r, 0.8), 1.2)
            worse = max(-a * r, -a * bounded)
            expected.append(min(worse, -a * dual_clip) if dual_clip and a < 0 else worse)
            clipped += -a * bounded > -a * r
    config = FSDPActorConfig(strategy="fsdp2", ppo_mini_batch_size=1, use_dynamic_bsz=True, rollout_n=1)
    config.global_batch_info.update(dp_size=1, batch_num_tokens=sum(LENGTHS), global_batch_size=len(LENGTHS))
    loss = PPOClip(ratio=ratio, clip_eps=0.2, dual_clip=dual_clip)
    value, stats = policy_loss(loss, old, new, advantage, mask, "token-mean", config)
    assert 0 < clipped < sum(LENGTHS)
    assert value.item() == pytest.approx(sum(expected) / sum(LENGTHS), rel=1e-5)
    assert stats["loss/clip_fraction"] == pytest.approx(clipped / sum(LENGTHS))


@pytest.mark.parametrize("loss", [PPOClip(), DAPO(), DrGRPO(), GSPO(), GMPO()], ids=lambda loss: loss.name)
def test_the_weights_of_verls_rollout_correction_multiply_the_losses_of_tokens(loss):
    """As in verl's own policy losses (``algorithm.rollout_correction``). All ratios are 1."""
    config = FSDPActorConfig(strategy="fsdp2", ppo_mini_batch_size=1, use_dynamic_bsz=True, rollout_n=1)
    config.global_batch_info.update(dp_size=1, batch_num_tokens=3, global_batch_size=1)
    advantage, mask = torch.tensor([[1.0, 2.0, 3.0]]), torch.ones(1, 3)
    arguments = loss, torch.zeros(1, 3), torch.zeros(1, 3), advantage, mask, "token-mean", config
    assert policy_loss(*arguments)[0].item() == pytest.approx(-2)
    assert policy_loss(*arguments, torch.tensor([[2.0, 0.5, 1.0]]))[0].item() == pytest.approx(-2)
    assert policy_loss(*arguments, torch.tensor([[0.0, 0.0, 1.0]]))[0].item() == pytest.approx(-1)


OFFICIAL = [  # ours, verl's name and verl's settings
    (GSPO(clip_low=0.1, clip_high=0.2), "gspo", {"clip_ratio_low": 0.1, "clip_ratio_high": 0.2}),
    (CISPO(), "cispo", {"clip_ratio_low": 1.0, "clip_ratio_high": 0.2}),
    (SAPO(), "sapo", {"tau_pos": 1.0, "tau_neg": 1.05}),
    (GMPO(), "geo_mean", {"clip_ratio_low": 0.4, "clip_ratio_high": 0.4}),
    (DPPO(), "dppo_tv", {"clip_ratio": 0.2, "clip_ratio_c": 20.0}),
    (DAPO(), "vanilla", {"clip_ratio_low": 0.2, "clip_ratio_high": 0.28, "clip_ratio_c": 1e6}),
    (PPOClip(), "vanilla", {"clip_ratio": 0.2, "clip_ratio_c": 3.0}),
    (DrGRPO(length=7), "vanilla", {"clip_ratio": 0.2, "clip_ratio_c": 1e6}),
]


@pytest.mark.parametrize("weights", ["none", "response", "token"])
@pytest.mark.parametrize("spread", [0.05, 0.7])
@pytest.mark.parametrize("ours, name, settings", OFFICIAL, ids=lambda x: x.name if isinstance(x, Loss) else None)
def test_the_losses_are_verls_own(ours, name, settings, spread, weights):
    """Value and gradient, aggregated as the loss is defined. Every response has one advantage, as GMPO needs it.

    Also with the weights of verl's rollout correction; verl's GMPO has the geometric mean of a response's weights.
    """
    if ours.name == "gmpo" and weights == "token":
        return
    draw = torch.Generator().manual_seed(4)
    mask = torch.arange(6) < torch.randint(1, 7, (9, 1), generator=draw)
    old = -0.05 - 2 * torch.rand(9, 6, generator=draw)
    new = (old + spread * torch.randn(9, 6, generator=draw)).clamp(max=-0.01)
    advantage = torch.randn(9, 1, generator=draw).expand(9, 6)
    correction = {"response": 2 * torch.rand(9, 1, generator=draw), "token": 2 * torch.rand(9, 6, generator=draw)}
    correction = correction[weights].expand(9, 6) if weights != "none" else None
    config = FSDPActorConfig(strategy="fsdp2", ppo_mini_batch_size=1, use_dynamic_bsz=True, rollout_n=1, **settings)
    sizes = {"dp_size": 1, "batch_num_tokens": int(mask.sum()), "global_batch_size": len(mask), "loss_scale_factor": 7}
    config.global_batch_info.update(sizes)
    mode, values, gradients = AGGREGATION[ours.aggregation], [], []
    for function in (partial(policy_loss, ours), get_policy_loss_fn(name)):
        leaf = new.clone().requires_grad_()
        value, _ = function(old, leaf, advantage, mask.float(), mode, config, correction)
        value.backward()
        values.append(value.detach())
        gradients.append(leaf.grad)
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*gradients)
    per_token, denominator = ours(new, old, advantage, mask)[0], ours.denominator(len(mask), int(mask.sum()))
    weighted = per_token if correction is None else per_token * correction
    torch.testing.assert_close(values[0], ours.reduce(weighted, mask) / denominator)


def test_whitening_is_verls():
    values = torch.randn(40, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    row = {"uid": 0, "traj": 0, "t": 0, "obs": "a", "next": "x", "r": 0.0, "done": "failure", "valid": True}
    tokens = {"prompt_ids": [0], "logprobs": [0.0] * 40, "response_ids": [1] * 40, "values": values.tolist()}
    found = PPO(std="sample")(RolloutBatch.from_rows([row | tokens])).token_advantage
    torch.testing.assert_close(torch.from_numpy(found), masked_whiten(-values.float(), torch.ones(40)).double())


def local_gradient(loss: Loss, seed: int = 1) -> list[torch.Tensor]:
    """Return the gradient of the local backend's loss by the log-probability of each response token."""
    data, generator = batch(0), torch.Generator().manual_seed(seed)
    rows = [torch.randn(PROMPT + n, generator=generator)[PROMPT - 1 : -1].requires_grad_() for n in LENGTHS]
    pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
    new, mask = pad(rows), pad([torch.ones(n) for n in LENGTHS]).bool()
    old, advantage, reference = (pad(data[k].unbind()) for k in ("old_log_probs", "advantages", "ref_log_prob"))
    total = loss.reduce(loss(new, old, advantage, mask)[0], mask)
    total = (
        total - 0.01 * loss.reduce(new * 0.5 * mask, mask) + 0.001 * loss.reduce(low_var_kl(new, reference, mask), mask)
    )
    (total / loss.denominator(len(LENGTHS), sum(LENGTHS))).backward()
    return [row.grad for row in rows]


def loss_of_actor(loss: Loss):
    config = FSDPActorConfig(
        strategy="fsdp2",
        ppo_mini_batch_size=1,
        use_dynamic_bsz=True,
        rollout_n=1,
        entropy_coeff=0.01,
        use_kl_loss=True,
        policy_loss=PolicyLossConfig(loss_mode="bepo"),
        loss_agg_mode=AGGREGATION[loss.aggregation],
        loss_scale_factor=loss.length,
    )
    return partial(actor_loss, loss=loss, config=config)


@pytest.mark.parametrize("loss", [PPOClip(), PPOClip(ratio="action"), GSPO(), DrGRPO(length=5), CISPO()], ids=str)
def test_the_actors_gradient(loss):
    """It does not depend on padding, and is that of the local backend: policy loss, entropy bonus and KL loss."""
    with_pads, without = (gradient(loss_of_actor(loss), pads, "log_probs") for pads in (PADS, 0))
    for found, expected in zip(without, local_gradient(loss)):
        torch.testing.assert_close(found[PROMPT - 1 : -1], expected, rtol=1e-5, atol=1e-7)
    assert any(g.abs().sum() > 0 for g in without)
    for padded, plain in zip(with_pads, without):
        torch.testing.assert_close(padded, plain, rtol=0, atol=0)
    assert all(not g.any() for g in with_pads[len(LENGTHS) :])


@pytest.mark.parametrize("loss", [PPOClip(), GSPO(), DrGRPO(length=5)], ids=str)
def test_the_actors_statistics_are_means_over_tokens(loss):
    """Whatever the aggregation of the loss, and however transitions and padding are cut into micro-batches."""
    generator = torch.Generator().manual_seed(1)
    log_probs = [torch.randn(PROMPT + n, generator=generator) for n in LENGTHS]

    def statistics(*micro_batches: tuple[int, Sequence[int]]) -> dict[str, float]:
        found = {}
        for pads, rows in micro_batches:
            data = batch(pads, rows)
            tokens = [*[log_probs[i] for i in rows], *[torch.ones(PROMPT + 1)] * pads]
            lengths = [torch.zeros(len(t)).long() for t in tokens]
            data["input_ids"] = torch.nested.as_nested_tensor(lengths, layout=torch.jagged)
            for name, value in {"dp_size": 1, "batch_num_tokens": sum(LENGTHS), "global_batch_size": 9}.items():
                data.set_non_tensor(name, value)
            out = {"log_probs": torch.nested.as_nested_tensor(tokens, layout=torch.jagged)}
            _, metrics = loss_of_actor(loss)(model_output=out | {"entropy": out["log_probs"] * 0.5}, data=data)
            for name, metric in metrics.items():
                if isinstance(metric, Metric):
                    found.setdefault(name, Metric(metric.aggregation)).extend(metric)
        return {name: float(metric.aggregate()) for name, metric in found.items()}

    whole = statistics((0, (0, 1, 2)))
    assert len([name for name in whole if name.startswith("loss/")]) >= 2
    for cut in ([(0, (0, 1)), (0, (2,))], [(0, (0,)), (PADS, (1, 2))], [(0, (0, 1, 2)), (PADS, ())]):
        assert statistics(*cut) == pytest.approx(whole, rel=1e-5, abs=1e-6)
    new = torch.cat([row[PROMPT - 1 : -1] for row in log_probs])
    reference = batch(0)["ref_log_prob"].values()
    assert whole["actor/entropy_loss"] == pytest.approx(0.5 * new.mean().item(), rel=1e-5)
    assert whole["kl_loss"] == pytest.approx(low_var_kl(new, reference, torch.ones_like(new)).mean().item(), rel=1e-4)


def test_the_critics_gradient():
    loss = partial(value_loss, config=SimpleNamespace(cliprange_value=0.5))
    with_pads, without = (gradient(loss, pads, "values") for pads in (PADS, 0))
    assert any(g.abs().sum() > 0 for g in without)
    for padded, plain in zip(with_pads, without):
        torch.testing.assert_close(padded, plain, rtol=0, atol=0)
    assert all(not g.any() for g in with_pads[len(LENGTHS) :])
