"""Grids and Optuna studies as they stand: `marimo edit analysis/notebooks/sweep_explorer.py -- --results results`."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Sweeps")


@app.cell
def _():
    import marimo as mo

    from analysis import explore, trials

    return explore, mo, trials


@app.cell
def _(explore, mo, trials):
    results = explore.results_folder(mo.cli_args())
    mo.vstack([mo.md("# Sweeps\n## Grids"), trials.cells(results)])
    return (results,)


@app.cell
def _(mo, results, trials):
    studies = trials.studies(results)
    mo.stop(not studies, mo.md("## Optuna\nNo study yet."))
    study = mo.ui.dropdown(studies, value=next(iter(studies)), label="Study")
    mo.vstack([mo.md("## Optuna"), study])
    return (study,)


@app.cell
def _(explore, mo, study, trials):
    mo.vstack(
        [
            mo.hstack([trials.history(study.value), trials.importance(study.value)], justify="start"),
            explore.short(trials.trials(study.value)),
        ]
    )
    return


if __name__ == "__main__":
    app.run()
