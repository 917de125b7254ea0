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
 *   sqpoll A CPU MS              a kernel thread of A polls its queue on CPU for MS
 *   wait A                       until vfork, hops, flips, uring or sqpoll of A have been handed in
 *   kill A                       and wait until it is gone
 *   text - FILE TEXT, mkdir - DIR, rmdir - DIR, rest - (nothing)
 *
 * Each line is answered by one line of JSON: the moment and the CPU time of the actor on CPUs 0 and 1 before and after,
 * by perf's task clock (its threads and the kernel's threads of it included), how often it was switched out there by
 * perf's count, thread ids of its process, an errno.
 * Every actor dies with the director.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_ACTORS 256
#define INHERIT (1ULL << 1)
#define INHERIT_THREAD (1ULL << 35)     /* 5.13; named in newer headers only */

enum command { NOTHING, FORK, THREAD, CLONE, VFORK, EXEC, HOPS, FLIPS, URING, SQPOLL };

struct box {                            /* shared by the director and one actor */
        volatile int command, tid, tgid, counted;
        int other, cpu, count, watched;
        long burn_us, gap_us, us;
        char in[256], out[256];
        volatile long long least, most, stays;  /* of hops: CPU time inside */
        volatile int child;             /* the last that was vforked, and its CPU time on the CPU it was sent to */
        volatile long long child_least, child_most;
        char name[32];
        int clock[2], switches[2];      /* the director's only */
};

static struct box *boxes;
static int boxes_file, actors;

static long long now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void burn(long us)
{
        long long end = now() + us * 1000;

        while (now() < end)
                ;
}

static void nap(long us)
{
        struct timespec t = { us / 1000000, us % 1000000 * 1000 };

        nanosleep(&t, NULL);
}

static int pin(int tid, int cpu)
{
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        return sched_setaffinity(tid, sizeof(set), &set) ? errno : 0;
}

static int put(const char *path, const char *text)
{
        int file = open(path, O_WRONLY), error = 0;

        if (file < 0)
                return errno;
        if (write(file, text, strlen(text)) < 0)
                error = errno;
        close(file);
        return error;
}

/* ---------------------------------------------------------------- actors */

