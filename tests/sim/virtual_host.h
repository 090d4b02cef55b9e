/* virtual_host.h - hosts, processes and threads in virtual time, all in one thread of the test.
 *
 * The program's own code runs in them as it is. The linker puts the functions of virtual_calls.c in place of the system
 * calls that it makes (--wrap): a thread is a coroutine that runs until it would sleep, a clock reads virtual time, a
 * socket is one of virtual_net.h. Whoever runs next, how long a wake-up takes, where a thread is interrupted: all of it
 * is drawn from the seed, so a seed is a run. While a thread runs nothing else does, so races within a turn are not
 * found; that is what ThreadSanitizer and the end-to-end tests are for.
 *
 * There is one world at a time. What is called from no thread of it (set-up, faults) is called by its events. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "core/util/list.h"
#include "core/util/rng.h"
#include "core/util/time.h"

#define VIRTUAL_HOSTS_MAX 40
#define VIRTUAL_BEGIN_NS  (1000 * NS_PER_S) /* of CLOCK_MONOTONIC on a host whose clock is right */

struct virtual_process;
struct virtual_thread;

/* An event. `tag` is what it was given. */
typedef void virtual_event(void *context, uint64_t tag);

struct virtual_world {
    int64_t now_ns;
    struct rng rng;
    bool trace;                     /* what happens is printed */
    bool sways;                     /* threads are busy in turns */
    uint64_t turns;                 /* threads that were run */
    uint64_t digest;                /* of who ran when: the same for the same seed */
    struct virtual_thread *running; /* NULL: an event is */
    uint32_t host_count;
    struct virtual_host {
        char name[16];
        int64_t offset_ns; /* by which its clock is ahead, */
        int64_t drift_ppb; /* and what it gains a second */
        int64_t frozen_ns; /* its processes do not run before then */
    } hosts[VIRTUAL_HOSTS_MAX];
};
extern struct virtual_world virtual_world;

struct virtual_process {
    struct list_node link; /* of all that there were */
    char name[24];
    uint32_t host;
    int pid;
    bool over; /* it has ended, or was killed */
    bool stopped;
    bool no_sockets;  /* it has as many descriptors as it may, but a spare one; those of clients are spared */
    bool no_memory;   /* nor does it get memory that others may map */
    bool spare;       /* that is closed now */
    int exit_status;  /* of one that ended by itself */
    uint32_t signals; /* that wait for sigtimedwait(), a bit each */
    int64_t asked_ns; /* when it was first sent one; 0: it was not */
    int64_t began_ns, over_ns;
    int64_t stopped_ns;     /* when it was stopped last */
    int64_t stopped_sum_ns; /* for how long it was, in all */
    void *context;          /* the owner's */
    int (*main)(void *context);
};

/* ---- the world ---- */

void virtual_begin(uint64_t seed, bool trace);
/* A host, whose clock is ahead by so much and gains so many billionths. Its number, from 0. */
uint32_t virtual_host_add(const char *name, int64_t offset_ns, int64_t drift_ppb);
/* Runs until then. */
void virtual_run(int64_t until_ns);
/* Calls `event` at that time, in the order of calls if times are equal. */
void virtual_at(int64_t at_ns, virtual_event *event, void *context, uint64_t tag);
/* Prints a line with the time, if the world traces. */
void virtual_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- drawn from the seed ---- */

uint64_t virtual_below(uint64_t n);
int64_t virtual_between(int64_t low, int64_t high);
bool virtual_chance(double probability);

/* ---- processes ---- */

/* Starts one, soon. It is over when main() returns. */
struct virtual_process *virtual_start(uint32_t host, const char *name, int (*main)(void *context), void *context);
/* SIGKILL: its sockets are closed by its host. */
void virtual_kill(struct virtual_process *process);
/* SIGSTOP and SIGCONT. */
void virtual_stop(struct virtual_process *process);
void virtual_continue(struct virtual_process *process);
/* A virtual machine is frozen for so long: its processes do not notice, but that its clock has gone on. If it `stands`
 * meanwhile, only others notice. */
void virtual_freeze(uint32_t host, int64_t for_ns, bool stands);
/* Others, for sigtimedwait(). */
void virtual_signal(struct virtual_process *process, int number);
/* How long it has been stopped in all, up to now. */
int64_t virtual_stopped_ns(const struct virtual_process *process);
/* Called whenever one has ended or was killed: what it had open is to be closed. */
void virtual_process_over(struct virtual_process *process);
/* Turns that its busiest thread took in the second of virtual time in which that took most. *name: the thread's. */
uint32_t virtual_turns_most(const struct virtual_process *process, const char **name);

/* ---- for the system calls: threads ---- */

/* The process that runs; NULL: none does. */
struct virtual_process *virtual_self(void);
/* What the clock of that process's host says, and the world's time when it will say that. */
int64_t virtual_local_ns(uint32_t host, int64_t now_ns);
int64_t virtual_world_ns(uint32_t host, int64_t local_ns);
/* A thread of the process that runs. */
struct virtual_thread *virtual_thread_new(void *(*main)(void *argument), void *argument);
void virtual_thread_name(const char *name);
/* In a seventh of the seeds: how long the running thread has been busy by now_ns. Threads of odd numbers are busy every
 * other second, and those of even numbers in between, so that they give connections to each other. */
int64_t virtual_busy_ns(int64_t now_ns);
bool virtual_thread_over(const struct virtual_thread *thread, void **result);
/* Sleeps until woken by who knows `what` (NULL: nobody does), or until then. False: the time is over. */
bool virtual_sleep(const void *what, int64_t until_ns);
/* The same for a call that a stop interrupts: 1: woken, 0: the time is over, -EINTR: the process was stopped meanwhile,
 * and has just been continued; whatever has come since is not told yet. */
int virtual_wait(const void *what, int64_t until_ns);
/* Wakes up to so many threads that sleep for `what`. How many that were. */
uint32_t virtual_wake(const void *what, uint32_t most);
/* The running thread loses its core now and then. Call it where that may happen. */
void virtual_interrupt(void);
