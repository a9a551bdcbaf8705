"""From runs to files: what a reader of the tables and the page sees."""

import csv
import re
from pathlib import Path
from statistics import mean, stdev

import pytest

from analysis.__main__ import main
from analysis.claims.entries import OfEntries
from analysis.data.cache import digest_of, load, save, written
from analysis.data.sources import Source, state_of
from analysis.grid.artefact import artefacts
from analysis.output import explain, page
from analysis.output.build import build
from analysis.output.latex import to_latex
from analysis.output.text import statistics, to_csv, to_markdown
from bepo.credit import estimators
from bepo.runs.config import METHOD_VERSION
from bepo.sweep.studies import study_names
from tests.stored_runs import in_block, write_run
from tests.tables import artefact_of as table
from tests.tables import texts

# method -> training seed -> evaluation pass -> successes of four tasks at the end
FINAL = {
    "grpo": {0: ((1, 0, 0, 0), (1, 1, 0, 0)), 1: ((0, 0, 0, 0), (1, 0, 0, 0))},
    "gated_bepo": {0: ((1, 1, 1, 0), (1, 1, 1, 1)), 1: ((1, 1, 0, 0), (1, 1, 1, 0))},
}
KINDS = ("look_at_obj_in_light", "pick_two_obj_and_place", "pick_two_obj_and_place", "pick_and_place_simple")
PICTURES = {"model": "vl"}


@pytest.fixture
def results(tmp_path):
    for method, seeds in FINAL.items():
        for seed, passes in seeds.items():
            write_run(tmp_path / "results", "main_sokoban", PICTURES | {"credit.name": method, "seed": seed}, passes)
    return tmp_path / "results"


def by_name(found, column=1):
    """Row -> values, by the text in a column."""
    return {row[column].value: [printed.value for printed in row] for row in found.rows}


def marks(found):
    """The signs behind values, with the texts in the first two columns of their rows."""
    return [(row[0].value, row[1].value, printed.mark) for row in found.rows for printed in row if printed.mark]


def signs(found):
    """The signs behind best values."""
    return [mark for *_, mark in marks(found) if mark in "†‡"]


def bold(found):
    return {(row[1].value, name) for row in found.rows for printed, name in zip(row, found.names) if printed.bold}


def headings(found):
    return [heading for heading, _ in found.lines if heading]


def entries(found):
    return {entry.path: entry for entry in found.entries}


def test_reported_stands_beside_reproduced(results):
    found = table(results, "sokoban-main")
    assert found.names == ["Type", "Method", "Reported", "Reproduced (laptop)", "Seeds"]
    rows = by_name(found)
    for name, method, published in (("GRPO", "grpo", 67.1), ("Gated-BEPO", "gated_bepo", 80.0)):
        per_seed = [100 * mean(mean(p) for p in passes) for passes in FINAL[method].values()]
        kind, _, reported, reproduced, seeds = rows[name]
        assert (kind, reported.mean, seeds) == ("RL Training", published, "2×2")
        assert (reproduced.mean, reproduced.std) == pytest.approx((mean(per_seed), stdev(per_seed)))
        (entry,) = (e for e in found.entries if e.path.endswith(f"/{name}"))
        assert entry.gap == pytest.approx(mean(per_seed) - published) and not entry.same_models
    assert rows["GiGPO"][3:] == ["not run", ""] and rows["Qwen2.5-VL"][0] == "Prompting"


def test_only_the_best_is_bold_and_a_sign_says_what_it_is_worth(results):
    found = table(results, "sokoban-main")
    assert bold(found) == {("Gated-BEPO", "Reported"), ("Gated-BEPO", "Reproduced (laptop)")}
    assert signs(found) == ["†"]  # two seeds a side: 75 and 25 are not told apart
    leader = next(n for n in found.notes if "Success: Gated-BEPO over GRPO" in n)
    assert "+50.0 points" in leader and "not separated" in leader and "probability of improvement 1.00" in leader
    assert re.search(r"2 seeds detect a gap of \d+\.\d points \(power 0\.8\); \d seeds detect 50\.0\.", leader)


