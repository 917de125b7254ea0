/*
 * actor.h - what an actor of the director does: it burns and sleeps, and obeys its box.
 *
 * Include it after _GNU_SOURCE.
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "box.h"
#include "clocks.h"
#include "ring.h"
#include "tasks.h"

static void burn(long us)
{
        spin(CLOCK_MONOTONIC, us * 1000);
}

static int open_clock(int tid, int cpu)
{
        return open_counter(tid, cpu, PERF_COUNT_SW_TASK_CLOCK, INHERIT | INHERIT_THREAD);
}

/* 0: there is no such clock. */
static long long read_clock(int file)
{
        long long value = read_counter(file);

        return value < 0 ? 0 : value;
}

static void live(struct box *box);

static void *live_in_thread(void *box)
{
        live(box);
        return NULL;
}

static void *execute_box(void *box)
{
        char number[16], file[16];

        ((struct box *)box)->other = syscall(SYS_gettid);
        snprintf(number, sizeof(number), "%d", (int)((struct box *)box - boxes));
        snprintf(file, sizeof(file), "%d", boxes_file);
        execl("/proc/self/exe", "director", "live", file, number, NULL);
        _exit(9);
}

static void hops(struct box *box)
{
        int clock = open_clock(0, box->watched);

        for (int i = 0; i < box->count; i++) {
                long long before = read_clock(clock);

                put(box->in, "0");
                long long began = read_clock(clock);

                burn(box->us);
                long long ended = read_clock(clock);

                put(box->out, "0");
                box->most += read_clock(clock) - before;
                box->least += ended - began;
                box->stays++;
                burn(box->us);
        }
        close(clock);
}

/* Its parent waits in the kernel: what both used, less what the parent did, is the child's. */
static void vforked(struct box *box)
{
        int all = open_counter(0, box->cpu, PERF_COUNT_SW_TASK_CLOCK, INHERIT);
        int own = open_counter(0, box->cpu, PERF_COUNT_SW_TASK_CLOCK, 0);
        long long both = -read_clock(all), mine = -read_clock(own);
        int child = vfork();

        if (!child) {
                box->child = syscall(SYS_gettid);
                pin(0, box->cpu);
                burn(box->us);
                _exit(0);
        }
        waitpid(child, NULL, 0);
        mine += read_clock(own);
        both += read_clock(all);
        box->child_most = both;
        box->child_least = both > mine ? both - mine : 0;
        close(all);
        close(own);
}

static void flips(struct box *box)
{
        for (int i = 0; i < box->count; i++) {
                pin(0, box->cpu);
                burn(box->us);
                pin(0, box->watched);
                burn(box->us);
        }
}

static int clone_into(const char *dir)
{
        int into = open(dir, O_RDONLY | O_DIRECTORY);
        int child = clone3(CLONE_PARENT, into, 0);

        close(into);
        return child;
}

static void obey(struct box *box)
{
        struct box *other = &boxes[box->other];
        pthread_t thread;
        int child = 1;

        switch (box->command) {
        case FORK:
                child = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
                break;
        case CLONE:
                child = clone_into(box->in);
                break;
        case THREAD:
                pthread_create(&thread, NULL, live_in_thread, other);
                break;
        case VFORK:
                vforked(box);
                break;
        case EXEC:
                box->command = NOTHING;
                pthread_create(&thread, NULL, execute_box, box);
                for (;;)
                        pause();
        case HOPS:
                hops(box);
                break;
        case FLIPS:
                flips(box);
                break;
        case URING:
                if (read_by_workers(box->cpu, box->count, box->us, FIRST))
                        _exit(8);
                break;
        }
        if (!child) {
                live(other);
                _exit(0);
        }
        box->command = NOTHING;
}

static void live(struct box *box)
{
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, box->name);
        box->tgid = getpid();
        box->tid = syscall(SYS_gettid);
        while (!box->counted)
                nap(50);
        for (;;) {
                if (box->command)
                        obey(box);
                if (!box->gap_us)
                        continue;
                burn(box->burn_us);
                nap(box->gap_us);
        }
}
