"""What an update's rollouts, credit and optimisation report, under the stable names of ``metrics.jsonl``."""

from __future__ import annotations

from collections.abc import Mapping

from bepo.credit import Credit
from bepo.rollout import RolloutGroup
from bepo.tokens import Tokens


def rollout_metrics(group: RolloutGroup, max_response: int, end_token: int) -> dict[str, float]:
    """Per-trajectory means (shares are between 0 and 1; lengths are in steps and tokens), and counts."""
    length = group.step[group.last] + 1
    return {
        "train/success": float(group.success.mean()),
        "train/return": float(group.episode_return.mean()),
        "train/score": float(group.score.mean()),
        "train/episode_length": float(length.mean()),
        "train/valid_actions": float(group.valid.mean()),
        "train/records": len(group),
        "train/broken_episodes": int(group.broken.sum()),
        "train/trajectories": group.n_trajectories,
        "train/response_length": float(group.tokens.response_length.mean()),
        "train/response_clip_ratio": cut_share(group.tokens, max_response, end_token),
    }


def credit_metrics(credit: Credit) -> dict[str, float]:
    """Moments of the record advantages, and all that the estimator reports."""
    moments = {"advantage_mean": float(credit.advantage.mean()), "advantage_std": float(credit.advantage.std())}
    return prefixed("credit", moments | credit.metrics)


def prefixed(prefix: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f"{prefix}/{name}": value for name, value in values.items()}


def cut_share(tokens: Tokens, max_response: int, end_token: int) -> float:
    """Responses that met the token limit before they ended, as a share of all."""
    last = tokens.ids[tokens.record_offset[1:] - 1]
    return float(((tokens.response_length >= max_response) & (last != end_token)).mean())
