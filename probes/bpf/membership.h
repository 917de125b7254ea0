/*
 * membership.h - since when has a task been under its claim?
 *
 * An interval that began before its task joined is a transition, not a violation; but a member that attaches itself
 * again, or hops between nested cgroups of one claim, was a member all the time and gets nothing forgiven.
 *
 * Records are kept for those who are or were members: forked inside (on_fork), moved in or out (on_attach), or found
 * there by user space when the claim was added. No record: not known to be a member. The tracepoint cgroup_attach_task
 * fires *after* the kernel has moved all threads of the process, and only for the leader; until then user space holds
 * what the ledger could not decide (`pending`).
 */
struct member {
        u32 ident;                      /* 0: known to be outside every claim */
        u32 pad;
        u64 at_ns;                      /* ~0: joining at this very moment */
};

/* By process and by thread; the later of the two counts. Full: counted in map_full, the run is incomplete. */
BPF_TABLE("hash", u32, struct member, processes, MAX_TASKS);
BPF_TABLE("hash", u32, struct member, threads, MAX_TASKS);
/* Joins, and the first few violations. Full: lost_events is counted, and the run is incomplete. */
BPF_RINGBUF_OUTPUT(events, RING_PAGES);

static __always_inline struct member *membership(u32 tid, u32 tgid)
{
        struct member *p = processes.lookup(&tgid), *t = threads.lookup(&tid);

        if (!p || !t)
                return p ? p : t;
        return p->at_ns > t->at_ns ? p : t;
}

/* Returns the time of joining, or 0 where the map was full. */
static __always_inline u64 join(struct cpu_state *st, u32 id, int whole_process, u32 ident)
{
        /* Joining first, the time second: whoever finds no record at time x can be sure that x is before at_ns. */
        struct member fresh = { .ident = ident, .at_ns = ~0ULL }, *kept;

        if (whole_process) {
                processes.update(&id, &fresh);
                kept = processes.lookup(&id);
        } else {
                threads.update(&id, &fresh);
                kept = threads.lookup(&id);
        }
        if (!kept || kept->ident != ident) {
                st->map_full++;
                return 0;
        }
        u64 now = bpf_ktime_get_ns();

        kept->at_ns = now;
        return now;
}

/* raw tracepoint cgroup_attach_task(dst_cgrp, path, task, threadgroup) */
static __always_inline void handle_attach(struct cpu_state *st, void *cgroup, void *task, int threadgroup)
{
        void *root = read_kernel(void *, cgroup, OFF_CGROUP_ROOT);

        if (read_kernel(u32, root, OFF_CGROUP_ROOT_HIERARCHY_ID))
                return;                 /* a v1 hierarchy; identity is that of v2 */
        u32 tid = read_kernel(u32, task, OFF_TASK_STRUCT_PID), tgid = read_kernel(u32, task, OFF_TASK_STRUCT_TGID);
        u32 ident = ident_of_cgroup(cgroup);
        struct member *m = membership(tid, tgid);

        if (m ? m->ident == ident : !ident)
                return;                 /* nothing changed: a second attach forgives nothing */
        u64 now = join(st, threadgroup ? tgid : tid, threadgroup, ident);

        if (!ident || !now)
                return;
        /* Told at once: a task that joins and exits leaves no record for whoever looks later. */
        struct detail *d = events.ringbuf_reserve(sizeof(*d));

        if (!d) {
                st->lost_events++;
                return;
        }
        __builtin_memset(d, 0, sizeof(*d));
        d->start_ns = d->end_ns = now;
        d->kind = threadgroup ? DETAIL_JOIN_PROCESS : DETAIL_JOIN_THREAD;
        d->ident = ident;
        d->tid = tid;
        d->tgid = tgid;
        events.ringbuf_submit(d, 0);
}

/* raw tracepoint sched_process_fork(parent, child): threads too. CLONE_INTO_CGROUP: the child's own cgroup counts. */
static __always_inline void handle_fork(struct cpu_state *st, void *child)
{
        u32 tid = read_kernel(u32, child, OFF_TASK_STRUCT_PID), tgid = read_kernel(u32, child, OFF_TASK_STRUCT_TGID);
        void *css = read_kernel(void *, child, OFF_TASK_STRUCT_CGROUPS);
        u32 ident = ident_of_cgroup(read_kernel(void *, css, OFF_CSS_SET_DFL_CGRP));

        if (tid == tgid)
                processes.delete(&tid); /* a reused pid */
        if (ident)
                join(st, tid, 0, ident);
        else
                threads.delete(&tid);
}

/* raw tracepoint sched_process_exit(task), in the context of the task */
static __always_inline void handle_exit(void *task)
{
        u64 id = bpf_get_current_pid_tgid();
        u32 tid = id, tgid = id >> 32;

        if (tid == tgid) {
                void *signal = read_kernel(void *, task, OFF_TASK_STRUCT_SIGNAL);

                if (read_kernel(u32, signal, OFF_SIGNAL_STRUCT_NR_THREADS) > 1)
                        return;         /* other threads go on, or one of them takes this pid in exec */
                processes.delete(&tid);
        }
        threads.delete(&tid);
}
