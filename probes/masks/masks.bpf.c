/* SPDX-License-Identifier: Apache-2.0 */
/*
 * masks.bpf.c - the masks of every thread of every claim, as the kernel keeps them: an iterator over all tasks.
 *
 * It is attached nowhere: user space reads it like a file, and it runs for each task once in each reading, in the context of
 * what reads. What it says of a thread is read without a lock, as /proc/<tid>/status does; of an exiting task too, whose cgroup
 * no longer holds it. Whose claim a task is under is asked as everywhere (claims.h); of all others nothing is written.
 *
 * A kernel that has not these members makes no program here.
 *
 * Maps:
 *   met  key of a cgroup's id, value struct met, MET_CGROUPS entries; cannot be full: what comes later takes the place.
 */
#include "switches/claims.h"
#include "masks/masks.h"

#define MET_CGROUPS  256                /* power of two */

#if defined(OFF_TASK_STRUCT_CPUS_MASK) && defined(OFF_TASK_STRUCT_MEMS_ALLOWED)

/*
 * Whose claim the cgroups are under that this pass has met: the threads of a process are met one after the other, and
 * without this the look-up is half of a pass. One pass at a time.
 */
struct met {
        u64 pass;                       /* its number; 0 is none */
        u64 cgroup;
        u32 ident;
        u32 pad;
};

BPF_ARRAY(met, struct met, MET_CGROUPS);

static __always_inline u32 ident_in_pass(u64 css_set, u64 pass)
{
        u64 cgroup = loaded(u64, css_set, OFF_CSS_SET_DFL_CGRP);
        u64 id = loaded(u64, loaded(u64, cgroup, OFF_CGROUP_KN), OFF_KERNFS_NODE_ID);
        int place = (id ^ id >> 8) & (MET_CGROUPS - 1);
        struct met *m = met.lookup(&place);

        if (!m)
                return 0;
        if (m->pass != pass || m->cgroup != id) {
                /* Read again: to a subprogram a pointer of which the verifier knows the type is no number. */
                m->ident = ident_of_cgroup(read_kernel(void *, css_set, OFF_CSS_SET_DFL_CGRP));
                m->cgroup = id;
                m->pass = pass;
        }
        return m->ident;
}

/* iter/task: the arguments of bpf_iter_task(meta, task); without a task when all were met. */
int on_task(struct bpf_raw_tracepoint_args *ctx)
{
        u64 meta = ctx->args[0], task = ctx->args[1];

        if (!task)
                return 0;
        u64 css_set = loaded(u64, task, OFF_TASK_STRUCT_CGROUPS);
        u32 ident = ident_in_pass(css_set, loaded(u64, meta, OFF_BPF_ITER_META_SESSION_ID));

        if (!ident)
                return 0;
        struct task_masks r = {
                .ident = ident,
                .tid = loaded(u32, task, OFF_TASK_STRUCT_PID),
                .tgid = loaded(u32, task, OFF_TASK_STRUCT_TGID),
                .policy = loaded(u32, task, OFF_TASK_STRUCT_POLICY),
                .flags = loaded(u32, task, OFF_TASK_STRUCT_FLAGS) & (TASK_EXITING | TASK_OF_KERNEL),
        };

        bpf_probe_read_kernel_str(r.comm, sizeof(r.comm), (void *)task + OFF_TASK_STRUCT_COMM);
        bpf_probe_read_kernel(r.cpus, sizeof(r.cpus), (void *)task + OFF_TASK_STRUCT_CPUS_MASK);
        bpf_probe_read_kernel(r.mems, sizeof(r.mems), (void *)task + OFF_TASK_STRUCT_MEMS_ALLOWED);
        bpf_seq_write((void *)loaded(u64, meta, OFF_BPF_ITER_META_SEQ), &r, sizeof(r));
        return 0;
}

#endif
