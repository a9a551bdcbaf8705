"""The environments of backend=verl have what the project needs, in the versions that it is made for."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bepo.training.verl.devices import find_device
from bepo.training.verl.machine import NEEDED

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
THEIRS = {"torch", "transformers"}  # verl and vLLM decide; docs/gpu.md names the differences


def listed(name: str) -> dict[str, Requirement]:
    lines = (line.split(" #")[0].strip() for line in (ROOT / "requirements" / name).read_text().splitlines())
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert len({canonicalize_name(r.name) for r in found}) == len(found)
    return {canonicalize_name(r.name): r for r in found}


@pytest.mark.parametrize("line", PROJECT)
def test_the_projects_requirements_are_in_both(line):
    wanted = Requirement(line)
    name = canonicalize_name(wanted.name)
    (pin,) = listed("verl-cpu.txt")[name].specifier
    assert pin.operator == "==" and wanted.specifier.contains(pin.version, prereleases=True)
    if name not in THEIRS:
        assert listed("verl-gpu.txt")[name].specifier == wanted.specifier


def test_what_the_backend_asks_for_is_what_is_installed(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests" / "verl" / "cpu")
    from bepo_verl_cpu import CPU

    for file, device in (("verl-cpu.txt", CPU()), ("verl-gpu.txt", find_device("cuda"))):
        pins = {name: str(r.specifier) for name, r in listed(file).items()}
        for name, version in [*NEEDED.items(), device.vllm]:
            found = pins[canonicalize_name(name)]
            assert found == f"=={version}" if version else found.startswith("==")


def test_what_needs_a_compiler_is_not_among_what_the_gpu_tier_needs():
    assert "flash-attn" not in listed("verl-gpu.txt") and set(listed("flash-attn.txt")) == {"flash-attn"}


def test_no_advice_installs_the_projects_torch_beside_verl():
    """The project pins its own torch and transformers: an editable install without --no-deps would bring them."""
    for file in (*(ROOT / "bepo").rglob("*.py"), ROOT / "docs" / "gpu.md"):
        for line in file.read_text().splitlines():
            if "pip install" in line and ("-e ." in line or "--editable" in line):
                assert "--no-deps -e ." in line, f"{file}: {line}"
