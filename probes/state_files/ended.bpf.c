/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ended.bpf.c - the names of the processes that have ended last, on each CPU.
 *
 * The kernel reports which process has written a file by its number alone. One that wrote and ended before user space
 * looks (sed, mv) has no name any more, so the last of each CPU are kept. Attached only while state files are watched.
 *
 * Maps:
 *   ended       per CPU: key number of the process % ENDED_KEPT, value struct ended_process, ENDED_KEPT entries. Full: the oldest gives way.
 *   ended_next  per CPU: key 0, value how many have ended (u32), 1 entry; cannot be full.
 */
#include "switches/claims.h"

#define ENDED_KEPT 64                   /* power of two */

struct ended_process {
        u64 at_ns;
        u32 tgid;
        u32 unused;
        char comm[16];
};

BPF_PERCPU_ARRAY(ended, struct ended_process, ENDED_KEPT);
BPF_PERCPU_ARRAY(ended_next, u32, 1);

/* raw tracepoint sched_process_exit: in the thread that ends. */
int on_process_end(struct bpf_raw_tracepoint_args *ctx)
{
        u64 id = bpf_get_current_pid_tgid();
        int zero = 0;
        u32 *next = ended_next.lookup(&zero);

        if (!next || (u32)id != id >> 32)
                return 0;
        int index = (*next)++ & (ENDED_KEPT - 1);
        struct ended_process *e = ended.lookup(&index);

        if (!e)
                return 0;
        e->at_ns = bpf_ktime_get_ns();
        e->tgid = id;
        bpf_get_current_comm(e->comm, sizeof(e->comm));
        return 0;
}
