"""Plain estimators from the equations, one transition at a time: the slow reference of the vectorised ones.

Rows have the golden layout and lie in order: trajectories contiguous, steps ascending. ``o`` is an estimator object, of
which only the settings are read.
"""

import statistics
from collections import defaultdict
from itertools import pairwise
from math import exp, inf, log, sqrt, tanh
from statistics import fmean as mean

import numpy as np

from bepo.credit.graphgpo import GraphGPO

EPSILON = 1e-6


def by(rows, *keys):
    groups = defaultdict(list)
    for i, row in enumerate(rows):
        groups[tuple(row[k] for k in keys)].append(i)
    return groups


def tied(values):
    return max(values) - min(values) <= 1e-9 * max(map(abs, (max(values), min(values))))


def spread(values, kind):
    """Standard deviation + epsilon of a pool; 1 if there is nothing to divide by."""
    if kind == "none" or len(values) == 1:
        return 1.0
    m = mean(values)
    return sqrt(sum((v - m) ** 2 for v in values) / (len(values) - (kind == "sample"))) + EPSILON


def standardise(groups, values, kind="sample"):
    out = [0.0] * len(values)
    for indices in groups.values():
        pool = [values[i] for i in indices]
        m, s, scale = mean(pool), spread(pool, kind), max(map(abs, pool))
        for i in indices:
            if abs(values[i] - m) > 1e-9 * scale:
                out[i] = (values[i] - m) / s
    return out


def outcome(rows, pool, std, penalty, singleton):
    """Group-relative outcome advantage."""
    total, score = [0.0] * len(rows), [0.0] * len(rows)
    for indices in by(rows, "uid", "traj").values():
        for i in indices:
            total[i] = sum(rows[j]["r"] for j in indices)
            score[i] = total[i] - penalty * (not rows[i]["valid"])
    advantage = [0.0] * len(rows)
    for indices in by(rows, "uid").values():
        members = {rows[i]["traj"]: total[i] for i in indices}
        values = [score[i] for i in indices] if pool == "transition" else list(members.values())
        m, s = mean(values), 1.0 if tied(values) else spread(values, std)
        for i in indices:
            if len(values) == 1 and singleton == "raw":
                advantage[i] = score[i]
            elif abs(score[i] - m) > 1e-9 * (max(map(abs, values)) if pool == "transition" else abs(score[i])):
                advantage[i] = (score[i] - m) / s
    return advantage


def backward(rows, x, decay, goes_on=lambda i: 1.0):
    """y_i = x_i + decay goes_on(i + 1) y_{i + 1} along each trajectory."""
    out = [0.0] * len(rows)
    for indices in by(rows, "uid", "traj").values():
        following = 0.0
        for place, i in reversed(list(enumerate(indices))):
            if place + 1 < len(indices):
                following *= goes_on(indices[place + 1])
            following = out[i] = x[i] + decay * following
    return out


def rewards(rows, penalty=0.0):
    return [row["r"] - penalty * (not row["valid"]) for row in rows]


def successors(rows):
    return [("end", row["done"]) if row["done"] else (row["uid"], row["next"]) for row in rows]


# --- estimators ----------------------------------------------------------------------------------------------------


def episode(rows, o, std="sample"):
    return with_progress(rows, o, outcome(rows, o.pool, std, o.invalid_penalty, o.singleton))


def with_progress(rows, o, advantage):
    """ProGPO: the term of groups without a success."""
    groups, ends = by(rows, "uid"), {row["uid"] for row in rows if row["done"] == "success"}
    failed = [indices for key, indices in groups.items() if key[0] not in ends]
    for indices in failed if o.progress else []:
        mine = [rows[i] for i in indices]
        progress = {}
        for key, members in by(mine, "traj").items():
            steps = [mine[j] for j in members]
            progress[key] = len({row["next"] for row in steps} - {steps[0]["obs"]}) / len(steps)
        m, s = mean(progress.values()), statistics.pstdev(progress.values())
        for i in indices if s >= 1e-4 else []:
            advantage[i] = o.progress * len(failed) / len(groups) * (progress[rows[i]["traj"],] - m) / s
    return advantage


def grpo(rows, o):
    return episode(rows, o, o.std)


