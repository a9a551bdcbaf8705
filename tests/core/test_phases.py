"""Phases: a line that changes on a terminal, a line every few seconds in a pipe, silence where nobody looks."""

import io
import os

import pytest

from bepo.core import phases


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def shown(terminal: bool, *events: tuple[float, str, str]) -> str:
    stream, now = Stream(terminal), [0.0]
    view = phases.Phases(stream, lambda: now[0])
    for seconds, phase, detail in events:
        now[0] = seconds
        view.show(phase, detail)
    view.close()
    return stream.getvalue()


def test_a_part_of_a_phase_is_shown_behind_it():
    stream, now = Stream(False), [0.0]
    view = phases.Phases(stream, lambda: now[0])
    view.show("evaluating", "pass 1 of 3")
    for now[0] in (1.0, 6.0, 7.0):
        view.show_within(f"step {now[0]:.0f} of at most 15")
    view.close()
    for now[0] in (20.0, 30.0):
        view.show_within("step 1 of at most 15")
    assert stream.getvalue() == "evaluating: pass 1 of 3, step 6 of at most 15\ntraining: step 1 of at most 15\n"


def test_a_pipe_gets_a_line_every_five_seconds_of_a_phase():
    steps = [(float(t), "warm start", f"step {t}") for t in range(12)]
    assert shown(False, *steps) == "warm start: step 5\nwarm start: step 10\n"


def test_what_is_quick_leaves_no_line_in_a_pipe():
    assert shown(False, (0, "a", "1"), (4.9, "a", "2"), (5, "b", "1"), (9.9, "b", "2")) == ""


def test_a_terminal_gets_one_line_a_phase_that_changes():
    text = shown(True, (0, "a", "1"), (0.05, "a", "2"), (0.2, "a", "3"), (0.21, "b", "1"))
    assert text == "\r\x1b[Ka: 1\r\x1b[Ka: 3\n\r\x1b[Kb: 1\n"


def test_phases_are_shown_where_they_are_wanted(monkeypatch):
    stream = Stream(terminal=True)
    monkeypatch.setattr("sys.stderr", stream)
    phases.report("a", "unseen")
    with phases.shown(False):
        phases.report("b", "unseen")
    with pytest.raises(RuntimeError), phases.shown():
        phases.report("c", "seen")
        raise RuntimeError
    phases.report("d", "unseen")
    assert stream.getvalue() == "\r\x1b[Kc: seen\n"


def test_work_goes_on_where_nobody_reads_what_is_shown():
    read, write = os.pipe()
    with open(write, "w", encoding="utf-8") as stream:
        os.close(read)
        view = phases.Phases(stream)
        view.note("nobody reads this")
        view.note("nor this")
        view.close()
