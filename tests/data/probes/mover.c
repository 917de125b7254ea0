/*
 * mover.c - moves itself between cgroups, makes tasks in every way there is, and says how long it was where.
 *
 *   mover WORD ...      each task runs words from left to right; `{ ... }` is what a new task runs, or what is repeated
 *
 *   ready               print "ready", wait for a line       tell      print the account, wait for a line
 *   pin CPU             burn US  spin (wall clock)            nap US    sleep         forever   spin until killed
 *   work US             spin until this thread has had so much CPU time, however many others want the CPU
 *   enter FILE          join by writing 0 to FILE, the account begins
 *   leave FILE          the same, and the account ends        start, done   begin and end it where the task is
 *   put FILE TEXT       write TEXT                            name COMM    call itself so
 *   times N { ... }     repeat                                wait      for all children and threads
 *   fork { ... }        wait for the child                    spawn { ... }   do not wait
 *   thread { ... }      do not wait
 *   into DIR { ... }    clone3(CLONE_INTO_CGROUP), wait       vfork ARG...;   vfork, run a mover of these words, wait
 *   tid N { ... }       clone3(set_tid), wait                 tidinto N DIR { ... }   both
 *   exec WORD ...       become a mover of these words         gone      this thread ends, its process need not
 *   workers CPU N       N reads of 4 MiB of urandom by io_uring workers on CPU
 *   poller CPU US       an io_uring poller on CPU that spins for US
 *
 * The account: {"low_ns", "high_ns", "stays", "tid"}. Time on a CPU by perf's task clock. A move is somewhere inside a
 * write(2): low is from the end of the one to the begin of the other, high from the begin of the one to the end of the
 * other.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct account {
        long long low, high, stays;
};

static struct account *account;
static char *self;
static pthread_t threads[64];
static int n_threads;
static __thread int clock_fd;
static __thread pid_t clock_tid;
static __thread long long begin_low, begin_high;

static void run(char **w);

static void fail(const char *what)
{
        fprintf(stderr, "mover: %s: %s\n", what, strerror(errno));
        _exit(2);
}

static long long now(clockid_t clock)
{
        struct timespec t;

        clock_gettime(clock, &t);
        return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* This thread's time on CPUs so far, by perf. */
static long long on_cpu(void)
{
        long long value;

        if (clock_tid != (pid_t)syscall(SYS_gettid)) {
                struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
                                                .config = PERF_COUNT_SW_TASK_CLOCK };

                clock_fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
                if (clock_fd < 0)
                        fail("perf_event_open");
                clock_tid = syscall(SYS_gettid);
        }
        if (read(clock_fd, &value, sizeof(value)) != sizeof(value))
                fail("read of the clock");
        return value;
}

static void put(const char *path, const char *text)
{
        int file = open(path, O_WRONLY);

        if (file < 0 || write(file, text, strlen(text)) < 0)
                fail(path);
        close(file);
}

static void leave(const char *path)
{
        long long low = on_cpu() - begin_low;

        if (path)
                put(path, "0");
        __sync_fetch_and_add(&account->low, low);
        __sync_fetch_and_add(&account->high, on_cpu() - begin_high);
        __sync_fetch_and_add(&account->stays, 1);
}

static void pin(int cpu)
{
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        if (sched_setaffinity(0, sizeof(set), &set))
                fail("sched_setaffinity");
}

static void burn(clockid_t clock, long us)
{
        long long end = now(clock) + us * 1000LL;

        while (now(clock) < end)
                ;
}

static void hear(void)
{
        char line[16];

        if (!fgets(line, sizeof(line), stdin))
                _exit(0);
}

/* From `{` to its `}`. */
static char **end_of(char **w)
{
        int depth = 0;

        for (; *w; w++) {
                depth += !strcmp(*w, "{") - !strcmp(*w, "}");
                if (!depth)
                        return w;
        }
        errno = EINVAL;
        fail("no }");
        return NULL;
}

