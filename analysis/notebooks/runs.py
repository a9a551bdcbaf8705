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
    from bepo.runs.config import TIERS

    return Path, open_source, TIERS, artefacts, build, explore, ledger, mo


@app.cell
def _(Path, ledger, mo, open_source):
    results = Path(str(mo.cli_args().get("results") or "results"))
    _source = open_source(results)
    _ABOUT = """
        # Runs

        The ledger has a row for each run, the published ones too. Below: runs side by side, and where the gate of
        Gated-BEPO is open.
        """
    _every = ledger.ledger(results, _source.published.values())
    mo.vstack([mo.md(_ABOUT), _every])
    return (results,)


@app.cell
def _(TIERS, explore, mo, results):
    every = explore.runs(results)
    mo.stop(not every, mo.md("No complete run yet."))
    runs = mo.ui.multiselect(every, value=list(every)[:2], label="Runs", full_width=True)
    logged = sorted({column for run in every.values() for column in run.metrics.columns} - {"update"})
    metrics = mo.ui.multiselect(logged, value=["train/success"], label="Metrics", full_width=True)
    tiers = [name for name in TIERS if name in {run.tier for run in every.values()}]
    tier = mo.ui.dropdown(tiers, value=tiers[-1], label="Tier")
    mo.vstack([mo.md("# Runs side by side"), runs, metrics])
    return every, metrics, runs, tier


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
def _(open_source, artefacts, build, every, explore, mo, results, tier):
    names, source = ("gate-activation", "supp-gate-diagnostics"), open_source(results)
    shown = [build(artefacts()[name], source, tier.value).product for name in names]
    of_tier = [run for run in every.values() if run.tier == tier.value]
    mo.vstack(
        [
            mo.md("# Where the gate is open"),
            tier,
            *(part for one in shown for part in (one.figure, mo.md(one.caption))),
            mo.md("## Advantage without comparison\nShare of sum |A|, per cent."),
            explore.degeneracy(of_tier),
        ]
    )
    return


if __name__ == "__main__":
    app.run()
