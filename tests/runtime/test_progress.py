"""How far long tasks have come."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from cfagg.runtime import progress


class Heard:
    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def start(self, what, total):
        self.told.append(("start", what, total))
        return len(self.told)

    def advance(self, number, steps):
        self.told.append(("advance", number, steps))

    def finish(self, number):
        self.told.append(("finish", number))


def test_steps_are_told_to_who_listens():
    heard = Heard()
    with progress.listening(heard), progress.task("files", 3) as step:
        step()
        step(2)
    assert heard.told == [("start", "files", 3), ("advance", 1, 1), ("advance", 1, 2), ("finish", 1)]


def test_steps_of_other_threads_are_told_too():
    heard = Heard()
    with progress.listening(heard), ThreadPoolExecutor(2) as pool:

        def work() -> None:
            with progress.task("files") as step:
                step()

        pool.submit(work).result()
    assert ("advance", 1, 1) in heard.told


def test_a_task_ends_when_it_fails():
    heard = Heard()
    with pytest.raises(ZeroDivisionError), progress.listening(heard), progress.task("files", 3):
        _ = 1 / 0
    assert heard.told[-1] == ("finish", 1)


def test_nobody_listens_after_the_block_or_in_a_copy_of_the_process():
    heard = Heard()
    with progress.listening(heard):
        progress.forget()
        with progress.task("files", 1) as step:
            step()
    with progress.task("files", 1) as step:
        step()
    assert heard.told == []


def test_bars_are_drawn_on_stderr_and_leave_stdout_alone(capsys):
    with progress.bars(shown=True), progress.task("sources", 2) as step:
        step(2)
    assert capsys.readouterr().out == ""


def test_no_bar_is_drawn_unless_shown(capsys):
    with progress.bars(shown=False), progress.task("sources", 2) as step:
        step(2)
    assert capsys.readouterr() == ("", "")


def test_a_bar_is_wiped_when_its_task_ends_and_another_can_begin(capsys):
    with progress.bars(shown=True):
        for _ in range(2):
            with progress.task("sources", 2) as step:
                step()
            print("result")
    assert capsys.readouterr().out == "result\nresult\n"
