/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intervals.h - the running interval is counted: for which claim, and where.
 *
 * Maps:
 *   rows   per CPU: key window parity * MAX_CLAIMS + slot, value struct row, MAX_CLAIMS * 2 entries; cannot be full (a claim
 *          that finds no free slot is refused by user space).
 *   spreads  key as of rows, value struct spread, as many entries; cannot be full.
 *   bins   per CPU: key window parity * BINNED_CLAIMS + slot, value struct bins, BINNED_CLAIMS * 2 + 1 entries; cannot be full
 *          (a claim beyond them has none, which the evidence says).
 */
/*
 * Two windows, one after the other: user space reads those of one window together, ten times a second. A closed window's
 * rows stand still until the next one closes.
 */
BPF_PERCPU_ARRAY(rows, struct row, MAX_CLAIMS * 2);

/*
 * No tick of the sampler for so long, although something runs: the CPU stands still, in firmware, with interrupts off, or
 * because its hypervisor runs something else, which steal need not show. What runs is charged all the same, and nothing
 * can be throttled in time. An idle CPU may do without ticks (a hypervisor parks it).
 */
static __always_inline u64 standstill(struct cpu_state *st, u64 ns, u32 tid)
{
        if (ns <= SAMPLER_GAP_NS || !st->charged_ns || !tid)
                return 0;
        st->standstill_ns += ns;
        return ns;
}

static __always_inline struct row *row_of(struct cpu_state *st, u32 slot)
{
        int index = (st->window & 1) * MAX_CLAIMS + slot;

        return rows.lookup(&index);
}

/*
 * How CPU time was spread. What a claim runs on a CPU in a slot goes to what all CPUs ran of it when it runs there again
 * in a later one; until then user space finds it in the row. So nothing has to be interrupted at the end of each slot. An
 * interval counts for the slot in which it is charged: a period of the sampler late at most.
 */
BPF_ARRAY(spreads, struct spread, MAX_CLAIMS * 2);

/*
 * With bins a slot of the rows is as long as one of them, and SLOTS_EACH of these are one of the spread's.
 */
BPF_PERCPU_ARRAY(bins, struct bins, BINNED_CLAIMS * 2 + 1);

#if BINNED_CLAIMS
/* Its CPU alone writes and, once it has left a slot, never again. */
static __always_inline void enter_bin(struct cpu_state *st, struct row *row, u32 claim, u64 ns)
{
        int index = (st->window & 1) * BINNED_CLAIMS + claim;
        struct bins *kept = claim < BINNED_CLAIMS ? bins.lookup(&index) : 0;
        u64 wait_ns = row->wait_ns - row->slotted_wait_ns;

        row->slotted_wait_ns = row->wait_ns;
        if (!kept || !(ns | wait_ns))
                return;
        struct bin *b = &opaque(kept)->of[row->slot & (BINS - 1)];

        /* What reads in between finds no slot. */
        *(volatile u32 *)&b->slot = 0;
        *(volatile u32 *)&b->run_ns = ns > ~0U ? ~0U : ns;
        *(volatile u32 *)&b->wait_ns = wait_ns > ~0U ? ~0U : wait_ns;
        *(volatile u32 *)&b->slot = row->slot;
}
#else
static __always_inline void enter_bin(struct cpu_state *st, struct row *row, u32 claim, u64 ns)
{
}
#endif

static __always_inline void enter_slot(struct cpu_state *st, struct row *row, u32 claim)
{
        int index = (st->window & 1) * MAX_CLAIMS + claim;
        u32 slot = (u32)row->slot / SLOTS_EACH, late = st->slot / SLOTS_EACH - slot;
        u64 ns = row->ns - row->slotted_ns;
        struct spread *s = spreads.lookup(&index);

        enter_bin(st, row, claim, ns);
        /* First: what reads in between finds too little, and the rest next time, but never too much. */
        *(volatile u64 *)&row->slotted_ns = row->ns;
        /* What is older was read where it was; its place is for another slot soon. */
        if (s && ns && late < SLOTS / 2)
                lock_xadd(&opaque(s)->ns[slot & (SLOTS - 1)], ns);
        row->slot = st->slot;
}

static __always_inline void add_to_row(struct cpu_state *st, struct row *row, u32 claim, u64 now, u64 still, int ended,
                                       int tick)
{
        if (__builtin_expect(now >= st->slot_end_ns, 0)) {
                st->slot = now / SLOT_NS;
                st->slot_end_ns = (u64)(st->slot + 1) * SLOT_NS;
        }
        if (__builtin_expect((u32)row->slot != st->slot, 0))
                enter_slot(st, row, claim);
        row->switches += ended;
        row->ns += now - st->charged_ns;
        if (ended)
                row->idle_wakes += st->from_idle;
        row->samples += tick;
        if (still)
                row->standstill_ns += still;            /* another cache line */
}

