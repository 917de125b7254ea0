/*
 * verbs.h - the director's actors, and what it does for each verb of a script: by itself, or by an actor's box.
 *
 * Include it after _GNU_SOURCE.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actor.h"

static int actors;

static int open_switches(int tid, int cpu)
{
        return open_counter(tid, cpu, PERF_COUNT_SW_CONTEXT_SWITCHES, INHERIT | INHERIT_THREAD);
}

static struct box *find(const char *name)
{
        for (int i = actors - 1; i >= 0; i--)   /* the last one of that name */
                if (!strcmp(boxes[i].name, name))
                        return &boxes[i];
        return NULL;
}

static struct box *fresh(const char *name, const struct box *like)
{
        if (actors == MAX_ACTORS)
                exit(7);
        struct box *box = &boxes[actors++];

        if (like)
                *box = *like;
        box->command = NOTHING;
        box->tid = box->counted = 0;
        box->least = box->most = box->stays = box->child = 0;
        snprintf(box->name, sizeof(box->name), "%.31s", name);
        return box;
}

static int give(struct box *box, enum command command)
{
        while (box->command)
                nap(20);
        box->command = command;
        return 0;
}

/* Until an actor is there; perf counts it from here on. What it ran before is in its schedstat: it sleeps till then. */
static long long born(struct box *box)
{
        char path[64], text[64] = "";

        for (int i = 0; !box->tid && i < 100000; i++)
                nap(20);
        snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", box->tgid, box->tid);
        for (int cpu = 0; cpu < 2; cpu++) {
                box->clock[cpu] = open_clock(box->tid, cpu);
                box->switches[cpu] = open_switches(box->tid, cpu);
        }
        int file = open(path, O_RDONLY);

        if (file >= 0) {
                if (read(file, text, sizeof(text) - 1) < 0)
                        text[0] = 0;
                close(file);
        }
        box->counted = 1;
        return atoll(text);
}

/* What a group of verbs says of one that is not among them. */
#define NOT_MINE (-1)

static int on_host(const char *verb, char args[4][256])
{
        if (!strcmp(verb, "mkdir"))
                return mkdir(args[0], 0755) ? errno : 0;
        if (!strcmp(verb, "rmdir"))
                return rmdir(args[0]) ? errno : 0;
        return !strcmp(verb, "rest") ? 0 : NOT_MINE;
}

static int to_actor(const char *verb, struct box *box, char args[4][256])
{
        char text[32];

        if (!strcmp(verb, "write")) {
                snprintf(text, sizeof(text), "%d", box->tid);
                return put(args[0], text);
        }
        if (!strcmp(verb, "pin"))
                return pin(box->tid, atoi(args[0]));
        if (!strcmp(verb, "kill")) {
                kill(box->tgid, SIGKILL);
                return waitpid(box->tgid, NULL, __WALL) < 0 ? errno : 0;
        }
        if (!strcmp(verb, "wait")) {
                while (box->command)
                        nap(50);
                return 0;
        }
        return NOT_MINE;
}

static int makes_task(const char *verb)
{
        return !strcmp(verb, "fork") || !strcmp(verb, "thread") || !strcmp(verb, "clone");
}

static int bring_up(const char *verb, struct box *box, char args[4][256], long long *before_birth)
{
        if (!strcmp(verb, "spawn")) {
                box->burn_us = atol(args[1]);
                box->gap_us = atol(args[2]);
                if (!fork()) {
                        setpriority(PRIO_PROCESS, 0, 0);
                        pin(0, atoi(args[0]));
                        live(box);
                }
                *before_birth = born(box);
                return 0;
        }
        if (makes_task(verb)) {
                struct box *other = fresh(args[0], box);

                box->other = other - boxes;
                memcpy(box->in, args[1], sizeof(box->in));
                give(box, verb[0] == 'f' ? FORK : verb[0] == 't' ? THREAD : CLONE);
                *before_birth = born(other);
                return 0;
        }
        if (!strcmp(verb, "exec")) {
                box->tid = 0;
                give(box, EXEC);
                for (int i = 0; !box->tid && i < 100000; i++)
                        nap(20);
                return 0;
        }
        return NOT_MINE;
}

static int by_actor(const char *verb, struct box *box, char args[4][256])
{
        box->cpu = box->watched = atoi(args[0]);
        if (!strcmp(verb, "vfork")) {
                box->us = atol(args[1]);
                return give(box, VFORK);
        }
        if (!strcmp(verb, "flips")) {
                box->cpu = atoi(args[1]);
                box->count = atoi(args[2]);
                box->us = atol(args[3]);
                return give(box, FLIPS);
        }
        if (!strcmp(verb, "uring")) {
                box->count = atoi(args[1]);
                box->us = atol(args[2]);
                return give(box, URING);
        }
        if (!strcmp(verb, "hops")) {
                cpu_set_t set;

                sched_getaffinity(box->tid, sizeof(set), &set);
                box->watched = CPU_ISSET(1, &set);
                memcpy(box->in, args[0], sizeof(box->in));
                memcpy(box->out, args[1], sizeof(box->out));
                box->count = atoi(args[2]);
                box->us = atol(args[3]);
                return give(box, HOPS);
        }
        return NOT_MINE;
}

static int perform(const char *verb, struct box *box, char args[4][256], long long *before_birth)
{
        int error = box ? to_actor(verb, box, args) : on_host(verb, args);

        if (box && error == NOT_MINE) {
                while (box->command)            /* arguments belong to it until it is done */
                        nap(20);
                error = bring_up(verb, box, args, before_birth);
                if (error == NOT_MINE)
                        error = by_actor(verb, box, args);
        }
        return error == NOT_MINE ? ENOSYS : error;
}
