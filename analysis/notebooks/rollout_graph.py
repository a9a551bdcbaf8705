"""Rollout-graph viewer: `marimo edit analysis/notebooks/rollout_graph.py -- --results results`."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="full", app_title="Rollout graphs")


@app.cell
def _():
    import marimo as mo

    from analysis import explore, rollout_graph

    return explore, mo, rollout_graph


@app.cell
def _(explore, mo):
    found = explore.with_rollouts(explore.runs(explore.results_folder(mo.cli_args())))
    mo.stop(not found, mo.md("No run kept its rollouts. Train with `save_rollouts=10`."))
    run = mo.ui.dropdown(found, value=next(iter(found)), label="Run", full_width=True)
    mo.vstack([mo.md("# Rollout graphs"), run])
    return (run,)


@app.cell
def _(explore, mo, run):
    files = explore.rollouts(run.value)
    file = mo.ui.dropdown(files, value=list(files)[-1], label="Rollouts of")
    return (file,)


@app.cell
def _(explore, file, mo, rollout_graph):
    rollouts = explore.load(file.value)
    names = rollout_graph.tasks(rollouts)
    task = mo.ui.dropdown(names, value=rollout_graph.telling(rollouts), label="Group")
    return rollouts, task


@app.cell
def _(mo, rollout_graph, rollouts, task):
    group = rollout_graph.one_group(rollouts, task.value)
    table = rollout_graph.records(group)
    numbers = {"residual": "residual"} | {name: name for name in rollout_graph.advantages(group)}
    shown = mo.ui.dropdown(numbers, value="gated_bepo", label="On the edges")
    return group, shown, table


@app.cell
def _(file, group, mo, rollout_graph, shown, table, task):
    mo.vstack(
        [
            mo.hstack([file, task, shown], justify="start"),
            rollout_graph.view(group, table[shown.value].to_numpy(), shown.value),
            mo.md("Circles: state number and fixed-point value; shaded: the gate is open. Arrows: the wider the more."),
            table,
        ]
    )
    return


if __name__ == "__main__":
    app.run()
