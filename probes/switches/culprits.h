/* SPDX-License-Identifier: Apache-2.0 */
/*
 * culprits.h - what had the CPU while a claim's task waited for it.
 *
 * Only waits of TOLD_NS or longer come here: the turns that ended while the task waited are gone through backwards from the
 * moment in which it ran. Where one of them is its own, ended when it was queued, it was preempted; else it was woken, or came
 * from another CPU. What is older than TURNS turns is in `unnamed_ns`.
 *
 * A cgroup's runqueue on a CPU has an account of how long it was throttled there, with all levels above. What that account
 * has grown by since the last wait that was told ended when this task ran again, or before it where another task of the
 * cgroup has told it already.
 *
 * Maps:
 *   waits      hash: key struct wait_key, value struct wait_sums, MAX_WAITS entries. Full: of that claim on that CPU only the
 *              time in its row is known; user space drains it when it is half full.
 *   no_waits   key 0, value struct wait_sums of zeros, 1 entry; cannot be full.
 *   culprits   hash: key struct culprit_key, value struct culprit, MAX_CULPRITS entries. Full: the time is in unnamed_ns; user
 *              space drains it when it is half full.
 *   throttles  LRU hash: key struct throttle_key, value struct throttle, MAX_WAITS entries. Full: of the one that was used
 *              longest ago the next throttling is put down to what ran meanwhile.
 */
BPF_TABLE("hash", struct wait_key, struct wait_sums, waits, MAX_WAITS);
BPF_ARRAY(no_waits, struct wait_sums, 1);
BPF_TABLE("hash", struct culprit_key, struct culprit, culprits, MAX_CULPRITS);
BPF_TABLE("lru_hash", struct throttle_key, struct throttle, throttles, MAX_WAITS);

#define PF_KTHREAD     0x00200000       /* of task_struct.flags */
#define SAME_NS        5000             /* a task's departure and its being queued, by two clocks */

/* A word of a struct of the kernel's, up to 8 bytes. */
#define read_word(b, type, base, offset) ({                                                     \
        (b)->word = 0;                                                                          \
        bpf_probe_read_kernel(&(b)->word, sizeof(type), (void *)(base) + (offset));             \
        *(type *)&(b)->word;                                                                    \
})

/* The claim that a slot is now; 0: none yet. */
static __always_inline u32 ident_of_slot(u32 slot)
{
        int index = slot;
        u32 *ident = idents_of.lookup(&index);

        return ident ? *ident : 0;
}

static __always_inline struct wait_sums *waits_of(struct wait_key *key)
{
        struct wait_sums *w = waits.lookup(key);
        int zero = 0;

        if (w)
                return w;
        w = no_waits.lookup(&zero);
        if (!w)
                return 0;
        waits.update(key, w);
        return waits.lookup(key);
}

/* When in the wait that is told the task's cgroup was throttled here: writes it to `held`. */
static __always_inline void throttled_in(struct blaming *b, u64 waited)
{
        b->held.from_ns = b->held.until_ns = 0;
#ifdef OFF_CFS_RQ_THROTTLED
        b->here.ident = b->whose.ident;
        b->here.cpu = bpf_get_smp_processor_id();
        struct throttle *kept = throttles.lookup(&b->here);
        u64 cfs_rq = read_word(b, u64, bpf_get_current_task(), OFF_TASK_STRUCT_SE + OFF_SCHED_ENTITY_CFS_RQ);
        u64 sum = read_word(b, u64, cfs_rq, OFF_CFS_RQ_THROTTLED);

        if (kept && kept->cfs_rq == cfs_rq) {
                u64 more = sum - kept->seen_ns;

                if (more) {
                        kept->seen_ns = sum;
                        kept->from_ns = b->until_ns - (more < waited ? more : waited);
                        kept->until_ns = b->until_ns;
                }
                b->held.from_ns = kept->from_ns;
                b->held.until_ns = kept->until_ns;
                return;
        }
        b->first.cfs_rq = cfs_rq;
        b->first.seen_ns = sum;
        b->first.from_ns = b->first.until_ns = 0;
        throttles.update(&b->here, &b->first);
#endif
}

/* Name what had a turn. */
static __always_inline void name_culprit(struct blaming *b, struct turn *t)
{
        void *task = (void *)t->task;
        struct culprit_key *key = &b->whose;

        key->of = 0;
        __builtin_memset(key->comm, 0, sizeof(key->comm));
        b->fresh.tgid = 0;
        if (!t->tid) {
                key->kind = CULPRIT_IDLE;
        } else if (t->tag >= TAG_OF(0)) {
                key->kind = CULPRIT_CLAIM;
                key->of = ident_of_slot(t->tag - TAG_OF(0));
        } else if (read_word(b, u32, task, OFF_TASK_STRUCT_PID) != t->tid) {
                key->kind = t->tag == TAG_PODS ? CULPRIT_POD : CULPRIT_ENDED;
        } else if (t->tag == TAG_PODS) {
                void *sets = read_word(b, void *, task, OFF_TASK_STRUCT_CGROUPS);
                void *cgroup = read_word(b, void *, sets, OFF_CSS_SET_DFL_CGRP);
                void *node = read_word(b, void *, cgroup, OFF_CGROUP_KN);

                key->kind = CULPRIT_POD;
                key->of = read_word(b, u64, node, OFF_KERNFS_NODE_ID);
        } else {
                u32 flags = read_word(b, u32, task, OFF_TASK_STRUCT_FLAGS);

                key->kind = flags & PF_KTHREAD ? CULPRIT_KTHREAD : CULPRIT_SYSTEM;
                b->fresh.tgid = read_word(b, u32, task, OFF_TASK_STRUCT_TGID);
                bpf_probe_read_kernel(key->comm, sizeof(key->comm), task + OFF_TASK_STRUCT_COMM);
        }
}

