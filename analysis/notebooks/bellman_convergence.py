"""How fast sweeps converge on recorded rollouts: `marimo edit analysis/notebooks/bellman_convergence.py`."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Bellman convergence")


@app.cell
def _():
    import marimo as mo

    from analysis import convergence, explore

    return convergence, explore, mo


@app.cell
def _(explore, mo):
    found = explore.with_rollouts(explore.runs(explore.results_folder(mo.cli_args())))
    mo.stop(not found, mo.md("No run kept its rollouts. Train with `save_rollouts=10`."))
    run = mo.ui.dropdown(found, value=next(iter(found)), label="Run", full_width=True)
    gamma = mo.ui.slider(0.5, 0.99, 0.01, value=0.95, label="gamma", show_value=True)
    mo.vstack([mo.md("# Bellman convergence"), run, gamma])
    return gamma, run


@app.cell
def _(explore, mo, run):
    files = explore.rollouts(run.value)
    file = mo.ui.dropdown(files, value=list(files)[-1], label="Rollouts of")
    return (file,)


@app.cell
def _(convergence, explore, file, gamma, mo):
    table = convergence.convergence(explore.load(file.value), gamma.value)
    mo.vstack(
        [
            file,
            convergence.picture(table),
            mo.md(
                "The dashed line is the paper's budget. Beyond the certificate nothing is promised; below, it holds."
            ),
            explore.short(table),
        ]
    )
    return


if __name__ == "__main__":
    app.run()
