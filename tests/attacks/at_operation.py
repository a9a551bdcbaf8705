"""``python -m tests.attacks.at_operation N FOLDER MODULE ARGUMENTS``: a command killed before its Nth file operation.

Operations are those below FOLDER that change something: files opened to be written, made, renamed or removed. A command
that ends has made fewer; it leaves their number in FOLDER.operations.
"""

import os
import runpy
import signal
import sys
from pathlib import Path

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}


class Killer:
    """An audit hook of Python that counts file operations and ends the process before one of them."""

    def __init__(self, at: int, folder: str) -> None:
        self.at, self.folder, self.seen, self.process = at, folder, 0, os.getpid()

    def __call__(self, event: str, arguments: tuple) -> None:
        changes = event in CHANGES or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if changes and os.getpid() == self.process and str(arguments[0]).startswith(self.folder):
            self.seen += 1
            if self.seen == self.at:
                os.kill(self.process, signal.SIGKILL)


def main() -> None:
    """Run the command."""
    at, folder, module, *arguments = sys.argv[1:]
    killer = Killer(int(at), folder)
    sys.addaudithook(killer)
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        Path(f"{folder}.operations").write_text(str(killer.seen), encoding="utf-8")


if __name__ == "__main__":
    main()
