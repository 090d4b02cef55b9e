/* pass.h - passes: what a backend shows a frontend to have requests of it.
 *
 * A handle can be guessed with luck, and who guesses one could read and answer a client's request. So a frontend has a
 * key of 128 bits, drawn at its start, which it tells only its scheduler, with its introduction. By that key the
 * scheduler makes
 *
 *     a pass for each pair of a backend and a frontend, which the backend shows when it connects, and
 *     a pass for each plan and frontend of it, over the backend's incarnation and the handles of that frontend, which
 * the backend shows before it asks for these requests or answers them (FRAME_PASS).
 *
 * The frontend makes the same passes and compares. So nothing is remembered for a pass, no scheduler tells a frontend
 * about a plan, and passes outlive their scheduler. They are SipHash-2-4 of 128 bits, a keyed hash: 5 ns a request at
 * the scheduler and at the frontend, and no random numbers. A pass is of no use to another backend, nor for a request
 * that is sent again, which has a new handle.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/peer/hello.h"
#include "core/util/siphash.h"

struct pass {
    uint64_t words[2];
};

static inline bool pass_equal(struct pass a, struct pass b) {
    return ((a.words[0] ^ b.words[0]) | (a.words[1] ^ b.words[1])) == 0;
}

/* The pass of a backend for a connection with the frontend that has the key. */
struct pass pass_of_backend(const struct siphash_key *key, uint64_t backend_incarnation);
/* The pass of a plan for requests of the frontend that has the key, in the plan's order. */
struct pass pass_of_requests(const struct siphash_key *key, uint64_t backend_incarnation, const uint64_t *handles,
                             uint32_t count);
/* A frontend's introduction as its scheduler passes it on to a backend: with the pass instead of the key, and without
 * the token. */
struct hello pass_introduction(const struct hello *frontend, uint64_t backend_incarnation);

/* Makes the passes of plans. Zeroed memory is one that has no keys. */
struct pass_maker {
    uint64_t plan; /* number of the plan whose passes are being made */
    uint32_t count;
    uint16_t order[HELLO_NUMBERS]; /* [count] frontends of the plan */
    struct pass_maker_entry {
        struct siphash_key key;
        uint64_t plan;     /* plan that `hash` and `requests` are of */
        uint32_t requests; /* requests of the frontend */
        struct siphash hash;
    } of[HELLO_NUMBERS]; /* by the frontend's number; pages take memory once they are used */
};

/* Begins the passes of a plan; returns how many there are: as many as frontends have requests in it. */
uint32_t pass_maker_begin(struct pass_maker *maker, uint64_t backend_incarnation, const struct batch_plan *plan);
/* Ends them: writes the passes. */
void pass_maker_end(struct pass_maker *maker, struct wire_plan_pass *passes);
