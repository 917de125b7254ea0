/*
 * ring.h - io_uring without its library: kernel threads of a process that no fork event announces.
 *
 * Shared by the planted programs; include it after _GNU_SOURCE. A ring is never closed: its workers live on with the
 * process, also after it was moved.
 */
#pragma once

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tasks.h"

struct ring {
        int fd;
        unsigned *tail, *mask, *array;
        struct io_uring_sqe *sqes;
};

static inline void *map_ring(int fd, size_t size, off_t what)
{
        return mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
}

/* Returns 0, or -1 with errno. */
static inline int open_ring(struct ring *r, struct io_uring_params *p)
{
        r->fd = syscall(SYS_io_uring_setup, 64, p);
        if (r->fd < 0)
                return -1;
        char *sq = map_ring(r->fd, p->sq_off.array + p->sq_entries * 4, IORING_OFF_SQ_RING);

        r->sqes = map_ring(r->fd, p->sq_entries * sizeof(*r->sqes), IORING_OFF_SQES);
        if (sq == MAP_FAILED || r->sqes == MAP_FAILED)
                return -1;
        r->tail = (unsigned *)(sq + p->sq_off.tail);
        r->mask = (unsigned *)(sq + p->sq_off.ring_mask);
        r->array = (unsigned *)(sq + p->sq_off.array);
        return 0;
}

static inline struct io_uring_sqe *next_request(struct ring *r, int opcode)
{
        unsigned k = *r->tail & *r->mask;

        memset(&r->sqes[k], 0, sizeof(r->sqes[k]));
        r->sqes[k].opcode = opcode;
        r->array[k] = k;
        return &r->sqes[k];
}

/*
 * Hand in the next request. With IORING_ENTER_GETEVENTS it waits until so many are done: completions are never taken,
 * so they are counted from the begin. Returns less than 0 with errno.
 */
static inline int submit(struct ring *r, unsigned done, unsigned flags)
{
        __atomic_store_n(r->tail, *r->tail + 1, __ATOMIC_RELEASE);
        return syscall(SYS_io_uring_enter, r->fd, flags & IORING_ENTER_SQ_WAKEUP ? 0 : 1, done, flags, NULL, 0);
}

enum patience { FIRST, EACH };          /* for which reads the caller waits: the first one, or each before the next */

/* `count` reads of urandom by workers on a CPU. The buffer stays with the ring: reads may still be under way. */
static inline int read_by_workers(int cpu, int count, size_t bytes, enum patience patience)
{
        struct io_uring_params p = { 0 };
        struct ring r;
        int file = open("/dev/urandom", O_RDONLY);
        char *buffer = malloc(bytes);
        cpu_set_t set = only(cpu);

        if (file < 0 || !buffer || open_ring(&r, &p))
                return -1;
        if (syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_IOWQ_AFF, &set, sizeof(set)) < 0)
                return -1;
        for (int i = 0; i < count; i++) {
                struct io_uring_sqe *request = next_request(&r, IORING_OP_READ);

                request->flags = IOSQE_ASYNC;
                request->fd = file;
                request->addr = (unsigned long)buffer;
                request->len = bytes;
                request->off = -1;
                if (submit(&r, patience == EACH ? i + 1 : 1, IORING_ENTER_GETEVENTS) < 0)
                        return -1;
        }
        close(file);                    /* a request under way holds it */
        return 0;
}

/* A poller on a CPU: when it has found something to do it looks for more for so long, then sleeps. */
static inline int poll_by_kernel(int cpu, unsigned idle_ms)
{
        struct io_uring_params p = { .flags = IORING_SETUP_SQPOLL | IORING_SETUP_SQ_AFF, .sq_thread_cpu = cpu,
                                     .sq_thread_idle = idle_ms };
        struct ring r;

        if (open_ring(&r, &p))
                return -1;
        next_request(&r, IORING_OP_NOP);
        return submit(&r, 1, IORING_ENTER_SQ_WAKEUP | IORING_ENTER_GETEVENTS);
}
