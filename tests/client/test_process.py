"""A child process: its lines, its log, and that its end leaves nothing behind, whatever it or we do."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugreg import escapees
from plugreg.environment import Launch
from plugreg.process import STDERR_KEPT, Process
from plugreg.streams import Lines, Ring, printable
from plugreg.supervision import kill_all, run_supervised
from plugreg_schemas.errors import NotAvailable
from tests.servers.place import ends, left_running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="starting processes is not supported on Windows"
)
needs_proc = pytest.mark.skipif(
    not escapees.can_look(), reason="needs /proc to find processes that left their group"
)

FOREVER = "import signal; signal.sigwait([signal.SIGUSR1])"


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """After every test no process that we started runs."""
    yield
    assert left_running(os.getpid()) == []


def launch(folder: Path, *argv: str) -> Launch:
    env = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"}
    program = {"python": sys.executable, "sh": "/bin/sh"}.get(argv[0], argv[0])
    return Launch("s", argv[0], (program, *argv[1:]), env, folder, folder, folder / "data")


class TestLines:
    @given(st.lists(st.binary(max_size=9).filter(lambda line: b"\n" not in line), max_size=9), st.data())
    def test_lines_are_the_same_however_the_bytes_arrive(
        self, lines: list[bytes], data: st.DataObject
    ) -> None:
        stream = b"".join(line + b"\n" for line in lines)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=9)))
        found = Lines()
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            found.feed(stream[start:end])
        assert list(iter(found.pop, None)) == lines

    def test_a_last_line_without_an_end_counts(self) -> None:
        lines = Lines()
        lines.feed(b"a\nb")
        assert lines.pop() == b"a"
        assert lines.pop() is None
        lines.end()
        assert lines.pop() == b"b"

    def test_an_overlong_line_ends_the_reading_and_is_not_kept(self) -> None:
        lines = Lines(max_line=10)
        lines.feed(b"short\n" + b"x" * 6)
        lines.feed(b"y" * 6 + b"\nmore\n")
        assert (lines.pop(), lines.pop()) == (b"short", None)
        assert (lines.overlong, lines.ended) == (True, True)

    def test_it_says_when_too_much_waits(self) -> None:
        lines = Lines(max_unread=3)
        lines.feed(b"ab\ncd\n")
        assert lines.full
        lines.pop()
        assert not lines.full


def test_the_log_keeps_its_end() -> None:
    ring = Ring(10)
    for number in range(100):
        ring.add(b"%04d" % number)
    assert ring.tail(8) == b"00980099"
    assert ring.tail(1000).endswith(b"009700980099")
    assert len(ring.tail(1000)) < 14


def test_a_log_cannot_drive_the_terminal() -> None:
    assert printable(b"a\x1b[2Jb\tc\r\n\x07\xff") == "a[2Jb\tc\n\ufffd"


async def talk(process: Process, line: bytes) -> bytes | None:
    await process.send(line)
    return await process.read()


def test_lines_go_there_and_back(tmp_path: Path) -> None:
    async def main() -> list[bytes | None]:
        process = await Process.start(launch(tmp_path, "cat"))
        try:
            return [await talk(process, "Độ 🎉".encode()), await talk(process, b"x" * 3_000_000)]
        finally:
            await process.close()

    assert run_supervised(main) == ["Độ 🎉".encode(), b"x" * 3_000_000]


def test_reading_ends_with_the_child_and_its_code_is_known(tmp_path: Path) -> None:
    async def main() -> tuple[list[bytes | None], int | None, str]:
        process = await Process.start(launch(tmp_path, "sh", "-c", "echo out; echo err >&2; exit 3"))
        lines = [await process.read(), await process.read(), await process.read()]
        await process.close()
        return lines, process.exit_code, process.stderr_tail()

    assert run_supervised(main) == ([b"out", None, None], 3, "err")


def test_h1_a_dead_child_counts_as_ended_although_a_grandchild_holds_its_pipes(tmp_path: Path) -> None:
    async def main() -> tuple[bytes | None, int | None]:
        process = await Process.start(launch(tmp_path, "sh", "-c", "sleep 600 & exit 4"))
        line = await process.read()
        await process.close()
        return line, process.exit_code

    assert run_supervised(main) == (None, 4)


def test_h3_the_log_is_drained_and_only_its_end_kept(tmp_path: Path) -> None:
    async def main() -> Process:
        code = "import sys; sys.stderr.write('x' * 2_000_000 + 'last words'); print('done')"
        process = await Process.start(launch(tmp_path, "python", "-c", code))
        assert await process.read() == b"done"
        await process.close()
        return process

    process = run_supervised(main)
    assert process.stderr_tail(10) == "last words"
    assert STDERR_KEPT <= len(process.stderr_tail(10 * STDERR_KEPT)) < 2 * STDERR_KEPT


def test_a_child_that_writes_faster_than_we_read_is_slowed_down_not_lost(tmp_path: Path) -> None:
    async def main() -> int:
        code = "import sys; [sys.stdout.write('x' * 99_999 + '\\n') for _ in range(200)]"
        process = await Process.start(launch(tmp_path, "python", "-c", code))
        count = 0
        while (line := await process.read()) is not None:
            count += len(line) == 99_999
        await process.close()
        return count

    assert run_supervised(main) == 200


def test_h5_a_child_that_does_not_read_blocks_neither_close_nor_the_log(tmp_path: Path) -> None:
    async def main() -> bool:
        process = await Process.start(launch(tmp_path, "python", "-c", FOREVER), grace_s=0.1, term_s=2)
        sending = asyncio.create_task(process.send(b"x" * 1_000_000))
        await asyncio.sleep(0)
        assert not sending.done()
        await process.close()
        await asyncio.wait([sending])
        return process.signalled

    assert run_supervised(main)


def test_sending_to_a_dead_child_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        process = await Process.start(launch(tmp_path, "true"))
        await process.exited(10)
        while await process.read() is not None:
            pass
        try:
            for _ in range(1000):
                await process.send(b"x" * 1000)
        finally:
            await process.close()

    with pytest.raises(BrokenPipeError):
        run_supervised(main)


RECORD = """
import os, signal, sys
def note(what):
    with open("record", "a") as record: record.write(what + " ")
{on_term}
print("ready")
sys.stdin.read()
note("eof")
{after_eof}
"""
NOTE_TERM = "signal.signal(signal.SIGTERM, lambda *_: (note('term'), {then}))"
WAIT = "while True: signal.pause()"


@pytest.mark.parametrize(
    ("on_term", "after_eof", "record", "signalled"),
    [
        pytest.param(NOTE_TERM.format(then="0"), "", "eof ", False, id="H8-ends-by-itself"),
        pytest.param(
            NOTE_TERM.format(then="os._exit(0)"), WAIT, "eof term ", True, id="H8-term-after-the-grace"
        ),
        pytest.param(NOTE_TERM.format(then="0"), WAIT, "eof term ", True, id="H8-kill-after-term"),
    ],
)
def test_h8_order_of_the_end(
    tmp_path: Path, on_term: str, after_eof: str, record: str, signalled: bool
) -> None:
    code = RECORD.format(on_term=on_term, after_eof=after_eof)

    async def main() -> bool:
        grace = 0.3 if signalled else 20
        process = await Process.start(launch(tmp_path, "python", "-c", code), grace_s=grace, term_s=0.5)
        assert await process.read() == b"ready"
        await asyncio.gather(process.close(), process.close())
        await process.close()
        return process.signalled

    assert run_supervised(main) is signalled
    assert (tmp_path / "record").read_text() == record


GRANDCHILD = (
    "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {code!r}], {how}); print(p.pid)\n"
)


@pytest.mark.parametrize("after", ["sys.stdin.read()", "sys.exit(1)"], ids=["good-end", "crash"])
@pytest.mark.parametrize(
    "how",
    [
        pytest.param("", id="same-group"),
        pytest.param("env={}", id="same-group-no-tag"),
        pytest.param("start_new_session=True", id="H2-setsid", marks=needs_proc),
        pytest.param("start_new_session=True, stdin=-3, stdout=-3, stderr=-3", id="daemon", marks=needs_proc),
    ],
)
def test_h1_no_grandchild_survives(tmp_path: Path, how: str, after: str) -> None:
    """Even after a good end of the child, and after its crash."""
    code = GRANDCHILD.format(code=FOREVER, how=how) + after

    async def main() -> int:
        process = await Process.start(launch(tmp_path, "python", "-c", code), grace_s=10)
        pid = int(await process.read() or b"0")
        await process.close()
        assert process.signalled is False
        return pid

    assert ends(run_supervised(main))


@needs_proc
def test_a_grandchild_without_tag_in_its_own_session_is_found_below_the_child(tmp_path: Path) -> None:
    code = GRANDCHILD.format(code=FOREVER, how="start_new_session=True, env={}") + "sys.stdin.read()"

    async def main() -> int:
        process = await Process.start(launch(tmp_path, "python", "-c", code), grace_s=10)
        pid = int(await process.read() or b"0")
        await process.close()
        return pid

    assert ends(run_supervised(main))


@needs_proc
def test_h13_a_process_without_the_tag_is_never_killed(tmp_path: Path) -> None:
    """Not even one that the sweep was told to know by a pid that has another start time."""
    bystander = subprocess.Popen([sys.executable, "-c", FOREVER], env={"PLUGREG_RUN": "1-other"})
    try:
        known = escapees.entry(bystander.pid)
        assert known is not None
        assert escapees.sweep("1-mine", {known._replace(started=known.started - 1)}) == 0
        assert bystander.poll() is None
        assert escapees.sweep("1-other") == 1
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_exception_of_ours_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    pids = []

    async def main() -> None:
        process = await Process.start(launch(tmp_path, "python", "-c", FOREVER), grace_s=0.1)
        pids.append(process.pid)
        raise error

    with pytest.raises(error):
        run_supervised(main)
    assert ends(pids[0])


def test_a_cancelled_close_still_ends_the_child(tmp_path: Path) -> None:
    async def main() -> Process:
        process = await Process.start(launch(tmp_path, "python", "-c", FOREVER), grace_s=0.2)
        closing = asyncio.create_task(process.close())
        await asyncio.sleep(0)
        closing.cancel()
        await process.close()
        return process

    assert run_supervised(main).signalled


HOST = """
import asyncio, os, sys
from pathlib import Path
from plugreg.environment import Launch
from plugreg.process import Process
from plugreg.supervision import run_supervised

