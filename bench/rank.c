/* rank.c - bench_rank: how many grants a second the rank core gives, alone in one thread: every grant is answered at
 * once with a batch and the model's next candidate, and accelerators become free when the table says. `told`: the same
 * where accelerators tell that they have all models, as in a cluster; `half`: or every other one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/util/rng.h"
#include "sched/core/rank_core.h"

#define RUN_NS    150             /* a batch runs so long times the accelerators, which bounds the grants */
#define DEMAND_NS 200             /* a candidate is ready within so long times the models: more than can be granted */
#define TOLD_MOST 10000000        /* pairs of models and accelerators that are told */
#define SLICE_NS  (2 * NS_PER_US) /* virtual time between turns, as long as a turn of the thread takes */

struct world {
    struct rank_core *core;
    struct rank_output out;
    struct ending {
        int64_t at_ns;
        uint32_t accelerator, model;
    } * endings; /* [accelerators] a queue in a circle: all batches take the same time */
    uint32_t accelerators, ending_first, ending_count;
    struct rng rng;
    uint32_t models;
    int64_t run_ns;
    uint64_t grants;
};

/* A candidate that may start soon, and then at any time: nobody renews one that has expired here, as model cores do,
 * and the rank core would go past it for ever. */
static struct candidate candidate_draw(struct world *w, int64_t now_ns) {
    int64_t start_ns = now_ns + (int64_t)rng_below(&w->rng, (uint64_t)w->models * DEMAND_NS);
    return (struct candidate){
        .start_ns = {start_ns, start_ns, start_ns},
        .order_ns = start_ns + NS_PER_MS,
        .invalid_after_ns = TIME_NEVER / 2,
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
        (struct ending){now_ns + w->run_ns, grant->accelerator, grant->variant.n};
}

/* A turn like the rank thread's: takes accelerators that are free again, then grants, and answers the grants. */
static void turn(struct world *w, int64_t now_ns) {
    struct grant_message grants[RANK_GRANTS_MAX];

    for (; w->ending_count && w->endings[w->ending_first].at_ns <= now_ns; w->ending_count--) {
        const struct ending *ending = &w->endings[w->ending_first];
        struct rank_event event = {.kind = RANK_BATCH_ENDED,
                                   .accelerator = ending->accelerator,
                                   .variant = {ending->model},
                                   .ended = {.at_ns = ending->at_ns}};
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

/* What each accelerator has is told, as a cluster's link does. */
enum telling { UNTOLD, ALL_TOLD, HALF_TOLD };

/* Each accelerator tells that it has all models for good, or every other one. */
static void tell(struct world *w, int64_t now_ns, enum telling telling) {
    struct rank_event event = {.kind = RANK_MOVED};
    for (uint32_t a = 0; a < w->accelerators; a++) {
        rank_core_take(w->core, now_ns, &(struct rank_event){.kind = RANK_ACCELERATOR_UP, .accelerator = a}, &w->out);
        event.moved = (struct memory_moved){
            .kind = MEMORY_SIZE, .done = true, .accelerator = a, .pages = MEMORY_PAGES_MOST, .grain = 1};
        rank_core_take(w->core, now_ns, &event, &w->out);
        for (uint32_t m = 0; m < w->models; m++) {
            event.moved = (struct memory_moved){.kind = MEMORY_OFFERED, .done = true, .accelerator = a, .variant = {m}};
            if (telling == ALL_TOLD || m % 2 == a % 2)
                rank_core_take(w->core, now_ns, &event, &w->out);
        }
        event.moved = (struct memory_moved){.kind = MEMORY_BEGINS, .accelerator = a};
        rank_core_take(w->core, now_ns, &event, &w->out);
    }
}

static double measure(uint32_t models, uint32_t accelerators, enum telling telling, double seconds) {
    uint8_t *types = calloc(accelerators, 1);
    struct rank_weights *weights = calloc(models, sizeof(*weights));
    struct rank_core_config config = {.models = models,
                                      .accelerators = accelerators,
                                      .accelerator_type = types,
                                      .types = 1,
                                      .absent = telling != UNTOLD,
                                      .limited = telling != UNTOLD,
                                      .told = telling != UNTOLD,
                                      .memory_pages = MEMORY_PAGES_MOST,
                                      .weights = weights,
                                      .policy = &policy_eager};
    struct world *w = calloc(1, sizeof(*w));
    int64_t now_ns = NS_PER_S, began_ns, until_ns;

    for (uint32_t m = 0; m < models; m++)
        weights[m] = (struct rank_weights){.first = m, .count = 1, .pages = 1};
    w->core = malloc(rank_core_bytes(&config));
    rank_core_init(w->core, &config);
    rng_seed(&w->rng, 1);
    w->models = models;
    w->accelerators = accelerators;
    w->endings = calloc(accelerators, sizeof(*w->endings));
    w->run_ns = (int64_t)accelerators * RUN_NS;
    if (telling != UNTOLD)
        tell(w, now_ns, telling);
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
    free(weights);
    return rate;
}

int main(int argc, char **argv) {
    static const uint32_t rows[][2] = {{24, 1000},    {4000, 2},     {1000, 1000},
                                       {1000, 10000}, {1000, 20000}, {5000, 20000}};
    double seconds = argc > 1 ? atof(argv[1]) : 1;

    if (!(seconds > 0)) {
        fputs("usage: bench_rank [SECONDS]\n", stderr);
        return 2;
    }
    printf("%8s %13s %14s %9s %9s %9s\n", "models", "accelerators", "grants/s", "ns each", "told", "half");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t models = rows[i][0], accelerators = rows[i][1];
        double rate = measure(models, accelerators, UNTOLD, seconds);
        printf("%8u %13u %14.0f %9.0f", models, accelerators, rate, 1e9 / rate);
        for (int telling = ALL_TOLD; telling <= HALF_TOLD && (uint64_t)models * accelerators <= TOLD_MOST; telling++)
            printf(" %9.0f", 1e9 / measure(models, accelerators, telling, seconds));
        printf("\n");
    }
    return 0;
}
