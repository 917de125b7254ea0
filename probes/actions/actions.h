/* SPDX-License-Identifier: Apache-2.0 */
/*
 * actions.h - who did it: moves of tasks between cgroups and changes of affinity masks, as events.
 *
 * These are rare where nothing is wrong, and a storm where somebody is hostile: each CPU sends MAX_ACTIONS of a kind in a
 * window and counts the rest, so that a storm costs user space nothing. Their ring is their own: it never takes room from
 * the ledger's, and what is lost here leaves the ledger complete.
 *
 * Maps:
 *   action_state  per CPU: key 0, value struct action_state, 1 entry; cannot be full.
 *   actions       ring of 16 pages: struct move, struct affinity. Full: `dropped` is counted, as beyond MAX_ACTIONS.
 */
enum action_kind { ACTION_MOVE, ACTION_AFFINITY, ACTION_KINDS };

struct action_state {
        u32 window;
        u32 sent[ACTION_KINDS];
        u32 pad;
        u64 dropped[ACTION_KINDS];      /* since the programs were loaded */
};

/* The first word of both records distinguishes them. */
struct move {
        u32 kind;
        u32 window;
        u64 at_ns;                      /* the kernel has moved all threads */
        u32 writer_tid;
        u32 writer_tgid;
        u32 tid;
        u32 tgid;
        u32 from_ident;                 /* claim that it is known to have been under, or 0 */
        u32 to_ident;
        u32 hierarchy;                  /* 0: v2 */
        u32 whole_process;
        char writer_comm[16];
        char comm[16];
        char path[128];                 /* where to; cut short where longer */
};

struct affinity {
        u32 kind;
        u32 window;
        u64 at_ns;                      /* when the kernel was done */
        u32 caller_tid;
        u32 caller_tgid;
        u32 caller_ident;
        u32 tid;                        /* whose mask */
        u32 ident;                      /* its claim, where known */
        int result;                     /* 0 or a negative errno */
        char caller_comm[16];
        u64 cpus[CPU_WORDS];            /* asked for; the kernel cuts it down to the cpuset */
};

BPF_PERCPU_ARRAY(action_state, struct action_state, 1);
BPF_RINGBUF_OUTPUT(actions, 16);

static __always_inline int may_send(struct cpu_state *st, enum action_kind kind)
{
        int zero = 0;
        struct action_state *a = action_state.lookup(&zero);

        if (!a)
                return 0;
        if (a->window != st->window) {
                a->window = st->window;
                a->sent[ACTION_MOVE] = a->sent[ACTION_AFFINITY] = 0;
        }
        if (a->sent[kind] >= MAX_ACTIONS) {
                a->dropped[kind]++;
                return 0;
        }
        a->sent[kind]++;
        return 1;
}

static __always_inline void drop_action(enum action_kind kind)
{
        int zero = 0;
        struct action_state *a = action_state.lookup(&zero);

        if (a)
                a->dropped[kind]++;
}

static __always_inline u32 ident_of_task(void *task)
{
        void *css = read_kernel(void *, task, OFF_TASK_STRUCT_CGROUPS);

        return ident_of_cgroup(read_kernel(void *, css, OFF_CSS_SET_DFL_CGRP));
}

/* Called before membership is written anew. Reported for tasks that are, were or become a claim's, in every hierarchy. */
static __always_inline void tell_move(struct cpu_state *st, void *cgroup, void *path, void *task, int threadgroup)
{
        u32 hierarchy = read_kernel(u32, read_kernel(void *, cgroup, OFF_CGROUP_ROOT), OFF_CGROUP_ROOT_HIERARCHY_ID);
        u32 tid = read_kernel(u32, task, OFF_TASK_STRUCT_PID), tgid = read_kernel(u32, task, OFF_TASK_STRUCT_TGID);
        struct member *m = membership(tid, tgid);
        u32 from = m ? m->ident : 0, to = hierarchy ? from : ident_of_cgroup(cgroup);

        if ((!from && !to) || !may_send(st, ACTION_MOVE))
                return;
        struct move *r = actions.ringbuf_reserve(sizeof(*r));
        u64 id = bpf_get_current_pid_tgid();

        if (!r) {
                drop_action(ACTION_MOVE);
                return;
        }
        r->kind = ACTION_MOVE;
        r->window = st->window;
        r->at_ns = bpf_ktime_get_ns();
        r->writer_tid = id;
        r->writer_tgid = id >> 32;
        r->tid = tid;
        r->tgid = tgid;
        r->from_ident = from;
        r->to_ident = to;
        r->hierarchy = hierarchy;
        r->whole_process = threadgroup;
        bpf_get_current_comm(r->writer_comm, sizeof(r->writer_comm));
        bpf_probe_read_kernel(r->comm, sizeof(r->comm), task + OFF_TASK_STRUCT_COMM);
        r->path[0] = 0;
        bpf_probe_read_kernel_str(r->path, sizeof(r->path), path);
        actions.ringbuf_submit(r, 0);
}
