/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claims.h - whose claim is the running task under, and what may it do on this CPU?
 *
 * Shared by every probe: the maps that user space publishes claims in, and the per-CPU cache that makes the answer
 * cheap. The caller's own per-CPU state embeds `struct place_cache`.
 *
 * Publication. A mask is written to a buffer that no reader uses; then `live[slot]` is flipped by a program (one store,
 * never a torn copy), and an interrupt on every CPU drops the answers that this CPU keeps (`generation`). When that has
 * returned, the new mask binds everywhere; no barrier and no shared cache line is needed where it is asked for.
 *
 * Settings (-D): MAX_CLAIMS, MAX_LEVELS (cgroup levels in which a claim can sit; its descendants may be deeper),
 * MAX_CGROUPS (entries of `roots`), and the OFF_* offsets taken from the kernel's BTF.
 *
 * Maps:
 *   config  key 0, value struct config, 1 entry; cannot be full.
 *   roots   hash: key cgroup id (u64), value struct claim_root, MAX_CGROUPS entries (eight for each claim, and eight). Full: user
 *           space gets the error of its update; a cgroup made anew is counted in map_full.
 *   idents  hash: key ident (u32), value slot (u32), MAX_CGROUPS entries; written by user space alone, which gets the error.
 *   masks   key slot * MASK_BUFFERS + buffer, value struct mask, (MAX_CLAIMS + 1) * MASK_BUFFERS entries; cannot be full.
 *   live    key slot, value buffer in use (u32), MAX_CLAIMS + 1 entries; cannot be full.
 *   idents_of  key slot, value ident (u32), MAX_CLAIMS + 1 entries; cannot be full.
 */
/*
 * The same value, of which the compiler knows nothing from here on. For an author of BPF, two cases in which the
 * compiler knows something that the verifier does not, and leaves out or moves what the verifier needs to see:
 *
 *   a pointer into a map's value, after its null check:  `if (!m) return 0;  m = opaque(m);  m->cpus[i]`
 *     An index added to null is undefined, so LLVM (21 does) adds it before the check, and checks the sum: "pointer arithmetic
 *     on map_value_or_null prohibited, null-check it first". After `opaque` nothing of it can go above the check.
 *     Needed wherever an element is indexed by a variable, or its address is what a function returns.
 *   a number, before the mask that bounds it:  `opaque(depth) & (HARD_DEPTH - 1)`
 *     LLVM leaves the mask out where it can prove that it does nothing; the verifier cannot always follow the proof.
 *
 * It costs no instruction.
 */
#define opaque(value) ({                        \
        __typeof__(value) _value = (value);     \
        asm volatile("" : "+r"(_value));        \
        _value;                                 \
})

#define CPU_WORDS     16                /* 1024 CPUs */
#define MASK_BUFFERS  4                 /* per slot; a reader would have to sleep through four publications */
#define WATCHED_SLOT  MAX_CLAIMS        /* pseudo slot: the set of watched CPUs */
#define CACHE_SIZE    16                /* power of two */

enum place {
        PLACE_FREE = 0,                 /* no claim, and nothing watches this CPU */
        PLACE_INSIDE,                   /* the claim allows this CPU */
        PLACE_OUTSIDE,
        PLACE_WATCHED,                  /* no claim, on an exclusive or reserved CPU */
};

struct mask {
        u64 cpus[CPU_WORDS];
        u64 grace[CPU_WORDS];           /* CPUs that the mask before allowed and this one does not */
        u64 since_ns;                   /* the claim exists since */
        u64 grace_until_ns;             /* time on `grace` CPUs up to here is transition; ~0: the change is under way */
};

struct claim_root {
        u32 slot;
        u32 ident;                      /* unique over the run, unlike the slot, which is used again */
        u32 in_cpuset;                  /* it has a cpuset in a v1 hierarchy, too: a task joins both, one after the other */
        u32 in_limits;                  /* enum limits: it has a cgroup in the v1 hierarchies of these controllers */
};

/* What a task is under, in 16 bits: never switched out (0), no claim, a foreign pod, a claim's slot. */
#define TAG_FREE      1
#define TAG_PODS      2
#define TAG_OF(slot)  (3 + (slot))

