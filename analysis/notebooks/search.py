"""The trials of a search with Optuna: `marimo edit analysis/notebooks/search.py -- --results results`."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Search")


@app.cell
def _():
    from pathlib import Path

    import marimo as mo

    from analysis.data.sources import open_source
    from analysis.figures import tuning
    from analysis.figures.tuning_space import draw_parallel
    from analysis.plots import explore
    from bepo.runs.config import TIERS
    from bepo.runs.trials_database import finite_trials

    return Path, TIERS, draw_parallel, explore, finite_trials, mo, open_source, tuning


@app.cell
def _(Path, TIERS, mo, open_source, tuning):
    _source = open_source(Path(str(mo.cli_args().get("results") or "results")))
    _own = tuning.optuna_studies(_source.results)
    _every = tuning.optuna_studies(*_source.trials(*TIERS))
    _studies = _own | {f"{name} (published)": search for name, search in _every.items() if name not in _own}
    study = mo.ui.dropdown(_studies, value=next(iter(_studies), None), label="Study")
    _ABOUT = """
        # A search with Optuna

        `python -m bepo.sweep tune_gated_bepo` searches the settings of Gated-BEPO. Each trial trains one setting with
        several seeds, and Optuna keeps the trials in `results/studies.db`. The searches of the results folder come
        first, then the published ones.
        """
    mo.vstack([mo.md(_ABOUT), study if _studies else mo.md("No search yet: `python -m bepo.sweep tune_gated_bepo`.")])
    return (study,)


@app.cell
def _(finite_trials, mo, study, tuning):
    mo.stop(study.value is None)
    _trials = finite_trials(study.value)
    _few = "Importances are unstable: they vary with every trial that is added." if len(_trials) < 20 else ""
    mo.vstack(
        [
            mo.md(f"## What {study.selected_key} found\n{len(_trials)} complete trials. Every point is a trial."),
            tuning.picture([study.value], tuning.draw_history),
            mo.md(f"## Which settings matter\nShares of the variance of the objective. {_few}"),
            tuning.picture([study.value], tuning.draw_importance),
        ]
    )
    return


@app.cell
def _(draw_parallel, explore, mo, study, tuning):
    mo.stop(study.value is None)
    mo.vstack(
        [
            mo.md("## Which values were tried\nA line is a trial, and its colour is the objective."),
            tuning.picture([study.value], draw_parallel),
            mo.md("## Every trial"),
            explore.short(study.value.trials_dataframe(attrs=("number", "state", "value", "params"))),
        ]
    )
    return


if __name__ == "__main__":
    app.run()
