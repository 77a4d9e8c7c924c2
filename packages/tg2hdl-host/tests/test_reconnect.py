"""Devices that go away and come back, and devices for asyncio."""

import asyncio
import os
import select
from threading import Event, Thread

import numpy as np
import pytest

import tg2hdl_host
from fake_device import DisturbedLine, FakeDevice
from tg2hdl_host import AsyncDevice, ConnectionFailedError, Device, WrongDesignError

X = np.arange(8, dtype=np.int8)[None]
ROW = 28 * np.array([1, 2, 3])


class Board:
    """A board at the end of a cable: a terminal behind a name that stays."""

    def __init__(self, path):
        self.path, self.master = path, None

    def plug(self, device):
        self.master, slave = os.openpty()
        self.path.unlink(missing_ok=True)
        self.path.symlink_to(os.ttyname(slave))
        master, unplugged = self.master, Event()

        def answer():
            try:
                while not unplugged.is_set():
                    if select.select([master], [], [], 0.02)[0]:
                        os.write(master, device.feed(os.read(master, 4096)))
            except OSError:
                return

        self.unplugged, self.thread = unplugged, Thread(target=answer, daemon=True)
        self.thread.start()

    def unplug(self):
        # The thread ends first: the next terminal may get the same number.
        self.unplugged.set()
        self.thread.join()
        os.close(self.master)
        self.path.unlink()


def test_a_board_that_was_unplugged_is_connected_again(tmp_path):
    board, fake = Board(tmp_path / "port"), FakeDevice(state=True)
    board.plug(fake)
    with tg2hdl_host.connect(board.path, timeout=5) as device:
        assert device(X).tolist() == ROW.tolist()
        board.unplug()
        with pytest.raises(ConnectionFailedError, match="is gone") as caught:
            device(X)
        assert caught.value.hint == "connect the cable, then call device.reconnect()"
        with pytest.raises(ConnectionFailedError, match="cannot open"):
            device.reconnect(0)
        with pytest.raises(ConnectionFailedError, match="is gone: it is closed"):
            device(X)
        board.plug(fake)
        assert device.reconnect(5) is True
        assert device(X).tolist() == (2 * ROW).tolist()
        board.unplug()
        board.plug(FakeDevice(identity=1))
        with pytest.raises(WrongDesignError, match="holds the design 0000000000000001, not 1122334455667788"):
            device.reconnect(5)


class Restarted:
    """A line to a device that is exchanged for a new one by a power cycle, while its bridge stays."""

    def __init__(self, **options):
        self.options, self.line = options, None
        self.restart()

    def restart(self):
        self.line = DisturbedLine(FakeDevice(**self.options))
        return self

    def opened(self, **options):
        return Device(self, timeout=5, reopen=lambda: self, **options)

    def __getattr__(self, name):
        return getattr(self.line, name)


def test_a_restart_is_an_error_where_it_has_lost_something():
    board = Restarted(weights=True)
    device = board.opened(weights={"w": np.array([5, 6, 7], np.int32)})
    expected = (28 * np.array([5, 6, 7])).tolist()
    assert device(X).tolist() == device(X).tolist() == expected
    board.restart()
    for _ in range(2):  # until it is connected again
        with pytest.raises(ConnectionFailedError) as caught:
            device(X)
    assert str(caught.value) == (
        "fake was restarted since the last run, and has lost w\n"
        "  at: run\n"
        "  hint: call device.reconnect(), which loads weights again; state begins anew"
    )
    assert device.reconnect() is False
    assert device(X).tolist() == expected
    assert device.reconnect() is True


@pytest.mark.parametrize("packet_run", [False, True])
def test_a_restart_of_a_design_with_state_is_an_error(packet_run):
    board = Restarted(state=True, packet_run=packet_run)
    device = board.opened()
    device.run([X, X])
    board.restart()
    with pytest.raises(ConnectionFailedError, match="has lost its state"):
        device(X)
    assert device.reconnect() is False
    assert device(X).tolist() == ROW.tolist()


def test_a_restart_that_loses_nothing_goes_on():
    board = Restarted()
    device = board.opened()
    device.run([X, X])
    board.restart()
    assert device(X).tolist() == ROW.tolist()


def test_without_a_way_to_open_it_again():
    device = Device(DisturbedLine(FakeDevice()), timeout=5)
    with pytest.raises(ConnectionFailedError) as caught:
        device.reconnect()
    assert str(caught.value) == "fake cannot be opened again\n  at: link\n  hint: connect again"


def test_tasks_share_a_device():
    async def work():
        async with AsyncDevice(Device(DisturbedLine(FakeDevice(variable=True)), timeout=5)) as device:
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0)

            ticking = asyncio.create_task(tick())
            single = [device(X, n=n) for n in range(5)]
            batch, *found = await asyncio.gather(device.run([X] * 20, n=0), *single)
            ticking.cancel()
            assert np.array_equal(batch, [ROW] * 20)
            assert np.array_equal(found, [(28 + n) * np.array([1, 2, 3]) for n in range(5)])
            assert ticks > 2
            assert (await device.counters())["runs"] == 25
            assert repr(device).startswith("<AsyncDevice fake: fake, ")
            device.device.set_variable("n", 0)
            with pytest.raises(ConnectionFailedError, match="cannot be opened again"):
                await device.reconnect()
            await device.close()
            return device

    device = asyncio.run(work())
    assert device._thread._shutdown


def test_results_that_are_fed_back_come_one_by_one():
    class Device:
        def generate(self, first, limit):
            yield from range(first, first + limit)

        def close(self):
            pass

    async def work():
        async with AsyncDevice(Device()) as device:
            return [found async for found in device.generate(3, limit=4)]

    assert asyncio.run(work()) == [3, 4, 5, 6]


def test_a_cancelled_run_ends_on_the_device():
    async def work():
        async with AsyncDevice(Device(DisturbedLine(FakeDevice()), timeout=5)) as device:
            running = asyncio.create_task(device.run([X] * 50))
            await asyncio.sleep(0.001)
            running.cancel()
            assert np.array_equal(await device(X), ROW)
            return (await device.counters())["runs"]

    assert asyncio.run(work()) in (1, 51)


def test_connect_async(tmp_path):
    board = Board(tmp_path / "port")
    board.plug(FakeDevice())

    async def work():
        async with await tg2hdl_host.connect_async(board.path, timeout=5) as device:
            return await device(X)

    assert asyncio.run(work()).tolist() == ROW.tolist()