static pid_t clone3(unsigned long long flags, int cgroup, pid_t tid)
{
        struct clone_args args = { .flags = flags, .exit_signal = SIGCHLD, .cgroup = cgroup < 0 ? 0 : cgroup };

        if (tid) {
                args.set_tid = (unsigned long)&tid;
                args.set_tid_size = 1;
        }
        pid_t pid = syscall(SYS_clone3, &args, sizeof(args));

        if (pid < 0)
                fail("clone3");
        return pid;
}

static void child(pid_t pid, char **block, int wait)
{
        if (pid < 0)
                fail("fork");
        if (!pid) {
                n_threads = 0;
                run(block + 1);
                _exit(0);
        }
        if (wait)
                waitpid(pid, NULL, 0);
}

static void *in_thread(void *block)
{
        run((char **)block + 1);
        return NULL;
}

static void by_vfork(char **words, char **end)
{
        char *argv[32] = { self };
        int n = 1;

        while (words < end && n < 31)
                argv[n++] = *words++;
        pid_t pid = vfork();

        if (!pid) {
                execv(self, argv);
                _exit(2);
        }
        waitpid(pid, NULL, 0);
}

struct ring {
        int fd;
        unsigned *tail, *mask, *array;
        struct io_uring_sqe *sqes;
};

static struct ring set_up(struct io_uring_params *p)
{
        struct ring r = { .fd = syscall(SYS_io_uring_setup, 64, p) };

        if (r.fd < 0)
                fail("io_uring_setup");
        char *sq = mmap(0, p->sq_off.array + p->sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r.fd,
                        IORING_OFF_SQ_RING);
        r.sqes = mmap(0, p->sq_entries * sizeof(*r.sqes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r.fd,
                      IORING_OFF_SQES);
        r.tail = (unsigned *)(sq + p->sq_off.tail);
        r.mask = (unsigned *)(sq + p->sq_off.ring_mask);
        r.array = (unsigned *)(sq + p->sq_off.array);
        return r;
}

static struct io_uring_sqe *next_request(struct ring *r, int opcode)
{
        unsigned k = *r->tail & *r->mask;

        memset(&r->sqes[k], 0, sizeof(r->sqes[k]));
        r->sqes[k].opcode = opcode;
        r->array[k] = k;
        return &r->sqes[k];
}

/* Waits until all is done that was submitted: nobody takes completions away, so they are counted from the begin. */
static void submit(struct ring *r, unsigned flags)
{
        __sync_synchronize();
        *r->tail += 1;
        if (syscall(SYS_io_uring_enter, r->fd, 1, *r->tail, flags, 0, 0) < 0)
                fail("io_uring_enter");
}

/* The ring stays: its workers live on with the process. */
static void workers(int cpu, int count)
{
        struct io_uring_params p = { 0 };
        struct ring r = set_up(&p);
        int file = open("/dev/urandom", O_RDONLY);
        char *buffer = malloc(4 << 20);
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        if (syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_IOWQ_AFF, &set, 8) < 0)
                fail("IORING_REGISTER_IOWQ_AFF");
        for (int i = 0; i < count; i++) {
                struct io_uring_sqe *request = next_request(&r, IORING_OP_READ);

                request->flags = IOSQE_ASYNC;
                request->fd = file;
                request->addr = (unsigned long)buffer;
                request->len = 4 << 20;
                request->off = -1;
                submit(&r, IORING_ENTER_GETEVENTS);
        }
}

static void poller(int cpu, int us)
{
        struct io_uring_params p = { .flags = IORING_SETUP_SQPOLL | IORING_SETUP_SQ_AFF, .sq_thread_cpu = cpu,
                                     .sq_thread_idle = us / 1000 };
        struct ring r = set_up(&p);

        /* When it has found something to do it looks for more for so long, then sleeps. */
        next_request(&r, IORING_OP_NOP);
        submit(&r, IORING_ENTER_SQ_WAKEUP | IORING_ENTER_GETEVENTS);
}