struct place_entry {
        u64 cgroup;                     /* leaf id; ids are never used twice */
        u32 generation;
        u32 mask;                       /* index into masks[] */
        u16 slot;
        u16 place;
        u32 ident;
        u32 tag;                        /* of its tasks */
        u32 pad;                        /* 32 bytes: two to a cache line, indexed by a shift */
};

struct place_cache {
        struct place_entry entry[CACHE_SIZE];
};

/*
 * The shortest answer: a task whose note has this key (membership.h) is in this place, and nothing needs to be looked
 * up. Only for places where nothing is wrong (PLACE_FREE, PLACE_INSIDE).
 */
#define MARKS         32                /* power of two */

struct mark {
        u64 key;
        u32 place;
        u32 slot;
};

/*
 * Everything below the pods' root that is under no claim is a foreign pod's: a root like a claim's, whose slot is that of
 * the watched CPUs. A claim at or above it goes before it.
 */
#define PODS_IDENT    0xffffffffU

struct config {
        u32 news;                       /* counts moves of members, each after it was written down, and changed claims */
        u32 epoch;                      /* 0-255, in the key of every detail map: user space drains old epochs */
        u32 cpuset_hierarchy;           /* number of the v1 hierarchy with the cpuset controller, or 0 */
        u32 cpu_hierarchy;              /* and of those with the others that a claim promises something of */
        u32 memory_hierarchy;
        u32 pad;
};

BPF_ARRAY(config, struct config, 1);
/*
 * cgroup id -> slot; with CPUSET_SPACE the id is one of the v1 cpuset hierarchy, whose numbers are its own, and so for the
 * others. Full: the claim is refused in user space.
 */
#define CPUSET_SPACE  (1ULL << 63)
#define CPU_SPACE     (1ULL << 62)
#define MEMORY_SPACE  (1ULL << 61)
enum limits { IN_CPU = 1, IN_MEMORY = 2 };
BPF_TABLE("hash", u64, struct claim_root, roots, MAX_CGROUPS);
/* Idents that are watched now. Records of a claim that was removed say nothing any more. Full: as above. */
BPF_TABLE("hash", u32, u32, idents, MAX_CGROUPS);
BPF_ARRAY(masks, struct mask, (MAX_CLAIMS + 1) * MASK_BUFFERS);
BPF_ARRAY(live, u32, MAX_CLAIMS + 1);
BPF_ARRAY(idents_of, u32, MAX_CLAIMS + 1);

static __always_inline int has_cpu(const u64 *words, u32 cpu)
{
        return words[(cpu >> 6) & (CPU_WORDS - 1)] >> (cpu & 63) & 1;
}

#define read_kernel(type, base, offset) ({                                                      \
        type value = 0;                                                                         \
        bpf_probe_read_kernel(&value, sizeof(value), (void *)(base) + (offset));                \
        value;                                                                                  \
})

/* A member of a struct that the tracepoint gave us: the verifier knows its type, and no helper is needed. */
#define loaded(type, base, offset) ({                                                           \
        u64 value;                                                                              \
        asm volatile("%0 = *(" #type " *)(%1 + %2)" : "=r"(value) : "r"(base), "i"(offset));    \
        (type)value;                                                                            \
})

/* The id of a cgroup's ancestor, or its own, at a level: before Linux 6.1 (7f203bc89eb6) only ids were kept. */
static __always_inline u64 ancestor_id(void *cgroup, int level)
{
#ifdef OFF_CGROUP_ANCESTORS
        void *ancestor = read_kernel(void *, cgroup, OFF_CGROUP_ANCESTORS + level * sizeof(void *));

        return read_kernel(u64, read_kernel(void *, ancestor, OFF_CGROUP_KN), OFF_KERNFS_NODE_ID);
#else
        return read_kernel(u64, cgroup, OFF_CGROUP_ANCESTOR_IDS + level * sizeof(u64));
#endif
}

/*
 * A BPF subprogram: the verifier goes through it once for each program that calls it, with arguments of which nothing is
 * known, and not once for each of the states in which its callers are. Worth it where a loop is, and for what is long; a call
 * costs what it costs.
 * All functions are put into their callers here but these (probes/subprograms.py has their names, links them, and says more):
 * they take one number and return one (u64; bcc takes further arguments for registers of a probed function), and share the
 * 512 bytes of stack with their callers.
 */