def rloo(rows, o):
    advantage = outcome(rows, o.pool, "none", o.invalid_penalty, o.singleton)
    for indices in by(rows, "uid").values():
        n = len(indices) if o.pool == "transition" else len({rows[i]["traj"] for i in indices})
        for i in indices:
            advantage[i] *= n / max(n - 1, 1)
    return with_progress(rows, o, advantage)


def gigpo(rows, o):
    returns = backward(rows, rewards(rows), o.gamma)
    after = [g - o.invalid_penalty * (not row["valid"]) for g, row in zip(returns, rows)]
    step = standardise(by(rows, *["uid"] * (o.state_scope == "group"), "obs"), after, o.std)
    return [a + o.step_weight * b for a, b in zip(episode(rows, o, o.std), step)]


def hgpo(rows, o):
    returns = backward(rows, rewards(rows), o.gamma)
    returns = [g - o.invalid_penalty * (not row["valid"]) for g, row in zip(returns, rows)]
    total, weight = [0.0] * len(rows), [0.0] * len(rows)

    def add(i, w, advantage):
        if not (o.drop_zero and advantage == 0):
            total[i] += w * advantage
            weight[i] += w

    for level in range(o.history + 1):
        groups = defaultdict(list)
        for indices in by(rows, "uid", "traj").values():
            for place, i in enumerate(indices):
                if place >= level:
                    recent = tuple(rows[j]["obs"] for j in indices[place - level : place + 1])
                    groups[rows[i]["uid"], recent].append(i)
        advantage = standardise(groups, returns, o.std)
        for members in groups.values():
            for i in members:
                if len(members) > 1:
                    add(i, (level + o.level_offset) ** o.alpha, advantage[i])
    if o.base_group:
        std = "none" if o.std == "none" else "sample"
        for i, a in enumerate(outcome(rows, "transition", std, o.invalid_penalty, "zero")):
            add(i, 1.0, a)
    return [t / (w + EPSILON) for t, w in zip(total, weight)]


def gagpo(rows, o):
    reward = rewards(rows, o.invalid_penalty)
    returns = backward(rows, reward, o.gamma)
    value = {s: mean(returns[i] for i in indices) for s, indices in by(rows, "uid", "obs").items()}
    residual = residuals(rows, reward, value, successors(rows), o.gamma)
    return standardise(by(rows, "uid"), backward(rows, residual, o.gamma * o.gae_lambda), o.step_std)


def residuals(rows, reward, value, successor, gamma):
    return [r + gamma * value.get(s, 0.0) - value[row["uid"], row["obs"]] for r, s, row in zip(reward, successor, rows)]


def graphgpo(rows, o):
    score = [0.0] * len(rows)
    for indices in by(rows, "uid").values():
        mine = [rows[i] for i in indices]
        distance = distances(mine)
        far = max((d for d in distance.values() if d < inf), default=0) + 1
        for i, row in zip(indices, mine):
            after = 0 if row["done"] == "success" else distance[row["next"]]
            before, d = (min(x, far) for x in (distance[row["obs"]], after))
            score[i] = {
                "reciprocal": 1 / (1 + d),
                "power": 10 * o.omega**d,
                "power_plus_one": 10 * o.omega ** (d + 1),
                "difference": 10 * o.omega ** (d - before + 1),
            }[o.graph_reward]
            if o.unreachable == "zero" and after == inf:
                score[i] = 0.0
    score = [x - o.invalid_penalty * (not row["valid"]) for x, row in zip(score, rows)]
    step = standardise(by(rows, "uid", "obs"), score, o.std)
    return [o.step_weight * a + o.outcome_weight * b for a, b in zip(step, episode(rows, o, o.std))]


def distances(rows):
    """Fewest steps from each key of one group to a success, by relaxation."""
    distance = {key: inf for row in rows for key in (row["obs"], row["next"])}
    changed = True
    while changed:
        changed = False
        for row in rows:
            through = 1 if row["done"] == "success" else 1 + distance[row["next"]]
            if through < distance[row["obs"]]:
                distance[row["obs"]] = through
                changed = True
    return distance


