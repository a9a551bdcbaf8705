"""Plain per-record estimators: slow, written from the equations alone, the oracle of the vectorised ones.

Rows have the golden layout and lie in order: trajectories contiguous, steps ascending.
"""

from collections import defaultdict
from statistics import mean, stdev

EPSILON = 1e-6


def by(rows, *keys):
    groups = defaultdict(list)
    for i, row in enumerate(rows):
        groups[tuple(row[k] for k in keys)].append(i)
    return groups


def standardise(values):
    if max(values) - min(values) <= 1e-9 * max(map(abs, values)) or len(values) == 1:
        return [0.0] * len(values)
    m, s = mean(values), stdev(values)
    return [(v - m) / (s + EPSILON) for v in values]


def spread(rows, groups, values):
    out = [0.0] * len(rows)
    for indices in groups.values():
        for i, value in zip(indices, standardise([values[i] for i in indices])):
            out[i] = value
    return out


def grpo(rows, invalid_penalty=0.1):
    """Record-weighted, sample deviation."""
    score = [0.0] * len(rows)
    for indices in by(rows, "uid", "traj").values():
        for i in indices:
            score[i] = sum(rows[j]["r"] for j in indices) - invalid_penalty * (not rows[i]["valid"])
    return spread(rows, by(rows, "uid"), score)


def gated_bepo(rows, gamma=0.95, lam=0.8, w=1.5, eta_min=0.5, iterations=20, tolerance=1e-6, invalid_penalty=0.1):
    """Algorithm 1 with the paper's defaults."""
    states, groups, trajectories = by(rows, "uid", "obs"), by(rows, "uid"), by(rows, "uid", "traj")
    successor = [("end", r["done"]) if r["done"] else (r["uid"], r["next"]) for r in rows]
    returns = [0.0] * len(rows)
    for indices in trajectories.values():
        following = 0.0
        for i in reversed(indices):
            following = returns[i] = rows[i]["r"] + gamma * following
    value = {s: mean(returns[i] for i in indices) for s, indices in states.items()}
    for uid in {r["uid"] for r in rows}:
        mine = {s: indices for s, indices in states.items() if s[0] == uid}
        for _ in range(iterations):
            new = {
                s: mean(rows[i]["r"] + gamma * value.get(successor[i], 0.0) for i in indices)
                for s, indices in mine.items()
            }
            change = max(abs(new[s] - value[s]) for s in mine)
            value |= new
            if change <= tolerance:
                break
    step = [0.0] * len(rows)
    for indices in trajectories.values():
        following = 0.0
        for i in reversed(indices):
            residual = rows[i]["r"] + gamma * value.get(successor[i], 0.0) - value[rows[i]["uid"], rows[i]["obs"]]
            following = step[i] = residual + gamma * lam * following
    step = spread(rows, groups, step)
    outcome = grpo(rows, invalid_penalty)
    advantage = []
    for i, row in enumerate(rows):
        here = states[row["uid"], row["obs"]]
        rho = float(len(here) >= 2 and len({successor[j] for j in here}) >= 2)
        advantage.append((eta_min + (1 - eta_min) * (1 - rho)) * outcome[i] + w * rho * step[i])
    return advantage