#define SUBPROGRAM(number)  ((void *)(0x70000001UL + (number)))

static u64 (*find_root)(u64 cgroup_and_space) = SUBPROGRAM(0);
static u64 (*find_current_root)(u64 any) = SUBPROGRAM(1);
static u64 (*tell_wait)(u64 slot_and_ns) = SUBPROGRAM(2);
static u64 (*tell_turn)(u64 number) = SUBPROGRAM(3);
static u64 (*look_up)(u64 news) = SUBPROGRAM(4);

/* A root as one number, and back; none is 0, and no claim's ident is. */
#define ROOT_SLOT_BITS  29

static __always_inline u64 packed_root(struct claim_root *root)
{
        u32 flags = (root->in_cpuset & 1) | (root->in_limits & (IN_CPU | IN_MEMORY)) << 1;

        return (u64)root->ident << 32 | flags << ROOT_SLOT_BITS | root->slot;
}

static __always_inline struct claim_root unpacked_root(u64 word)
{
        return (struct claim_root){
                .slot = word & ((1U << ROOT_SLOT_BITS) - 1),
                .ident = word >> 32,
                .in_cpuset = word >> ROOT_SLOT_BITS & 1,
                .in_limits = word >> (ROOT_SLOT_BITS + 1) & (IN_CPU | IN_MEMORY),
        };
}

/* A cgroup's place in memory ends in zeros: there is room for its space, by number. */
#define SPACE_NUMBERS   3UL

static __always_inline u64 with_space(void *cgroup, u64 space)
{
        return (u64)cgroup | (space == CPUSET_SPACE ? 1 : space == CPU_SPACE ? 2 : space == MEMORY_SPACE ? 3 : 0);
}

static __always_inline u64 space_by_number(u64 number)
{
        return number == 1 ? CPUSET_SPACE : number == 2 ? CPU_SPACE : number == 3 ? MEMORY_SPACE : 0;
}

/* What a walk from the top down has found: the deepest claim, and the pods' root. */
struct found {
        u64 claim;
        u64 pods;
};

/*
 * Nothing yet. The verifier is not to know that it is: what makes no difference to it, and no branch asks for, makes no other
 * path, of which there would be twice as many at each level.
 */
static __always_inline struct found nothing_found(u64 any)
{
        u64 nothing = opaque(any) ^ any;

        return (struct found){ .claim = nothing, .pods = nothing };
}

static __always_inline void look_at(struct found *found, u64 id)
{
        struct claim_root *root = roots.lookup(&id);

        if (!root)
                return;
        if (root->ident == PODS_IDENT)
                found->pods = packed_root(root);
        else
                found->claim = packed_root(root);
}

static __always_inline u64 deepest_root(void *cgroup, u64 space)
{
        int depth = read_kernel(u32, cgroup, OFF_CGROUP_LEVEL);
        struct found found = nothing_found((u64)cgroup);

#pragma clang loop unroll(disable)
        for (int level = 0; level < MAX_LEVELS; level++) {
                /*
                 * The compiler must not count to the lesser of both by itself: it compares for equality then, and a
                 * verifier before Linux 6.8 does not see that this ends ("The sequence of 8193 jumps is too complex").
                 */
                asm volatile("" : "+r"(depth));
                if (level > depth)
                        break;
                look_at(&found, ancestor_id(cgroup, level) | space);
        }
        return found.claim ? found.claim : found.pods;
}

u64 root_at(u64 cgroup_and_space)
{
        return deepest_root((void *)(cgroup_and_space & ~SPACE_NUMBERS), space_by_number(cgroup_and_space & SPACE_NUMBERS));
}

#ifdef OFF_CGROUP_ANCESTORS
u64 current_root(u64 any)
{
        struct found found = nothing_found(any);

#pragma clang loop unroll(disable)
        for (int level = 0; level < MAX_LEVELS; level++) {
                u64 id = bpf_get_current_ancestor_cgroup_id(level);

                if (!id)
                        break;
                look_at(&found, id);
        }
        return found.claim ? found.claim : found.pods;
}
#endif

