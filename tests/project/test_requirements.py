"""The environments of backend=verl have what the project needs, in the versions that it is made for."""

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from bepo.training.verl.devices import find_device
from bepo.training.verl.machine import NEEDED

ROOT = Path(__file__).parents[2]
METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PROJECT = METADATA["dependencies"]
CLAIMED = [line.rpartition(" ")[2] for line in METADATA["classifiers"]]
THEIRS = {"torch", "transformers"}  # verl and vLLM decide; docs/gpu.md names the differences


def listed(name: str) -> dict[str, Requirement]:
    lines = (
        line.split(" #")[0].strip() for line in (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines()
    )
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert len({canonicalize_name(r.name) for r in found}) == len(found)
    return {canonicalize_name(r.name): r for r in found}


def test_the_lock_has_the_pinned_versions_and_a_hash_for_each():
    text = (ROOT / "requirements" / "lock.txt").read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=\w)", text)
    found = {canonicalize_name(block.split("==")[0]): block.split()[0].split("==")[1] for block in blocks}
    assert all("--hash=sha256:" in block for block in blocks)
    pins = {name: str(r.specifier).removeprefix("==") for name, r in listed("constraints.txt").items()}
    assert {name: version for name, version in found.items() if pins.get(name, version) != version} == {}
    wanted = {canonicalize_name(Requirement(line).name) for line in PROJECT} - {"torch"}  # differs by machine
    assert wanted <= found.keys() and wanted <= pins.keys()


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
        for line in file.read_text(encoding="utf-8").splitlines():
            if "pip install" in line and ("-e ." in line or "--editable" in line):
                assert "--no-deps -e ." in line, f"{file}: {line}"


def needed(python: str) -> set[str]:
    """Return the names of all packages that ``make install`` installs on a Python of this version."""
    extras = METADATA["optional-dependencies"]
    todo = [(Requirement(line), "") for line in (*PROJECT, *extras["dev"], *extras["envs"])]
    found: set[tuple[str, str]] = set()
    while todo:
        requirement, extra = todo.pop()
        where = {"python_version": python, "python_full_version": f"{python}.9", "extra": extra}
        if requirement.marker is not None and not requirement.marker.evaluate(where):
            continue
        name = canonicalize_name(requirement.name)
        for wanted in {"", *requirement.extras}:
            if name != "bepo" and (name, wanted) not in found:
                found.add((name, wanted))
                todo += [(Requirement(line), wanted) for line in distribution(name).requires or []]
    return {name for name, _ in found}


@pytest.mark.parametrize("python", CLAIMED)
def test_every_pinned_package_can_be_installed_on_the_claimed_versions(python):
    names = needed(python)
    assert {"torch", "hydra-core", "marimo", "gymnasium"} <= names and len(names) > 80
    for name in names:
        allowed = SpecifierSet(distribution(name).metadata.get("Requires-Python") or "")
        assert allowed.contains(f"{python}.9"), f"{name}: {allowed}"


def test_gem_is_installed_where_it_can_be():
    assert CLAIMED == ["3.11", "3.12", "3.13"]
    assert "gem-llm" in needed("3.11") and "gem-llm" not in needed("3.12") | needed("3.13")
