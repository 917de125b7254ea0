/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interrupts.bpf.c - the interrupt ledger: how often and how long handlers ran on watched CPUs, by source.
 *
 * A hard interrupt may come in the middle of a soft one, and in the middle of the program that accounts for it; never the
 * other way round. So the hard side keeps a stack and a running total, and the soft side reads total and clock together,
 * again if the total moved between. Every nanosecond is given to the innermost handler alone.
 *
 * Maps:
 *   irq_state  per CPU: key 0, value struct irq_state, 1 entry. Deeper than HARD_DEPTH: not counted.
 *   irq_cpus   key word, value bits of watched CPUs (u64), CPU_WORDS entries; cannot be full.
 *   irqs       hash: key struct irq_key, value struct irq_sums, MAX_IRQS entries for two windows. Full: map_full is counted.
 */
#include "switches/claims.h"
#include "switches/ledger.h"
#include "interrupts/interrupts.h"

#define HARD_DEPTH 4                    /* handlers run with interrupts off: more than one is rare already */

struct irq_frame {
        u64 source;
        u64 ns;
        u32 vector;
        u32 kind;
};

struct irq_state {
        u64 hard_ns;                    /* time in hard interrupts since the programs were attached */
        u64 mark_ns;                    /* and it is given away up to here */
        u32 depth;
        u32 in_soft;
        u64 soft_start_ns;
        u64 soft_hard_ns;               /* hard_ns when the softirq began */
        u64 soft_vector;
        struct irq_frame hard[HARD_DEPTH];
};

BPF_PERCPU_ARRAY(irq_state, struct irq_state, 1);
BPF_ARRAY(irq_cpus, u64, CPU_WORDS);    /* the watched CPUs */
/* Full: map_full is counted. */
BPF_TABLE("hash", struct irq_key, struct irq_sums, irqs, MAX_IRQS);

static __always_inline struct irq_state *watched_irqs(void)
{
        u32 cpu = bpf_get_smp_processor_id();
        int zero = 0, index = cpu >> 6 & (CPU_WORDS - 1);
        u64 *word = irq_cpus.lookup(&index);
        struct irq_state *s = irq_state.lookup(&zero);

        if (!s)
                return 0;
        s = opaque(s);
        if (word && *word >> (cpu & 63) & 1)
                return s;
        /* Watched again later, the CPU begins outside of every handler: the end of this one will not have been seen. */
        s->depth = 0;
        s->in_soft = 0;
        return 0;
}

static __always_inline void count_irq(u32 kind, u32 vector, u64 source, u64 ns)
{
        int zero = 0;
        struct cpu_state *st = state.lookup(&zero);

        if (!st)
                return;
        struct irq_key key = { .source = source, .window = st->window, .vector = vector, .kind = kind };

        key.cpu = bpf_get_smp_processor_id();

        struct irq_sums *sums = irqs.lookup(&key);

        if (!sums) {
                struct irq_sums fresh = {};

                if (source)
                        bpf_probe_read_kernel_str(fresh.name, sizeof(fresh.name),
                                                  read_kernel(void *, source, OFF_IRQACTION_NAME));
                irqs.update(&key, &fresh);
                sums = irqs.lookup(&key);
                if (!sums) {
                        st->map_full++;
                        return;
                }
        }
        sums->count++;
        sums->ns += ns;
        if (ns > sums->longest_ns)
                sums->longest_ns = ns;
}

static __always_inline void hard_begins(u32 kind, u32 vector, u64 source)
{
        struct irq_state *s = watched_irqs();

        if (!s)
                return;
        u64 now = bpf_ktime_get_ns();
        u32 depth = s->depth;

        if (depth >= HARD_DEPTH)
                return;                 /* its end is not that of the top frame, which empties the stack */
        if (depth) {
                s->hard[opaque(depth - 1) & (HARD_DEPTH - 1)].ns += now - s->mark_ns;
                s->hard_ns += now - s->mark_ns;
        }
        struct irq_frame *f = &s->hard[opaque(depth) & (HARD_DEPTH - 1)];

        f->source = source;
        f->vector = vector;
        f->kind = kind;
        f->ns = 0;
        s->mark_ns = now;
        s->depth = depth + 1;
}

static __always_inline void hard_ends(u32 kind, u32 vector, u64 source)
{
        struct irq_state *s = watched_irqs();

        if (!s || !s->depth)
                return;                 /* began before we were attached */
        u64 now = bpf_ktime_get_ns();
        struct irq_frame *f = &s->hard[opaque(s->depth - 1) & (HARD_DEPTH - 1)];

        if (f->kind != kind || f->vector != vector || f->source != source) {
                s->depth = 0;           /* an end was missed: the kernel counts that, and missed_runs reports it */
                return;
        }
        f->ns += now - s->mark_ns;
        s->hard_ns += now - s->mark_ns;
        s->mark_ns = now;
        s->depth--;
        count_irq(kind, vector, source, f->ns);
}

/* The clock, and the hard interrupts' total at that very moment. */
static __always_inline u64 clock_and_hard(struct irq_state *s, u64 *hard_ns)
{
        volatile u64 *total = &s->hard_ns;
        u64 now = 0;

        for (int i = 0; i < 4; i++) {
                *hard_ns = *total;
                now = bpf_ktime_get_ns();
                if (*total == *hard_ns)
                        break;
        }
        return now;
}

/* raw tracepoint irq_handler_entry(irq, action) */
int on_irq_entry(struct bpf_raw_tracepoint_args *ctx)
{
        hard_begins(IRQ_DEVICE, ctx->args[0], ctx->args[1]);
        return 0;
}

/* raw tracepoint irq_handler_exit(irq, action, ret) */
int on_irq_exit(struct bpf_raw_tracepoint_args *ctx)
{
        hard_ends(IRQ_DEVICE, ctx->args[0], ctx->args[1]);
        return 0;
}

/* raw tracepoints of irq_vectors: *_entry(vector) */
int on_vector_entry(struct bpf_raw_tracepoint_args *ctx)
{
        hard_begins(IRQ_VECTOR, ctx->args[0], 0);
        return 0;
}

int on_vector_exit(struct bpf_raw_tracepoint_args *ctx)
{
        hard_ends(IRQ_VECTOR, ctx->args[0], 0);
        return 0;
}

/* raw tracepoint softirq_entry(vec_nr); they do not nest */
int on_softirq_entry(struct bpf_raw_tracepoint_args *ctx)
{
        struct irq_state *s = watched_irqs();
        u64 hard_ns;

        if (!s)
                return 0;
        s->soft_start_ns = clock_and_hard(s, &hard_ns);
        s->soft_hard_ns = hard_ns;
        s->soft_vector = (u32)ctx->args[0];
        s->in_soft = 1;
        return 0;
}

int on_softirq_exit(struct bpf_raw_tracepoint_args *ctx)
{
        struct irq_state *s = watched_irqs();
        u64 hard_ns;

        if (!s || !s->in_soft || s->soft_vector != (u32)ctx->args[0])
                return 0;
        u64 now = clock_and_hard(s, &hard_ns);

        s->in_soft = 0;
        count_irq(IRQ_SOFT, ctx->args[0], 0, now - s->soft_start_ns - (hard_ns - s->soft_hard_ns));
        return 0;
}
