/* repository_start.c - the models of the start: in two passes, since profiles that are to be measured take long. */
#include "server/models/repository_control_state.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/system/log.h"
#include "model/config/model_override.h"
#include "model/repository/start_progress.h"
#include "server/models/ensembles.h"

#define LOG_EACH_MAX    100            /* models of the start that are each logged when they serve */
#define SAID_NS         (5 * NS_PER_S) /* time between two lines about the start, where there are more */
#define PIECE_PREPARING (128 << 10)    /* bytes from which on memory is a piece of its own: while models are prepared */
#define PIECE_SERVING   (32 << 20)     /* and afterwards, the most that glibc allows */
#define FOLLOW_NS       (200 * NS_PER_MS) /* time between two looks at what the parent has measured, */
#define FOLLOW_SHARE    4                 /* and so many times as long as a look takes */
#define RECENT          10                /* models over which the time that the others will take is averaged */

void progress_tell(struct repository_thread *t, uint32_t awaited, int64_t left_ns) {
    struct start_progress *p = &t->readiness->start;
    int64_t left_s = (left_ns + NS_PER_S - 1) / NS_PER_S;
    atomic_store_explicit(&p->all, t->start.all, memory_order_relaxed); /* with start_progress_words(), as the others */
    atomic_store_explicit(&p->profiles, t->pass == PASS_MEASURE, memory_order_relaxed);
    atomic_store_explicit(&p->left_s, (uint32_t)left_s, memory_order_relaxed);
    atomic_store_explicit(&p->awaited, awaited, memory_order_relaxed);
}

/* ---- the start ---- */

static void start_aside(struct repository_thread *t, uint32_t place, const char *reason) {
    model_slot_set_aside(&t->slots, place, reason);
    t->start.awaited--;
    t->start.set_aside++;
}

/* Logs a model of the start that serves; of many models, now and then how many. */
static void start_log(struct repository_thread *t, uint32_t place) {
    const struct served_model *m = &t->slots.list->models[place];
    const struct profile *profile = NULL; /* on the first type that runs it */
    uint32_t all = t->control.start_count;
    if (all > LOG_EACH_MAX) {
        if (clock_now_ns() < t->start.said_ns)
            return;
        t->start.said_ns = clock_now_ns() + SAID_NS;
        char words[START_PROGRESS_WORDS];
        start_progress_words(&t->readiness->start, words);
        log_info("models are being prepared", "ready=%u set_aside=%u of=%u now=\"%s\"", t->slots.life->serving,
                 t->start.set_aside, all, words);
        return;
    }
    for (uint32_t type = 0; type < t->slots.executors->type_count && !profile; type++)
        profile = t->slots.executors->types[type].profiles[place];
    if (m->ensemble)
        ensemble_log(m);
    else
        log_info("model", "model=%s version=%u slo_ms=%.6g max_batch=%u l1_ms=%.3f best_batch=%u%s%s", m->name,
                 m->version, (double)m->slo_ns / 1e6, m->batch_max, (double)profile->latency_ns[1] / 1e6,
                 profile_batch_best(profile), m->signature.batched ? "" : " batched=no",
                 m->slo_chosen ? " slo=chosen" : "");
}

/* Loads the versions of one name, `count` from place `first` on, and serves those that can be, all at once: a client
 * that names no version is answered by the highest one from the beginning. False: one is to be measured first. */
static bool versions_start(struct repository_thread *t, uint32_t first, uint32_t count) {
    bool measure = false;
    for (uint32_t i = first; i < first + count && !is_stopped(t); i++) {
        struct sy_error err;
        if (model_life_state(t->slots.life, i) != LIFE_PREPARING || t->start.filled[i])
            continue;
        t->start.current = i;
        int rc = model_slot_fill(&t->slots, i, &err);
        t->start.filled[i] = rc == 0;
        measure |= rc == -EAGAIN;
        if (rc && rc != -EAGAIN && rc != -EINTR)
            start_aside(t, i, err.text);
    }
    t->start.current = LIFE_NONE;
    for (uint32_t i = first; i < first + count && !measure && !is_stopped(t); i++) {
        if (!t->start.filled[i])
            continue;
        model_slot_enter(&t->slots, i);
        t->start.filled[i] = false;
        t->start.awaited--;
        start_log(t, i);
    }
    return !measure;
}

void start_measures(void *thread, const struct profile_progress *progress) {
    struct repository_thread *t = thread;
    bool begins = t->start.measured != progress->model;
    t->start.measured = progress->model;
    if (!begins || t->pass != PASS_MEASURE)
        return;
    if (t->control.start_count <= LOG_EACH_MAX)
        log_info("model is being measured", "model=%s", progress->model);
    known_publish_due(t, true);
}

/* Preparing a model takes some large pieces of memory for a moment. As glibc has it by itself, their pages then become
 * the arena of the model's session, a mebibyte of which little is used, and stay resident: of 400 small models 264 MiB.
 * With pieces of their own that go back at once it is 141. Serving is served as glibc does after a large piece was
 * freed. */
void pass_begin(struct repository_thread *t, enum pass pass) {
    t->pass = pass;
    mallopt(M_MMAP_THRESHOLD, pass == PASS_NONE ? PIECE_SERVING : PIECE_PREPARING);
    mallopt(M_TRIM_THRESHOLD, 2 * PIECE_SERVING);
    for (uint32_t type = 0; type < ACCELERATOR_TYPES_MAX; type++) {
        t->control.how[type].cached = pass == PASS_CACHED;
        t->control.how[type].missed = pass == PASS_MEASURE;
        t->control.how[type].follows = t->running;
    }
}