def test_the_note_says_what_differs_between_models_and_what_was_tested(tmp_path):
    alfworld = {"env.name": "alfworld", "env.test_split": "valid_unseen", "env.graph_key": "raw"}
    for model, key in (("small", "raw"), ("large", "augmented")):
        write_run(tmp_path, "main_alfworld", alfworld | {"model": model, "env.graph_key": key}, ((1, 0),))
    (note,) = (n for n in table(tmp_path, "main-results").notes if n.startswith("Tier laptop"))
    assert (
        "studies main_alfworld, main_webshop, prompting, prompting_closed. ALFWorld: models large, small; policy tiny; "
        in note
    )
    assert "test_split=valid_unseen; graph_key=augmented (large), raw (small); 2 updates" in note


def test_seeds_that_agree_exactly_separate_nothing(tmp_path):
    """All succeed with one method and all fail with the other: three seeds show no deviation, which is not one of 0."""
    for method, success in (("grpo", 0), ("gigpo", 1)):
        for seed in range(3):
            write_run(tmp_path, "main_sokoban", PICTURES | {"credit.name": method, "seed": seed}, ((success,) * 2,))
    found = table(tmp_path, "sokoban-main")
    assert signs(found) == ["†"]
    assert "Success: GiGPO over GRPO: +100.0 points; the training seeds of both agree exactly" in "\n".join(found.notes)


def test_a_control_takes_no_part_in_the_ranking(tmp_path):
    for method, rates in (("oracle", (4, 4)), ("gigpo", (3, 3)), ("grpo", (1, 1))):
        for seed, rate in enumerate(rates):
            passes = [[float(task < rate) for task in range(4)], [1, 0, 0, seed]]
            write_run(tmp_path, "main_sokoban_text", {"credit.name": method, "seed": seed}, passes)
    found = table(tmp_path, "sokoban-text")
    bold = [row[1].value for row in found.rows for printed in row if printed.bold]
    assert bold == ["GiGPO"] and by_name(found)["Oracle (privileged)"][0] == "Privileged"


def test_nothing_is_best_where_all_are_equal(tmp_path):
    for method in ("grpo", "gigpo"):
        write_run(tmp_path, "main_sokoban", PICTURES | {"credit.name": method}, ((0, 0),))
    found = table(tmp_path, "sokoban-main")
    assert {name for _, name in bold(found)} == {"Reported"} and not signs(found)
    assert not any(" over " in note and "points" in note for note in found.notes)


def test_what_is_not_the_papers_says_so_in_the_table(results):
    found = table(results, "sokoban-main")
    notes = "\n".join(found.notes)
    assert (
        "Tier laptop, studies main_sokoban, prompting_sokoban. Sokoban: model vl; policy tiny; 2 updates; "
        "4 test tasks (task set d1)" in notes
    )
    assert "other models than the paper" in notes and "success before training 0.0" in notes
    named = {name: mark for _, name, mark in marks(found) if mark not in "†‡"}
    assert named == {"GRPO": "ᶜ", "GiGPO": "ᶜ"} and "took from elsewhere" in notes
    assert ("RL Training", "GAGPO", "ʳ") in marks(table(results, "main-results"))


def test_runs_the_paper_has_no_place_for_get_a_block_of_their_own(results):
    write_run(results, "main_sokoban", {"model": "small", "credit.name": "mine"}, FINAL["grpo"][0])
    found = table(results, "sokoban-main")
    (first, _), (heading, row) = ((heading, row) for heading, row in found.lines if heading)
    assert first == "Model vl: stand-in for the paper's Qwen2.5-VL-3B-Instruct"
    assert heading == "Sokoban, model small (not in the paper)"
    assert row[1].value == "mine" and row[2].value is None


