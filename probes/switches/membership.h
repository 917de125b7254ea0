/* SPDX-License-Identifier: Apache-2.0 */
/*
 * membership.h - whose claim is a task under, since when, and whether an interval can be judged by that.
 *
 * Membership is a history: a task may enter and leave a claim many times while it runs, and each moment counts for where
 * it was then. The history is kept in user space, which hears every move of a member (`struct move_event`). Here stands
 * what lets the hot path know that nothing happened, so that it need not even ask for the cgroup:
 *
 *   notes[tid]     what the task was under when it was looked up last, and the number of the latest news by then;
 *   config.news    counts moves of members and changes of claims: a note is good as long as there was none since.
 *
 * Where a note is not good, and at each tick of the sampler, cgroup and records are looked up. If the claim of the cgroup is
 * not that of the record, the task was moved and the kernel has not said so yet: the tracepoint cgroup_attach_task fires
 * *after* the kernel has moved all threads of a process, and only for the leader. If they say that the task was under one
 * claim all the time, the interval is judged here like any other; if not, it is sent to user space whole (`struct piece`),
 * which cuts it where the history says (probes/switches/trails.py).
 *
 * Records are kept for those that are or were members: forked inside (on_fork), moved in or out (on_attach), or found
 * there by user space when the claim was added. A thread without a record was forked outside: it has what its process was
 * moved to as a whole, and nothing of what other threads of it did by themselves, its leader not excepted. One that no fork
 * event announced (a worker of io_uring, a vhost thread) began with what its leader had by then. Foreign pods' tasks are
 * members of PODS_IDENT.
 *
 * On a host whose cpuset controller sits in a v1 hierarchy a task joins twice: its identity (v2) and its cpuset. It is
 * complete with the later of the two; a cpuset that follows within JOINING_NS may close the joining, one that never comes
 * leaves a member from the first. What a task does in between is for user space to cut, too, which knows what moved it.
 *
 * How long the kernel takes between the first thread's move and its word is not known beforehand: a writer that gets no CPU is
 * slow. Where the kernel takes programs at the begin and the end of cgroup_attach_task(), the word says when the moving
 * began, and `attaching` what is under way; elsewhere a patience (probes/options.py) is all there is.
 *
 * Whatever leaves a claim, or a pod, without ending is known by that from then on: its record keeps whose it was (`origin`)
 * and which thread's leave that was (`left`), and so do those that it bears. Whatever came from outside and goes with the
 * program that it came with is a visit (LEFT_VISIT): so runtimes come and go. What it bears then was never of the claim.
 *
 * Maps:
 *   attaching           hash: key tid of what moves (u32), value when it began (u64), MAX_ATTACHING entries. Full: that move
 *                       has no begin, and the patience counts for it.
 *   processes, threads  hash: key tgid or tid (u32), value struct member, MAX_TASKS entries each. Full: map_full is counted.
 *   events              ring of RING_PAGES pages: details, pieces, moves. Full: lost_events is counted.
 */
#include "switches/notes.h"
#include "switches/settled.h"

struct member {
        u32 ident;                      /* 0: known to be outside every claim */
        u32 incomplete;                 /* the v1 cpuset has not been joined; counts for JOINING_NS after joined_ns */
        u64 at_ns;                      /* of the last change; ~0: it is being made at this very moment */
        u64 joined_ns;                  /* when the identity was joined */
        u32 origin;                     /* ident 0: of the claim, or the pods, that it left or what bore it did; or 0 */
        u32 left;                       /* the thread that left, with LEFT_VISIT */
        u32 came;                       /* the program with which it came from outside, as program_of() says; 0: not so */
        u32 pad;
};

#define LEFT_VISIT (1U << 31)

/* By process and by thread; the later of the two counts. Full: counted in map_full, the run is incomplete. */
BPF_TABLE("hash", u32, struct member, processes, MAX_TASKS);
BPF_TABLE("hash", u32, struct member, threads, MAX_TASKS);
/* Moves, pieces, and the first few violations. Full: lost_events is counted, and the run is incomplete. */
BPF_RINGBUF_OUTPUT(events, RING_PAGES);

