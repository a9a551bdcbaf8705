"""The reported numbers against the paper's LaTeX, where it is at hand: nothing missing, nothing extra."""

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

from analysis.data.reported import REPORTED

PAPER = Path(__file__).parents[3] / "shared" / "paper"
needs_paper = pytest.mark.skipif(not PAPER.exists(), reason="no ../shared/paper here")

METHODS = {
    "Qwen2.5-VL": "qwen2.5-vl",
    "PPO (with critic)": "ppo",
    "\\gbepo{}": "gated_bepo",
}  # others: the printed name in lower case
MIXING = {
    "Outcome only": "mixing=outcome_only",
    "$+$ FP credit": "mixing=ungated",
    "Ungated addition": "mixing=ungated",
    "$+$ Gate": "mixing=dynamic eta_min=1.0",
    "Full outcome weight": "mixing=dynamic eta_min=1.0",
    "\\gbepo{}": "mixing=dynamic eta_min=0.5",
    "\\gbepo{} dynamic mixture": "mixing=dynamic eta_min=0.5",
    "Drop trusted outcome": "mixing=dynamic eta_min=0.0",
    "Group-skew modulation": "mixing=group_skew",
}
ORDER = {"Stop at unsupported": "stop", "Residual masking": "mask", "Post-GAE gate (ours)": "post"}
FACTORS = {
    "Gate form": lambda s: {
        "Binary": "gate=binary",
        "Soft $k=3$": "gate=count_ramp full_visits=3",
        "Soft $k=4$": "gate=count_ramp full_visits=4",
        "Soft count+branch": "gate=count_and_branch",
    }[s],
    "GAE $\\lambda$": lambda s: f"gae_lambda={s.strip('$')}",
    "Step weight $w$": lambda s: f"step_weight={s.strip('$')}",
}
ALFWORLD = [f"alfworld/{kind}" for kind in ("Pick", "Look", "Clean", "Heat", "Cool", "Pick2", "All")]
PLACES = {"RQ1": "RQ1.", "RQ2": "RQ2.", "RQ3": "RQ3.", "RQ4": "RQ4."}
NO_RESULTS = {  # sections whose decimals are settings or a worked example
    "Reproducibility Details",
    "Environment Details",
    "Illustration of Observation Aliasing",
    "Outcome--Step Mixing Variants",
    "Bellman Fixed-Point Results",
}


def source() -> str:
    return next(PAPER.glob("*.txt")).read_text(encoding="utf-8")


def lines_of(label: str) -> list[list[str]]:
    """Entries of the body of a table, header lines included; a line without ``&`` is one entry."""
    text = source()
    end = text.index(f"\\label{{tab:{label}}}")
    start = text.rindex("\\toprule", 0, end)
    body = text[start:end].split("\\bottomrule")[0]
    rows = re.split(r"\\\\", re.sub(r"\\(toprule|midrule|cmidrule\(lr\)\{[^}]*\})", "", body))
    return [[cell.strip() for cell in row.split("&")] for row in rows if row.strip()]


def printed(cell: str) -> tuple[str, str]:
    """``$\\mathbf{74.0{\\pm}1.4}$`` -> ("74.0", "1.4")."""
    cell = re.sub(r"\\mathbf|[${}]", "", cell.replace("{\\times}10^", "e"))
    mean, _, std = cell.partition("\\pm")
    assert re.fullmatch(r"[\d.]+(e-\d+)?", mean) and re.fullmatch(r"[\d.]*", std), cell
    return mean, std


def method(name: str) -> str:
    return METHODS.get(name, name.lower())


def main_results() -> dict:
    columns, group, out = [*ALFWORLD, "webshop/score", "webshop/success"], "", {}
    header = next(row for row in lines_of("main-results") if "Pick" in row)
    assert header[2:] == [*(c.split("/")[1] for c in ALFWORLD), "Score", "Succ."]
    for row in lines_of("main-results"):
        if len(row) == 1:
            group = {"Closed": "closed", "Qwen2.5-1.5B": "1.5B", "Qwen2.5-7B": "7B"}[
                re.search(r"\\textit\{(Closed|Qwen2\.5-\d\.?\d?B)", row[0])[1]
            ]
        elif row[0] in ("Prompting", "RL Training"):
            assert len(row) == 11
            out |= {(method(row[1]), group, c): printed(v) for c, v in zip(columns, row[2:])}
    return out