def test_main_results_select_by_environment_kind_and_model(tmp_path):
    settings = {"env.name": "alfworld", "model": "small", "credit.name": "hgpo"}
    passes = ((1, 1, 0, 0), (1, 0, 0, 0))
    for seed in (0, 1):
        write_run(tmp_path, "main_alfworld", settings | {"seed": seed}, passes, kinds=KINDS)
    shop = settings | {"env.name": "webshop", "model": "large"}
    write_run(tmp_path, "main_webshop", shop, ((1, 0),), scores=((1.0, 0.5),), task_set="w")
    found = entries(table(tmp_path, "main-results"))
    expected = {"All": 37.5, "Look": 100, "Pick2": 25, "Pick": 0}
    for name, value in expected.items():
        assert found[f"main-results/ALFWorld/{name}/HGPO/1.5B"].reproduced.mean == value
    assert found["main-results/ALFWorld/Heat/HGPO/1.5B"].missing == "none"  # no such task in the task set
    assert found["main-results/WebShop/Score/HGPO/7B"].reproduced.mean == 75
    assert found["main-results/WebShop/Succ./HGPO/7B"].key == ("main-results", "hgpo", "7B", "webshop/success")
    assert found["main-results/WebShop/Succ./HGPO/1.5B"].missing == "not run"
    rows = texts(table(tmp_path, "main-results"))
    at = next(i for i, row in enumerate(rows) if row[1] == "HGPO")
    assert [row[2] for row in rows[at : at + 2]] == ["reported", "laptop"] and rows[at + 1][-1] == "2×2"
    assert next(row for row in rows if row[1].startswith("RLOO"))[-1] == ""
    (absent,) = [note for note in table(tmp_path, "main-results").notes if note.startswith("Not run at tier laptop")]
    assert "RLOO (1.5B, 7B)" in absent and "GPT-4o (closed)" in absent and "HGPO" not in absent


def test_ablations_read_their_rows_off_the_settings(tmp_path):
    shop = {"env.name": "webshop", "credit.b_min": 2}
    for n, passes in ((2, ((1, 1), (1, 0))), (3, ((1, 0), (0, 0))), (4, ((0, 0), (0, 0)))):
        write_run(tmp_path, "gate_thresholds", shop | {"credit.n_min": n}, passes)
    found = table(tmp_path, "gate-ablation")
    rows = by_name(found, 0)
    assert list(rows)[-1] == "(4, 2)" and rows["(4, 2)"][3] is None and rows["(4, 2)"][4].mean == 0
    default = rows["Default"]
    assert default[1:3] == ["2", "2"] and default[3].mean == 75.91 and default[-1] == "1×2"
    assert (default[4].mean, default[4].std, default[4].level) == (75, pytest.approx(stdev([100, 50])), "evaluation")
    assert "over evaluation seeds of one training seed" in "\n".join(found.notes)
    assert set(signs(found)) == {"‡"}  # one training seed ranks nothing


def test_rules_of_mixing_ignore_fields_that_do_not_act(tmp_path):
    shop = {"env.name": "webshop"}
    for i, (mixing, eta) in enumerate((("outcome_only", 0.5), ("dynamic", 1.0), ("dynamic", 0.5))):
        write_run(
            tmp_path, "component_ablation", shop | {"credit.mixing": mixing, "credit.eta_min": eta}, ((i > 0, i > 1),)
        )
    rows = by_name(table(tmp_path, "fusion-ablation"), 0)
    assert [rows[n][5].mean for n in ("Outcome only", "+ Gate", "Gated-BEPO")] == [0, 50, 100]
    assert rows["+ FP credit"][5] == "not run"
    assert [rows[n][1:4] for n in rows] == [
        ["no", "–", "no"], ["yes", "no", "no"], ["yes", "yes", "no"], ["yes", "yes", "yes"],
    ]  # fmt: skip