/* One writer moves at a time (cgroup_mutex); a program that is missed at the end leaves its entry to the next one's begin. */
#define MAX_ATTACHING 1024
BPF_TABLE("hash", u32, u64, attaching, MAX_ATTACHING);

/* What a thread without a record has of its process's leader: nothing, but where no fork announced it, what was before it. */
static __always_inline struct member *inherited(u32 tgid, void *task)
{
        struct member *t;

        if (!(read_kernel(u32, task, OFF_TASK_STRUCT_FLAGS) & PF_UNANNOUNCED))
                return 0;
        t = threads.lookup(&tgid);
        return t && t->at_ns <= read_kernel(u64, task, OFF_TASK_STRUCT_START_TIME) ? t : 0;
}

static __always_inline struct member *membership(u32 tid, u32 tgid, void *task)
{
        struct member *p = processes.lookup(&tgid), *t = threads.lookup(&tid);

        if (!t && tid != tgid)
                t = inherited(tgid, task);
        if (!p || !t)
                return p ? p : t;
        return p->at_ns > t->at_ns ? p : t;
}

static __always_inline void count_news(void)
{
        int zero = 0;
        struct config *c = config.lookup(&zero);

        if (c)
                lock_xadd(&c->news, 1);
}

/* Returns the time of the change, or 0 where the map was full. */
static __always_inline u64 write_member(struct cpu_state *st, u32 id, int whole_process, struct member *m)
{
        /* The change first, its time second: whatever finds no record at time x can be sure that x is before at_ns. */
        struct member *kept;

        m->at_ns = ~0ULL;
        if (whole_process) {
                processes.update(&id, m);
                kept = processes.lookup(&id);
        } else {
                threads.update(&id, m);
                kept = threads.lookup(&id);
        }
        if (!kept || kept->ident != m->ident) {
                st->map_full++;
                return 0;
        }
        u64 now = bpf_ktime_get_ns();

        if (!m->joined_ns)
                kept->joined_ns = now;
        kept->at_ns = now;
        return now;
}

/* Whether a task sits in the v1 cpuset of a claim (or of the pods). */
static __always_inline int in_cpuset_of(void *css_set, u32 ident)
{
        struct claim_root root = root_of_cgroup(legacy_cgroup(css_set, CPUSET_SUBSYS), CPUSET_SPACE);

        return root.ident && root.ident == ident;
}

/* Sent at once: a task that joins and exits leaves no record for whatever looks later. */
static __always_inline void send_move(struct cpu_state *st, u32 kind, struct member *m, u32 from_ident, u64 now,
                                      u32 tid, u32 tgid, int whole_process, u64 cgroup)
{
        struct move_event *d = events.ringbuf_reserve(sizeof(*d));
        u64 id = bpf_get_current_pid_tgid();
        u32 writer = id;
        u64 *begun = kind == EVENT_MOVE ? attaching.lookup(&writer) : 0;

        if (!d) {
                st->lost_events++;
                return;
        }
        d->kind = kind;
        d->whole_process = whole_process;
        d->at_ns = now;
        d->begun_ns = begun ? *begun : 0;
        d->joined_ns = m->joined_ns ? m->joined_ns : now;
        d->cgroup = cgroup;
        d->tid = tid;
        d->tgid = tgid;
        d->life = life_of(whole_process ? tgid : tid);
        d->from_ident = from_ident;
        d->to_ident = m->ident;
        d->incomplete = m->incomplete;
        d->origin = m->origin;
        d->left = m->left;
        d->writer_tgid = id >> 32;
        d->writer_ident = ident_of_task((void *)bpf_get_current_task());
        events.ringbuf_submit(d, 0);
}

/* A task came into the v1 cpuset: that may complete a joining of its identity that was before, and nothing else. */
static __always_inline void complete_joining(struct cpu_state *st, void *cgroup, void *task, u32 tid, u32 tgid,
                                             int threadgroup)
{
        struct claim_root root = root_of_cgroup(cgroup, CPUSET_SPACE);
        struct member *m = membership(tid, tgid, task);

        if (!root.ident || !m || !m->incomplete || m->ident != root.ident || bpf_ktime_get_ns() - m->joined_ns > JOINING_NS)
                return;
        struct member complete = { .ident = m->ident, .joined_ns = m->joined_ns, .came = m->came };
        u64 now = write_member(st, threadgroup ? tgid : tid, threadgroup, &complete);

        if (!now)
                return;
        send_move(st, EVENT_COMPLETE, &complete, complete.ident, now, tid, tgid, threadgroup, 0);
        count_news();
}

