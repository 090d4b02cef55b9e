/* explore.h - every order in which the steps of a small concurrent system can happen, or many drawn at random.
 *
 * The system's state is one block of memory that holds all that its future depends on, with pointers into itself at
 * most: it is saved, restored and recognised by its bytes. A depth-first search takes every enabled action in every
 * state and leaves states alone that it has been in (by a hash of 64 bits: of ten million states, two are taken for one
 * with a probability of three in a million). A state that comes again within one run means that the system goes round
 * in a circle, which is wrong.
 *
 * The first thing found wrong is printed with the actions that lead there, so is a CHECK that fails. One exploration at
 * a time. */
#pragma once

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/rng.h"

#define EXPLORE_ACTIONS_MAX 48
#define EXPLORE_DEPTH_MAX   256

struct explore_action {
    uint8_t kind, x, y;
    bool optional; /* may happen, and the system is at rest without it as well */
};

struct explore_system {
    const char *name;
    void *state;
    size_t bytes; /* a multiple of 32 */
    uint32_t (*enabled)(const void *state, struct explore_action actions[EXPLORE_ACTIONS_MAX]);
    /* NULL, or a sentence on what is wrong. */
    const char *(*apply)(void *state, struct explore_action action);
    /* The same of a state in which nothing is left to do but what is optional. */
    const char *(*rest)(void *state);
    void (*print)(struct explore_action action);
};

struct explore_totals {
    uint64_t states, actions, rests;
    uint32_t depth_most;
};

struct explore_frame {
    struct explore_action actions[EXPLORE_ACTIONS_MAX];
    uint32_t count, next;
    uint64_t hash;
    char *saved;
};

/* What led here, for the report: signal handlers have no other argument. */
static const struct explore_system *explore_current;
static struct explore_action explore_path[EXPLORE_DEPTH_MAX];
static uint32_t explore_path_length;

static void explore_report(const char *wrong) {
    fflush(stdout);
    printf("%s: %s, after %u actions:\n", explore_current->name, wrong, explore_path_length);
    for (uint32_t i = 0; i < explore_path_length; i++) {
        printf("%4u  ", i + 1);
        explore_current->print(explore_path[i]);
    }
    fflush(stdout);
}

static void explore_on_abort(int signal_number) {
    (void)signal_number;
    explore_report("a broken invariant inside a core"); /* not safe in a handler in general; the process ends anyway */
}

static void explore_begin(const struct explore_system *system) {
    explore_current = system;
    explore_path_length = 0;
    signal(SIGABRT, explore_on_abort);
}

/* ---- states that were seen ---- */

#define EXPLORE_ON_PATH 1ULL

struct explore_seen {
    uint64_t *slots; /* hashes with the lowest bit for EXPLORE_ON_PATH; 0: empty */
    uint64_t capacity, count;
};

static uint64_t explore_hash(const void *state, size_t bytes) {
    const uint64_t *words = state;
    uint64_t lanes[4] = {1, 2, 3, 4}, hash = 0; /* side by side, as each waits for its own product only */
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i += 4) {
        for (size_t j = 0; j < 4; j++) {
            lanes[j] = (lanes[j] ^ words[i + j]) * 0xd6e8feb86659fd93ULL;
            lanes[j] ^= lanes[j] >> 32;
        }
    }
    for (size_t j = 0; j < 4; j++) {
        hash = (hash ^ lanes[j]) * 0x9e3779b97f4a7c15ULL;
        hash ^= hash >> 29;
    }
    hash &= ~EXPLORE_ON_PATH;
    return hash ? hash : 2;
}

static uint64_t *explore_slot(const struct explore_seen *seen, uint64_t hash) {
    uint64_t i = (hash >> 1) & (seen->capacity - 1);
    while (seen->slots[i] && (seen->slots[i] & ~EXPLORE_ON_PATH) != hash)
        i = (i + 1) & (seen->capacity - 1);
    return &seen->slots[i];
}

static void *explore_allocate(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (!memory)
        abort();
    return memory;
}

static void explore_grow(struct explore_seen *seen) {
    struct explore_seen larger = {.capacity = seen->capacity ? 2 * seen->capacity : 1 << 16, .count = seen->count};
    larger.slots = explore_allocate(larger.capacity * sizeof(*larger.slots));
    for (uint64_t i = 0; i < seen->capacity; i++)
        if (seen->slots[i])
            *explore_slot(&larger, seen->slots[i] & ~EXPLORE_ON_PATH) = seen->slots[i];
    free(seen->slots);
    *seen = larger;
}

