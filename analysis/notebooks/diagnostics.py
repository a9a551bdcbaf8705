"""The health of a run and what it learns. `marimo edit analysis/notebooks/diagnostics.py -- --results results`."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Diagnostics")


@app.cell
def _():
    from pathlib import Path

    import marimo as mo

    from analysis.plots.explore import histograms, paths_by_name
    from bepo.explore import diagnosis
    from bepo.runs.health import alarms_of
    from bepo.store.find import read_any

    return Path, alarms_of, diagnosis, histograms, mo, paths_by_name, read_any


@app.cell
def _(Path, mo, paths_by_name, read_any):
    results = Path(str(mo.cli_args().get("results") or "results"))
    paths = paths_by_name(results)
    mo.stop(not paths, mo.md("No run yet: `python -m bepo.train` makes one."))
    _own = {name: path for name, path in paths.items() if path.suffix != ".zip"} or paths
    _kept = next((name for name, path in _own.items() if read_any(path).rollouts()), next(iter(_own)))
    chosen = mo.ui.dropdown(list(paths), value=_kept, label="Run ID", searchable=True)
    mo.vstack(
        [
            mo.md(
                """
                # The health of a run

                A run can train to the end and learn nothing, or learn the wrong thing. This page shows its alarms,
                its metrics over time, success by task type, and the parts of its advantages.
                `bepo diagnose RUN` prints the same tables. Runs of the results folder come first, the newest first.
                """
            ),
            chosen,
        ]
    )
    return chosen, paths


@app.cell
def _(alarms_of, chosen, mo, paths, read_any):
    run = read_any(paths[chosen.value])
    alarms = [f"* **{alarm}**" for alarm in alarms_of(run)]
    _whose = f"{run.config['env']['name']}, {run.config['credit']['name']}, seed {run.config['seed']}"
    _said = [f"Run {chosen.value}: {_whose}", "", "## Alarms", "Their thresholds are the settings `health.*`.", ""]
    mo.md("\n".join([*_said, *(alarms or ["None."])]))
    return (run,)


@app.cell
def _(diagnosis, mo, run):
    mo.vstack(
        [
            mo.md(
                """
                ## How the metrics moved

                Means over the first, the middle and the last fifth of the updates. Success that falls while
                the return rises is reward hacking. An entropy near zero early on means that the policy no
                longer explores.
                """
            ),
            diagnosis.signals(run).round(3).reset_index(names="metric"),
            mo.md("## Which tasks improved\n\nSuccess on test tasks, before training and at the newest evaluation."),
            diagnosis.by_type(run).reset_index(names="task type"),
        ]
    )
    return


@app.cell
def _(mo, run):
    kept = sorted(run.rollouts())
    mo.stop(not kept, mo.md("## The advantage\n\nThis run kept no rollouts (`save_rollouts=10` keeps ten)."))
    update = mo.ui.dropdown([str(number) for number in kept], value=str(kept[-1]), label="Rollouts of update")
    mo.vstack(
        [
            mo.md(
                """
                ## What the advantage consists of

                Each term of the estimator over all transitions of a batch. A term with many zeros gives no
                signal there. Below the table are histograms of the terms. If the estimator has values, the last
                table compares them with the returns that followed.
                """
            ),
            update,
        ]
    )
    return (update,)


@app.cell
def _(diagnosis, histograms, mo, run, update):
    terms = diagnosis.terms(run, int(update.value))
    calibrated = diagnosis.calibration(terms)
    tables = [diagnosis.spreads(terms).round(3).reset_index(names="term"), histograms(terms)]
    mo.vstack([*tables, *([] if calibrated is None else [calibrated.round(3)])])
    return


if __name__ == "__main__":
    app.run()