def plain_table(label: str, columns: dict[str, str], row_of, group_of=lambda row: "") -> dict:
    """A table with one header line; ``columns`` maps its printed headings, in order."""
    header, *rows = lines_of(label)
    at = {header.index(heading): column for heading, column in columns.items()}
    number = re.compile(r"\$(\\mathbf\{)?\d[\d.]*(\{?\\pm|\$)")
    numeric = {i for row in rows for i, cell in enumerate(row) if number.match(cell)}
    keys = {i for i, heading in enumerate(header) if heading in ("$n_{\\min}$", "$b_{\\min}$", "Iter.")}
    assert numeric - set(at) <= keys  # no column of numbers is left out
    return {
        (row_of(row), group_of(row), column): printed(row[i])
        for row in rows
        for i, column in at.items()
        if row[i] != "--"
    }


def diagnostic() -> dict:
    out, factor = {}, ""
    for first, setting, *values in lines_of("diagnostic-ablation")[1:]:
        factor = re.match(r"\\multirow\{4\}\{\*\}\{(.*)\}", first)[1] if first else factor
        row = FACTORS[factor](setting)
        out |= {(row, row.split("=")[0], c): printed(v) for c, v in zip(("success", "score"), values, strict=True)}
    return out


def environment() -> dict:
    columns = ["train", "eval", "prompt", "response", "steps", "minibatch", "microbatch", "tp"]
    slots = {"Qwen2.5-1.5B": "small", "Qwen2.5-7B": "large", "Qwen2.5-VL-3B": "vl"}
    out = {}
    for setting, *entries in lines_of("supp-environment-hparams")[1:]:
        env, model = setting.split(", ")
        values = [v for entry in entries for v in entry.strip("$").split("/")]
        out |= {(env.lower(), slots[model], c): (v, "") for c, v in zip(columns, values, strict=True)}
        # The caption says of all runs what no column has.
        group, updates = re.findall(r"group size \$K=(\d+)\$ and (\d+) optimization steps", source())[0]
        out |= {(env.lower(), slots[model], c): (v, "") for c, v in (("group", group), ("updates", updates))}
    return out


def words(cell: str) -> str:
    """TeX to the plain text of the CSV."""
    named = re.sub(r"\\(gamma|lambda|beta|eta)", lambda m: "γλβη"[["gamma", "lambda", "beta", "eta"].index(m[1])], cell)
    return re.sub(r"10\^(-\d)", r"1e\1", re.sub(r"[${}\\]|(?<=β)_", "", named))


def common() -> set:
    out = set()
    for row in lines_of("supp-common-hparams")[1:]:
        for group, name, value in (("Method", *row[:2]), ("Optimization", *row[2:])):
            value = " / ".join(words(value).strip("()").split(",")) if "(" in value else words(value)
            out.add((group if "Rollout" not in name else "Method", words(name), value))
    return out


def comparison() -> dict:
    out = {}
    for names, *values in lines_of("method-comparison")[1:]:
        for name in names.split("/"):
            out |= {(method(name), "", c): (v, "") for c, v in zip(("step_credit", "temporal", "mixing"), values)}
    return out


BOTH = {"Success": "success", "Score": "score"}
TABLES = {
    "main-results": main_results,
    "sokoban-main": lambda: plain_table(
        "sokoban-main", {"Sokoban $6{\\times}6$ Succ.": "success"}, lambda row: method(row[1])
    ),
    "fusion-ablation": lambda: plain_table("fusion-ablation", BOTH, lambda row: MIXING[row[0]]),
    "supp-mixing-ablation": lambda: plain_table(
        "supp-mixing-ablation", {"Success": "success", "Task Score": "score"}, lambda row: MIXING[row[0]]
    ),
    "gate-ablation": lambda: plain_table(
        "gate-ablation", BOTH, lambda row: f"n_min={row[1].strip('$')} b_min={row[2].strip('$')}"
    ),
    "gate-gae-ablation": lambda: plain_table("gate-gae-ablation", BOTH, lambda row: f"gate_order={ORDER[row[0]]}"),
    "diagnostic-ablation": diagnostic,
    "backup-ablation": lambda: plain_table(
        "backup-ablation", {"Success (\\%)": "success"}, lambda row: f"backup={row[0].lower()}"
    ),
    "maxiter-ablation": lambda: plain_table(
        "maxiter-ablation",
        {"Max $|\\Delta A|$": "delta_advantage", **BOTH},
        lambda row: f"iterations={row[0].strip('$')}",
    ),
    "qwen3-results": lambda: plain_table(
        "qwen3-results",
        {
            "ALFWorld Success (\\%)": "alfworld/All",
            "WebShop Success (\\%)": "webshop/success",
            "WebShop Task Score (\\%)": "webshop/score",
        },
        lambda row: method(row[0]),
    ),
    "supp-environment-hparams": environment,
    "method-comparison": comparison,
}


