import json
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["WANDB_SILENT"] = "true"

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("bepo", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("bepo")

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def credit_cases():
    return json.loads((DATA / "credit_golden.json").read_text())
