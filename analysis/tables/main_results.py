"""Tables main-results, sokoban-main, sokoban-text and qwen3-results: methods on environments and models."""

from analysis.data.methods import ORDER, PROMPTED, is_privileged, name_of
from analysis.data.rows import METHOD, evaluated
from analysis.data.studies import Studies, StudyRuns
from analysis.grid.artefact import artefact
from analysis.grid.grid import grid
from analysis.grid.parts import Metric, RowGroup, Rows
from analysis.grid.table import Table

ALFWORLD = {
    "Pick": "pick_and_place_simple",
    "Look": "look_at_obj_in_light",
    "Clean": "pick_clean_then_place_in_recep",
    "Heat": "pick_heat_then_place_in_recep",
    "Cool": "pick_cool_then_place_in_recep",
    "Pick2": "pick_two_obj_and_place",
}
METRICS = (
    *(Metric(f"alfworld/{n}", n, "ALFWorld", env="alfworld", kind=kind) for n, kind in ALFWORLD.items()),
    Metric("alfworld/All", "All", "ALFWorld", env="alfworld", headline=True),
    Metric("webshop/score", "Score", "WebShop", value="task_score", env="webshop"),
    Metric("webshop/success", "Succ.", "WebShop", env="webshop", headline=True),
)
HEADINGS = (
    RowGroup("closed", "Closed-source models", model="closed"),
    RowGroup("1.5B", "Model small: the paper's Qwen2.5-1.5B-Instruct", model="small"),
    RowGroup("7B", "Model large: the paper's Qwen2.5-7B-Instruct", model="large"),
)
QWEN3 = (
    Metric("alfworld/All", "Success", "ALFWorld", env="alfworld", headline=True, format=".2f"),
    Metric("webshop/success", "Success", "WebShop", env="webshop", headline=True, format=".2f"),
    Metric("webshop/score", "Score", "WebShop", value="task_score", env="webshop", format=".2f"),
)
TEXT = (
    Metric("success", "Success", headline=True),
    Metric("training", "In training", value=lambda run: 100 * run.mean("train/success")),
)


def _type(row: str) -> str:
    return "Prompting" if row in PROMPTED else "Privileged" if is_privileged(row) else "RL Training"


TYPED = Rows(("Type", "Method"), lambda row: [_type(row), name_of(row)], named=1)
HOUSE_AND_SHOP = {"main_alfworld": METHOD, "main_webshop": METHOD}
HOUSE_AND_SHOP |= dict.fromkeys(("prompting", "prompting_closed"), evaluated("alfworld", "webshop"))


@artefact("main-results", "table", study=HOUSE_AND_SHOP)
def main_results(studies: Studies) -> Table:
    """Compare methods by ALFWorld task type and on WebShop, at two model sizes."""
    caption = "Main results on ALFWorld and WebShop (%): success by ALFWorld task type, WebShop task score and success."
    return grid("main-results", studies, caption, METRICS, HEADINGS, TYPED)


@artefact("sokoban-main", "table", study={"main_sokoban": METHOD, "prompting_sokoban": evaluated("sokoban")})
def sokoban_main(studies: Studies) -> Table:
    """Compare methods on 6x6 Sokoban, seen as pictures."""
    success = Metric("success", "Success", headline=True)
    pictures = RowGroup(name="Model vl: the paper's Qwen2.5-VL-3B-Instruct", model="vl", env="sokoban")
    return grid("sokoban-main", studies, "Sokoban success rate (%) on 6×6 tasks.", (success,), (pictures,), TYPED)


@artefact("sokoban-text", "table", study="main_sokoban_text")
def sokoban_text(study: StudyRuns) -> Table:
    """Compare all methods and the oracle on Sokoban as text, which the paper does not have."""
    caption = (
        "Extension: Sokoban boards as text (%). Final success on test tasks, and success in training, averaged over "
        "all updates. The oracle is privileged, not a method: its credit uses the expert's distance to success. "
        "Methods can be above it."
    )
    methods = RowGroup(model="small", env="sokoban", rows=(*ORDER, "oracle"))
    return grid("sokoban-text", study, caption, TEXT, (methods,), TYPED)


@artefact("qwen3-results", "table", study="qwen3_transfer")
def qwen3_results(study: StudyRuns) -> Table:
    """Compare methods on another family of models."""
    block = RowGroup(name="Model qwen3: the paper's Qwen3-1.7B", model="qwen3")
    return grid("qwen3-results", study, "Transfer to another family of models (%).", QWEN3, (block,))
