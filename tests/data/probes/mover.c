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
 *   files N             have N files open that no other thread has: its end takes so much longer
 *   raise N             raise flag N (0 to 7) of this process await N   spin until it is raised
 *   workers CPU N       N reads of 4 MiB of urandom by io_uring workers on CPU
 *   poller CPU US       an io_uring poller on CPU that spins for US
 *
 * The account: {"low_ns", "high_ns", "stays", "tid"} (account.h).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "account.h"
#include "clocks.h"
#include "ring.h"
#include "tasks.h"

static char *self;
static pthread_t threads[64];
static int n_threads;
static volatile int flags[8];

static void run(char **w);

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

static void say_and_hear(const char *line)
{
        puts(line);
        fflush(stdout);
        hear();
}

static void open_files(int n)
{
        struct rlimit limit;

        if (unshare(CLONE_FILES) || getrlimit(RLIMIT_NOFILE, &limit))
                fail("unshare");
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit))
                fail("setrlimit");
        while (n--)
                if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
                        fail("open");
}

/* Words about this task. Like each group of words: returns the last one that it used, or NULL: not one of these. */
static char **itself(char **w)
{
        if (!strcmp(*w, "ready")) {
                say_and_hear("ready");
        } else if (!strcmp(*w, "pin")) {
                errno = pin(0, atoi(*++w));
                if (errno)
                        fail("sched_setaffinity");
        } else if (!strcmp(*w, "burn")) {
                spin(CLOCK_MONOTONIC, atol(*++w) * 1000);
        } else if (!strcmp(*w, "work")) {
                spin(CLOCK_THREAD_CPUTIME_ID, atol(*++w) * 1000);
        } else if (!strcmp(*w, "nap")) {
                usleep(atol(*++w));
        } else if (!strcmp(*w, "forever")) {
                for (;;)
                        ;
        } else if (!strcmp(*w, "put")) {
                must_put(w[1], w[2]);
                w += 2;
        } else if (!strcmp(*w, "name")) {
                prctl(PR_SET_NAME, *++w);
        } else if (!strcmp(*w, "gone")) {
                syscall(SYS_exit, 0);
        } else if (!strcmp(*w, "files")) {
                open_files(atoi(*++w));
        } else if (!strcmp(*w, "raise")) {
                flags[atoi(*++w) & 7] = 1;
        } else if (!strcmp(*w, "await")) {
                for (w++; !flags[atoi(*w) & 7];)
                        ;
        } else {
                return NULL;
        }
        return w;
}

static char **accounting(char **w)
{
        char line[160];

        if (!strcmp(*w, "enter")) {
                enter(*++w);
        } else if (!strcmp(*w, "start")) {
                enter(NULL);
        } else if (!strcmp(*w, "leave")) {
                leave(*++w);
        } else if (!strcmp(*w, "done")) {
                leave(NULL);
        } else if (!strcmp(*w, "tell")) {
                snprintf(line, sizeof(line), "{\"low_ns\": %lld, \"high_ns\": %lld, \"stays\": %lld, \"tid\": %d}",
                         account->low, account->high, account->stays, (int)syscall(SYS_gettid));
                say_and_hear(line);
        } else {
                return NULL;
        }
        return w;
}

/* Words with a block that this process repeats, or that another task runs in the ordinary ways. */
static char **blocks(char **w)
{
        char **end;

        if (!strcmp(*w, "times")) {
                end = end_of(w + 2);
                for (int i = atoi(w[1]); i > 0; i--)
                        run(w + 3);
        } else if (!strcmp(*w, "fork") || !strcmp(*w, "spawn")) {
                end = end_of(w + 1);
                child(fork(), w + 1, **w == 'f');
        } else if (!strcmp(*w, "thread")) {
                end = end_of(w + 1);
                if (pthread_create(&threads[n_threads++], NULL, in_thread, w + 1))
                        fail("pthread_create");
        } else if (!strcmp(*w, "wait")) {
                end = w;
                while (n_threads)
                        pthread_join(threads[--n_threads], NULL);
                while (waitpid(-1, NULL, 0) > 0)
                        ;
        } else {
                return NULL;
        }
        return end;
}

/* Words that make a task in a special way, or another program of this one. */
static char **births(char **w)
{
        char **end;

        if (!strcmp(*w, "into") || !strcmp(*w, "tidinto")) {
                pid_t tid = **w == 't' ? atoi(*++w) : 0;
                int dir = open(*++w, O_RDONLY | O_DIRECTORY);

                if (dir < 0)
                        fail(*w);
                end = end_of(w + 1);
                child(clone3(0, dir, tid), w + 1, 1);
                close(dir);
        } else if (!strcmp(*w, "tid")) {
                end = end_of(w + 2);
                child(clone3(0, -1, atoi(w[1])), w + 2, 1);
        } else if (!strcmp(*w, "vfork")) {
                for (end = ++w; *end && strcmp(*end, ";"); end++)
                        ;
                by_vfork(w, end);
        } else if (!strcmp(*w, "exec")) {
                *w = self;
                execv(self, w);
                fail("execv");
                return NULL;
        } else {
                return NULL;
        }
        return end;
}

static char **kernel_threads(char **w)
{
        if (!strcmp(*w, "workers")) {
                if (read_by_workers(atoi(w[1]), atoi(w[2]), 4 << 20, EACH))
                        fail(*w);
        } else if (!strcmp(*w, "poller")) {
                if (poll_by_kernel(atoi(w[1]), atoi(w[2]) / 1000) < 0)
                        fail(*w);
        } else {
                return NULL;
        }
        return w + 2;
}

static void run(char **w)
{
        static char **(*const groups[])(char **) = { itself, accounting, blocks, births, kernel_threads };

        for (; *w && strcmp(*w, "}") && strcmp(*w, ";"); w++) {
                char **last = NULL;

                for (unsigned i = 0; !last && i < sizeof(groups) / sizeof(*groups); i++)
                        last = groups[i](w);
                if (!last) {
                        errno = EINVAL;
                        fail(*w);
                }
                w = last;
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
