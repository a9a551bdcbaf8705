"""The trials of a search with Optuna: `marimo edit analysis/notebooks/search.py -- --results results`."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Search")


@app.cell
def _():
    from pathlib import Path
    from warnings import simplefilter

    import marimo as mo
    import optuna
    from optuna.visualization import matplotlib as plots

    from analysis.data.sources import open_source
    from analysis.figures import tuning
    from analysis.figures.tuning_space import draw_parallel
    from analysis.plots import explore
    from bepo.runs.config import TIERS
    from bepo.runs.trials_database import finite_trials

    simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # its matplotlib plots, since 2020
    return Path, TIERS, draw_parallel, explore, finite_trials, mo, open_source, optuna, plots, tuning


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
def _(finite_trials, mo, optuna, study, tuning):
    mo.stop(study.value is None)
    _trials = finite_trials(study.value)
    mo.stop(not _trials, mo.md("No complete trial yet."))
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    names = [tuning.objective(study.value, n).words for n in range(len(study.value.directions))]
    _few = "Importances are unstable: they vary with every trial that is added." if len(_trials) < 20 else ""
    mo.md(f"{len(_trials)} complete trials. The first pictures are Optuna's own, with success as a share of 1. {_few}")
    return (names,)


@app.cell
def _(mo, names, plots, study, tuning):
    _shown = [plots.plot_pareto_front(study.value, target_names=names)] if len(names) in (2, 3) else []
    for _n, _name in enumerate(names):
        _of = {"target": (lambda trial, n=_n: trial.values[n]) if len(names) > 1 else None, "target_name": _name}
        _shown += [
            mo.md(f"# {_name[:1].upper()}{_name[1:]}"),
            plots.plot_optimization_history(study.value, **_of),
            plots.plot_slice(study.value, **_of),
        ]
        if tuning.importances(study.value):
            _which = tuning.evaluator(study.value)
            _shown.append(plots.plot_param_importances(study.value, evaluator=_which, **_of))
    mo.vstack(_shown)
    return


@app.cell
def _(draw_parallel, explore, mo, study, tuning):
    mo.stop(study.value is None)
    _trials = study.value.trials_dataframe(attrs=("number", "state", "value", "params"))
    mo.vstack(
        [
            mo.md("# Which values were tried\nA line is a trial, and its colour is the first objective."),
            tuning.picture([study.value], draw_parallel),
            mo.md("## Every trial"),
            explore.short(_trials),
        ]
    )
    return


if __name__ == "__main__":
    app.run()