/* Asked before the cgroup: a move in between makes the note that we write stale, never good. */
static __always_inline u32 news_now(void)
{
        int zero = 0;
        struct config *c = config.lookup(&zero);

        return c ? *(volatile u32 *)&c->news : 0;
}

/* For the claim whose task arrived early, if it is one's, and the one that went for it (arrivals.h). */
static __always_inline void add_lag(struct cpu_state *st, struct row *row, u64 lag)
{
        struct row *before = st->before ? row_of(st, st->before - 1) : 0;

        if (row)
                row->arrival_lag_ns += lag;
        if (before)
                before->departure_lag_ns += lag;
}

/*
 * The long way: which claim is its cgroup's, was it a member all the time, and may it be here? `st->span` is the interval.
 * Returns 1 + the claim's slot, if the interval was counted in its row; else 0.
 */
u64 looked_up(u64 news)
{
        struct cpu_state *st = my_state();

        if (!st)
                return 0;
        st = opaque(st);
        struct span *s = &st->span;
        struct place_entry *e = current_place(&st->places, st->generation);
        u64 *note = note_of(bpf_get_current_pid_tgid());
        u64 word = note ? *note : 0, key = NOTE_KEY(e->tag, news);

        if (note && word & NOTE_LEFT)
                word = word_of_living(note, word);
        /* Whatever becomes of the interval: one that moves each time it runs is never settled, and not hidden. */
        if (note && s->ended)
                *note |= NOTE_SEEN;
        s->life = life_of_note(word);
        begin_at_arrival(st, s);
        if (!(word & NOTE_DEAD) && KEY_OF_NOTE(word) != key && unsettled(st, e, note, key, s))
                return 0;
        if (e->place == PLACE_FREE || e->place == PLACE_INSIDE) {
                struct mark *mark = &st->marks[e->tag & (MARKS - 1)];

                mark->key = key;
                mark->place = e->place;
                mark->slot = e->slot;
        } else if (e->place == PLACE_WATCHED) {
                watched(st, e, s, note ? *note : 0);
        }
        if (e->place != PLACE_INSIDE && e->place != PLACE_OUTSIDE)
                return 0;
        struct row *row = row_of(st, e->slot);

        if (!row)
                return 0;
        if (e->place == PLACE_OUTSIDE)
                outside(st, row, e, s);
        add_to_row(st, row, e->slot, s->now, s->still, s->ended, s->tick);
        if (s->lag && s->ended)
                row->arrival_lag_ns += s->lag;
        return 1 + e->slot;
}

/* The same of the interval that ends, or is split, `now`. Returns the claim's place in `rows`, and its slot. */
static __always_inline struct row *row_looked_up(struct cpu_state *st, u32 news, u64 now, u64 still, int ended, int tick,
                                                 u32 *slot)
{
        struct span *s = &st->span;
        u64 found;

        s->from = st->charged_ns;
        s->now = now;
        s->start = st->start_ns;
        s->still = still;
        s->ended = ended;
        s->tick = tick;
        s->lag = 0;
        found = look_up(news);
        *slot = found - 1;
        return found ? row_of(st, found - 1) : 0;
}

/*
 * The short way: what was found last time for this note, as long as nothing happened. Only for places where nothing is
 * wrong; returns its place in `rows`, or none where the task is no claim's.
 */
static __always_inline struct row *row_of_mark(struct cpu_state *st, struct mark *mark)
{
        return mark->place == PLACE_INSIDE ? row_of(st, mark->slot) : 0;
}

/* Count what ran up to now of an interval that goes on. */
static __always_inline void charge(struct cpu_state *state_here, u64 now, int tick)
{
        struct cpu_state *st = opaque(state_here);
        u32 tid = bpf_get_current_pid_tgid(), news = news_now();
        u64 *note = note_of(tid), key = note ? KEY_OF_NOTE(*note) : 0;
        u64 still;
        struct mark *mark = &st->marks[key & (MARKS - 1)];

        /* An interrupt of ours came after this clock was read, and counted further. */
        if ((s64)(now - st->charged_ns) < 0)
                return;
        still = standstill(st, now - st->charged_ns, tid);
        /* A tick always goes the long way: what it finds is true even where a word was missed. */
        if (tick || mark->key != key || key >> 32 != news) {
                u32 slot;
                struct row *row = row_looked_up(st, news, now, still, 0, tick, &slot);

                if (row && !tick)
                        count_wait_now(st, row, slot);
        } else {
                struct row *row = row_of_mark(st, mark);

                if (row) {
                        add_to_row(st, row, mark->slot, now, still, 0, tick);
                        if (!tick)
                                count_wait_now(st, row, mark->slot);
                }
        }
        st->charged_ns = now;
}
