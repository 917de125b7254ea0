/*
 * tasks.h - how a task is made, pinned and moved. Shared by the planted programs; include it after _GNU_SOURCE.
 *
 * What returns an int returns 0 or an errno.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline cpu_set_t only(int cpu)
{
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        return set;
}

/* 0: this thread. */
static inline int pin(int tid, int cpu)
{
        cpu_set_t set = only(cpu);

        return sched_setaffinity(tid, sizeof(set), &set) ? errno : 0;
}

/* Write a file: a thread id (0: the writer's own) to a cgroup.procs moves it. */
static inline int put(const char *path, const char *text)
{
        int file = open(path, O_WRONLY), error = 0;

        if (file < 0)
                return errno;
        if (write(file, text, strlen(text)) < 0)
                error = errno;
        close(file);
        return error;
}

/*
 * fork() into a cgroup (its open directory; -1: the parent's) with a thread id (0: the next free one).
 * Returns like fork.
 */
static inline pid_t clone3(unsigned long long flags, int cgroup, pid_t tid)
{
        struct clone_args args = { .flags = flags };

        if (!(flags & CLONE_PARENT))    /* whose exit signal is that of the parent */
                args.exit_signal = SIGCHLD;
        if (cgroup >= 0) {
                args.flags |= CLONE_INTO_CGROUP;
                args.cgroup = cgroup;
        }
        if (tid) {
                args.set_tid = (unsigned long)&tid;
                args.set_tid_size = 1;
        }
        return syscall(SYS_clone3, &args, sizeof(args));
}