/* Goes over all models of the start that are not served yet, ensembles or the others, name by name. */
static void start_pass(struct repository_thread *t, bool ensembles) {
    const struct served_model *models = t->slots.list->models;
    uint32_t all = t->control.start_count, count, done = 0, todo = t->start.deferred;
    double mean_ns = 0; /* what a name has taken; the last ones count most, since models of one graph are quick */
    for (uint32_t i = 0; i < all && !is_stopped(t); i += count) {
        int64_t began_ns = clock_now_ns();
        bool waits = false;
        for (count = 1; i + count < all && strcmp(models[i + count].name, models[i].name) == 0;)
            count++;
        for (uint32_t v = i; v < i + count; v++)
            waits |= model_life_state(t->slots.life, v) == LIFE_PREPARING && (models[v].ensemble != NULL) == ensembles;
        if (!waits)
            continue;
        progress_tell(t, t->start.awaited, done && todo > done ? (int64_t)(mean_ns * (todo - done)) : 0);
        t->start.current = i;
        known_publish_due(t, false);
        if (!versions_start(t, i, count))
            t->start.deferred++;
        double took_ns = (double)(clock_now_ns() - began_ns);
        mean_ns = done++ ? mean_ns + (took_ns - mean_ns) / RECENT : took_ns;
    }
    known_publish_due(t, true);
}

/* Serves the models of the start, where models come and go. */
static void start_known(struct repository_thread *t) {
    static const struct model_override nothing;
    bool all = t->control.mode == CONTROL_POLL || (t->control.name_count == 1 && strcmp(t->control.names[0], "*") == 0);
    known_look(t);
    for (uint32_t i = 0; i < t->known_count; i++) {
        bool wanted = all;
        for (uint32_t n = 0; n < t->control.name_count && !wanted; n++)
            wanted = strcmp(t->known[i].name, t->control.names[n]) == 0;
        if (!wanted)
            continue;
        t->known[i].state = MODEL_LOADING;
        strcpy(t->known[i].reason, WAITS);
    }
    t->start.all = known_awaited(t);
    known_publish(t);
    if (t->control.mode == CONTROL_POLL) {
        known_follow(t);
        pass_begin(t, PASS_MEASURE);
        known_follow(t);
        return;
    }
    uint32_t count = all ? t->known_count : t->control.name_count;
    bool *done = calloc(count + 1, sizeof(*done)); /* without memory there is one pass, which measures */
    for (int pass = done ? PASS_CACHED : PASS_MEASURE; pass <= PASS_MEASURE; pass++) {
        pass_begin(t, (enum pass)pass);
        for (uint32_t i = 0; i < count && !is_stopped(t); i++) {
            struct sy_error err;
            char name[MODEL_NAME_MAX];
            if (done && done[i])
                continue;
            progress_tell(t, known_awaited(t), 0);
            snprintf(name, sizeof(name), "%s", all ? t->known[i].name : t->control.names[i]);
            bool waits = known_load(t, name, &nothing, NULL, &err) == TO_MEASURE;
            if (done)
                done[i] = !waits;
        }
    }
    free(done);
}

/* Serves what the parent has measured since, again and again, until it measures no more. */
static void start_follow(struct repository_thread *t) {
    const struct served_model *models = t->slots.list->models;
    for (bool last = false; t->start.deferred && !last && !is_stopped(t);) {
        int64_t began_ns = clock_now_ns();
        last = atomic_load_explicit(&t->running->profiled, memory_order_acquire); /* with profiler_take() */
        t->start.deferred = 0;
        start_pass(t, false);
        if (last || !t->start.deferred)
            continue;
        int64_t nap_ns = FOLLOW_NS + FOLLOW_SHARE * (clock_now_ns() - began_ns);
        doorbell_arm(&t->desk->bell);
        if (is_stopped(t))
            doorbell_cancel(&t->desk->bell);
        else
            doorbell_sleep(&t->desk->bell, began_ns + nap_ns);
    }
    t->start.deferred = 0;
    for (uint32_t i = 0; i < t->control.start_count && !is_stopped(t); i++)
        if (!models[i].ensemble && model_life_state(t->slots.life, i) == LIFE_PREPARING)
            start_aside(t, i, "it could not be measured");
}

/* Serves the models of the start, where models neither come nor go, and last ensembles, whose steps' models are
 * needed. */
static void start_listed(struct repository_thread *t) {
    struct start *s = &t->start;
    const struct served_model *models = t->slots.list->models;
    s->all = t->control.start_count;
    s->current = LIFE_NONE;
    s->filled = calloc(t->control.start_count + 1, sizeof(*s->filled));
    for (uint32_t i = 0; i < t->control.start_count; i++) {
        bool waits = model_life_state(t->slots.life, i) == LIFE_PREPARING;
        if (waits && !s->filled)
            model_slot_set_aside(&t->slots, i, "out of memory");
        else if (!waits)
            log_error("model set aside", "model=%s reason=\"%s\"", models[i].name, models[i].reason);
        s->awaited += waits && s->filled;
    }
    s->set_aside = t->control.start_count - s->awaited;
    start_pass(t, false);
    if (t->running)
        start_follow(t);
    pass_begin(t, PASS_MEASURE);
    if (s->deferred)
        start_pass(t, false);
    s->deferred = 0;
    pass_begin(t, PASS_CACHED); /* ensembles are not measured */
    start_pass(t, true);
    for (uint32_t type = 0; type < ACCELERATOR_TYPES_MAX; type++)
        twins_free(&t->twins[type]); /* no other model comes */
    free(s->filled);
    s->filled = NULL;
    malloc_trim(0); /* memory that only the loading needed */
}

void start_serve(struct repository_thread *t) {
    if (t->control.mode == CONTROL_NONE)
        start_listed(t);
    else
        start_known(t);
}
