"""No member of an object of ours is found by its name in quotes: optional members are declared with defaults."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Probes of objects that are not ours: (file, call) with the reason.
ALLOWED = {
    ("bepo/policies/pretrained_vl.py", "hasattr get_rope_index"): "transformers' models of the Qwen2-VL family have it",
    (
        "bepo/training/verl/patches.py",
        "getattr lm_head",
    ): "transformers' causal language models have it, critics do not",
    ("bepo/training/verl/patches.py", "hasattr peft_config"): "peft's models have it, others do not",
    ("bepo/core/plugins.py", "getattr __path__"): "a package has it, a plain module does not",
    ("bepo/testing/__init__.py", "getattr __module__"): "classes and functions have it, other names of a module do not",
    ("bepo/runs/compose.py", "getattr full_key"): "some of OmegaConf's errors have it",
    ("bepo/store/files.py", "getattr filename"): "an OSError has it, other errors of a full disk do not",
    ("bepo/store/files.py", "getattr errno"): "an OSError has it, other errors of a full disk do not",
    ("analysis/claims/claims.py", "getattr CSafeLoader"): "PyYAML has it where it was built with libyaml",
    ("bepo/sweep/samplers.py", "except AttributeError"): "Optuna raises it for settings of a sampler or pruner",
    ("bepo/sweep/estimate.py", "except AttributeError"): "a run's file may hold a text where settings should be",
}


def probes(path: Path) -> list[str]:
    """Calls of getattr or hasattr with a literal name, and handlers of AttributeError."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            if len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
                found.append(f"{node.func.id} {node.args[1].value}")
        elif isinstance(node, ast.ExceptHandler) and node.type is not None:
            names = {n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)}
            if "AttributeError" in names:
                found.append("except AttributeError")
    return found


def test_probes_are_of_foreign_objects_and_listed():
    found = Counter()
    for folder in ("bepo", "analysis", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            found.update((str(path.relative_to(ROOT)), probe) for probe in probes(path))
    assert set(found) == set(ALLOWED), set(found) ^ set(ALLOWED)
    assert max(found.values(), default=1) == 1
