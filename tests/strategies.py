"""Hypothesis strategies for rollout rows in the golden layout."""

from hypothesis import strategies as st

DONE = ("success", "failure", "truncation")


value = st.floats(-2, 2, allow_nan=False, width=32)


def tokens(values):
    """A prompt of one token, and a response with the given critic's values."""
    n = len(values)
    return {"prompt_ids": [0], "response_ids": [1] * n, "logprobs": [-0.5] * n, "values": values}


@st.composite
def rollouts(draw, max_groups=2, max_size=4, max_steps=6, n_states=4, rewards=(0.0, -0.1, 0.3), unique=False):
    """Rows of a few small groups; the last reward of a success is 10 more. ``unique``: no state occurs twice."""
    rows, fresh = [], iter(range(10**6))
    for g in range(draw(st.integers(1, max_groups))):
        for k in range(draw(st.integers(1, max_size))):
            steps = draw(st.integers(1, max_steps))
            keys = [f"s{next(fresh)}" if unique else f"s{draw(st.integers(0, n_states - 1))}" for _ in range(steps + 1)]
            done = draw(st.sampled_from(DONE))
            for t in range(steps):
                last = t == steps - 1
                rows.append(
                    {
                        "uid": f"u{g}",
                        "traj": f"k{k}",
                        "t": t,
                        "obs": keys[t],
                        "next": keys[t + 1],
                        "r": draw(st.sampled_from(rewards)) + 10.0 * (last and done == "success"),
                        "done": done if last else None,
                        "valid": draw(st.booleans()),
                        **tokens(draw(st.lists(value, min_size=1, max_size=3))),
                    }
                )
    return rows
