/* test_comings.c - served models come and go while the live threads (rig.h) serve others: nothing is lost, and the
 * place and the numbers of one that went serve the next.
 *
 * How many models come and go: histories.h. */
/* Starts threads. */
#include "histories.h"
#include "unit/sched/threads/rig.h"

#define ROUNDS 300

static uint32_t rounds;

static void await_subcluster(const struct rig *rig, const struct thread_model *model, uint32_t subcluster) {
    for (uint32_t v = 0; v < model->variant_count; v++)
        while (wiring_subcluster(&rig->wiring, variant_next(model->first_variant, v)) !=
               subcluster) /* or the test's time is over */
            pause_us(50);
}

static struct thread_model come(struct rig *rig, uint32_t served, uint32_t first_variant, uint32_t variants,
                                uint32_t subcluster) {
    struct thread_model model = {
        .place = {served},
        .first_variant = {first_variant},
        .variant_count = variants,
        .profiles = {rig->profiles[served]},
        .batch_max = BATCH_MAX,
        .slo_ns = rig->models[served].slo_ns,
    };
    uint32_t thread = rig->thread_of_served[served];

    assert_int_equal(model_thread_prepare(rig->model_threads[thread], &model), 0);
    for (uint32_t v = 0; v < variants; v++)
        rig->thread_of_variant[first_variant + v] = thread;
    assert_int_equal(wiring_model_comes(&rig->wiring, (struct place_id){served}, subcluster), 0);
    await_subcluster(rig, &model, subcluster);
    return model;
}

static void go(struct rig *rig, const struct thread_model *model) {
    assert_int_equal(wiring_model_goes(&rig->wiring, model->place), 0);
    await_subcluster(rig, model, SUBCLUSTER_NONE);
    model_thread_forget(rig->model_threads[rig->thread_of_served[model->place.n]], model->place);
}

/* Sends requests to a model over both ports, a few of them cancelled late, and waits for all. Some for the models that
 * stay go along. */
static uint32_t serve(struct rig *rig, uint32_t served, uint32_t count) {
    struct crowd c;

    crowd_init(&c, count);
    for (uint32_t i = 0; i < count; i++) {
        struct port *port = rig->ports[i % PORTS];
        struct request *r = crowd_request(&c, rig, i, i % 4 == 3 ? 0 : served, 200 * NS_PER_MS);
        assert_int_equal(port_submit(port, r), 0);
        if (i % 8 == 0)
            port_cancel(port, r);
    }
    for (uint32_t f = 0; f < PORTS; f++)
        port_flush(rig->ports[f]);
    while (c.done < c.count) {
        for (uint32_t f = 0; f < PORTS; f++)
            crowd_collect(&c, rig, f);
        pause_us(50);
    }
    uint32_t ran = c.ran;
    crowd_free(&c);
    return ran;
}

static void coming_and_going(uint32_t rank_threads) {
    struct rig *rig = rig_start_unused(&policy_deferred, ACCELERATORS, 200e3, rank_threads, 2 * VARIANTS_MAX);
    uint32_t unused = rig->wiring.models - rig->wiring.models_unused, ran = 0;
    struct rng rng;

    rng_seed(&rng, 5);
    for (uint32_t i = 0; i < rounds; i++) {
        uint32_t subcluster = (uint32_t)rng_below(&rng, rank_threads), shift = (uint32_t)rng_below(&rng, VARIANTS_MAX);
        /* one model of one shape, and one of several: their numbers change from round to round */
        struct thread_model one = come(rig, COMES_ONE, unused + shift, 1, subcluster);
        struct thread_model several = come(rig, COMES_SEVERAL, unused + shift + 1, VARIANTS_MAX, subcluster);
        ran += serve(rig, COMES_ONE, 16);
        if (rank_threads > 1 && i % 3 == 0)
            assert_int_equal(wiring_move(&rig->wiring, one.first_variant, 1 - subcluster), 0);
        ran += serve(rig, COMES_SEVERAL, 16);
        go(rig, &one);
        ran += serve(rig, COMES_SEVERAL, 8);
        go(rig, &several);
    }
    assert_true(ran > rounds);
    rig_stop(rig);
}

TEST(test_models_come_and_go) {
    coming_and_going(1);
}

TEST(test_models_come_and_go_between_moves) {
    coming_and_going(RANKS_MAX);
}

/* A run of the model that had the place before is told late: it is none of the model's that has it now. */
TEST(test_what_ran_for_another_model_teaches_nothing) {
    struct rig *rig = rig_start_unused(&policy_deferred, ACCELERATORS, 200e3, 1, 2 * VARIANTS_MAX);
    uint32_t unused = rig->wiring.models - rig->wiring.models_unused, thread = rig->thread_of_served[COMES_ONE];
    struct ring *ring = &rig->wiring.ran[thread]; /* of the first executor */
    struct thread_model one = come(rig, COMES_ONE, unused, 1, 0);
    const struct thread_rings *rings = model_thread_rings(rig->model_threads[thread]);
    uint32_t m = rings_model_of(rings, (struct place_id){COMES_ONE}).n;

    assert_true(serve(rig, COMES_ONE, 16) > 0);
    go(rig, &one);
    one = come(rig, COMES_ONE, unused, 1, 0);
    for (uint32_t e = 0; e < rig->wiring.executors; e++) /* its ring is the test's meanwhile */
        executor_stop(rig->executors[e]);
    for (int i = 0; i < 8; i++) {
        struct ran_message *ran = ring_reserve(ring);
        assert_non_null(ran);
        *ran = (struct ran_message){
            .variant = {unused}, .generation = 1, .items = 1, .run_ns = 20 * NS_PER_MS, .dispatch_ns = -1};
        ring_push(ring);
    }
    ring_publish(ring);
    doorbell_ring(&rig->wiring.model_bells[thread]);
    while (!ring_drained(ring))
        pause_us(50);
    assert_int_equal(atomic_load(&rings->counters[m].latency_one_ns), rig->profiles[COMES_ONE]->latency_ns[1]);
    start_executors(rig);
    go(rig, &one);
    rig_stop(rig);
}

int main(void) {
    rounds = (uint32_t)histories_count(ROUNDS);
    return tests_run(NULL, NULL);
}
