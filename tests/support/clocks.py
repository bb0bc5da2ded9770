"""Another wall clock for a process and everything in it, native code included.

    environment = shifted_clock(folder, days=-1)       skips where there is no C compiler

A small library, loaded before the C library, shifts what the system says the time is. Monotonic clocks stay.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static time_t shift(void) { const char *s = getenv("CLOCK_SHIFT"); return s ? atol(s) : 0; }

int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(id, t);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += shift();
    return failed;
}
time_t time(time_t *out) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec;
    return t.tv_sec;
}
int gettimeofday(struct timeval *v, void *zone) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    v->tv_sec = t.tv_sec;
    v->tv_usec = t.tv_nsec / 1000;
    return 0;
}
"""


def shifted_clock(folder: Path, days: int) -> dict[str, str]:
    """The variables that shift the clock of a process."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler (`cc`) to make another clock with")
    library, source = folder / "clock.so", folder / "clock.c"
    source.write_text(SOURCE)
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return {"LD_PRELOAD": str(library), "CLOCK_SHIFT": str(days * 86_400)}