def ppo(rows, o):
    """Mean over the response tokens of each transition; see ``ppo_tokens``."""
    tokens = iter(ppo_tokens(rows, o))
    return [mean(next(tokens) for _ in row["values"]) for row in rows]


def ppo_tokens(rows, o):
    """Advantage of every response token. Each sequence is a list of (reward, value, tokens it stands for)."""
    total = {key: sum(rows[i]["r"] for i in indices) for key, indices in by(rows, "uid", "traj").items()}
    sequences = []
    for key, indices in by(rows, "uid", "traj").items():
        steps = []
        for i in indices:
            row, values = rows[i], rows[i]["values"]
            paid = (total[key] if o.scope == "response" else row["r"]) - o.invalid_penalty * (not row["valid"])
            if o.scope == "turn":
                steps.append([(paid, values[0], len(values))])
            else:
                steps.append([(paid * (k == len(values) - 1), v, 1) for k, v in enumerate(values)])
        sequences += steps if o.scope == "response" else [[x for step in steps for x in step]]
    out = []
    for sequence in sequences:
        following, after, advantages = 0.0, 0.0, []
        for r, v, n in reversed(sequence):
            following = r + o.gamma * after - v + o.gamma * o.gae_lambda * following
            after = v
            advantages += [following] * n
        out += reversed(advantages)
    if o.whiten:
        m = mean(out)
        variance = {"population": statistics.pvariance, "sample": statistics.variance}[o.std]
        s = sqrt((variance(out) if len(out) > 1 else 0.0) + 1e-8)
        out = [(a - m) / s for a in out]
    return out


def gated_bepo(rows, o):
    """Algorithm 1, with the supplement's variants."""
    groups, states = by(rows, "uid"), by(rows, "uid", "obs")
    reward, successor = rewards(rows, o.step_invalid_penalty), successors(rows)
    if o.truncation == "bootstrap":
        onward = [(row["uid"], row["next"]) for row in rows]
        cut = [row["done"] == "truncation" for row in rows]
        successor = [n if c and n in states else s for c, n, s in zip(cut, onward, successor)]
    value = fixed_point(o, rows, reward, successor, states)
    rho = {s: gate(o, len(indices), len({successor[i] for i in indices})) for s, indices in states.items()}
    rho = [rho[row["uid"], row["obs"]] for row in rows]
    residual = residuals(rows, reward, value, successor, o.gamma)
    if o.gate_order == "mask":
        residual = [p * d for p, d in zip(rho, residual)]
    goes_on = rho.__getitem__ if o.gate_order == "stop" else lambda i: 1.0
    step = standardise(groups, backward(rows, residual, o.gamma * o.gae_lambda, goes_on), o.step_std)
    episode = outcome(rows, o.outcome_pool, o.outcome_std, o.invalid_penalty, "zero")
    return [mixed(o, rows, groups[rows[i]["uid"],], *terms) for i, terms in enumerate(zip(episode, step, rho))]


def fixed_point(o, rows, reward, successor, states):
    returns = backward(rows, reward, o.gamma)
    value = {s: mean(returns[i] for i in indices) for s, indices in states.items()}
    for uid in {row["uid"] for row in rows}:
        mine = {s: indices for s, indices in states.items() if s[0] == uid}
        for _ in range(1000 if o.solver == "exact" else o.iterations):
            new = {
                s: backup(o, [reward[i] + o.gamma * value.get(successor[i], 0.0) for i in indices])
                for s, indices in mine.items()
            }
            change = max(abs(new[s] - value[s]) for s in mine)
            value |= new
            if change <= (1e-12 if o.solver == "exact" else o.tolerance):
                break
    return value


def backup(o, targets):
    if o.backup == "mean":
        return mean(targets)
    best = max(targets)
    if o.backup == "max":
        return best
    weights = [exp((q - best) / o.softmax_temperature) for q in targets]
    return sum(w * q for w, q in zip(weights, targets)) / sum(weights)


def gate(o, visits, branches):
    def ramp(x, full):
        return min(max((x - 1) / (full - 1), 0.0), 1.0)

    if o.gate == "binary":
        return float(visits >= o.n_min and branches >= o.b_min)
    if o.gate == "count_ramp":
        return ramp(visits, o.full_visits) * (branches >= 2)
    return ramp(visits, o.full_visits) * ramp(branches, o.full_branches)