static void run(char **w)
{
        for (; *w && strcmp(*w, "}") && strcmp(*w, ";"); w++) {
                char **end;

                if (!strcmp(*w, "ready")) {
                        puts("ready");
                        fflush(stdout);
                        hear();
                } else if (!strcmp(*w, "tell")) {
                        printf("{\"low_ns\": %lld, \"high_ns\": %lld, \"stays\": %lld, \"tid\": %d}\n", account->low,
                               account->high, account->stays, (int)syscall(SYS_gettid));
                        fflush(stdout);
                        hear();
                } else if (!strcmp(*w, "pin")) {
                        pin(atoi(*++w));
                } else if (!strcmp(*w, "burn")) {
                        burn(CLOCK_MONOTONIC, atol(*++w));
                } else if (!strcmp(*w, "work")) {
                        burn(CLOCK_THREAD_CPUTIME_ID, atol(*++w));
                } else if (!strcmp(*w, "nap")) {
                        usleep(atol(*++w));
                } else if (!strcmp(*w, "forever")) {
                        for (;;)
                                ;
                } else if (!strcmp(*w, "enter")) {
                        begin_high = on_cpu();
                        put(*++w, "0");
                        begin_low = on_cpu();
                } else if (!strcmp(*w, "start")) {
                        begin_high = begin_low = on_cpu();
                } else if (!strcmp(*w, "leave")) {
                        leave(*++w);
                } else if (!strcmp(*w, "done")) {
                        leave(NULL);
                } else if (!strcmp(*w, "put")) {
                        put(w[1], w[2]);
                        w += 2;
                } else if (!strcmp(*w, "name")) {
                        prctl(PR_SET_NAME, *++w);
                } else if (!strcmp(*w, "times")) {
                        end = end_of(w + 2);
                        for (int i = atoi(w[1]); i > 0; i--)
                                run(w + 3);
                        w = end;
                } else if (!strcmp(*w, "wait")) {
                        while (n_threads)
                                pthread_join(threads[--n_threads], NULL);
                        while (waitpid(-1, NULL, 0) > 0)
                                ;
                } else if (!strcmp(*w, "fork") || !strcmp(*w, "spawn")) {
                        end = end_of(w + 1);
                        child(fork(), w + 1, **w == 'f');
                        w = end;
                } else if (!strcmp(*w, "thread")) {
                        end = end_of(w + 1);
                        if (pthread_create(&threads[n_threads++], NULL, in_thread, w + 1))
                                fail("pthread_create");
                        w = end;
                } else if (!strcmp(*w, "into") || !strcmp(*w, "tidinto")) {
                        pid_t tid = **w == 't' ? atoi(*++w) : 0;
                        int dir = open(*++w, O_RDONLY | O_DIRECTORY);

                        if (dir < 0)
                                fail(*w);
                        end = end_of(w + 1);
                        child(clone3(CLONE_INTO_CGROUP, dir, tid), w + 1, 1);
                        close(dir);
                        w = end;
                } else if (!strcmp(*w, "tid")) {
                        end = end_of(w + 2);
                        child(clone3(0, -1, atoi(w[1])), w + 2, 1);
                        w = end;
                } else if (!strcmp(*w, "vfork")) {
                        for (end = ++w; *end && strcmp(*end, ";"); end++)
                                ;
                        by_vfork(w, end);
                        w = end;
                } else if (!strcmp(*w, "exec")) {
                        *w = self;
                        execv(self, w);
                        fail("execv");
                } else if (!strcmp(*w, "gone")) {
                        syscall(SYS_exit, 0);
                } else if (!strcmp(*w, "workers")) {
                        workers(atoi(w[1]), atoi(w[2]));
                        w += 2;
                } else if (!strcmp(*w, "poller")) {
                        poller(atoi(w[1]), atoi(w[2]));
                        w += 2;
                } else {
                        errno = EINVAL;
                        fail(*w);
                }
        }
}

int main(int argc, char **argv)
{
        (void)argc;
        self = argv[0];
        account = mmap(0, sizeof(*account), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        run(argv + 1);
        return 0;
}
