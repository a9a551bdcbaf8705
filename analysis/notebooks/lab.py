"""The lab's recorded measurements: `marimo edit analysis/notebooks/lab.py`."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="The lab")


@app.cell
def _():
    from pathlib import Path

    import marimo as mo

    from analysis.data.lab import label_of, recorded
    from analysis.data.sources import open_source
    from analysis.grid.artefact import artefacts
    from analysis.output.build import build
    from analysis.output.text import to_markdown
    from analysis.plots.lab import along

    return Path, along, artefacts, build, label_of, mo, open_source, recorded, to_markdown


@app.cell
def _(Path, artefacts, build, mo, open_source, to_markdown):
    _source = open_source(Path(str(mo.cli_args().get("results") or "results")))
    _labels = ("lab-claims", "lab-group-size", "lab-bias", "lab-learning", "lab-prediction", "lab-sampled")
    _known = artefacts("table")
    _tables = [build(_known[label], _source, "laptop").table for label in _labels]
    _ABOUT = """
        # The lab

        In a small world the advantage of every action can be computed exactly. The lab compares each estimator with
        it, without a language model. The tables show which estimator is closest, where it is biased, and whether
        being close predicts learning. Below you choose a measure and a dial of the lab, such as the group size.
        """
    mo.vstack([mo.md(_ABOUT), *(mo.md(to_markdown(table)) for table in _tables)])
    return


@app.cell
def _(label_of, mo, recorded):
    rows = recorded("fidelity")
    _words = {label_of(words): words for words in dict.fromkeys(rows.rows["estimator"])}
    chosen = mo.ui.multiselect(
        _words, value=[name for name in ("GRPO", "Gated-BEPO") if name in _words], label="Estimators"
    )
    dial = mo.ui.dropdown(["group_size", "slip", "aliasing"], value="group_size", label="Dial")
    measure = mo.ui.dropdown(
        sorted(set(rows.rows["measure"])), label="Measure", value=None if rows.rows.empty else "error"
    )
    mo.vstack([mo.md("# Any measure along a dial"), chosen, dial, measure])
    return chosen, dial, rows, measure


@app.cell
def _(along, chosen, dial, rows, measure, mo):
    mo.stop(not chosen.value or measure.value is None, mo.md("Choose at least one estimator."))
    along(rows, dial.value, chosen.value, measure.value)
    return


if __name__ == "__main__":
    app.run()