def mixed(o, rows, group, out, step, rho):
    if o.mixing == "outcome_only":
        return out
    if o.mixing == "ungated":
        return out + o.step_weight * step
    eta = o.eta_min + (1 - o.eta_min) * (1 - rho)
    if o.mixing == "group_skew":
        ends = [rows[i]["done"] == "success" for i in group if rows[i]["done"]]
        p = mean(map(float, ends))
        eta *= min(max(4 * p * (1 - p), 0.0), 1.0)
    return eta * out + o.step_weight * rho * step


def paying_success(rows, amount):
    return [amount * (row["done"] == "success") for row in rows]


def closure(rows, reward, gamma, kappa=0.0, worth=None):
    """The fixed point of the mean backup, with kappa further visits worth the group's mean return; a dense solve.

    ``worth`` of each group replaces its mean return.
    """
    value, returns, successor = {}, backward(rows, reward, gamma), successors(rows)
    for (uid,), group in by(rows, "uid").items():
        prior = worth[uid] if worth else mean(returns[i] for i in group if rows[i]["t"] == 0)
        states = by([rows[i] for i in group], "uid", "obs")
        place = {s: k for k, s in enumerate(states)}
        left, right = np.eye(len(place)), np.zeros(len(place))
        for s, members in states.items():
            n = len(members) + kappa
            right[place[s]] = (sum(reward[group[j]] for j in members) + kappa * prior) / n
            for j in members:
                if (target := successor[group[j]]) in place:
                    left[place[s], place[target]] -= gamma / n
        value |= dict(zip(place, np.linalg.solve(left, right)))
    return value


def average(groups, values):
    """The mean of the values of a row's group, for each row."""
    out = [0.0] * len(values)
    for indices in groups.values():
        m = mean(values[i] for i in indices)
        for i in indices:
            out[i] = m
    return out


def snapped(values):
    return [0.0 if abs(v) <= 1e-9 else v for v in values]


def crbc(rows, o):
    reward, successor = paying_success(rows, o.beta), successors(rows)
    states, pairs = by(rows, "uid", "obs"), by(rows, "uid", "obs", "action")
    returns = backward(rows, reward, o.beta)

    def target(value):
        return [r + o.beta * value.get(s, 0.0) for r, s in zip(reward, successor)]

    if o.depth == 0:
        target = returns
    elif o.depth is None:
        target = target(closure(rows, reward, o.beta))
    else:
        value = {s: mean(returns[i] for i in indices) for s, indices in states.items()}
        for _ in range(o.depth - 1):
            new = target(value)
            value = {s: mean(new[i] for i in indices) for s, indices in states.items()}
        target = target(value)
    gap = snapped([q - v for q, v in zip(average(pairs, target), average(states, target))])
    step = [0.0] * len(rows)
    for indices in states.values():
        sigma = sqrt(mean(gap[i] ** 2 for i in indices))
        if len({rows[i]["action"] for i in indices}) >= 2:
            for i in indices:
                step[i] = gap[i] / max(sigma, o.floor)
    return [o.outcome_weight * a + o.step_weight * b for a, b in zip(episode(rows, o), step)]


def graft(rows, o):
    reward = paying_success(rows, o.gamma)
    successor, value = successors(rows), closure(rows, reward, o.gamma)
    delta = snapped(residuals(rows, reward, value, successor, o.gamma))
    edges = defaultdict(dict)
    for row, s, d in zip(rows, successor, delta):
        edges[row["uid"], row["obs"]][row["action"], s] = d
    raw = []
    for row, s, d in zip(rows, successor, delta):
        later = sum(
            other["traj"] == row["traj"] and other["uid"] == row["uid"] and other["t"] > row["t"] for other in rows
        )
        layer, seen, discount = {s} & edges.keys(), {s}, 1.0
        for _ in range(later):
            discount *= o.gamma * o.gae_lambda
            leaving = [pair for u in layer for pair in edges[u].items()]
            d += discount * mean(x for _, x in leaving) if leaving else 0.0
            layer = {v for (_, v), _ in leaving if v in edges} - seen
            seen |= layer
        raw.append(d)
    raw, states = snapped(raw), by(rows, "uid", "obs")
    step = standardise(states, raw, o.std)
    for i, *others in states.values():
        if not others:
            step[i] = raw[i] if o.std == "none" else float((raw[i] > 0) - (raw[i] < 0))
    return [a - o.invalid_penalty * (not row["valid"]) for a, row in zip(step, rows)]