static __always_inline int has_threads(void *task)
{
        void *signal = read_kernel(void *, task, OFF_TASK_STRUCT_SIGNAL);

        return read_kernel(u32, signal, OFF_SIGNAL_STRUCT_NR_THREADS) > 1;
}

/* Distinguishes the programs that a task runs one after the other: execve() counts them, a fork does not. Never 0. */
static __always_inline u32 program_of(void *task)
{
        return read_kernel(u32, task, OFF_TASK_STRUCT_SELF_EXEC_ID) | 1U << 31;
}

/* Whether a task that leaves only was on a visit. */
static __always_inline int visits(struct member *m, void *task)
{
        return m->came && m->came == program_of(task);
}

/* What a move leaves of where a task came from: `m` is what was known of it before. */
static __always_inline void keep_origin(struct member *fresh, struct member *m, void *task)
{
        if (fresh->ident) {
                if (m && m->ident)
                        fresh->came = m->came;
                else if (!m || !m->origin || m->left & LEFT_VISIT)
                        fresh->came = program_of(task);
        } else if (m && m->ident) {
                fresh->origin = m->ident;
                fresh->left = read_kernel(u32, task, OFF_TASK_STRUCT_PID) | (visits(m, task) ? LEFT_VISIT : 0);
        } else if (m) {
                fresh->origin = m->origin;
                fresh->left = m->left;
        }
}

/* raw tracepoint cgroup_attach_task(dst_cgrp, path, task, threadgroup) */
static __always_inline void handle_attach(struct cpu_state *st, void *cgroup, void *task, int threadgroup)
{
        int zero = 0;
        struct config *c = config.lookup(&zero);
        void *hierarchy = read_kernel(void *, cgroup, OFF_CGROUP_ROOT);
        u32 number = read_kernel(u32, hierarchy, OFF_CGROUP_ROOT_HIERARCHY_ID);
        u32 tid = read_kernel(u32, task, OFF_TASK_STRUCT_PID), tgid = read_kernel(u32, task, OFF_TASK_STRUCT_TGID);

        if (number) {
                if (c && number == c->cpuset_hierarchy) {
                        settle(st, cgroup, tid, tgid, threadgroup);
                        complete_joining(st, cgroup, task, tid, tgid, threadgroup);
                }
                return;
        }
        struct claim_root root = root_of_cgroup(cgroup, 0);
        struct member *m = membership(tid, tgid, task), fresh = { .ident = root.ident };
        u32 from = m ? m->ident : 0;
        int same = from == fresh.ident && from != PODS_IDENT;   /* pods are distinguished */

        if (same && !(threadgroup && has_threads(task)))
                return;                 /* nothing changed */
        if (same && m) {                /* for the leader; other threads may come from elsewhere, and nothing says so */
                fresh.incomplete = m->incomplete;
                fresh.joined_ns = m->joined_ns;         /* a second attach forgives nothing */
        } else if (c && c->cpuset_hierarchy && root.in_cpuset)
                fresh.incomplete = !in_cpuset_of(read_kernel(void *, task, OFF_TASK_STRUCT_CGROUPS), fresh.ident);

        keep_origin(&fresh, m, task);
        u64 now = write_member(st, threadgroup ? tgid : tid, threadgroup, &fresh);
        u64 id = read_kernel(u64, read_kernel(void *, cgroup, OFF_CGROUP_KN), OFF_KERNFS_NODE_ID);

        if (!now)
                return;
        send_move(st, EVENT_MOVE, &fresh, from, now, tid, tgid, threadgroup, id);
        count_news();                   /* last: what sees the new count finds the record */
}

/*
 * A task was born outside every claim. What it is of is known by what bore it, and by its v1 cpuset. Returns the claim that
 * it left in being born (CLONE_INTO_CGROUP), or 0.
 */
