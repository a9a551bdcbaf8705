"""Recorded rollout groups: `marimo edit analysis/notebooks/rollouts.py -- --results results`."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="full", app_title="Rollouts")


@app.cell
def _():
    from pathlib import Path

    import marimo as mo

    from analysis.data.sources import open_source
    from analysis.plots import explore, rollout_graph

    return Path, explore, mo, open_source, rollout_graph


@app.cell
def _(Path, explore, mo, open_source):
    source = open_source(Path(str(mo.cli_args().get("results") or "results")))
    _studies = explore.studies(source)
    mo.stop(not _studies, mo.md("No complete run yet."))
    study = mo.ui.dropdown(_studies, value=next(iter(_studies)), label="Study", searchable=True)
    mo.vstack(
        [
            mo.md(
                """
                # Rollout graphs

                Several episodes of one task form a graph: a state that two episodes visit is one node. Step
                credit compares what followed from there. Choose a study, a run and a batch that it kept. Below
                are the graph of one group and the advantage of any estimator on its edges.
                """
            ),
            study,
        ]
    )
    return source, study


@app.cell
def _(explore, mo, source, study):
    _study = f"Study {study.selected_key}"
    kept = {name: run for name, run in explore.runs(source, *study.value).items() if explore.rollouts(run)}
    mo.stop(not kept, mo.md(f"{_study}: no run kept its rollouts. Train with `save_rollouts=10`."))
    run = mo.ui.dropdown(kept, value=next(iter(kept)), label="Run", full_width=True)
    mo.vstack([mo.md(f"{_study}, run {run.selected_key}"), run])
    return (run,)


@app.cell
def _(explore, mo, run):
    files = explore.rollouts(run.value)
    file = mo.ui.dropdown(files, value=list(files)[-1], label="Rollouts of")
    return (file,)


@app.cell
def _(file, mo, rollout_graph):
    batch = file.value()
    names = rollout_graph.tasks(batch)
    task = mo.ui.dropdown(names, value=next(iter(names)), label="Group")
    gamma = mo.ui.slider(0.5, 0.99, 0.01, value=0.95, label="gamma", show_value=True)
    return batch, gamma, task


@app.cell
def _(batch, mo, rollout_graph, task):
    group = rollout_graph.one_group(batch, task.value)
    table = rollout_graph.transition_table(group)
    numbers = {"residual": "residual"} | {name: name for name in rollout_graph.advantages(group)}
    number = mo.ui.dropdown(numbers, value="gated_bepo", label="On the edges")
    return group, number, table


@app.cell
def _(file, group, mo, number, rollout_graph, table, task):
    mo.vstack(
        [
            mo.hstack([file, task, number], justify="start"),
            rollout_graph.view(group, table[number.value].to_numpy(), number.value),
            mo.md(
                "Circles: state number and fixed-point value. Shaded: the gate is open. Wider arrows: more transitions."
            ),
            table,
        ]
    )
    return


@app.cell
def _(batch, explore, gamma, mo, rollout_graph):
    sweeps = rollout_graph.convergence(batch, gamma.value)
    mo.vstack(
        [
            mo.md("# Bellman convergence, over all groups of the file"),
            gamma,
            rollout_graph.convergence_picture(sweeps),
            mo.md("The dashed line is the paper's budget. Only the certificate is a guaranteed bound."),
            explore.short(sweeps),
        ]
    )
    return


if __name__ == "__main__":
    app.run()