def graphhca(rows, o):
    phi = closure(rows, paying_success(rows, o.gamma), o.gamma)
    phi |= {("end", "success"): 1.0, ("end", "failure"): 0.0, ("end", "truncation"): 0.0}
    psi = {s: log(max(p, o.floor)) for s, p in phi.items()}
    change = snapped([psi[s] - psi[row["uid"], row["obs"]] for s, row in zip(successors(rows), rows)])
    step = standardise(by(rows, "uid", "obs"), change, o.std)
    return [a + o.step_weight * b for a, b in zip(episode(rows, o), step)]


def variance(values):
    m = mean(values)
    return mean((v - m) ** 2 for v in values)


def explained(rows, returns):
    """The share of the variance of returns between the actions of each state; None where they do not vary."""
    found = {}
    for s, indices in by(rows, "uid", "obs").items():
        pool = [returns[i] for i in indices]
        actions = by([rows[i] for i in indices], "action").values()
        within = sum(len(a) / len(pool) * variance([pool[j] for j in a]) for a in actions)
        varies = variance(pool) > 1e-18 * mean(v * v for v in pool)
        found[s] = (1 - within / variance(pool) if varies else None), actions
    return found


def adastep(rows, o):
    returns = backward(rows, rewards(rows), o.gamma)
    after = [g - o.invalid_penalty * (not row["valid"]) for g, row in zip(returns, rows)]
    step = standardise(by(rows, "uid", "obs"), after, o.std)
    weight = {
        s: 1.0 if share is None or len(actions) < 2 or min(map(len, actions)) < 2 else share
        for s, (share, actions) in explained(rows, returns).items()
    }
    weight = [weight[row["uid"], row["obs"]] for row in rows]
    return [a + o.step_weight * w * b for a, w, b in zip(episode(rows, o, o.std), weight, step)]


def ecpo(rows, o):
    returns = backward(rows, rewards(rows), o.gamma)
    states, pairs = by(rows, "uid", "obs"), by(rows, "uid", "obs", "action")
    of_state, of_pair = average(states, returns), average(pairs, returns)
    n = [len(pairs[row["uid"], row["obs"], row["action"]]) for row in rows]
    shrunk = [(k * q + o.kappa * v) / (k + o.kappa) for k, q, v in zip(n, of_pair, of_state)]
    step = standardise(states, shrunk, o.std)
    gate = {s: tanh(len(states[s]) / o.tau) * (share or 0.0) for s, (share, _) in explained(rows, returns).items()}
    gate = [gate[row["uid"], row["obs"]] for row in rows]
    return [a + o.step_weight * g * b for a, g, b in zip(episode(rows, o), gate, step)]


def g2po(rows, o):
    returns = backward(rows, paying_success(rows, 10 * o.gamma), o.gamma)
    value = {s: mean(returns[i] for i in indices) for s, indices in by(rows, "uid", "obs").items()}
    before = [value[row["uid"], row["obs"]] for row in rows]
    after = [(value | {("end", "success"): 10.0}).get(s, 0.0) for s in successors(rows)]
    penalised = [v - o.invalid_penalty * (not row["valid"]) for v, row in zip(after, rows)]
    node = standardise(by(rows, "uid", "obs"), penalised, o.std)
    edge = standardise(by(rows, "uid"), [y - x for x, y in zip(before, after)], o.std)
    return [a + o.step_weight * (b + c) for a, b, c in zip(episode(rows, o, o.std), node, edge)]


