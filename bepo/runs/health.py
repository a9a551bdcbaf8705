"""Health checks of a training run: what in its metrics usually means that learning has gone wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from bepo.core.errors import UserError
from bepo.core.settings import Settings, setting
from bepo.store.run_files import StoredRun

Rows = Sequence[Mapping[str, float]]
_RISE = 0.05  # a smaller relative rise is noise
_FEWEST = 10  # a trend needs as many updates


@dataclass
class Health(Settings):
    """The thresholds of the health checks. "First" and "last" are means over a fifth of the updates."""

    success_drop: float = setting(0.05, at_least=0, at_most=1, identity=False)
    """Alarm if training success falls by more than this while the return or the share of valid actions rises."""
    entropy_left: float = setting(0.1, at_least=0, identity=False)
    """Alarm if less than this share of the first entropy is left while success is below one half."""
    length_left: float = setting(0.5, at_least=0, identity=False)
    """Alarm if less than this share of the first response length is left."""
    tied_groups: float = setting(0.9, at_least=0, at_most=1, identity=False)
    """Alarm if at least this share of the last groups have trajectories of equal return."""
    zero_advantages: float = setting(0.9, at_least=0, at_most=1, identity=False)
    """Alarm if at least this share of the last transitions have no advantage."""
    clip_fraction: float = setting(0.4, at_least=0, at_most=1, identity=False)
    """Alarm if more than this share of the last tokens are clipped."""
    kl: float = setting(1.0, at_least=0, identity=False)
    """Alarm if the last KL divergence from the reference policy is above this (nats a token)."""

    group = "health"


def alarms(rows: Rows, health: Health) -> list[str]:
    """Return a sentence for each alarm that the rows of ``metrics.jsonl`` give; metrics that are missing give none."""
    if len(rows) < _FEWEST:
        return []
    size = fifth(len(rows))
    first, last = (_Means(part) for part in (rows[:size], rows[-size:]))
    return [text for check in _CHECKS if (text := check(first, last, health))]


def alarms_of(run: StoredRun) -> list[str]:
    """Return the alarms of a run: as it recorded them, or for older and unfinished runs by its settings or today's."""
    if "alarms" in run.metadata:
        return list(run.metadata["alarms"])
    try:
        health = Health(**run.config.get("health", {}))
    except (TypeError, UserError):  # thresholds of another version
        health = Health()
    return alarms(run.metrics(), health)


def fifth(updates: int) -> int:
    """Return the number of updates in the first and in the last fifth, at least one."""
    return max(1, updates // 5)


class _Means:
    """The means of metrics over some updates; None for a metric that they lack."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __getitem__(self, name: str) -> float | None:
        values = [row[name] for row in self._rows if row.get(name) is not None]
        return fmean(values) if values else None


Check = Callable[[_Means, _Means, Health], str]


def _hacking(first: _Means, last: _Means, health: Health) -> str:
    """Success falls while what the policy is paid for, or the form of its answers, improves."""
    before, after = first["train/success"], last["train/success"]
    if before is None or after is None or before - after <= health.success_drop:
        return ""
    risen = []
    for name, words in (("train/return", "return"), ("train/valid_actions", "share of valid actions")):
        old, new = first[name], last[name]
        if old is not None and new is not None and new - old > _RISE * abs(old):
            risen.append(f"{words} rose from {old:.3g} to {new:.3g}")
    return f"success fell from {before:.3f} to {after:.3f} while {' and '.join(risen)}" if risen else ""


def _entropy(first: _Means, last: _Means, health: Health) -> str:
    old, new, success = first["train/entropy"], last["train/entropy"], last["train/success"]
    if not old or new is None or success is None or success >= 0.5 or new >= health.entropy_left * old:
        return ""
    return f"entropy collapsed from {old:.3g} to {new:.3g} nats at success {success:.3f}"


def _length(first: _Means, last: _Means, health: Health) -> str:
    old, new = first["train/response_length"], last["train/response_length"]
    collapsed = old and new is not None and new < health.length_left * old
    return f"responses shrank from {old:.1f} to {new:.1f} tokens" if collapsed else ""


def _ties(first: _Means, last: _Means, health: Health) -> str:
    share = last["train/tied_groups"]
    if share is None or share < health.tied_groups:
        return ""
    return f"{share:.0%} of the groups have equal returns, so outcomes teach nothing"


def _zeros(first: _Means, last: _Means, health: Health) -> str:
    share = last["credit/zero_advantage_transitions"]
    return f"{share:.0%} of the transitions have no advantage" if share and share >= health.zero_advantages else ""


def _clipping(first: _Means, last: _Means, health: Health) -> str:
    share = last["train/clip_fraction"]
    return f"{share:.0%} of the tokens are clipped" if share and share > health.clip_fraction else ""


def _divergence(first: _Means, last: _Means, health: Health) -> str:
    kl = last["train/kl"]
    return f"the KL divergence from the reference policy is {kl:.3g} nats a token" if kl and kl > health.kl else ""


_CHECKS: tuple[Check, ...] = (_hacking, _entropy, _length, _ties, _zeros, _clipping, _divergence)
