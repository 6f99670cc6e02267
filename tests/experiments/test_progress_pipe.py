"""Progress of a training in another process."""

from multiprocessing import Pipe
from types import SimpleNamespace

import pytest

from ulc.blocks.averages import Averages
from ulc.experiments import progress_pipe
from ulc.experiments.progress_pipe import NotedProgressPipe


@pytest.fixture
def pipe():
    """Both ends of a pipe."""
    here, there = Pipe()
    with here, there:
        yield here, there


def received(end):
    calls = []
    while end.poll():
        calls.append(end.recv())
    return calls


def test_every_call_arrives_with_its_arguments_in_order(pipe):
    progress = NotedProgressPipe(pipe[1])
    progress.on_note("30 rows are few")
    progress.on_read(3, 9)
    progress.on_epoch({"epoch": 0})
    assert received(pipe[0]) == [
        ("on_note", ("30 rows are few",)),
        ("on_read", (3, 9)),
        ("on_epoch", ({"epoch": 0},)),
    ]


def test_steps_are_told_at_most_ten_times_a_second_with_the_means_so_far(pipe, monkeypatch):
    times = iter([5.0, 5.05, 5.099, 5.11, 5.2, 5.3])
    monkeypatch.setattr(progress_pipe, "time", SimpleNamespace(monotonic=lambda: next(times)))
    progress, averages = NotedProgressPipe(pipe[1]), Averages()
    for number in range(6):
        averages.add(loss=float(number))
        progress.on_step(2, averages)
    told = received(pipe[0])
    assert [(name, epoch) for name, (epoch, _) in told] == [("on_step", 2)] * 3
    assert [means.record() for _, (_, means) in told] == [
        {"loss": 0.0},  # of step 0
        {"loss": 1.5},  # of steps 0 to 3
        {"loss": 2.5},  # of steps 0 to 5: step 4 came 0.09 seconds after step 3
    ]