/* ---- every order ---- */

static bool explore_at_rest(const struct explore_action *actions, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!actions[i].optional)
            return false;
    return true;
}

/* Enters the state that the system is in: NULL, or what is wrong with it. Not `pushed`: it was seen before. */
static const char *explore_enter(const struct explore_system *system, struct explore_seen *seen,
                                 struct explore_frame *frame, struct explore_totals *totals, bool *pushed) {
    uint64_t hash = explore_hash(system->state, system->bytes);
    if (2 * seen->count >= seen->capacity)
        explore_grow(seen);
    uint64_t *slot = explore_slot(seen, hash);
    *pushed = *slot == 0;
    if (*slot)
        return *slot & EXPLORE_ON_PATH ? "it goes round in a circle" : NULL;
    *slot = hash | EXPLORE_ON_PATH;
    seen->count++;
    totals->states++;
    frame->hash = hash;
    frame->next = 0;
    frame->count = system->enabled(system->state, frame->actions);
    if (!frame->saved)
        frame->saved = explore_allocate(system->bytes);
    memcpy(frame->saved, system->state, system->bytes);
    if (!explore_at_rest(frame->actions, frame->count))
        return NULL;
    totals->rests++;
    const char *wrong = system->rest(system->state);
    memcpy(system->state, frame->saved, system->bytes);
    return wrong;
}

/* Every order of the system's actions from the state that it is in. Whether all is well. */
static bool explore_all(const struct explore_system *system, struct explore_totals *totals) {
    struct explore_frame *frames = explore_allocate((EXPLORE_DEPTH_MAX + 1) * sizeof(*frames));
    struct explore_seen seen = {0};
    bool pushed;

    explore_begin(system);
    *totals = (struct explore_totals){0};
    const char *wrong = explore_enter(system, &seen, &frames[0], totals, &pushed);
    for (uint32_t depth = 0; !wrong;) {
        struct explore_frame *frame = &frames[depth];
        explore_path_length = depth;
        if (frame->next == frame->count) {
            *explore_slot(&seen, frame->hash) &= ~EXPLORE_ON_PATH;
            if (depth-- == 0)
                break;
            continue;
        }
        struct explore_action action = frame->actions[frame->next++];
        memcpy(system->state, frame->saved, system->bytes);
        explore_path[explore_path_length++] = action;
        totals->actions++;
        wrong = system->apply(system->state, action);
        if (wrong)
            break;
        wrong = depth + 1 == EXPLORE_DEPTH_MAX ? "it does not come to rest"
                                               : explore_enter(system, &seen, &frames[depth + 1], totals, &pushed);
        depth += pushed;
        if (depth > totals->depth_most)
            totals->depth_most = depth;
    }
    if (wrong)
        explore_report(wrong);
    for (uint32_t i = 0; i <= EXPLORE_DEPTH_MAX; i++)
        free(frames[i].saved);
    free(frames);
    free(seen.slots);
    return !wrong;
}

/* ---- some orders ---- */

/* `runs` orders drawn from the seed, each from the state that the system is in. Whether all is well. */
static bool explore_some(const struct explore_system *system, uint64_t runs, uint64_t seed,
                         struct explore_totals *totals) {
    void *saved = explore_allocate(system->bytes);
    const char *wrong = NULL;
    struct rng rng;

    explore_begin(system);
    *totals = (struct explore_totals){0};
    rng_seed(&rng, seed);
    memcpy(saved, system->state, system->bytes);
    for (uint64_t run = 0; run < runs && !wrong; run++) {
        struct explore_action actions[EXPLORE_ACTIONS_MAX];
        uint32_t count;
        memcpy(system->state, saved, system->bytes);
        explore_path_length = 0;
        while (!wrong && (count = system->enabled(system->state, actions))) {
            if (explore_path_length == EXPLORE_DEPTH_MAX) {
                wrong = "it does not come to rest";
                break;
            }
            if (explore_at_rest(actions, count) && rng_below(&rng, 2))
                break;
            struct explore_action action = actions[rng_below(&rng, count)];
            explore_path[explore_path_length++] = action;
            totals->actions++;
            wrong = system->apply(system->state, action);
        }
        if (explore_path_length > totals->depth_most)
            totals->depth_most = explore_path_length;
        totals->rests++;
        if (!wrong)
            wrong = system->rest(system->state);
    }
    if (wrong)
        explore_report(wrong);
    memcpy(system->state, saved, system->bytes);
    free(saved);
    return !wrong;
}
