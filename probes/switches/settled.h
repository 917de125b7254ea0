/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settled.h - since when does the v1 cpuset in which a task is found hold it? What is a pod's by that alone is judged by it.
 *
 * The kernel puts all threads of what is moved into the cpuset first, and takes one after the other off the CPUs that it
 * does not allow then: some run many intervals in between. Its word comes when that is done (cgroup_attach_task). So a task
 * is settled from the word on; or from the first, where it was born in the cpuset. One that is found there without a word
 * is being moved in, or was there before anything listened: user space writes the latter down when it begins to
 * (probes/switches/members.py), and what it misses is settled JOINING_NS after it is found.
 *
 * Maps:
 *   settled  hash: key tid, or tgid of what was moved as a whole (u32), value struct settled, MAX_SETTLED entries, for tasks
 *            that came into the v1 cpuset of a claim or a pod. Full: map_full is counted.
 */
struct stay {
        u64 cgroup;                     /* with CPUSET_SPACE; 0: no claim's and no pod's */
        u64 at_ns;                      /* of this record: the later of a thread's and its process's counts; 0: there is none */
        u64 from_ns;                    /* settled from here on */
};

struct settled {
        struct stay own;                /* of the thread by itself */
        struct stay process;            /* of all threads of the process */
};

BPF_TABLE("hash", u32, struct settled, settled, MAX_SETTLED);

static __always_inline struct settled *settled_of(struct cpu_state *st, u32 id)
{
        struct settled *found = settled.lookup(&id), nothing = {};

        if (found)
                return found;
        settled.insert(&id, &nothing);
        found = settled.lookup(&id);
        if (!found)
                st->map_full++;
        return found;
}

/* Whatever reads it meanwhile finds a stay that is not settled. */
static __always_inline void write_stay(struct stay *stay, u64 cgroup, u64 now, u64 from_ns)
{
        *(volatile u64 *)&stay->from_ns = ~0ULL;
        *(volatile u64 *)&stay->cgroup = cgroup;
        *(volatile u64 *)&stay->at_ns = now;
        *(volatile u64 *)&stay->from_ns = from_ns;
}

static __always_inline u64 cpuset_id(void *cgroup)
{
        return CPUSET_SPACE | read_kernel(u64, read_kernel(void *, cgroup, OFF_CGROUP_KN), OFF_KERNFS_NODE_ID);
}

/* The kernel's word that a task, or its whole process, is in another v1 cpuset now. */
static __always_inline void settle(struct cpu_state *st, void *cgroup, u32 tid, u32 tgid, int whole_process)
{
        int theirs = root_of_cgroup(cgroup, CPUSET_SPACE).ident != 0;
        u32 id = whole_process ? tgid : tid;
        u64 now = bpf_ktime_get_ns();
        struct settled *s;

        /* Most moves of a machine are no pod's. That one has left is news only where it is known to have been there. */
        if (!theirs && !settled.lookup(&id) && !settled.lookup(&tgid))
                return;
        s = settled_of(st, id);
        if (s)
                write_stay(whole_process ? &s->process : &s->own, theirs ? cpuset_id(cgroup) : 0, now, now);
}

/*
 * Whether the current task was settled in this cpuset all the time since `from_ns`. A worker that no fork event announced
 * (io_uring, vhost) is where its leader was.
 */
static __always_inline int is_settled(struct cpu_state *st, u64 cgroup, u64 note, u64 from_ns)
{
        u64 id = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();
        u32 tid = id, tgid = id >> 32;

        if (read_kernel(u32, (void *)bpf_get_current_task(), OFF_TASK_STRUCT_FLAGS) & PF_UNANNOUNCED) {
                u64 *leader = note_of(tgid);

                tid = tgid;
                note = leader ? *leader : 0;
        }
        struct settled *s = settled.lookup(&tid), *whole = settled.lookup(&tgid);
        struct stay last = s ? s->own : (struct stay){};

        if (whole && whole->process.at_ns > last.at_ns)
                last = whole->process;
        if (last.at_ns && last.cgroup == cgroup)
                return last.from_ns <= from_ns;
        /* Born here, and not moved since; or found here before the kernel's word. */
        int born = note & NOTE_BORN && !last.at_ns;

        s = settled_of(st, tid);
        if (s)
                write_stay(&s->own, cgroup, now, born ? from_ns : now + JOINING_NS);
        return born;
}