/*
 * The root at or above a cgroup: the deepest claim's if there is one; the pods' root never goes over a claim above it.
 * None: its ident is 0. `space` is 0 for the v2 hierarchy and CPUSET_SPACE, CPU_SPACE, MEMORY_SPACE for the v1 hierarchy of
 * that controller.
 */
static __always_inline struct claim_root root_of_cgroup(void *cgroup, u64 space)
{
        return unpacked_root(find_root(with_space(cgroup, space)));
}

/* The same about the current task's cgroup. */
static __always_inline struct claim_root root_of_current(void)
{
#ifdef OFF_CGROUP_ANCESTORS
        return unpacked_root(find_current_root(0));
#else
        /* Programs like these have that helper since Linux 5.15 (95b861a7935b); all that lack it keep ids. */
        void *sets = read_kernel(void *, (void *)bpf_get_current_task(), OFF_TASK_STRUCT_CGROUPS);

        return root_of_cgroup(read_kernel(void *, sets, OFF_CSS_SET_DFL_CGRP), 0);
#endif
}

/* Where the current task is: the deepest claim's place. */
static __always_inline void find_place(struct place_entry *e, u64 cgroup, u32 generation)
{
        struct claim_root root = root_of_current();
        u32 cpu = bpf_get_smp_processor_id();
        int slot = root.ident ? root.slot : WATCHED_SLOT;
        u32 *buffer = live.lookup(&slot);
        int index = buffer ? slot * MASK_BUFFERS + (*buffer & (MASK_BUFFERS - 1)) : 0;
        struct mask *m = masks.lookup(&index);

        e->place = PLACE_FREE;
        if (m) {
                m = opaque(m);
                if (slot == WATCHED_SLOT)
                        e->place = has_cpu(m->cpus, cpu) ? PLACE_WATCHED : PLACE_FREE;
                else
                        e->place = has_cpu(m->cpus, cpu) ? PLACE_INSIDE : PLACE_OUTSIDE;
        }
        e->cgroup = cgroup;
        e->slot = slot;
        e->ident = root.ident;
        e->tag = !root.ident ? TAG_FREE : root.ident == PODS_IDENT ? TAG_PODS : TAG_OF(root.slot);
        e->mask = index;
        e->generation = generation;
}

/* Where is the current task? One compare where it was asked before on this CPU. */
static __always_inline struct place_entry *current_place(struct place_cache *cache, u32 generation)
{
        u64 cgroup = bpf_get_current_cgroup_id();
        struct place_entry *e = &cache->entry[(cgroup ^ cgroup >> 4) & (CACHE_SIZE - 1)];

        if (e->cgroup != cgroup || e->generation != generation)
                find_place(e, cgroup, generation);
        return e;
}

/* Ident of the deepest claim at or above a cgroup of the v2 hierarchy, or 0. */
static __always_inline u32 ident_of_cgroup(void *cgroup)
{
        struct claim_root root = root_of_cgroup(cgroup, 0);

        return root.ident != PODS_IDENT ? root.ident : 0;
}

/* In which space the cgroups of a v1 hierarchy are; 0: nothing is promised there. */
static __always_inline u64 space_of(const struct config *c, u32 hierarchy)
{
        if (hierarchy == c->cpuset_hierarchy)
                return CPUSET_SPACE;
        if (hierarchy == c->cpu_hierarchy)
                return CPU_SPACE;
        return hierarchy == c->memory_hierarchy ? MEMORY_SPACE : 0;
}

/* The cgroup of a task in the v1 hierarchy of a controller, by its place in css_set.subsys. */
static __always_inline void *legacy_cgroup(void *css_set, int subsys)
{
        void *css = read_kernel(void *, css_set, OFF_CSS_SET_SUBSYS + subsys * sizeof(void *));

        return read_kernel(void *, css, OFF_CGROUP_SUBSYS_STATE_CGROUP);
}

static __always_inline u32 ident_of_task(void *task)
{
        void *css = read_kernel(void *, task, OFF_TASK_STRUCT_CGROUPS);

        return ident_of_cgroup(read_kernel(void *, css, OFF_CSS_SET_DFL_CGRP));
}