static __always_inline u32 born_outside(struct cpu_state *st, void *css_set, u64 *note, u32 tid, struct member *p, void *parent)
{
        int zero = 0;
        struct config *c = config.lookup(&zero);
        struct member fresh = {};
        u32 from = p ? p->ident : 0;

        if (note && c && c->cpuset_hierarchy && root_of_cgroup(legacy_cgroup(css_set, CPUSET_SUBSYS), CPUSET_SPACE).ident)
                *note |= NOTE_BORN;
        if (from && !visits(p, parent)) {
                fresh.origin = from;
                fresh.left = tid;
        } else if (p && !from && p->origin && !(p->left & LEFT_VISIT)) {
                fresh.origin = p->origin;
                fresh.left = p->left;
        }
        if (!fresh.origin) {            /* no record is the usual case: most tasks of a machine are no claim's */
                threads.delete(&tid);
                return 0;
        }
        write_member(st, tid, 0, &fresh);
        return from;
}

/*
 * raw tracepoint sched_process_fork(parent, child): threads too. CLONE_INTO_CGROUP: the child's own cgroup counts. Returns
 * as born_outside().
 */
static __always_inline u32 handle_fork(struct cpu_state *st, void *parent, void *child)
{
        u32 tid = read_kernel(u32, child, OFF_TASK_STRUCT_PID), tgid = read_kernel(u32, child, OFF_TASK_STRUCT_TGID);
        void *css = read_kernel(void *, child, OFF_TASK_STRUCT_CGROUPS);
        struct claim_root root = root_of_cgroup(read_kernel(void *, css, OFF_CSS_SET_DFL_CGRP), 0);
        u64 *note = note_of(tid);

        if (note)                       /* another life, under nothing yet: its first switch looks it up */
                *note = (*note + (1ULL << NOTE_LIFE_SHIFT)) & NOTE_LIFE;
        if (tid == tgid)
                processes.delete(&tid); /* a reused pid */
        settled.delete(&tid);
        struct member *p = membership(read_kernel(u32, parent, OFF_TASK_STRUCT_PID),
                                      read_kernel(u32, parent, OFF_TASK_STRUCT_TGID), parent);

        if (!root.ident)
                return born_outside(st, css, note, tid, p, parent);
        struct member fresh = { .ident = root.ident };

        if (p && p->ident)
                fresh.came = p->came;
        else if (!p || !p->origin || p->left & LEFT_VISIT)
                fresh.came = program_of(child);         /* born into it from outside */
        if (p && p->ident == fresh.ident) {
                fresh.incomplete = p->incomplete;       /* between its parent's two joinings */
                fresh.joined_ns = p->incomplete ? p->joined_ns : 0;
        } else if (root.in_cpuset) {
                fresh.incomplete = !in_cpuset_of(css, fresh.ident);     /* born into it by clone3() */
        }
        write_member(st, tid, 0, &fresh);
        return 0;
}

/*
 * raw tracepoint sched_process_exit(task), in the context of the task. What it ran up to here has been counted; the rest
 * is its way out, and counts for the cgroup in which it dies.
 */
static __always_inline void handle_exit(struct cpu_state *st, void *task)
{
        u64 id = bpf_get_current_pid_tgid();
        u32 tid = id, tgid = id >> 32;
        struct member *m = membership(tid, tgid, task);
        u64 *note = note_of(tid), now = bpf_ktime_get_ns();

        if (note)
                *note |= NOTE_LEFT;
        /* Whose its way out is, nothing else says: the next task of this id replaces the record. */
        if (m && m->origin)
                return;
        /* Between two joinings: the record says so to whatever cuts the rest; the next task of this id replaces it. */
        if (m && m->incomplete && now - m->joined_ns <= JOINING_NS) {
                send_move(st, EVENT_ENDED, m, m->ident, now, tid, tgid, 0, 0);
                return;
        }
        if (tid == tgid) {
                if (has_threads(task))
                        return;         /* other threads go on, or one of them takes this pid in exec */
                processes.delete(&tid);
        }
        threads.delete(&tid);
        if (note)
                *note |= NOTE_DEAD;
}