def shrunk_bepo(rows, o):
    reward = rewards(rows)
    value = closure(rows, reward, o.gamma, o.kappa)
    raw = backward(rows, residuals(rows, reward, value, successors(rows), o.gamma), o.gamma * o.gae_lambda)
    if o.pool_actions:
        raw = average(by(rows, "uid", "obs", "action"), raw)
    groups = by(rows, "uid")
    step = standardise(groups, raw, "none")
    if o.step_std != "none":
        for indices in groups.values():
            divisor = max(spread([step[i] for i in indices], o.step_std), o.step_floor)
            for i in indices:
                step[i] /= divisor
    graph = graphgpo(rows, GraphGPO(omega=o.omega, invalid_penalty=0.0, outcome_weight=0.0))
    out = outcome(rows, "transition", "sample", 0.0, "zero")
    return [
        a + o.graph_weight * b + o.outcome_weight * c - o.invalid_penalty * (not row["valid"])
        for a, b, c, row in zip(step, graph, out, rows)
    ]


def icc(rows, reward):
    """Return the between-group share of the variance of returns by a one-way analysis of variance."""
    groups = [[sum(reward[i] for i in by(rows, "uid", "traj")[k]) for k in keys] for keys in trajectories(rows)]
    every = [x for group in groups for x in group]
    n, g = len(every), len(groups)
    if n == g or g == 1 or tied(every):
        return 0.0
    within = sum((x - mean(group)) ** 2 for group in groups for x in group) / (n - g)
    between = sum(len(group) * (mean(group) - mean(every)) ** 2 for group in groups) / (g - 1)
    usual = (n - sum(len(group) ** 2 for group in groups) / n) / (g - 1)
    share = max((between - within) / usual, 0.0)
    return share / (share + within)


def trajectories(rows):
    """Return the keys of each group's trajectories."""
    every = by(rows, "uid", "traj")
    return [[key for key in every if key[0] == uid] for (uid,) in by(rows, "uid")]


def shrink(values, whole, rho):
    """Return the mean of values, shrunk to ``whole``."""
    if not values or rho == 0:
        return whole
    weight = len(values) * rho / (len(values) * rho + 1 - rho)
    return weight * mean(values) + (1 - weight) * whole


def batch_bepo(rows, o):
    reward = rewards(rows)
    every = by(rows, "uid", "traj")
    total = {key: sum(reward[i] for i in indices) for key, indices in every.items()}
    discounted = backward(rows, reward, o.gamma)
    start = {key: discounted[indices[0]] for key, indices in every.items()}
    rho = icc(rows, reward) if o.icc is None else o.icc
    centred, worth = {}, {}
    for keys in trajectories(rows):
        for key in keys:
            others = [total[k] for k in keys if k != key]
            centred[key] = total[key] - shrink(others, mean(total.values()), rho)
        worth[keys[0][0]] = shrink([start[k] for k in keys], mean(start.values()), rho)
    largest = max(map(abs, total.values()))
    centred = {key: x if abs(x) > 1e-9 * largest else 0.0 for key, x in centred.items()}
    spread_ = sqrt(mean(x * x for x in centred.values())) + EPSILON
    value = closure(rows, reward, o.gamma, (1 - rho) / max(rho, 1e-6), worth)
    raw = backward(rows, residuals(rows, reward, value, successors(rows), o.gamma), o.gamma * o.gae_lambda)
    step = standardise({"batch": range(len(rows))}, average(by(rows, "uid", "obs", "action"), raw))
    graph = graphgpo(rows, GraphGPO(omega=o.omega, invalid_penalty=0.0, outcome_weight=0.0))
    return [
        a
        + o.outcome_weight * centred[row["uid"], row["traj"]] / spread_
        + o.graph_weight * b
        - o.invalid_penalty * (not row["valid"])
        for a, b, row in zip(step, graph, rows)
    ]


def rebn(rows, o):
    returns = backward(rows, rewards(rows, o.invalid_penalty), o.gamma)
    return standardise({"batch": range(len(rows))}, returns)


def salt(rows, o):
    out, same = episode(rows, o, o.std), defaultdict(list)
    for indices in by(rows, "uid", "traj").values():
        for place, i in enumerate(indices):
            recent = indices[max(place - o.history, 0) : place + 1]
            same[rows[i]["uid"], tuple((rows[j]["obs"], rows[j]["action"]) for j in recent), rows[i]["next"]].append(i)
    return average(same, out)


