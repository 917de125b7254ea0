/*
 * account.h - how long a mover was on a CPU in its stays, by perf's task clock; how it ends where something fails.
 *
 * Include it after _GNU_SOURCE. A move is somewhere inside a write(2): low is from the end of the one to the begin of
 * the other, high from the begin of the one to the end of the other.
 */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clocks.h"
#include "tasks.h"

struct account {
        long long low, high, stays;
};

static struct account *account;         /* of all tasks of this mover */
static __thread int clock_fd;
static __thread pid_t clock_tid;
static __thread long long begin_low, begin_high;

static void fail(const char *what)
{
        fprintf(stderr, "mover: %s: %s\n", what, strerror(errno));
        _exit(2);
}

/* This thread's time on CPUs so far, by perf. */
static long long on_cpu(void)
{
        if (clock_tid != (pid_t)syscall(SYS_gettid)) {
                clock_fd = open_counter(0, -1, PERF_COUNT_SW_TASK_CLOCK, 0);
                if (clock_fd < 0)
                        fail("perf_event_open");
                clock_tid = syscall(SYS_gettid);
        }
        long long value = read_counter(clock_fd);

        if (value < 0)
                fail("read of the clock");
        return value;
}

/* Write a file, or end. */
static void must_put(const char *path, const char *text)
{
        errno = put(path, text);
        if (errno)
                fail(path);
}

static void enter(const char *path)
{
        begin_high = on_cpu();
        if (path)
                must_put(path, "0");
        begin_low = path ? on_cpu() : begin_high;
}

static void leave(const char *path)
{
        long long low = on_cpu() - begin_low;

        if (path)
                must_put(path, "0");
        __sync_fetch_and_add(&account->low, low);
        __sync_fetch_and_add(&account->high, on_cpu() - begin_high);
        __sync_fetch_and_add(&account->stays, 1);
}
