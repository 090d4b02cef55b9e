/* executor_watch.c - notices runs that hang, and gives an executor whose thread is in such a run to another thread.
 *
 * The thread that runs batches keeps one word: the number of the run, and its state. The thread that started the
 * executor reads the word every second, so watching costs a run only a store and an exchange. The time between two
 * looks counts as at most LOOK_NS_MOST, so that no run seems to hang because the whole process was stopped for a while.
 *
 *     IDLE --run_begin()--> RUNNING --too long--> STOPPING --engine's stop()--> STOPPED --RUN_STOP_NS--> LOST
 *       ^---- run_over() ----'                                                     |                      |
 *       '------------------------------- run_over(), go_on() ----------------------'      run_back() --> BACK
 *
 * The thread that changes the word from RUNNING or STOPPED has the executor. If a thread finds LOST when its run ends,
 * the thread has lost the executor: it frees what it held, says BACK, and ends. Meanwhile a substitute thread has taken
 * the executor. The substitute answers the requests left behind, and serves the failed accelerator. When the lost
 * thread is back and a trial run works, the accelerator joins again. Until then all that the hanging run may read stays
 * unchanged. The gathered inputs stay, since nothing else runs. A request's inputs that were not copied, and the
 * request's model, stay, since the frontend was told that they are read; it keeps them until it is told that they no
 * longer are (REQUEST_RELEASED). */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "back/executor/executor_state.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/thread.h"
#include "core/util/assert.h"

#define LOOK_NS_MOST   (2 * NS_PER_S) /* most that the time between two looks counts */
#define ENDING_STOP_NS (1 * NS_PER_S) /* time that a run has to stop while the executor ends */

enum watch_state { WATCH_IDLE, WATCH_RUNNING, WATCH_STOPPING, WATCH_STOPPED, WATCH_LOST, WATCH_BACK };
#define STATE_BITS 3
#define STATE_MASK ((1U << STATE_BITS) - 1)

struct run_watch {
    _Alignas(CACHE_LINE) _Atomic uint64_t word; /* number of the run << STATE_BITS | enum watch_state */
    /* limit and model of the run, written before the run begins */
    _Atomic int64_t limit_ns;
    _Atomic(struct engine_model *) model;
};

static enum watch_state state_of(uint64_t word) {
    return (enum watch_state)(word & STATE_MASK);
}

static uint64_t with_state(uint64_t word, enum watch_state state) {
    return (word & ~(uint64_t)STATE_MASK) | state;
}

static bool word_change(struct run_watch *watch, uint64_t *from, enum watch_state to) {
    /* release and acquire: the executor's state is handed over, too */
    return atomic_compare_exchange_strong_explicit(&watch->word, from, with_state(*from, to), memory_order_acq_rel,
                                                   memory_order_acquire);
}

static struct run_watch *watch_new(void) {
    struct run_watch *watch = aligned_alloc(CACHE_LINE, sizeof(*watch));
    if (watch)
        memset(watch, 0, sizeof(*watch));
    return watch;
}

int run_watch_init(struct executor *x) {
    x->watch = watch_new();
    return x->watch ? 0 : -ENOMEM;
}

void run_watch_destroy(struct executor *x) {
    free(x->watch);
    free(x->lost);
}

/* ---- the thread that runs ---- */

int64_t run_limit(const struct executor *x, struct place_id place, uint32_t items, float work) {
    const struct profile *profile = x->config.profiles[place.n];
    int64_t least_ns = x->config.run_limit_ns ? x->config.run_limit_ns : RUN_LIMIT_NS;

    if (!profile)
        return least_ns;
    uint32_t known = items <= profile->batch_max ? items : profile->batch_max;
    double expected_ns = (double)profile->latency_ns[known] * (work > 1 ? (double)work : 1);
    return expected_ns * RUN_TIMES_MOST > (double)least_ns ? (int64_t)(expected_ns * RUN_TIMES_MOST) : least_ns;
}

struct run_watch *run_begin(struct executor *x, struct engine_model *model, int64_t limit_ns) {
    struct run_watch *watch = x->watch;
    uint64_t word = atomic_load_explicit(&watch->word, memory_order_relaxed); /* while idle, only this thread writes */

    atomic_store_explicit(&watch->limit_ns, limit_ns, memory_order_relaxed);
    atomic_store_explicit(&watch->model, model, memory_order_relaxed);
    /* release: the thread that takes over sees all changes of the executor */
    atomic_store_explicit(&watch->word, with_state(word + (1U << STATE_BITS), WATCH_RUNNING), memory_order_release);
    return watch;
}

enum run_end run_over(struct run_watch *watch, const struct engine_ops *engine, struct engine_model *model) {
    uint64_t word = atomic_load_explicit(&watch->word, memory_order_relaxed); /* the exchange verifies it */

