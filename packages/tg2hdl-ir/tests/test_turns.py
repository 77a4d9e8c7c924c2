"""Threads that take turns."""

import sys
from threading import Barrier, Thread

from tg2hdl_ir.turns import compiles, in_turn


class Counter:
    def __init__(self):
        self.count = 0

    @in_turn
    def add(self):
        before = self.count
        for _ in range(10):
            pass
        self.count = before + 1

    @in_turn
    def twice(self):
        self.add()
        self.add()


def in_threads(function, threads=6):
    start = Barrier(threads)

    def work():
        start.wait()
        function()

    running = [Thread(target=work) for _ in range(threads)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    finally:
        sys.setswitchinterval(before)


def test_callers_of_one_object_wait_for_each_other():
    counter = Counter()
    in_threads(lambda: [counter.twice() for _ in range(300)])
    assert counter.count == 6 * 300 * 2


def test_one_thread_compiles():
    inside, most = [0], [0]

    @compiles
    def work(depth=2):
        inside[0] += depth == 2
        most[0] = max(most[0], inside[0])
        if depth:
            work(depth - 1)
        inside[0] -= depth == 2

    in_threads(lambda: [work() for _ in range(200)])
    assert most[0] == 1
