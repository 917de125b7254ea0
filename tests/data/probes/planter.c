/*
 * planter.c - plants escapes and says what it did, so that a test knows the truth without asking the probes.
 *
 *   planter hop     IN OUT COUNT NS   move to OUT, run NS of CPU time there, move back; COUNT times
 *   planter thread  IN OUT COUNT NS   the same by COUNT fresh threads that are born on OUT
 *   planter child   IN OUT COUNT NS   the same by COUNT fork+exec children
 *   planter stay    IN OUT 1 NS       move once, run without a system call for NS of wall time
 *   planter nap     IN OUT COUNT NS   stay on IN; COUNT sleeps of NS: exactly COUNT voluntary switches
 *   planter ping    IN OUT COUNT 0    two processes hand a byte to and fro over pipes, COUNT times
 *   planter attach  IN OUT COUNT NS FILE   hop, and write 0 to FILE (a cgroup.procs) while outside
 *
 * Prints {"escapes": n, "switches": n, "outside_ns": n, "tid": n}: how often it went out, how often it was switched
 * out while there (getrusage counts what the scheduler counts), and the CPU time that it spent there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clocks.h"
#include "tasks.h"

static int in_cpu, out_cpu, count;
static long long ns;
static const char *attach_file;
static long long escapes, switches, outside_ns;

static void must(int error, const char *what)
{
        if (error) {
                fprintf(stderr, "planter: %s: %s\n", what, strerror(error));
                exit(2);
        }
}

static void go(int cpu)
{
        must(pin(0, cpu), "sched_setaffinity");
}

static long long switched(void)
{
        struct rusage use;

        getrusage(RUSAGE_THREAD, &use);
        return use.ru_nvcsw + use.ru_nivcsw;
}

static void work(long long length)
{
        spin(CLOCK_THREAD_CPUTIME_ID, length);
}

static void escape(void)
{
        go(out_cpu);
        long long began = now(CLOCK_THREAD_CPUTIME_ID), before = switched();

        if (attach_file) {
                work(ns / 2);
                must(put(attach_file, "0"), attach_file);
                work(ns / 2);
        } else {
                work(ns);
        }
        long long after = switched();
        long long ended = now(CLOCK_THREAD_CPUTIME_ID);

        go(in_cpu);
        escapes++;
        switches += after - before + 1;         /* and the one by which it left */
        outside_ns += ended - began;
}

static void *escape_in_thread(void *unused)
{
        (void)unused;
        work(ns);
        escapes++;
        switches += switched() + 1;
        return NULL;
}

static void by_threads(void)
{
        /* All that the process used, less what this thread did: the threads from birth to death. */
        long long all = now(CLOCK_PROCESS_CPUTIME_ID), own = now(CLOCK_THREAD_CPUTIME_ID);

        for (int i = 0; i < count; i++) {
                pthread_t thread;
                pthread_attr_t attr;
                cpu_set_t set;

                CPU_ZERO(&set);
                CPU_SET(out_cpu, &set);
                pthread_attr_init(&attr);
                pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
                pthread_create(&thread, &attr, escape_in_thread, NULL);
                pthread_join(thread, NULL);
        }
        outside_ns = now(CLOCK_PROCESS_CPUTIME_ID) - all - (now(CLOCK_THREAD_CPUTIME_ID) - own);
}

static void by_children(char *self)
{
        for (int i = 0; i < count; i++) {
                char length[32];
                struct rusage use;
                int status;
                pid_t child;

                snprintf(length, sizeof(length), "%lld", ns);
                child = fork();
                if (!child) {
                        go(out_cpu);
                        execl(self, self, "spin", "0", "0", "1", length, NULL);
                        _exit(2);
                }
                wait4(child, &status, 0, &use);
                escapes++;
                /* From its birth: some of it was still at home, before it moved. */
                outside_ns += (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000000LL +
                              (use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1000LL;
                switches += 1;
        }
}

static void ping(void)
{
        int there[2], back[2];
        char byte = 0;

        if (pipe(there) || pipe(back))
                exit(2);
        pid_t child = fork();

        for (int i = 0; i < count; i++) {
                if (child) {
                        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
                                exit(2);
                } else if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1) {
                        exit(2);
                }
        }
        if (!child)
                _exit(0);
        waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
        if (argc < 6)
                return 2;
        in_cpu = atoi(argv[2]);
        out_cpu = atoi(argv[3]);
        count = atoi(argv[4]);
        ns = atoll(argv[5]);
        if (!strcmp(argv[1], "spin")) {
                work(ns);
                return 0;
        }
        go(in_cpu);
        char line[16];

        puts("ready");                          /* the test moves us into the cgroup, then says go */
        fflush(stdout);
        if (!fgets(line, sizeof(line), stdin))
                return 2;
        go(in_cpu);                             /* kernels before 6.2 forget masks when a task changes its cpuset */
        if (!strcmp(argv[1], "hop")) {
                for (int i = 0; i < count; i++)
                        escape();
        } else if (!strcmp(argv[1], "attach")) {
                attach_file = argv[6];
                for (int i = 0; i < count; i++)
                        escape();
        } else if (!strcmp(argv[1], "thread")) {
                by_threads();
        } else if (!strcmp(argv[1], "child")) {
                by_children(argv[0]);
        } else if (!strcmp(argv[1], "ping")) {
                ping();
        } else if (!strcmp(argv[1], "nap")) {
                long long before = switched();

                for (int i = 0; i < count; i++) {
                        struct timespec t = { ns / 1000000000, ns % 1000000000 };

                        nanosleep(&t, NULL);
                }
                switches = switched() - before;
        } else {
                go(out_cpu);
                long long end = now(CLOCK_MONOTONIC) + ns, began = now(CLOCK_THREAD_CPUTIME_ID);

                while (now(CLOCK_MONOTONIC) < end)
                        ;
                escapes = switches = 1;
                outside_ns = now(CLOCK_THREAD_CPUTIME_ID) - began;
        }
        printf("{\"escapes\": %lld, \"switches\": %lld, \"outside_ns\": %lld, \"tid\": %ld}\n", escapes, switches,
               outside_ns, syscall(SYS_gettid));
        fflush(stdout);
        (void)fgets(line, sizeof(line), stdin); /* stay until the window is closed: its exit is not under test */
        return 0;
}