@pytest.mark.parametrize("differs, seeds", [(False, 5), (True, 3)])
def test_grpos_runs_count_as_outcome_credit_alone_if_both_learned_the_same(tmp_path, differs, seeds):
    shop = {"env.name": "webshop"}
    for seed in range(5):
        learned = {"train/success": 0.1 * seed + 0.01 * (differs and seed == 1)}
        grpo = shop | {"credit.name": "grpo", "seed": seed}
        write_run(tmp_path, "main_webshop", grpo, ((seed > 2, 1),), metrics=learned)
        if seed < 3:
            outcome = shop | {"credit.mixing": "outcome_only", "seed": seed}
            write_run(tmp_path, "component_ablation", outcome, ((0, 1),), metrics={"train/success": 0.1 * seed})
    found = table(tmp_path, "fusion-ablation")
    assert by_name(found, 0)["Outcome only"][-1] == f"{seeds}×1"
    assert any("bit for bit" in note for note in found.notes) != differs


def test_numbers_of_newer_estimators_stand_beside_ours(tmp_path):
    """The level is over both evaluations: nothing is solved before training; after it one task of two, or both."""
    for block in (100, 101, 102):
        at = {"credit.name": "grpo"} | in_block(block)
        write_run(tmp_path, "blocks", at, [[1, block == 100]], metrics={"train/success": 0.5})
    rows = [row for row in texts(table(tmp_path, "reported-elsewhere")) if row[0] == "GRPO"]
    assert rows[0][1:3] == ["Qwen2.5-1.5B", "CRBC's authors"]
    (own,) = (row for row in rows if row[1] == "tiny")
    assert own[2] == "this project, tier laptop" and own[7] == "33.3 ± 14.4" and own[3] == own[6] == "–"
    assert own[-1] == "blocks: Sokoban 3"


@pytest.mark.parametrize("blocks, shown", [(3, "0.0 and 20.0 and 40.0"), (5, "0.0 to 80.0")])
def test_of_many_starts_the_range_is_shown(tmp_path, blocks, shown):
    for n in range(blocks):
        at = {"credit.name": "grpo"} | in_block(n)
        write_run(tmp_path, "blocks", at, [[1] * 5], metrics={"train/success": 0.5}, solved_before=n)
    assert f"success before training {shown}." in table(tmp_path, "blocks-methods").notes[0]


def test_iterations_show_the_last_change_of_the_advantages(tmp_path):
    for n in (0, 20):
        logged = {"credit/delta_advantage_20": 0.5} if n else {}
        write_run(
            tmp_path, "iteration_budget", {"env.name": "webshop", "credit.iterations": n}, ((1, 0),), metrics=logged
        )
    found = table(tmp_path, "maxiter-ablation")
    rows = by_name(found, 0)
    assert rows["20"][-1] == rows["0"][-1] == "1×1" and rows["20"][2].mean == 0.5 and rows["0"][2] == "none"
    assert list(rows) == ["0", "1", "3", "5", "10", "20"]
    assert "$3.26{\\times}10^{-4}$" in to_latex(found, "maxiter-ablation")


def test_each_factor_of_the_diagnostic_table_is_its_own_study(tmp_path):
    shop = {"env.name": "webshop"}
    write_run(tmp_path, "gate_form", shop | {"credit.gate": "count_ramp", "credit.full_visits": 3}, ((1, 0),))
    write_run(
        tmp_path, ("gae_lambda", "gate_form"), shop | {"credit.gate": "binary", "credit.gae_lambda": 0.5}, ((1, 1),)
    )
    found = entries(table(tmp_path, "diagnostic-ablation"))
    assert found["diagnostic-ablation/Success/Soft k=3/gate"].reproduced.mean == 50
    assert found["diagnostic-ablation/Success/Binary/gate"].reproduced.mean == 100
    assert found["diagnostic-ablation/Success/0.5/gae_lambda"].reproduced.mean == 100
    assert found["diagnostic-ablation/Success/0.5/step_weight"].reproduced is None


