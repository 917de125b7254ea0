/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interrupts.h - the records of the interrupt ledger (probes/switches/records.py mirrors them, a test compares both).
 */

enum irq_kind { IRQ_DEVICE = 1, IRQ_VECTOR, IRQ_SOFT };

/* By CPU, so that one CPU alone writes an entry; a window's entries stand still when the next one is open. */
struct irq_key {
        u64 source;                     /* struct irqaction * of a device's handler: several may share a number */
        u32 window;
        u32 cpu;
        u32 vector;                     /* interrupt number, vector, or softirq number */
        u32 kind;
};

struct irq_sums {
        u64 count;
        u64 ns;                         /* without interrupts that came in between */
        u64 longest_ns;
        char name[32];                  /* the handler's, from the kernel; empty for vectors and softirqs */
};
