/* rank.c - bench_rank: how many grants a second the rank core gives, alone in one thread: every grant is answered at
 * once with a batch and the model's next candidate, and accelerators become free when the table says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/util/rng.h"
#include "sched/core/rank_core.h"

#define RUN_NS    150             /* a batch runs so long times the accelerators, which bounds the grants */
#define DEMAND_NS 200             /* a candidate is ready within so long times the models: more than can be granted */
#define SLICE_NS  (2 * NS_PER_US) /* virtual time between turns, as long as a turn of the thread takes */

struct world {
    struct rank_core *core;
    struct rank_output out;
    struct ending {
        int64_t at_ns;
        uint32_t accelerator;
    } * endings; /* [accelerators] a queue in a circle: all batches take the same time */
    uint32_t accelerators, ending_first, ending_count;
    struct rng rng;
    uint32_t models;
    int64_t run_ns;
    uint64_t grants;
};

/* A candidate that may start soon, for a millisecond from then. */
static struct candidate candidate_draw(struct world *w, int64_t now_ns) {
    int64_t start_ns = now_ns + (int64_t)rng_below(&w->rng, (uint64_t)w->models * DEMAND_NS);
    return (struct candidate){
        .start_ns = {start_ns, start_ns, start_ns},
        .order_ns = start_ns + NS_PER_MS,
        .invalid_after_ns = start_ns + NS_PER_MS,
    };
}

static void answer(struct world *w, int64_t now_ns, const struct grant_message *grant) {
    union {
        struct rank_message message;
        char bytes[sizeof(struct rank_message) + sizeof(struct candidate)];
    } room;
    struct rank_message *message = &room.message;

    message->kind = RANK_ANSWER;
    message->variant = grant->variant;
    message->types = 1;
    message->answer = (struct rank_answer){
        .accelerator = grant->accelerator,
        .items = 8,
        .sealed_ns = now_ns,
        .end_ns = now_ns + w->run_ns,
        .run_ns = w->run_ns,
    };
    message->candidates[0] = candidate_draw(w, now_ns);
    rank_core_take(w->core, now_ns, &(struct rank_event){.kind = RANK_MESSAGE, .message = message}, &w->out);
    w->endings[(w->ending_first + w->ending_count++) % w->accelerators] =
        (struct ending){now_ns + w->run_ns, grant->accelerator};
}

/* A turn like the rank thread's: takes accelerators that are free again, then grants, and answers the grants. */
static void turn(struct world *w, int64_t now_ns) {
    struct grant_message grants[RANK_GRANTS_MAX];

    for (; w->ending_count && w->endings[w->ending_first].at_ns <= now_ns; w->ending_count--) {
        const struct ending *ending = &w->endings[w->ending_first];
        struct rank_event event = {
            .kind = RANK_BATCH_ENDED, .accelerator = ending->accelerator, .ended = {.at_ns = ending->at_ns}};
        w->ending_first = (w->ending_first + 1) % w->accelerators;
        rank_core_take(w->core, now_ns, &event, &w->out);
    }
    do {
        rank_core_step(w->core, now_ns, &(struct rank_event){.kind = RANK_TIMER}, &w->out);
        uint32_t count = w->out.grant_count;
        memcpy(grants, w->out.grants, count * sizeof(*grants));
        for (uint32_t i = 0; i < count; i++)
            answer(w, now_ns, &grants[i]);
        w->grants += count;
    } while (w->out.grant_count == RANK_GRANTS_MAX);
}

static double measure(uint32_t models, uint32_t accelerators, double seconds) {
    uint8_t *types = calloc(accelerators, 1);
    struct rank_core_config config = {
        .models = models, .accelerators = accelerators, .accelerator_type = types, .types = 1, .policy = &policy_eager};
    struct world *w = calloc(1, sizeof(*w));
    int64_t now_ns = NS_PER_S, began_ns, until_ns;

    w->core = malloc(rank_core_bytes(&config));
    rank_core_init(w->core, &config);
    rng_seed(&w->rng, 1);
    w->models = models;
    w->accelerators = accelerators;
    w->endings = calloc(accelerators, sizeof(*w->endings));
    w->run_ns = (int64_t)accelerators * RUN_NS;
    for (uint32_t m = 0; m < models; m++) {
        struct candidate candidate = candidate_draw(w, now_ns);
        struct rank_event event = {.kind = RANK_CANDIDATES, .variant = {m}, .candidates = &candidate};
        rank_core_take(w->core, now_ns, &event, &w->out);
    }
    began_ns = clock_now_ns();
    until_ns = began_ns + (int64_t)(seconds * 1e9);
    while (clock_now_ns() < until_ns)
        for (int i = 0; i < 100; i++, now_ns += SLICE_NS)
            turn(w, now_ns);
    double rate = (double)w->grants / ((double)(clock_now_ns() - began_ns) / 1e9);
    free(w->core);
    free(w->endings);
    free(w);
    free(types);
    return rate;
}

int main(int argc, char **argv) {
    static const uint32_t rows[][2] = {{24, 1000}, {1000, 1000}, {1000, 10000}, {1000, 20000}, {5000, 20000}};
    double seconds = argc > 1 ? atof(argv[1]) : 1;

    if (!(seconds > 0)) {
        fputs("usage: bench_rank [SECONDS]\n", stderr);
        return 2;
    }
    printf("%8s %13s %14s %9s\n", "models", "accelerators", "grants/s", "ns each");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double rate = measure(rows[i][0], rows[i][1], seconds);
        printf("%8u %13u %14.0f %9.0f\n", rows[i][0], rows[i][1], rate, 1e9 / rate);
    }
    return 0;
}
