/*
 * director.c - plants what a script says, at the time that it says, and keeps the account of it.
 *
 *   director CPU < script        CPU: where the director itself runs
 *
 * A line of the script is `AT_US VERB ACTOR ARGUMENTS`; time begins with the first line. Verbs:
 *   spawn A CPU BURN_US GAP_US   a process pinned to CPU that burns and sleeps; GAP_US 0: it never leaves the CPU
 *   fork A NEW                   A forks, the child goes on as A does
 *   thread A NEW                 the same by a thread
 *   clone A NEW DIR              A clones a child into the cgroup DIR (CLONE_INTO_CGROUP)
 *   vfork A CPU US               A's vforked child runs US there and exits
 *   exec A                       a thread of A that is not its leader executes this program; it goes on as A did
 *   write A FILE                 write the thread id of A to FILE (a cgroup.procs or cgroup.threads)
 *   pin A CPU                    change the mask of A
 *   hops A IN OUT COUNT US       A writes itself to IN, burns US, writes itself to OUT, burns US; COUNT times
 *   flips A IN OUT COUNT US      A changes its own mask to CPU OUT, burns US, to CPU IN, burns US; COUNT times
 *   uring A CPU COUNT BYTES      COUNT asynchronous reads by an io-wq worker on CPU
 *   wait A                       until vfork, hops, flips or uring of A have been handed in
 *   kill A                       and wait until it is gone
 *   mkdir - DIR, rmdir - DIR, rest - (nothing)
 *
 * Each line is answered by one line of JSON: the moment and the CPU time of the actor on CPUs 0 and 1 before and after,
 * by perf's task clock (its threads and the kernel's threads of it included), how often it was switched out there by
 * perf's count, thread ids of its process, an errno.
 * Every actor dies with the director.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "verbs.h"

static void stamp(const char *name, struct box *box)
{
        printf(", \"%s\": {\"ns\": %lld, \"clock\": [%lld, %lld], \"switched\": [%lld, %lld]}", name,
               now(CLOCK_MONOTONIC), box ? read_clock(box->clock[0]) : 0, box ? read_clock(box->clock[1]) : 0,
               box ? read_clock(box->switches[0]) : 0, box ? read_clock(box->switches[1]) : 0);
}

static void threads_of(struct box *box)
{
        char path[64];
        const char *between = "";
        struct dirent *entry;

        snprintf(path, sizeof(path), "/proc/%d/task", box->tgid);
        DIR *dir = opendir(path);

        printf(", \"tids\": [");
        while (dir && (entry = readdir(dir)))
                if (entry->d_name[0] != '.') {
                        printf("%s%s", between, entry->d_name);
                        between = ", ";
                }
        if (dir)
                closedir(dir);
        printf("]");
}
/* Performs one verb, and prints the account of it. */
static int answer(const char *verb, const char *name, char args[4][256])
{
        struct box *box = !strcmp(verb, "spawn") ? fresh(name, NULL) : find(name);
        long long before_birth = 0;

        if (!box && name[0] != '-')
                return 3;
        printf("{\"verb\": \"%s\", \"actor\": \"%s\"", verb, name);
        stamp("before", strcmp(verb, "spawn") ? box : NULL);
        int error = perform(verb, box, args, &before_birth);

        stamp("after", box);
        printf(", \"error\": %d, \"before_birth_ns\": %lld, \"args\": [\"%s\", \"%s\"]", error, before_birth,
               args[0], args[1]);
        if (box) {
                printf(", \"tid\": %d, \"least\": %lld, \"most\": %lld, \"stays\": %lld", box->tid, box->least,
                       box->most, box->stays);
                printf(", \"child\": %d, \"child_least\": %lld, \"child_most\": %lld", box->child, box->child_least,
                       box->child_most);
                threads_of(box);
        }
        struct box *new = find(args[0]);

        if (new && makes_task(verb))
                printf(", \"new_tid\": %d", new->tid);
        if (!strcmp(verb, "exec"))
                printf(", \"new_tid\": %d", box->other);
        printf("}\n");
        fflush(stdout);
        return 0;
}

static void until(long long ns)
{
        struct timespec t = { ns / 1000000000, ns % 1000000000 };

        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

int main(int argc, char **argv)
{
        char line[1400], verb[16], name[32], args[4][256];
        long long at, start = 0;
        size_t size = sizeof(struct box) * MAX_ACTORS;

        boxes_file = argc == 4 ? atoi(argv[2]) : memfd_create("director", 0);
        if (argc != 4 && ftruncate(boxes_file, size))
                return 2;
        boxes = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, boxes_file, 0);
        if (argc == 4)
                live(&boxes[atoi(argv[3])]);
        pin(0, atoi(argv[1]));
        /* Punctual, but not real-time: what waits for an actor in short naps would starve the observer on this CPU. */
        setpriority(PRIO_PROCESS, 0, -20);
        while (fgets(line, sizeof(line), stdin)) {
                memset(args, 0, sizeof(args));
                if (sscanf(line, "%lld %15s %31s %255s %255s %255s %255s", &at, verb, name, args[0], args[1], args[2],
                           args[3]) < 3)
                        return 2;
                if (!start)
                        start = now(CLOCK_MONOTONIC);
                until(start + at * 1000);
                int failed = answer(verb, name, args);

                if (failed)
                        return failed;
        }
        for (int i = 0; i < actors; i++)
                if (boxes[i].tgid)
                        kill(boxes[i].tgid, SIGKILL);
        while (wait(NULL) > 0)
                ;
        return 0;
}