def ours(label: str) -> list[dict]:
    with (REPORTED / f"{label}.csv").open() as file:
        return list(csv.DictReader(file))


@needs_paper
@pytest.mark.parametrize("label", TABLES)
def test_a_table_holds_the_papers_numbers_and_no_others(label):
    expected = TABLES[label]()
    found = {(r["row"], r["group"], r["column"]): (r["mean"], r["std"]) for r in ours(label)}
    assert found == expected and len(expected) > 2


@needs_paper
def test_common_settings_are_the_papers():
    assert {(r["group"], r["column"], r["mean"]) for r in ours("supp-common-hparams")} == common()


@needs_paper
def test_every_table_of_the_paper_is_transcribed():
    labels = set(re.findall(r"\\label\{tab:([^}]*)\}", source()))
    assert (
        labels
        == {*TABLES, "supp-common-hparams"}
        == {p.stem for p in REPORTED.glob("*.csv")} - {"text", "reported-elsewhere"}
    )


def prose() -> dict[str, Counter]:
    """Decimals with their deviations in the running text of each section; tables, equations and settings left out."""
    text = re.sub(r"\\begin\{(tabular\*?|equation|algorithmic)\}.*?\\end\{\1\}", "", source(), flags=re.DOTALL)
    pieces = re.split(r"\\(?:sub)*section\{([^{}]*)\}", text)
    out = {}
    for heading, body in zip(pieces[1::2], pieces[2::2]):
        inline = " ".join(re.findall(r"\$([^$]*)\$", body))
        inline = re.sub(r"\\in\\\{[^}]*\}|(=|\\leq|>|<)-?\d[\d.]*", "", inline)  # lambda=0.8 is a setting
        out[heading] = Counter(re.findall(r"(?<![\d.])(\d+\.\d+)(?:\\pm(\d+\.\d+))?", inline))
    return out


@needs_paper
def test_numbers_in_the_text_are_the_papers_and_stand_where_they_are_said_to():
    sections = {heading: numbers for heading, numbers in prose().items() if numbers}
    named = {place for row in ours("text") for place in row["note"].split("; ")}
    headings = {p: next(h for h in sections if h.startswith(PLACES.get(p, p))) for p in named}
    assert set(sections) - NO_RESULTS == set(headings.values())
    stated = {row: set() for row in range(len(ours("text")))}
    for place, heading in headings.items():
        rows = {i: row for i, row in enumerate(ours("text")) if place in row["note"].split("; ")}
        assert {row["mean"] for row in rows.values()} == {mean for mean, _ in sections[heading]}, heading
        for mean, std in sections[heading]:
            at = {i for i, row in rows.items() if row["mean"] == mean}
            assert any(std in ("", rows[i]["std"]) for i in at), (heading, mean, std)
            for i in at:
                stated[i].add(std)
    assert all(row["std"] in stated[i] for i, row in enumerate(ours("text")))


def test_reported_files_have_one_shape():
    for path in REPORTED.glob("*.csv"):
        with path.open(encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        assert header == ["row", "group", "column", "mean", "std", "note"], path.name
        assert max(Counter(tuple(r[:3]) for r in rows).values()) == 1, path.name


def test_numbers_of_other_papers_name_their_source_and_a_known_model():
    rows = ours("reported-elsewhere")
    assert all(re.search(r"arXiv \d{4}\.\d{5}|Relax 280 on GitHub", row["note"]) for row in rows) and len(rows) > 60
    assert all(0 < float(row["mean"]) <= 100 and float(row["std"] or 0) < 10 for row in rows)
    known = "Qwen2.5-1.5B|Qwen2.5-7B|Qwen3-4B|Qwen3-8B|Qwen2.5-VL-3B|model not noted"
    assert all(re.fullmatch(f"({known})(, run again by \\w+)?", row["group"]) for row in rows)
