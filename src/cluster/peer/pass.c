/* pass.c - makes passes. */
#include "cluster/peer/pass.h"

/* First words, so that a pass of one kind is never one of the other. */
enum { OF_BACKEND = 1, OF_REQUESTS = 2 };

static void begin(struct siphash *hash, const struct siphash_key *key, uint64_t kind, uint64_t incarnation) {
    siphash_begin(hash, key);
    siphash_take(hash, kind);
    siphash_take(hash, incarnation);
}

struct pass pass_of_backend(const struct siphash_key *key, uint64_t backend_incarnation) {
    struct siphash hash;
    struct pass pass;
    begin(&hash, key, OF_BACKEND, backend_incarnation);
    siphash_end(&hash, pass.words);
    return pass;
}

struct pass pass_of_requests(const struct siphash_key *key, uint64_t backend_incarnation, const uint64_t *handles,
                             uint32_t count) {
    struct siphash hash;
    struct pass pass;
    begin(&hash, key, OF_REQUESTS, backend_incarnation);
    for (uint32_t i = 0; i < count; i++)
        siphash_take(&hash, handles[i]);
    siphash_end(&hash, pass.words);
    return pass;
}

struct hello pass_introduction(const struct hello *frontend, uint64_t backend_incarnation) {
    const struct siphash_key key = {{frontend->secret[0], frontend->secret[1]}};
    struct pass pass = pass_of_backend(&key, backend_incarnation);
    struct hello hello = *frontend;
    *hello.token = '\0';
    hello.secret[0] = pass.words[0];
    hello.secret[1] = pass.words[1];
    return hello;
}

uint32_t pass_maker_begin(struct pass_maker *maker, uint64_t backend_incarnation, const struct batch_plan *plan) {
    maker->plan++;
    maker->count = 0;
    for (uint32_t i = 0; i < plan->request_count; i++) {
        uint32_t number = handle_process(plan->handles[i]);
        struct pass_maker_entry *e = &maker->of[number];
        if (e->plan != maker->plan) {
            e->plan = maker->plan;
            e->requests = 0;
            begin(&e->hash, &e->key, OF_REQUESTS, backend_incarnation);
            maker->order[maker->count++] = (uint16_t)number;
        }
        e->requests++;
        siphash_take(&e->hash, plan->handles[i]);
    }
    return maker->count;
}

void pass_maker_end(struct pass_maker *maker, struct wire_plan_pass *passes) {
    for (uint32_t i = 0; i < maker->count; i++) {
        struct pass_maker_entry *e = &maker->of[maker->order[i]];
        passes[i].frontend = maker->order[i];
        passes[i].requests = e->requests;
        siphash_end(&e->hash, passes[i].pass);
    }
}