    for (;;) {
        switch (state_of(word)) {
        case WATCH_RUNNING:
            if (word_change(watch, &word, WATCH_IDLE))
                return RUN_ENDED;
            break;
        case WATCH_STOPPING: /* short: stop() only sets a flag */
            sched_yield();
            word = atomic_load_explicit(&watch->word, memory_order_acquire); /* with run_stop() */
            break;
        case WATCH_STOPPED:
            if (!word_change(watch, &word, WATCH_IDLE))
                break;
            engine->go_on(model);
            return RUN_STOPPED;
        default:
            CHECK_EQ(state_of(word), WATCH_LOST);
            return RUN_LOST;
        }
    }
}

void run_back(struct run_watch *watch) {
    uint64_t word = atomic_load_explicit(&watch->word, memory_order_relaxed); /* nobody else changes it any more */

    /* release: with run_is_back() */
    atomic_store_explicit(&watch->word, with_state(word, WATCH_BACK), memory_order_release);
}

bool run_is_back(const struct run_watch *watch) {
    /* acquire: all that the run did comes before any further use of the engine */
    return state_of(atomic_load_explicit(&watch->word, memory_order_acquire)) == WATCH_BACK;
}

/* ---- the substitute thread ---- */

static void *stand_in_main(void *argument) {
    struct executor *x = argument;

    thread_begin("executor", x->config.index, x->config.shared ? THREAD_SHARED : THREAD_COMPUTE);
    engine_lose(x, x->config.first_accelerator, "a run does not come back");
    batch_abandon(x);
    executor_serve(x);
    return NULL;
}

/* Starts the substitute thread on the cores of the lost one. */
static int stand_in_start(struct executor *x) {
    pthread_attr_t attributes;
    cpu_set_t cores;
    pthread_t thread;
    int rc = -pthread_attr_init(&attributes);

    if (rc < 0)
        return rc;
    if (pthread_getaffinity_np(x->lost_thread, sizeof(cores), &cores) == 0)
        pthread_attr_setaffinity_np(&attributes, sizeof(cores), &cores);
    rc = -pthread_create(&thread, &attributes, stand_in_main, x);
    pthread_attr_destroy(&attributes);
    if (rc == 0)
        x->thread = thread;
    return rc;
}

/* ---- the thread that watches ---- */

static void take_over(struct executor *x) {
    if (atomic_load_explicit(&x->lent, memory_order_relaxed)) { /* with lent_turn(), seconds ago */
        log_error("a run does not come back, and ends the process", "accelerator=%u", x->config.first_accelerator);
        log_drain(LOG_DRAIN_MS);
        _exit(EXIT_FAILURE); /* the thread that hangs has the link's work, too; the parent starts another process */
    }
    struct run_watch *watch = x->watching.vacant ? NULL : watch_new();

    if (!x->watching.vacant) {
        CHECK(watch); /* out of memory: there is nothing sensible to do */
        CHECK(!x->lost);
        x->lost = x->watch;
        x->lost_thread = x->thread;
        x->watch = watch;
    }
    x->watching.vacant = stand_in_start(x) < 0; /* tried again the next time */
}

/* Tells the run to end, if it has not ended meanwhile. */
static void run_stop(struct executor *x, uint64_t word) {
    struct engine_model *model = atomic_load_explicit(&x->watch->model, memory_order_relaxed);

    if (!word_change(x->watch, &word, WATCH_STOPPING))
        return;
    x->config.engine->stop(model); /* run_over() waits for this, so the model stays */
    /* release: with run_over() */
    atomic_store_explicit(&x->watch->word, with_state(word, WATCH_STOPPED), memory_order_release);
    log_warn("a run takes too long, and is told to end", "accelerator=%u", x->config.first_accelerator);
}

void executor_watch(struct executor *x, int64_t now_ns, bool ending) {
    if (!x->watch)
        return;
    if (x->watching.vacant)
        take_over(x);
    uint64_t word = atomic_load_explicit(&x->watch->word, memory_order_acquire); /* with run_begin() */
    enum watch_state state = state_of(word);
    int64_t passed_ns = now_ns - x->watching.looked_ns;

    x->watching.looked_ns = now_ns;
    if (word != x->watching.word) {
        x->watching.word = word;
        x->watching.waited_ns = 0;
    } else {
        x->watching.waited_ns += passed_ns < LOOK_NS_MOST ? passed_ns : LOOK_NS_MOST;
    }
    /* relaxed: if a later run has changed the limit, the word has changed, too */
    int64_t limit_ns = atomic_load_explicit(&x->watch->limit_ns, memory_order_relaxed);
    if (ending && limit_ns > RUN_STOP_NS)
        limit_ns = RUN_STOP_NS;
    if (state == WATCH_STOPPED)
        limit_ns = ending ? ENDING_STOP_NS : RUN_STOP_NS;
    if (state == WATCH_IDLE || x->watching.waited_ns < limit_ns)
        return;
    if (state == WATCH_RUNNING && x->config.engine->stop)
        run_stop(x, word);
    else if (word_change(x->watch, &word, WATCH_LOST))
        take_over(x);
}