def test_mixed_entries_and_sources_are_marked(results):
    odd = write_run(
        results,
        "main_sokoban",
        PICTURES | {"credit.name": "grpo", "seed": 2},
        ((1, 1),) * 2,
        task_set="d2",
        broken=1,
        dirty=True,
        commit="d" * 40,
    )
    refused = table(results, "sokoban-main")
    row = by_name(refused)["GRPO"]
    assert row[3] == "mixed" and row[4] == ""
    assert any("mixed test task sets" in n and odd.id in n and "--allow-mixed" in n for n in refused.notes)
    allowed = table(results, "sokoban-main", allow_mixed=True)
    assert by_name(allowed)["GRPO"][4] == "3×2"
    notes = "\n".join(allowed.notes)
    assert f"environment broke, counted as they were: 2 of {odd.id}" in notes
    assert "Mixed commits: cccccccccc, dddddddddd" in notes and f"uncommitted changes: {odd.id}" in notes
    same = [r.id for r in entries(allowed)["sokoban-main/Success/GRPO"].runs if r.task_set == "d1"]
    assert f"d1: {' '.join(sorted(same))}" in notes


def test_the_formats_say_the_same(results):
    found = table(results, "sokoban-main")
    latex, markdown = to_latex(found, "sokoban-main"), to_markdown(found)
    assert "\\label{tab:sokoban-main}" in latex and "$\\mathbf{75.0{\\pm}17.7}$$^{\\dagger}$" in latex
    assert "| RL Training | Gated-BEPO | **80.0 ± 3.2** | **75.0 ± 17.7†** | 2×2 |" in markdown
    rows = list(csv.DictReader(to_csv(found).splitlines()))
    assert float(rows[-1]["Reproduced (laptop)"]) == 75.0
    numbers = {r["entry"]: r for r in csv.DictReader(statistics(found.entries).splitlines())}
    best = numbers["sokoban-main/Success/Gated-BEPO"]
    assert best["reproduced"] == "75" and best["rival"] == "sokoban-main/Success/GRPO"
    assert len(best["runs"].split()) == 2
    assert numbers["sokoban-main/Success/GiGPO"]["reproduced"] == "not run"
    assert len({len(r) for r in csv.reader(statistics(found.entries).splitlines())}) == 1


@pytest.mark.slow
@pytest.mark.long
def test_everything_is_written_and_the_same_runs_give_the_same_bytes(results, tmp_path, capsys, monkeypatch):
    outs, printed = [tmp_path / "a", tmp_path / "b"], []
    of_figures = [label for label, item in artefacts().items() if item.kind != "table"]
    again = [label for label in artefacts() if label not in of_figures]  # test_figures.py has the bytes of figures
    for out, labels in zip(outs, (again, [])):
        out.mkdir()
        monkeypatch.setenv("BEPO_CACHE", str(tmp_path / f"cache of {out.name}"))  # what was kept proves nothing
        assert main([*labels, "--results", str(results), "--out", str(out)]) == 0
        printed.append(capsys.readouterr().out.splitlines())
    outs.reverse()
    printed.reverse()
    a, b = ({p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()} for out in outs)
    assert len(b) >= 3 * len(again) and {path: a.get(path) for path in b} == b
    names = {str(p) for p in a}
    for label, item in artefacts().items():
        folder, ends = ("tables", "tex md csv") if item.kind == "table" else ("figures", "pdf png svg")
        assert {f"{folder}/{label}.laptop.{e}" for e in ends.split()} <= names
    page = a[Path("report.html")].decode()
    assert all(r.id in page for r in Source(results).study("main_sokoban", "laptop").runs)
    assert page.count("<article") == len(artefacts()) + 1  # and the list of runs
    assert not re.search(r'(src|href)="(?!data:|#|\.\./)', page)  # opens without network
    lines = printed[0]
    assert lines[-1] == f"page:    {outs[0] / 'report.html'}" and len(lines) <= 10
    assert any(line.startswith("tier laptop: ") for line in lines)
    assert main(["--results", str(results), "--out", str(outs[0])]) == 0
    assert capsys.readouterr().out.startswith("unchanged since the last analysis\n")
    monkeypatch.setattr(OfEntries, "load", None)  # no claim is tested again
    assert main(["explain", "claims/text-sokoban-over-grpo", "--results", str(results)]) == 0
    assert "(tier laptop)" in capsys.readouterr().out