static int open_counter(int tid, int cpu, unsigned long long what, unsigned long long flags)
{
        unsigned long long attr[8] = { PERF_TYPE_SOFTWARE | (64ULL << 32), what };

        attr[5] = flags;
        return syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static int open_clock(int tid, int cpu)
{
        return open_counter(tid, cpu, PERF_COUNT_SW_TASK_CLOCK, INHERIT | INHERIT_THREAD);
}

static int open_switches(int tid, int cpu)
{
        return open_counter(tid, cpu, PERF_COUNT_SW_CONTEXT_SWITCHES, INHERIT | INHERIT_THREAD);
}

static long long read_clock(int file)
{
        long long value = 0;

        if (file < 0 || read(file, &value, sizeof(value)) != sizeof(value))
                return 0;
        return value;
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

/* One ring for one piece of work, closed after it: its workers end, as they do when a program is done with it. */
static void ring(struct box *box, int poll)
{
        struct io_uring_params p = { 0 };
        cpu_set_t set;

        if (poll) {
                p.flags = IORING_SETUP_SQPOLL | IORING_SETUP_SQ_AFF;
                p.sq_thread_cpu = box->cpu;
                p.sq_thread_idle = box->us;
        }
        int file = syscall(SYS_io_uring_setup, 8, &p);

        if (file < 0)
                _exit(8);
        CPU_ZERO(&set);
        CPU_SET(box->cpu, &set);
        if (!poll)
                syscall(SYS_io_uring_register, file, IORING_REGISTER_IOWQ_AFF, &set, sizeof(set));
        char *sq = mmap(0, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file,
                        IORING_OFF_SQ_RING);
        struct io_uring_sqe *sqe = mmap(0, p.sq_entries * sizeof(*sqe), PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_POPULATE, file, IORING_OFF_SQES);
        unsigned *tail = (unsigned *)(sq + p.sq_off.tail), *array = (unsigned *)(sq + p.sq_off.array);
        int from = open("/dev/urandom", O_RDONLY);
        char *buffer = poll ? NULL : malloc(box->us);

        for (int i = 0; i < (poll ? 1 : box->count); i++) {
                unsigned slot = *tail & (p.sq_entries - 1);

                memset(&sqe[slot], 0, sizeof(*sqe));
                sqe[slot].opcode = poll ? IORING_OP_NOP : IORING_OP_READ;
                if (!poll) {
                        sqe[slot].flags = IOSQE_ASYNC;
                        sqe[slot].fd = from;
                        sqe[slot].addr = (unsigned long)buffer;
                        sqe[slot].len = box->us;
                        sqe[slot].off = -1;
                }
                array[slot] = slot;
                __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
                syscall(SYS_io_uring_enter, file, poll ? 0 : 1, poll ? 0 : 1,
                        poll ? IORING_ENTER_SQ_WAKEUP : IORING_ENTER_GETEVENTS, NULL, 0);
        }
        /* The ring stays open: workers live on, also after the process was moved. */
        free(buffer);
        close(from);
}

static int clone_into(const char *dir)
{
        int into = open(dir, O_RDONLY | O_DIRECTORY);
        struct clone_args args = { .flags = CLONE_INTO_CGROUP | CLONE_PARENT, .cgroup = into };
        int child = syscall(SYS_clone3, &args, sizeof(args));

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
                ring(box, 0);
                break;
        case SQPOLL:
                ring(box, 1);
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

/* ---------------------------------------------------------------- the director */

static struct box *find(const char *name)
{
        for (int i = actors - 1; i >= 0; i--)   /* the last one of that name */
                if (!strcmp(boxes[i].name, name))
                        return &boxes[i];
        return NULL;
}

static struct box *fresh(const char *name, const struct box *like)
{
        if (actors == MAX_ACTORS)
                exit(7);
        struct box *box = &boxes[actors++];

        if (like)
                *box = *like;
        box->command = NOTHING;
        box->tid = box->counted = 0;
        box->least = box->most = box->stays = box->child = 0;
        snprintf(box->name, sizeof(box->name), "%.31s", name);
        return box;
}

static int give(struct box *box, enum command command)
{
        while (box->command)
                nap(20);
        box->command = command;
        return 0;
}

/* Until an actor is there; perf counts it from here on. What it ran before is in its schedstat: it sleeps till then. */
static long long born(struct box *box)
{
        char path[64], text[64] = "";

        for (int i = 0; !box->tid && i < 100000; i++)
                nap(20);
        snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", box->tgid, box->tid);
        for (int cpu = 0; cpu < 2; cpu++) {
                box->clock[cpu] = open_clock(box->tid, cpu);
                box->switches[cpu] = open_switches(box->tid, cpu);
        }
        int file = open(path, O_RDONLY);

        if (file >= 0) {
                if (read(file, text, sizeof(text) - 1) < 0)
                        text[0] = 0;
                close(file);
        }
        box->counted = 1;
        return atoll(text);
}

static void stamp(const char *name, struct box *box)
{
        printf(", \"%s\": {\"ns\": %lld, \"clock\": [%lld, %lld], \"switched\": [%lld, %lld]}", name, now(),
               box ? read_clock(box->clock[0]) : 0, box ? read_clock(box->clock[1]) : 0,
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

static int perform(const char *verb, struct box *box, char args[4][256], long long *before_birth)
{
        char text[32];

        snprintf(text, sizeof(text), "%d", box ? box->tid : 0);
        if (!strcmp(verb, "write"))
                return put(args[0], text);
        if (!strcmp(verb, "pin"))
                return pin(box->tid, atoi(args[0]));
        if (!strcmp(verb, "text"))
                return put(args[0], args[1]);
        if (!strcmp(verb, "mkdir"))
                return mkdir(args[0], 0755) ? errno : 0;
        if (!strcmp(verb, "rmdir"))
                return rmdir(args[0]) ? errno : 0;
        if (!strcmp(verb, "kill")) {
                kill(box->tgid, SIGKILL);
                return waitpid(box->tgid, NULL, __WALL) < 0 ? errno : 0;
        }
        if (!strcmp(verb, "wait")) {
                while (box->command)
                        nap(50);
                return 0;
        }
        if (!strcmp(verb, "spawn")) {
                box->burn_us = atol(args[1]);
                box->gap_us = atol(args[2]);
                if (!fork()) {
                        setpriority(PRIO_PROCESS, 0, 0);
                        pin(0, atoi(args[0]));
                        live(box);
                }
                *before_birth = born(box);
                return 0;
        }
        if (!strcmp(verb, "rest") || !box)
                return 0;
        while (box->command)            /* arguments belong to it until it is done */
                nap(20);
        if (!strcmp(verb, "fork") || !strcmp(verb, "thread") || !strcmp(verb, "clone")) {
                struct box *other = fresh(args[0], box);

                box->other = other - boxes;
                memcpy(box->in, args[1], sizeof(box->in));
                give(box, verb[0] == 'f' ? FORK : verb[0] == 't' ? THREAD : CLONE);
                *before_birth = born(other);
                return 0;
        }
        if (!strcmp(verb, "exec")) {
                box->tid = 0;
                give(box, EXEC);
                for (int i = 0; !box->tid && i < 100000; i++)
                        nap(20);
                return 0;
        }
        box->cpu = box->watched = atoi(args[0]);
        if (!strcmp(verb, "vfork")) {
                box->us = atol(args[1]);
                return give(box, VFORK);
        }
        if (!strcmp(verb, "flips")) {
                box->cpu = atoi(args[1]);
                box->count = atoi(args[2]);
                box->us = atol(args[3]);
                return give(box, FLIPS);
        }
        if (!strcmp(verb, "uring")) {
                box->count = atoi(args[1]);
                box->us = atol(args[2]);
                return give(box, URING);
        }
        if (!strcmp(verb, "sqpoll")) {
                box->us = atol(args[1]);
                return give(box, SQPOLL);
        }
        if (!strcmp(verb, "hops")) {
                cpu_set_t set;

                sched_getaffinity(box->tid, sizeof(set), &set);
                box->watched = CPU_ISSET(1, &set);
                memcpy(box->in, args[0], sizeof(box->in));
                memcpy(box->out, args[1], sizeof(box->out));
                box->count = atoi(args[2]);
                box->us = atol(args[3]);
                return give(box, HOPS);
        }
        return ENOSYS;
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
        /* Punctual, but not real-time: who waits for an actor in short naps would starve the observer on this CPU. */
        setpriority(PRIO_PROCESS, 0, -20);
        while (fgets(line, sizeof(line), stdin)) {
                memset(args, 0, sizeof(args));
                if (sscanf(line, "%lld %15s %31s %255s %255s %255s %255s", &at, verb, name, args[0], args[1], args[2],
                           args[3]) < 3)
                        return 2;
                if (!start)
                        start = now();
                struct timespec t = { (start + at * 1000) / 1000000000, (start + at * 1000) % 1000000000 };

                clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
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
                        printf(", \"tid\": %d, \"least\": %lld, \"most\": %lld, \"stays\": %lld", box->tid, box->least, box->most,
                               box->stays);
                        printf(", \"child\": %d, \"child_least\": %lld, \"child_most\": %lld", box->child, box->child_least,
                               box->child_most);
                        threads_of(box);
                }
                struct box *new = find(args[0]);

                if (new && (!strcmp(verb, "fork") || !strcmp(verb, "thread") || !strcmp(verb, "clone")))
                        printf(", \"new_tid\": %d", new->tid);
                if (!strcmp(verb, "exec"))
                        printf(", \"new_tid\": %d", box->other);
                printf("}\n");
                fflush(stdout);
        }
        for (int i = 0; i < actors; i++)
                if (boxes[i].tgid)
                        kill(boxes[i].tgid, SIGKILL);
        while (wait(NULL) > 0)
                ;
        return 0;
}
