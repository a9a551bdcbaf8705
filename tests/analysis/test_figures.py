"""Every figure of the paper is built, is deterministic and has a caption; pictures of methods show real numbers."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from analysis.data.sources import Source
from analysis.figures.worked_examples import METHODS, PATTERNS, transitions
from analysis.grid.artefact import artefacts
from analysis.grid.table import Figure
from analysis.output.build import Built, LeftOut, build, write
from analysis.plots.rollout_graph import advantages, edges, group_of, layout
from analysis.plots.style import COLUMN, PAGE
from bepo.credit.gated_bepo import GatedBEPO
from tests.stored_runs import write_run

pytestmark = pytest.mark.slow

PAPER = tuple(
    """
    alfworld-success-curves credit-comparison method-overview alfworld-aliasing-curves gate-activation
    ablation-diagnostics supp-gate-diagnostics supp-rl-signals supp-alfworld-1p5b-validation-curves
    supp-alfworld-7b-curves supp-runtime
    """.split()
)
SIGNALS = {
    "credit/gate_transition_coverage": 0.7,
    "credit/gate_state_coverage": 0.3,
    "credit/states_per_group": 12.0,
    "credit/visits_per_state": 3.0,
    "credit/transitions_visits_1": 0.1,
    "credit/transitions_visits_2_3": 0.2,
    "credit/transitions_visits_4_7": 0.3,
    "credit/transitions_visits_8_up": 0.4,
    "credit/delta_advantage_1": 1.0,
    "credit/delta_advantage_20": 1e-3,
    "credit/token_advantage_mean": 0.01,
    "credit/advantage_std": 1.1,
    "train/entropy": 1.0,
    "train/grad_norm": 0.5,
    "train/response_length": 3.0,
    "train/response_clip_ratio": 0.0,
    "cpu/rollout": 2.0,
    "cpu/credit": 0.004,
    "cpu/update": 1.0,
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two seeds of what the figures are about."""
    path = tmp_path_factory.mktemp("results")
    passes = [[1, 0, 1, 1], [1, 1, 0, 0]]

    def add(study, **settings):
        at = {name.replace("__", "."): value for name, value in settings.items()}
        write_run(path, study, at, passes, tier="smoke", metrics=SIGNALS)

    for seed in (0, 1):
        for env in ("alfworld", "webshop"):
            add(f"main_{env}", env__name=env, seed=seed)
        for model in ("small", "large"):
            add("main_alfworld", env__name="alfworld", credit__name="hgpo", model=model, seed=seed)
        for key in ("raw", "augmented"):
            at = {"env__graph_key": key, "env__prompt_state": key, "seed": seed, "env__name": "alfworld"}
            add("observation_aliasing", credit__name="graphgpo", **at)
        add("runtime", env__name="alfworld", seed=seed)
    for sweeps in (0, 1, 20):
        add("iteration_budget", env__name="webshop", credit__iterations=sweeps, credit__solver="iterate")
    return path


@pytest.fixture(scope="module")
def built(results):
    known = artefacts()
    return {label: build(known[label], Source(results), "smoke") for label in PAPER}


def test_every_figure_names_tier_and_seeds_and_fits_the_page(built):
    for label, one in built.items():
        width = one.product.figure.get_figwidth()
        assert width <= COLUMN or COLUMN < width <= PAGE
        assert one.product.caption.endswith((".", ")"))
        if label not in ("credit-comparison", "method-overview"):
            assert "tier smoke" in one.product.caption
            assert "n = 2" in one.product.caption, one.product.caption


def test_every_axis_with_data_is_named(built):
    for label, one in built.items():
        if label in ("credit-comparison", "method-overview"):
            continue
        for axis in one.product.figure.axes:
            assert axis.get_xlabel(), label
            assert axis.lines or axis.patches, label
        assert one.product.figure.axes[0].get_ylabel() or label == "supp-runtime", label