static __always_inline void blame(struct blaming *b, u64 ns)
{
        struct culprit *c = culprits.lookup(&b->whose);

        if (c) {
                c->ns += ns;
                c->count++;
                if (ns > c->longest_ns)
                        c->longest_ns = ns;
                return;
        }
        b->fresh.ns = b->fresh.longest_ns = ns;
        b->fresh.count = 1;
        if (culprits.update(&b->whose, &b->fresh))
                b->unnamed_ns += ns;
}

/* How much of one time lies in another. */
static __always_inline u64 common_ns(u64 from, u64 until, u64 begin, u64 end)
{
        if (begin > from)
                from = begin;
        if (end < until)
                until = end;
        return until > from ? until - from : 0;
}

/* In which of the buckets a wait is. */
static __always_inline u32 bucket_of(u64 ns)
{
        u64 us16 = ns / TOLD_NS;
        u32 bucket = 0;

#pragma clang loop unroll(full)
        for (int i = 1; i < WAIT_BUCKETS; i++)
                bucket += us16 >> i ? 1 : 0;
        return bucket;
}

static __always_inline void blame_throttling(struct blaming *b, u64 ns)
{
        b->whose.kind = CULPRIT_THROTTLED;
        b->whose.of = 0;
        __builtin_memset(b->whose.comm, 0, sizeof(b->whose.comm));
        b->fresh.tgid = 0;
        blame(b, ns);
}

/* A wait that ended then is counted. */
static __always_inline void add_wait(struct wait_sums *sums, u64 waited, u64 until, u32 preempted)
{
        struct wait_sums *w = sums;

        if (waited > w->longest_ns) {
                w->longest_ns = waited;
                w->longest_end_ns = until;
        }
        u32 bucket = bucket_of(waited);

        if (bucket >= WAIT_BUCKETS)
                return;
        w = opaque(w);
        if (preempted) {
                w->preempted_ns += waited;
                w->preempted[bucket]++;
        } else {
                w->woken_ns += waited;
                w->woken[bucket]++;
        }
}

/*
 * The turn of this number ended while the current task waited, or not: name what had it. Returns whether an older one may be
 * of the wait, too. By itself, because the verifier goes through a loop as often as it may turn.
 */
u64 told_turn(u64 number)
{
        struct cpu_state *st = my_state();

        if (!st)
                return 0;
        st = opaque(st);
        struct blaming *b = &st->blaming;
        struct turn *t = &st->turns[number & (TURNS - 1)];
        u64 begin = st->turns[(number - 1) & (TURNS - 1)].end_ns, end = t->end_ns;

        if (!begin)
                return 0;
        if (end > b->until_ns)          /* its own, which follows the wait */
                return 1;
        if (t->tid == b->me) {
                b->preempted = end + SAME_NS >= b->from_ns;
                b->rest_ns = b->from_ns; /* what lies between is the two clocks' */
                return 0;
        }
        if (b->rest_ns <= b->from_ns)
                return 0;
        u64 ns = common_ns(begin, end, b->from_ns, b->until_ns);

        b->rest_ns = begin > b->from_ns ? begin : b->from_ns;
        ns -= common_ns(b->rest_ns, end, b->held.from_ns, b->held.until_ns);
        if (ns) {
                name_culprit(b, t);
                blame(b, ns);
        }
        return 1;
}

/* The current task has waited, up to wait_end_ns: under which claim, and for how long. */
u64 told_wait(u64 slot_and_ns)
{
        struct cpu_state *st = my_state();
        u64 waited = slot_and_ns & ((1ULL << WAIT_BITS) - 1);
        int zero = 0;
        struct config *c = config.lookup(&zero);

        if (!st || !c)
                return 0;
        st = opaque(st);
        struct blaming *b = &st->blaming;

        b->me = bpf_get_current_pid_tgid();
        b->preempted = 0;
        b->unnamed_ns = 0;
        b->until_ns = b->rest_ns = st->wait_end_ns;
        b->from_ns = b->until_ns - waited;
        b->wait.epoch = b->whose.epoch = st->window << 8 | (c->epoch & 255);
        b->wait.ident = b->whose.ident = ident_of_slot(slot_and_ns >> WAIT_BITS);
        b->wait.cpu = b->whose.cpu = bpf_get_smp_processor_id();
        struct wait_sums *w = waits_of(&b->wait);

        if (!w)
                return 0;
        throttled_in(b, waited);
        b->held_ns = common_ns(b->from_ns, b->until_ns, b->held.from_ns, b->held.until_ns);

#pragma clang loop unroll(disable)
        for (int i = 1; i < TURNS; i++)
                if (!tell_turn(st->turn - i))
                        break;
        if (b->held_ns)
                blame_throttling(b, b->held_ns);
        w->throttled_ns += b->held_ns;
        b->unnamed_ns += b->rest_ns - b->from_ns - common_ns(b->from_ns, b->rest_ns, b->held.from_ns, b->held.until_ns);
        w->unnamed_ns += b->unnamed_ns;
        add_wait(w, waited, b->until_ns, b->preempted);
        return 0;
}
