"""What commands import, many seconds of it. The server of ``tests.command`` imports it once, and forks each command."""

import os
from importlib import import_module

from bepo.runs.compose import register

os.environ.pop("BEPO_PLUGINS", None)  # of a test; the server has the built-in plug-ins only

MODULES = ["bepo.runs.command", "bepo.runs.evaluate", "bepo.training.local_engine", "bepo.policies.lm.tiny_model"]
MODULES += ["bepo.sweep.grid", "bepo.sweep.tune", "bepo.sweep.wandb_table"]
MODULES += ["analysis.__main__", "analysis.output.rebuild"]
MODULES += ["hydra.main", "hydra.compose", "nltk.stem.porter", "thefuzz.process", "wandb.sdk.launch"]
MODULES += [f"transformers.models.{name}" for name in ("auto.modeling_auto", "qwen2.modeling_qwen2")]
MODULES += ["alembic.command", "sqlalchemy.orm", "sqlalchemy.dialects.sqlite"]

for name in MODULES:
    import_module(name)
register([])  # every plug-in, with Hydra