@pytest.mark.slow
def test_a_tier_has_what_shows_its_runs_and_a_single_tier_all_that_needs_none(results, tmp_path, monkeypatch, capsys):
    """The second analysis removes what the first left at a tier, and the third makes it again."""
    write_run(
        results, "gate_thresholds", {"env.name": "webshop", "credit.name": "gated_bepo"}, ((1, 0),), tier="desktop"
    )
    write_run(results, "blocks", in_block(100), ((1, 0),))  # so the main tier is the lower one
    without = {"lab-bias", "method-overview"}  # no study
    whole = {"sokoban-main", "gate-ablation", "desktop-claims", *without}
    known = artefacts()
    monkeypatch.setattr("analysis.output.rebuild.artefacts", lambda: {label: known[label] for label in sorted(whole)})
    monkeypatch.setattr("analysis.output.explain_claim.explanations", lambda *_: None)  # needs all tables
    shown = {"laptop": whole - {"gate-ablation"}, "desktop": {"gate-ablation"}}
    for tier in ("desktop", "", "laptop"):
        options = ["--tier", tier] * bool(tier) + ["--source", "local", "--results", str(results)]
        assert main([*options, "--out", str(tmp_path / "out")]) == 0
        names = {tuple(path.name.split(".")[:2]) for path in (tmp_path / "out").glob("*/*")}
        expected = {(label, t) for t, labels in (shown | ({tier: whole} if tier else {})).items() for label in labels}
        assert names == expected
        page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
        articles = re.findall(r'<article[^>]* id="([\w-]*)\.', page)
        assert sorted(articles) == sorted([*without, *(label for label, _ in expected if label not in without)])
    capsys.readouterr()
    assert main(["gate-ablation", "--results", str(results), "--source", "local", "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "gate-ablation (tier desktop)" in out and "(tier laptop)" not in out


def test_a_figure_without_runs_that_an_earlier_analysis_left_at_another_tier_is_removed(results, tmp_path, monkeypatch):
    places = Source(results).places()
    label, item = next((k, v) for k, v in artefacts("figure").items() if v.studies and "laptop" not in v.tiers(places))
    monkeypatch.setattr("analysis.output.rebuild.artefacts", lambda: {label: item})
    (tmp_path / "figures").mkdir()
    left = tmp_path / "figures" / f"{label}.smoke.png"
    left.write_bytes(b"an empty axis")
    assert main(["--results", str(results), "--out", str(tmp_path), "--tier", "smoke"]) == 0
    assert not left.exists() and (tmp_path / "figures" / f"{label}.laptop.png").exists()


def test_an_analysis_depends_on_its_runs_and_its_files(results, tmp_path):
    before = digest_of(Source(results))
    assert before == digest_of(Source(results)) != digest_of(Source(results, seeds=[1]))
    write_run(results, "gate_form", {"env.name": "webshop"}, ((1, 0),), tier="smoke")
    assert digest_of(Source(results)) != before
    save([1], "key", before)
    assert load(Source(results), "key", before) == [1]
    assert load(Source(results), "key") is None
    (tmp_path / "report.html").write_text("a", encoding="utf-8")
    state = state_of(written(tmp_path))
    (tmp_path / "report.html").write_text("ab", encoding="utf-8")
    assert state_of(written(tmp_path)) != state


def test_an_analysis_does_not_depend_on_what_it_writes(results, tmp_path, monkeypatch):
    """Without ``--out`` the macros lie beside the paper's text, whose files count."""
    monkeypatch.setattr("analysis.data.cache.PAPER", tmp_path)
    (tmp_path / "main.tex").write_text("text", encoding="utf-8")
    before = digest_of(Source(results))
    (tmp_path / "macros.laptop.tex").write_text("macros", encoding="utf-8")
    assert digest_of(Source(results)) == before
    (tmp_path / "main.tex").write_text("another text", encoding="utf-8")
    assert digest_of(Source(results)) != before


@pytest.mark.slow
def test_the_page_marks_every_artefact_with_its_tier(results):
    """The filter hides by these marks; what needs no runs stands there once, at every tier."""
    write_run(results, "gate_form", {"env.name": "webshop"}, ((1, 0),), tier="smoke")
    tables, source = {k: v for k, v in artefacts().items() if v.kind == "table"}, Source(results)
    built = [build(item, source, tier) for tier in ("laptop", "smoke") for item in tables.values()]
    shown = page.render(built, source.tiers(), "results")
    articles = re.findall(r'<article data-tier="(\w+)" data-runs="(\w+)" [^>]*id="(\S+)"', shown)
    tiers = [tier for tier, _, _ in articles]
    without = [b for b in built if not b.studies]
    of_methods = {"method-comparison", "estimators"}
    of_the_lab = {"lab-claims", "lab-group-size", "lab-bias", "lab-learning"}
    assert {b.label for b in without} == of_methods | of_the_lab | {"granularity", "checks"} and tiers.count(
        "every"
    ) == 8
    assert tiers.count("smoke") == tiers.count("laptop") == len(tables) - 8
    runs = {name: number for _, number, name in articles}
    assert runs["sokoban-main.laptop"] == "4" and runs["sokoban-main.smoke"] == "0"
    assert all(name.endswith(f".{tier}") for tier, _, name in articles if tier != "every")


def test_a_name_builds_that_artefact_and_nothing_else(results, tmp_path, capsys):
    assert main(["sokoban-main", "supp-runtime", "--results", str(results), "--out", str(tmp_path / "out")]) == 0
    made = {p.name for p in (tmp_path / "out").rglob("*.*")}
    ends = [f"sokoban-main.laptop.{e}" for e in ("tex", "md", "csv", "stats.csv")]
    assert made == {*ends, *(f"supp-runtime.laptop.{e}" for e in ("pdf", "png", "svg", "tex"))}
    out = capsys.readouterr().out
    assert "sokoban-main (tier laptop)" in out and "report.html" not in out


def test_explain_prints_what_is_behind_a_number(results, capsys):
    assert main(["explain", "sokoban-main/Success/Gated-BEPO", "--results", str(results)]) == 0
    out = capsys.readouterr().out
    runs = Source(results).study("main_sokoban", "laptop").rows["gated_bepo"]
    assert all(r.id in out for r in runs) and "75 ± 17.68 (tier laptop" in out and "80 ± 3.2" in out
    for part in (
        "d1, 4 tasks",
        "cccccccccc",
        "0 training, 0, 1 evaluation: 87.5",
        f"run {METHOD_VERSION}",
        "name=gated_bepo",
    ):
        assert part in out


def test_an_explanation_is_kept_until_a_run_changes(results, capsys, monkeypatch):
    words = ["explain", "sokoban-main/Success/Gated-BEPO", "--results", str(results)]
    assert main(words) == 0
    first = capsys.readouterr().out
    monkeypatch.setattr(explain, "explain", lambda *_: "computed again")
    assert main(words) == 0 and capsys.readouterr().out == first
    write_run(results, "gate_form", {"env.name": "webshop", "seed": 9}, ((1, 0),), tier="smoke")
    assert main(words) == 0 and capsys.readouterr().out == "computed again\n"


def test_explain_takes_the_name_that_the_papers_text_uses(results, capsys):
    printed = []
    for name in ("sokoban-main/Success/Gated-BEPO", "sokoban-main/gated_bepo//success"):
        assert main(["explain", name, "--results", str(results)]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


def test_explain_looks_at_the_highest_tier_that_has_runs(results, capsys):
    write_run(results, "main_webshop", {"env.name": "webshop", "model": "small"}, ((1, 0),), tier="paper")
    for label, tier in (
        ("sokoban-main/Success/GRPO", "laptop"),
        ("main-results/WebShop/Succ./Gated-BEPO/1.5B", "paper"),
    ):
        assert main(["explain", label, "--results", str(results)]) == 0
        assert f"(tier {tier};" in capsys.readouterr().out
    assert main(["explain", "sokoban-main/Success/GiGPO", "--results", str(results)]) == 0
    assert "not run" in capsys.readouterr().out


@pytest.mark.parametrize("name, nearest", [("main/Success/GRP0", "main/Success/GRPO"), ("mian/Success/GRPO", "main")])
def test_an_unknown_number_has_the_nearest(results, name, nearest, capsys):
    assert main(["explain", f"sokoban-{name}", "--results", str(results)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"nearest: sokoban-{nearest}" in line


def test_a_run_is_no_number_of_a_table(results, capsys):
    assert main(["explain", "16688a96830b", "--results", str(results)]) == 2
    assert "python -m bepo.view 16688a96830b" in capsys.readouterr().err


def test_the_list_of_runs_has_ones_own_that_no_table_shows(tmp_path):
    mine = write_run(tmp_path, "mine", {"credit.name": "grpo"}, [[1, 0]])
    (run,) = Source(tmp_path).runs()
    shown = page.render([], ["laptop"], "results and paper", complete=[run])
    assert f'<tr id="{mine.id}">' in shown and "Complete runs: 1 of yours, and the 0 published" in shown
    assert "<code>results</code> and <code>paper</code>" in shown


def test_of_named_artefacts_the_tier_with_blocks_comes_first(tmp_path, capsys):
    for tier, study in (("desktop", "main_sokoban_text"), ("laptop", "blocks")):
        write_run(tmp_path, study, {"credit.name": "grpo"} | in_block(300), [[1, 0]], tier=tier)
    assert main(["blocks-methods", "--source", "local", "--results", str(tmp_path), "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert 0 < out.index("blocks-methods (tier laptop)") < out.index("blocks-methods (tier desktop)")


def test_the_studies_of_every_artefact_exist():
    known = study_names()
    assert not [f"{label}: {name}" for label, item in artefacts().items() for name in item.studies if name not in known]


@pytest.mark.slow
def test_an_empty_tier_still_gives_every_figure(results):
    """And every table: test_paper.py."""
    assert all(table(results, label, "paper").caption for label in artefacts("figure"))


@pytest.mark.slow
@pytest.mark.long
def test_runs_that_nobody_expected_in_a_study_stop_no_artefact(tmp_path):
    """Another method, environment and model than the study's: shown in blocks of their own, or in none."""
    strangers = (
        {"credit.name": "grpo", "env.name": "sokoban"},
        {"credit.name": "mine", "env.name": "minecraft", "model": "huge"},
    )
    studies = {name for item in artefacts().values() for name in item.studies}
    for settings in strangers:
        write_run(tmp_path, sorted(studies), settings, ((1, 0),))
    products = {label: table(tmp_path, label) for label in artefacts()}
    assert "minecraft, model huge (not in the paper)" in headings(products["gate-ablation"])


def test_every_estimator_of_steps_stands_in_one_of_two_tables(results):
    """Those of the paper beside its description, the others with their source; the oracle and critics in neither."""
    paper, others = (
        {row[0].value: row for row in table(results, label).rows} for label in ("method-comparison", "estimators")
    )
    assert [cell.text for cell in others["CRBC"][:4]] == ["CRBCʳ", "Mean Bellman", "Yes", "Fixed"]
    wanted = {c.label for c in estimators().values() if c.traits["step_credit"] != "None"}
    wanted -= {c.label for c in estimators().values() if c.needs_critic or c.privileged}
    assert paper.keys() | others.keys() == wanted and not paper.keys() & others.keys()
