/* clocks.h - time as the kernel counts it: its clocks, and perf's counters of a task. Shared by planted programs. */
#pragma once

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline long long now(clockid_t clock)
{
        struct timespec t;

        clock_gettime(clock, &t);
        return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Run without a system call until the clock is so much later. */
static inline void spin(clockid_t clock, long long ns)
{
        long long end = now(clock) + ns;

        while (now(clock) < end)
                ;
}

static inline void nap(long us)
{
        struct timespec t = { us / 1000000, us % 1000000 * 1000 };

        nanosleep(&t, NULL);
}

/*
 * A software event of a task (0: this one) on a CPU (-1: on any). Flags are the bits of perf_event_attr after
 * read_format, as a number: INHERIT_THREAD has a name in newer headers only.
 */
#define INHERIT (1ULL << 1)
#define INHERIT_THREAD (1ULL << 35)     /* 5.13 */

static inline int open_counter(int tid, int cpu, unsigned long long what, unsigned long long flags)
{
        unsigned long long attr[8] = { PERF_TYPE_SOFTWARE | (64ULL << 32), what };

        attr[5] = flags;
        return syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* -1: it cannot be read. */
static inline long long read_counter(int file)
{
        long long value;

        return file >= 0 && read(file, &value, sizeof(value)) == sizeof(value) ? value : -1;
}