def test_without_runs_figures_say_so(tmp_path):
    known = artefacts()
    for label in PAPER[3:]:
        figure = build(known[label], Source(tmp_path), "smoke").product.figure
        assert all(any("not run" in t.get_text() for t in axis.texts) for axis in figure.axes), label


def test_a_run_without_a_metric_is_named_and_the_others_are_drawn(tmp_path):
    folders = {}
    for seed, method, metrics in (
        (0, "gated_bepo", SIGNALS),
        (1, "gated_bepo", {}),
        (0, "hgpo", {"train/success": None}),
    ):
        at = {"env.name": "alfworld", "credit.name": method, "seed": seed}
        folders[method, seed] = write_run(tmp_path, "main_alfworld", at, [[1, 0]], tier="smoke", metrics=metrics).id
    known, source = artefacts(), Source(tmp_path)
    signals = build(known["supp-rl-signals"], source, "smoke").product
    assert all(len(axis.lines) == 1 for axis in signals.figure.axes)
    (note,) = signals.notes
    assert "train/entropy" in note and folders["gated_bepo", 1] in note and folders["gated_bepo", 0] not in note
    curves = build(known["alfworld-success-curves"], source, "smoke").product
    assert "train/success" in curves.notes[0] and folders["hgpo", 0] in curves.notes[0]
    drawn = [line for line in curves.figure.axes[0].lines if len(line.get_xdata())]
    assert [line.get_label() for line in drawn] == ["Gated-BEPO"]
    for label in PAPER[3:]:
        build(known[label], source, "smoke")


def test_a_picture_names_the_runs_that_it_shows_and_no_others(built):
    methods = {r.method for r in built["gate-activation"].runs}
    assert methods == {"gated_bepo"} and len(built["gate-activation"].runs) == 2
    assert {r.model for r in built["supp-alfworld-7b-curves"].runs} == {"large"}


def test_legends_cover_no_data(built):
    for label, one in built.items():
        figure = one.product.figure
        figure.draw_without_rendering()
        boxes = [axis.get_window_extent() for axis in figure.axes]
        for legend in [*figure.legends, *(a.get_legend() for a in figure.axes if a.get_legend())]:
            assert not any(legend.get_window_extent().overlaps(box) for box in boxes), label


def test_the_same_runs_give_the_same_bytes(results, tmp_path):
    """Of one figure of each kind; tests/analysis/test_tables.py has every table and the page."""
    known, some = artefacts(), ("credit-comparison", "alfworld-aliasing-curves", "supp-gate-diagnostics")
    folders = (tmp_path / "a" / "figures", tmp_path / "b" / "figures")
    for folder in folders:
        write([build(known[label], Source(results), "smoke") for label in some], folder.parent, LeftOut())
    files = sorted(p.name for p in folders[0].iterdir())
    assert len(files) == 4 * len(some)
    for file in files:
        first, second = ((folder / file).read_bytes() for folder in folders)
        assert first == second, file


def test_only_a_picture_that_changed_is_written_again(tmp_path):
    folder = tmp_path / "figures"

    def written(title):
        figure, axis = plt.subplots(layout="constrained")
        axis.set_title(title)
        write([Built("one", "smoke", Figure("Caption.", figure))], tmp_path, LeftOut())
        return {path.suffix: path.stat().st_mtime_ns for path in folder.iterdir() if path.suffix != ".tex"}

    first = written("a")
    assert set(first) == {".pdf", ".png", ".svg"}
    assert written("a") == first
    (folder / "one.smoke.pdf").unlink()
    second = written("a")
    assert set(second) == set(first) and second[".pdf"] > first[".pdf"]
    third = written("b")
    assert all(third[kind] > second[kind] for kind in second)


def shown(pattern):
    """Method -> column -> number, as in the picture."""
    group = group_of(pattern.trajectories)
    found = advantages(group, METHODS)
    return {m: {c: found[m][transitions(group, c)].mean() for c in pattern.columns} for m in METHODS}