def empg(rows, o):
    out, entropy = episode(rows, o, o.std), [row["entropy"] for row in rows]
    low, high = min(entropy), max(entropy)
    scaled = [(h - low) / (high - low + 1e-8) for h in entropy]
    total = mean(exp(-o.k * h) for h in scaled)
    found = [a * exp(-o.k * h) / total for a, h in zip(out, scaled)]
    for indices in by(rows, "uid", "traj").values():
        for i, following in pairwise(indices):
            found[i] += o.zeta * exp(-o.k_bonus * scaled[following])
    m = mean(found)
    return [a - m for a in found]


def otb(rows, o):
    returns, found = backward(rows, rewards(rows, o.invalid_penalty), 1.0), [0.0] * len(rows)
    past = backward(rows[::-1], [row["energy"] for row in rows[::-1]], 1.0)[::-1]  # sums from the start
    for indices in by(rows, "uid", "t").values():
        total = sum(past[i] for i in indices)
        baseline = sum(past[i] * returns[i] for i in indices) / total if total and len(indices) > 1 else 0.0
        for i in indices:
            found[i] = returns[i] - baseline
    return found


def vineppo(rows, o):
    found = [r - row["continuation"] for r, row in zip(rewards(rows, o.invalid_penalty), rows)]
    for indices in by(rows, "uid", "traj").values():
        for i, following in pairwise(indices):
            found[i] += rows[following]["continuation"]
    return found


def mt_grpo(rows, o):
    reward, found = rewards(rows, o.invalid_penalty), [0.0] * len(rows)
    for members in by(rows, "uid").values():
        trajectories = [[members[j] for j in own] for own in by([rows[i] for i in members], "traj").values()]
        scores = []
        for t in range(max(map(len, trajectories))):
            there = [reward[own[t]] if t < len(own) else 0.0 for own in trajectories]
            if o.ended == "left_out":
                there = [reward[own[t]] for own in trajectories if t < len(own)]
            z = iter(standardise({"step": range(len(there))}, there, o.std))
            scores.append([next(z) if o.ended == "zero" or t < len(own) else 0.0 for own in trajectories])
        for k, own in enumerate(trajectories):
            for t, i in enumerate(own):
                found[i] = sum(score[k] for score in scores[t:])
    return found


def proxmo(rows, o):
    """The texts' vectors are scikit-learn's, as in the authors' code."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    after = backward(rows, rewards(rows), o.gamma)
    after = [g - o.invalid_penalty * (not row["valid"]) for g, row in zip(after, rows)]
    try:
        vectors = TfidfVectorizer(max_features=1024).fit_transform([str(row["obs"]) for row in rows]).toarray()
    except ValueError:  # no words
        vectors = None
    step, weight = [0.0] * len(rows), [1.0] * len(rows)
    sigmoid = lambda x: 1 / (1 + exp(-x))  # noqa: E731
    for indices in by(rows, "uid").values():
        for i in indices if vectors is not None else ():
            cosine = [float(vectors[i] @ vectors[j]) for j in indices]
            top = max(cosine)
            near = [exp((c - top) / o.temperature) if o.temperature else float(c >= top - 1e-9) for c in cosine]
            base = sum(w * after[j] for w, j in zip(near, indices)) / sum(near)
            step[i] = after[i] - base if abs(after[i] - base) > 1e-9 * abs(after[i]) else 0.0
        total = {i: sum(rows[j]["r"] for j in own) for own in by(rows, "uid", "traj").values() for i in own}
        score = {i: total[i] - o.invalid_penalty * (not rows[i]["valid"]) for i in indices}
        won = {rows[i]["traj"]: rows[i]["done"] == "success" for i in indices if rows[i]["done"]}
        p = mean(won.values()) if o.rate == "success" else min(max(mean(score.values()), 0.0), 1.0)
        for i in indices:
            good = won[rows[i]["traj"]] if o.rate == "success" else score[i] > 0.5
            pull = sigmoid((1 - p) ** o.power if good else -(p**o.power)) - 0.5
            weight[i] = 1 + o.swing / (sigmoid(1.0) - 0.5) * pull
    return [w * a + o.step_weight * b for w, a, b in zip(weight, episode(rows, o, o.std), step)]
