/* SPDX-License-Identifier: Apache-2.0 */
/*
 * actions.h - what did it: moves of tasks between cgroups and changes of affinity masks, as events.
 *
 * These are rare where nothing is wrong, and a storm where something is hostile: each CPU sends MAX_ACTIONS of a kind in a
 * window and counts the rest, so that a storm costs user space nothing. Their ring is their own: it never takes room from
 * the ledger's, and what is lost here leaves the ledger complete.
 *
 * Maps:
 *   action_state  per CPU: key 0, value struct action_state, 1 entry; cannot be full.
 *   actions       ring of 16 pages: struct move, struct affinity. Full: `dropped` is counted, as beyond MAX_ACTIONS.
 */
/* ACTION_LEAVE: a move by which a task leaves a claim: counted by itself, so that no storm of others takes its room. */
enum action_kind { ACTION_MOVE, ACTION_AFFINITY, ACTION_LEAVE, ACTION_KINDS };
enum move_flags { MOVE_VISIT = 1, MOVE_BORN = 2 };

struct action_state {
        u32 window;
        u32 sent[ACTION_KINDS];
        u64 dropped[ACTION_KINDS];      /* since the programs were loaded */
};

/* The first word of the records distinguishes them; ACTION_LEAVE is a struct move, too. */
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
        u32 writer_ident;               /* whose the writer is, by its own cgroup: a claim's, PODS_IDENT, or 0 */
        u32 flags;                      /* enum move_flags: its program came from outside (membership.h); it left in being born */
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
                a->sent[ACTION_MOVE] = a->sent[ACTION_AFFINITY] = a->sent[ACTION_LEAVE] = 0;
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

/*
 * Whether a move takes a task out of the claim that it is under: out of its identity, or, in the v1 hierarchy of a
 * controller in which the claim has a cgroup, into another one. A pod's task leaves where it leaves all pods and claims.
 */
static __always_inline int leaves(void *cgroup, void *task, u32 hierarchy, u32 from)
{
        int zero = 0;
        struct config *c = config.lookup(&zero);
        u64 space = 0;

        if (!c || !from)
                return 0;
        if (hierarchy) {
                space = space_of(c, hierarchy);
                void *css_set = read_kernel(void *, task, OFF_TASK_STRUCT_CGROUPS);
                if (!space)
                        return 0;
                struct claim_root mine = root_of_cgroup(read_kernel(void *, css_set, OFF_CSS_SET_DFL_CGRP), 0);

                if (mine.ident != from || from == PODS_IDENT)
                        return 0;
                if (space == CPUSET_SPACE ? !mine.in_cpuset : !(mine.in_limits & (space == CPU_SPACE ? IN_CPU : IN_MEMORY)))
                        return 0;
        }
        struct claim_root root = root_of_cgroup(cgroup, space);

        return !root.ident || (root.ident != from && from != PODS_IDENT);
}

static __always_inline struct move *new_move(struct cpu_state *st, enum action_kind kind, void *task, u32 from)
{
        u64 id = bpf_get_current_pid_tgid();

        if (!may_send(st, kind))
                return 0;
        struct move *r = actions.ringbuf_reserve(sizeof(*r));

        if (!r) {
                drop_action(kind);
                return 0;
        }
        r->kind = kind;
        r->window = st->window;
        r->at_ns = bpf_ktime_get_ns();
        r->writer_tid = id;
        r->writer_tgid = id >> 32;
        r->tid = read_kernel(u32, task, OFF_TASK_STRUCT_PID);
        r->tgid = read_kernel(u32, task, OFF_TASK_STRUCT_TGID);
        r->from_ident = from;
        r->to_ident = 0;
        r->hierarchy = 0;
        r->whole_process = 0;
        r->writer_ident = 0;
        r->flags = 0;
        bpf_get_current_comm(r->writer_comm, sizeof(r->writer_comm));
        bpf_probe_read_kernel(r->comm, sizeof(r->comm), task + OFF_TASK_STRUCT_COMM);
        r->path[0] = 0;
        return r;
}

/* Called before membership is written anew. Reported for tasks that are, were or become a claim's, in every hierarchy. */
static __always_inline void tell_move(struct cpu_state *st, void *cgroup, void *path, void *task, int threadgroup)
{
        u32 hierarchy = read_kernel(u32, read_kernel(void *, cgroup, OFF_CGROUP_ROOT), OFF_CGROUP_ROOT_HIERARCHY_ID);
        u32 tid = read_kernel(u32, task, OFF_TASK_STRUCT_PID), tgid = read_kernel(u32, task, OFF_TASK_STRUCT_TGID);
        struct member *m = membership(tid, tgid, task);
        u32 from = m ? m->ident : 0, to = hierarchy ? from : ident_of_cgroup(cgroup);

        if (!from && !to)
                return;
        int leaving = leaves(cgroup, task, hierarchy, from);
        struct move *r = new_move(st, leaving ? ACTION_LEAVE : ACTION_MOVE, task, from);

        if (!r)
                return;
        r->to_ident = to;
        r->hierarchy = hierarchy;
        r->whole_process = threadgroup;
        if (leaving) {
                r->writer_ident = root_of_current().ident;
                r->flags = m && visits(m, task) ? MOVE_VISIT : 0;
        }
        bpf_probe_read_kernel_str(r->path, sizeof(r->path), path);
        actions.ringbuf_submit(r, 0);
}

/* A claim's task has borne one outside of it, which never was inside. */
static __always_inline void tell_birth(struct cpu_state *st, void *child, u32 from)
{
        struct move *r = new_move(st, ACTION_LEAVE, child, from);

        if (!r)
                return;
        r->writer_ident = from;
        r->flags = MOVE_BORN;
        actions.ringbuf_submit(r, 0);
}