def test_what_the_comparison_says_is_what_the_estimators_give():
    detour, downstream, shortcut, lonely = map(shown, PATTERNS)
    assert detour["grpo"]["2: S→A"] == detour["grpo"]["2: S→W"] > detour["gated_bepo"]["2: S→W"]
    assert downstream["gigpo"]["3: S→B"] == downstream["gigpo"]["4: S→C"]
    assert downstream["gated_bepo"]["3: S→B"] > downstream["gated_bepo"]["4: S→C"] + 0.5
    assert shortcut["graphgpo"]["S→R"] > 0 > shortcut["graphgpo"]["S→L"]
    assert shortcut["gated_bepo"]["S→R"] < 0 < shortcut["gated_bepo"]["S→L"]
    group = group_of(PATTERNS[3].trajectories)
    outcome = GatedBEPO()(group).terms["outcome"]
    for column in ("1: P→Q", "2: P→Q", "4: R→✗"):
        assert lonely["gated_bepo"][column] == outcome[transitions(group, column)].mean() != 0
    assert lonely["hgpo"]["4: R→✗"] == 0


def test_a_graph_keeps_every_transition_and_places_every_node():
    group = group_of(PATTERNS[0].trajectories)
    assert sorted(i for transitions in edges(group).values() for i in transitions) == list(range(len(group)))
    assert set(layout(group)) == {"S", "A", "W", "✓", "✗"}
    assert len(set(layout(group).values())) == 5
    assert np.isfinite(list(layout(group).values())).all()


def uneven(results):
    """Runs whose seeds differ by more than their mean, and two budgets of sweeps that change advantages alike."""
    for seed, norm in enumerate((0.1, 0.1, 4.0)):
        logged = SIGNALS | {"train/grad_norm": norm, "train/success": norm / 5}
        write_run(
            results, "main_alfworld", {"env.name": "alfworld", "seed": seed}, [[1, 0]], tier="smoke", metrics=logged
        )
    return Source(results)


def lowest(axis):
    return min(path.vertices[:, 1].min() for band in axis.collections for path in band.get_paths())


def test_no_band_leaves_what_is_possible(tmp_path):
    source, known = uneven(tmp_path), artefacts()
    norm = build(known["supp-rl-signals"], source, "smoke").product.figure.axes[1]
    assert lowest(norm) == 0 and norm.get_ylim()[0] < norm.get_ylim()[1] * 0.1
    assert lowest(build(known["alfworld-success-curves"], source, "smoke").product.figure.axes[0]) >= 0


def test_the_reference_of_the_sweeps_is_above_the_line_that_it_equals(built):
    own, reference = built["ablation-diagnostics"].product.figure.axes[0].lines
    assert reference.get_zorder() > own.get_zorder() and reference.get_markerfacecolor() == "none"
    assert "runs of 20 sweeps" in [t.get_text() for t in built["ablation-diagnostics"].product.figure.legends[0].texts]


def test_curves_that_the_paper_calls_test_show_test_tasks(tmp_path):
    """The stored final test passes are 1 of 2, the validation tasks all failed."""
    for study in ("observation_aliasing", "main_alfworld"):
        at = {"env.name": "alfworld", "env.graph_key": "raw", "env.test_split": "valid_seen"}
        write_run(tmp_path, study, at, [[1, 0]], tier="smoke")
    last = {}
    for label in ("alfworld-aliasing-curves", "supp-alfworld-1p5b-validation-curves"):
        _, other = build(artefacts()[label], Source(tmp_path), "smoke").product.figure.axes
        last[label] = other.get_title(), other.lines[0].get_ydata()[-1]
    assert last["alfworld-aliasing-curves"] == ("(b) Test tasks, scenes of training", 50)
    assert last["supp-alfworld-1p5b-validation-curves"] == ("(b) Validation tasks, unseen scenes", 0)
