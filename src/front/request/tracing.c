/* tracing.c - trace settings. */
#include "front/request/tracing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/decimal.h"

#define RATE_AT_FIRST 1000 /* Triton's */

static const struct tracing_settings at_first = {.rate = RATE_AT_FIRST, .count = -1};

int tracing_init(struct tracing *t, const char *file, uint32_t model_count) {
    *t = (struct tracing){.file = file, .server = at_first, .model_count = model_count};
    pthread_mutex_init(&t->lock, NULL);
    t->models = calloc(model_count + 1, sizeof(*t->models));
    return t->models ? 0 : -ENOMEM;
}

void tracing_free(struct tracing *t) {
    free(t->models);
    pthread_mutex_destroy(&t->lock);
}

/* ---- settings ---- */

static void field_copy(struct tracing_settings *into, const struct tracing_settings *from, unsigned field) {
    if (field == TRACE_LEVEL)
        into->on = from->on;
    else if (field == TRACE_RATE)
        into->rate = from->rate;
    else if (field == TRACE_COUNT)
        into->count = from->count;
    else
        into->frequency = from->frequency;
}

/* Under the lock. */
static struct tracing_settings settings_of(const struct tracing *t, uint32_t model) {
    struct tracing_settings settings = t->server;
    for (unsigned field = 0; model != TRACING_ALL && field < TRACE_FIELDS; field++)
        if (t->models[model].given & 1 << field)
            field_copy(&settings, &t->models[model].own, field);
    return settings;
}

/* Tells the frontends of a model's settings. `counted`: the number of traces begins anew. Under the lock. */
static void model_tell(struct tracing *t, uint32_t model, bool counted) {
    struct tracing_settings settings = settings_of(t, model);
    struct traced_model *m = &t->models[model];
    if (counted)
        atomic_store_explicit(&m->left, settings.count, memory_order_relaxed); /* a bound, and nothing else */
    atomic_store_explicit(&m->rate, settings.on ? settings.rate : 0, memory_order_relaxed);
}

/* Reads one change into the settings. 0, or a status with a sentence. */
static int change_read(const struct tracing_change *change, bool of_model, struct tracing_settings *into,
                       unsigned *field, struct sy_error *err) {
    static const struct {
        const char *name;
        int64_t least, most;
    } fields[TRACE_FIELDS] = {
        [TRACE_LEVEL] = {.name = "trace_level"},
        [TRACE_RATE] = {"trace_rate", 1, UINT32_MAX},
        [TRACE_COUNT] = {"trace_count", -1, INT64_MAX},
        [TRACE_FREQUENCY] = {"log_frequency", 0, UINT32_MAX},
    };
    unsigned f = 0;
    while (f < TRACE_FIELDS && strcmp(change->name, fields[f].name) != 0)
        f++;
    if (f == TRACE_FIELDS) {
        bool known = strcmp(change->name, "trace_file") == 0 || strcmp(change->name, "trace_mode") == 0;
        return error_set(err, known ? 501 : 400,
                         known ? "'%.64s' is set when the server starts (--trace-file), and not by clients"
                               : "there is no trace setting '%.64s'",
                         change->name);
    }
    if (f == TRACE_FREQUENCY && of_model)
        return error_set(err, 501, "'log_frequency' is the server's, and not a model's: all traces go to one file");
    *field = f;
    if (change->count == 0)
        return 0;
    if (f == TRACE_LEVEL) {
        into->on = false;
        for (size_t i = 0; i < change->count; i++) {
            const char *level = change->values[i];
            if (strcmp(level, "TENSORS") == 0)
                return error_set(err, 501, "'trace_level': TENSORS is not supported, only OFF and TIMESTAMPS");
            if (strcmp(level, "OFF") != 0 && strcmp(level, "TIMESTAMPS") != 0)
                return error_set(err, 400, "'trace_level': expected OFF or TIMESTAMPS, and not '%.64s'", level);
            into->on |= strcmp(level, "OFF") != 0;
        }
        return 0;
    }
    int64_t number;
    if (change->count != 1 || decimal_int(change->values[0], fields[f].least, fields[f].most, &number) < 0)
        return error_set(err, 400, "'%s': expected a whole number from %lld on", fields[f].name,
                         (long long)fields[f].least);
    if (f == TRACE_COUNT)
        into->count = number;
    else if (f == TRACE_RATE)
        into->rate = (uint32_t)number;
    else
        into->frequency = (uint32_t)number;
    return 0;
}

int tracing_change(struct tracing *t, uint32_t model, const struct tracing_change *changes, size_t count,
                   struct sy_error *err) {
    struct tracing_settings wanted[TRACE_FIELDS];
    unsigned fields[TRACE_FIELDS], given = 0;
    if (count > TRACE_FIELDS)
        return error_set(err, 400, "there are not so many trace settings");
    for (size_t i = 0; i < count; i++) {
        int status = change_read(&changes[i], model != TRACING_ALL, &wanted[i], &fields[i], err);
        if (status)
            return status;
        given |= 1u << fields[i];
        if (!t && !(fields[i] == TRACE_LEVEL && (changes[i].count == 0 || !wanted[i].on)))
            return error_set(err, 501, "nothing is traced: the server was started without --trace-file");
    }
    if (!t || count == 0)
        return 0;
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < count; i++) {
        struct tracing_settings *settings = model == TRACING_ALL ? &t->server : &t->models[model].own;
        field_copy(settings, changes[i].count > 0 ? &wanted[i] : &at_first, fields[i]);
        if (model != TRACING_ALL)
            t->models[model].given =
                (uint8_t)((t->models[model].given & ~(1u << fields[i])) | (changes[i].count > 0 ? 1u << fields[i] : 0));
    }
    atomic_store_explicit(&t->frequency, t->server.frequency, memory_order_relaxed);
    /* as with Triton, tracing that is turned on again begins to count anew */
    bool counted = given & (1u << TRACE_COUNT | 1u << TRACE_LEVEL);
    for (uint32_t m = 0; m < t->model_count; m++)
        if (model == TRACING_ALL || model == m)
            model_tell(t, m, counted);
    pthread_mutex_unlock(&t->lock);
    return 0;
}

struct tracing_settings tracing_settings(struct tracing *t, uint32_t model) {
    if (!t)
        return at_first;
    pthread_mutex_lock(&t->lock);
    struct tracing_settings settings = settings_of(t, model);
    pthread_mutex_unlock(&t->lock);
    return settings;
}

void tracing_forget(struct tracing *t, uint32_t model) {
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->models[model].given = 0;
    model_tell(t, model, true);
    pthread_mutex_unlock(&t->lock);
}

/* ---- requests ---- */

bool tracing_takes(struct tracing *t, uint32_t model, uint32_t *skipped) {
    struct traced_model *m = &t->models[model];
    uint32_t rate = atomic_load_explicit(&m->rate, memory_order_relaxed);
    if (rate == 0 || ++*skipped < rate)
        return false;
    *skipped = 0;
    int64_t left = atomic_load_explicit(&m->left, memory_order_relaxed);
    while (left > 0 && !atomic_compare_exchange_weak_explicit(&m->left, &left, left - 1, memory_order_relaxed,
                                                              memory_order_relaxed))
        ;
    return left != 0;
}