async def main():
    here = Path.cwd()
    env = {"PATH": os.environ["PATH"]}
    for way in ("sh -c 'sleep 600 & wait'", "setsid sleep 600 & wait", "trap : TERM; while :; do sleep 600; done"):
        await Process.start(Launch("s", "sh", ("/bin/sh", "-c", way), env, here, here, here), grace_s=0.2, term_s=0.2)
    mine = await Process.start(Launch("s", "sh", ("/bin/sh", "-c", "echo up; read x"), env, here, here, here))
    try:
        await mine.read()
        print("ready", flush=True)
        await mine.read()
    finally:
        await mine.close()

run_supervised(main)
"""


LISTENING = """
import signal
signal.signal({number}, signal.default_int_handler if {number} == signal.SIGINT else signal.SIG_DFL)
"""
"""Whoever started the tests may ignore a signal, as `nohup` does, and that is inherited."""


@needs_proc
@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_h1_a_signal_to_plugreg_itself_leaves_nothing(
    tmp_path: Path, signum: signal.Signals, code: int
) -> None:
    code_of_host = f"{LISTENING.format(number=int(signum))}\n{HOST}"
    host = subprocess.Popen([sys.executable, "-c", code_of_host], cwd=tmp_path, stdout=-1, stderr=-1)
    assert host.stdout is not None
    assert host.stderr is not None
    with host, host.stdout, host.stderr:
        try:
            assert host.stdout.readline() == b"ready\n"
            assert len(left_running(host.pid)) >= 4
            host.send_signal(signum)
            assert host.wait(30) == code
        finally:
            host.kill()
    assert left_running(host.pid) == []


def test_a_host_that_forgets_to_close_leaves_nothing_at_its_exit(tmp_path: Path) -> None:
    async def main() -> None:
        process = await Process.start(launch(tmp_path, "python", "-c", FOREVER))
        kill_all()
        assert await process.exited(10)
        await process.close()

    asyncio.run(main())


def test_it_works_outside_the_main_thread(tmp_path: Path) -> None:
    found: list[bytes | None] = []

    async def main() -> None:
        process = await Process.start(launch(tmp_path, "cat"))
        found.append(await talk(process, b"hello"))
        await process.close()

    thread = threading.Thread(target=run_supervised, args=(main,))
    thread.start()
    thread.join(30)
    assert found == [b"hello"]


def test_the_handlers_of_the_host_come_back(tmp_path: Path) -> None:
    async def main() -> None:
        assert signal.getsignal(signal.SIGTERM) is not before

    before = signal.getsignal(signal.SIGTERM)
    run_supervised(main)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("content", "hint"),
    [("#!/no/such/interpreter\n", "interpreter"), ("\x7fELF not really", "plan")],
    ids=["no-interpreter", "not-a-program"],
)
def test_a_program_that_the_system_refuses_is_explained(tmp_path: Path, content: str, hint: str) -> None:
    (tmp_path / "run").write_text(content)
    (tmp_path / "run").chmod(0o755)

    async def main() -> None:
        await Process.start(launch(tmp_path, str(tmp_path / "run")))

    with pytest.raises(NotAvailable, match="server_unavailable") as refusal:
        run_supervised(main)
    assert hint in refusal.value.hint
