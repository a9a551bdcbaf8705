"""Compare runs and the gate: `marimo edit analysis/notebooks/runs.py -- --results results`."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Runs")


@app.cell
def _():
    from pathlib import Path

    import marimo as mo

    from analysis.data.sources import open_source
    from analysis.grid.artefact import artefacts
    from analysis.output import ledger
    from analysis.output.build import build
    from analysis.plots import explore

    return Path, open_source, artefacts, build, explore, ledger, mo


@app.cell
def _(Path, explore, ledger, mo, open_source):
    results = Path(str(mo.cli_args().get("results") or "results"))
    source = open_source(results)
    _ABOUT = """
        # Runs

        The ledger has a row for each run: those of the results folder first, then the published ones. Below: runs of
        a study side by side, and where the gate of Gated-BEPO is open.
        """
    _every = ledger.newest(ledger.ledger(results, source.published.values()), None)
    _studies = explore.studies(source)
    mo.stop(not _studies, mo.md("No complete run yet."))
    study = mo.ui.dropdown(_studies, value=next(iter(_studies)), label="Study", searchable=True)
    mo.vstack([mo.md(_ABOUT), _every, study])
    return source, study


@app.cell
def _(explore, mo, source, study):
    every = explore.runs(source, *study.value)
    mo.stop(not every, mo.md(f"Study {study.selected_key} has no complete run yet."))
    runs = mo.ui.multiselect(every, value=list(every)[:2], label="Runs", full_width=True)
    logged = sorted({column for run in every.values() for column in run.metrics.columns} - {"update"})
    metrics = mo.ui.multiselect(logged, value=["train/success"], label="Metrics", full_width=True)
    mo.vstack([mo.md(f"# Runs side by side: study {study.selected_key}"), runs, metrics])
    return every, metrics, runs


@app.cell
def _(every, explore, metrics, mo, runs):
    mo.stop(not runs.value, mo.md("Choose at least one run."))
    chosen = {name: run for name, run in every.items() if run in runs.value}
    mo.vstack(
        [
            explore.curves(chosen, metrics.value),
            mo.md("## Final success, and the difference to the last run on the shared tasks"),
            explore.outcomes(chosen),
            mo.md("## Settings that differ"),
            explore.differences(chosen),
        ]
    )
    return


@app.cell
def _(artefacts, build, every, explore, mo, source, study):
    names = ("gate-activation", "supp-gate-diagnostics")
    shown = [build(artefacts()[name], source, study.value[1]).product for name in names]
    mo.vstack(
        [
            mo.md(f"# Where the gate is open (tier {study.value[1]})"),
            *(part for product in shown for part in (product.figure, mo.md(product.caption))),
            mo.md("## Advantage without comparison\nShare of sum |A|, per cent."),
            explore.degeneracy(list(every.values())),
        ]
    )
    return


if __name__ == "__main__":
    app.run()
