/* model_index.c - served models by name, in a table with open addressing. */
#include "model/repository/model_index.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/config/model_name.h"

struct model_absent model_absent_of(const struct served_model *model, enum model_state state, const char *reason) {
    struct model_absent absent = {.version = model->version, .state = state, .failed = state == MODEL_UNAVAILABLE};
    memcpy(absent.name, model->name, sizeof(absent.name));
    snprintf(absent.reason, sizeof(absent.reason), "%s", reason);
    return absent;
}

int model_index_init_listed(struct model_index *index, struct served_model *models, const uint32_t *listed,
                            uint32_t count, struct model_absent *absent, uint32_t absent_count) {
    uint32_t slots = 16;
    while (slots < count * 2)
        slots *= 2;
    *index = (struct model_index){
        .models = models, .count = count, .absent = absent, .absent_count = absent_count, .mask = slots - 1};
    index->slots = calloc(slots, sizeof(*index->slots));
    index->listed = calloc(count + 1, sizeof(*index->listed));
    if (!index->slots || !index->listed)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = index->listed[i] = listed ? listed[i] : i;
        uint32_t slot = model_name_hash(models[number].name, strlen(models[number].name));
        while (index->slots[slot & index->mask] != 0)
            slot++;
        index->slots[slot & index->mask] = number + 1;
    }
    return 0;
}

int model_index_init(struct model_index *index, struct served_model *models, uint32_t count) {
    return model_index_init_listed(index, models, NULL, count, NULL, 0);
}

void model_index_destroy(struct model_index *index) {
    free(index->slots);
    free(index->listed);
    free(index->absent);
    *index = (struct model_index){.models = NULL};
}

static bool name_is(const char *model, const char *name, size_t length) {
    return strlen(model) == length && memcmp(model, name, length) == 0;
}

struct model_versions model_index_versions(const struct model_index *index, const char *name, size_t length) {
    return (struct model_versions){
        .index = index, .name = name, .length = length, .slot = model_name_hash(name, length)};
}

int model_versions_next(struct model_versions *v) {
    const struct model_index *index = v->index;
    while (index->slots[v->slot & index->mask] != 0) {
        uint32_t i = index->slots[v->slot++ & index->mask] - 1;
        if (name_is(index->models[i].name, v->name, v->length))
            return (int)i;
    }
    return -1;
}

bool model_version_precedes(const struct served_model *model, const struct served_model *other) {
    bool ready = served_model_state(model) == MODEL_READY, other_ready = served_model_state(other) == MODEL_READY;
    bool begins = atomic_load_explicit(&model->begins, memory_order_relaxed); /* lone flags */
    bool other_begins = atomic_load_explicit(&other->begins, memory_order_relaxed);
    return ready != other_ready ? ready : begins != other_begins ? other_begins : model->version > other->version;
}

int model_index_number(const struct model_index *index, const char *name, size_t length, uint32_t version) {
    struct model_versions versions = model_index_versions(index, name, length);
    int found = -1;
    for (int i; (i = model_versions_next(&versions)) >= 0;) {
        const struct served_model *model = &index->models[i];
        if (version != 0 && model->version != version)
            continue;
        if (found < 0 || model_version_precedes(model, &index->models[found]))
            found = i;
    }
    return found;
}

uint32_t model_index_turn(const struct model_index *index, uint32_t place) {
    struct served_model *model = &index->models[place];
    if (atomic_load_explicit(&model->share, memory_order_relaxed) == 0) /* a lone number */
        return place;
    struct model_versions versions = model_index_versions(index, model->name, strlen(model->name));
    for (int i; (i = model_versions_next(&versions)) >= 0;) {
        const struct served_model *other = &index->models[i];
        uint64_t share = atomic_load_explicit(&other->share, memory_order_relaxed);
        if (other == model || share == 0 || served_model_state(other) != MODEL_READY)
            continue;
        uint64_t turn = atomic_fetch_add_explicit(&model->turns, 1, memory_order_relaxed); /* only counts */
        return (turn + 1) * share / 10000 > turn * share / 10000 ? (uint32_t)i : place;
    }
    return place;
}

/* Reads a version, a number in digits. 0: the text is no number, or the number is too large. */
static uint32_t version_parse(const char *word, size_t length) {
    uint64_t version = 0;
    for (size_t i = 0; i < length; i++) {
        if (word[i] < '0' || word[i] > '9' || version > UINT32_MAX)
            return 0;
        version = version * 10 + (uint64_t)(word[i] - '0');
    }
    return version > UINT32_MAX ? 0 : (uint32_t)version;
}

/* Triton's words, by which its clients know the mistake. The reason, which Triton does not tell, follows them. */
#define UNKNOWN    "Request for unknown model: "
#define NO_VERSION UNKNOWN "'%s' has no available versions: "

int model_index_find(const struct model_index *index, const char *name, size_t length, const char *version,
                     size_t version_length, struct sy_error *err) {
    uint32_t number = version_length > 0 ? version_parse(version, version_length) : 0;
    int shown = length < MODEL_NAME_MAX ? (int)length : MODEL_NAME_MAX;
    int found = version_length > 0 && number == 0 ? -1 : model_index_number(index, name, length, number);
    if (found >= 0)
        return found;
    for (uint32_t i = 0; i < index->absent_count && length < MODEL_NAME_MAX; i++) {
        const struct model_absent *absent = &index->absent[i];
        if (!name_is(absent->name, name, length) || (number && absent->version && absent->version != number))
            continue;
        if (absent->state == MODEL_LOADING)
            return error_set(err, -503, NO_VERSION "it is still loading%s%.300s", absent->name,
                             *absent->reason ? ": " : "", absent->reason);
        if (absent->failed)
            return error_set(err, -503, NO_VERSION "%.300s", absent->name, absent->reason);
        return error_set(err, -404, NO_VERSION "it is not loaded", absent->name);
    }
    if (index->partial)
        return error_set(err, -503, UNKNOWN "'%.*s' is not found: this frontend has not heard of all models yet", shown,
                         name);
    if (version_length > 0)
        return error_set(err, -404, UNKNOWN "'%.*s' version %.*s is not found", shown, name,
                         version_length < 20 ? (int)version_length : 20, version);
    return error_set(err, -404, UNKNOWN "'%.*s' is not found", shown, name);
}

const char *model_index_name(const struct model_index *index, uint32_t place) {
    for (uint32_t i = 0; i < index->count; i++)
        if (index->listed[i] == place)
            return index->models[place].name;
    return NULL;
}

bool served_model_ready(const struct served_model *model, bool *retry, struct sy_error *err) {
    int state = served_model_state(model);
    *retry = state == MODEL_LOADING;
    if (state == MODEL_LOADING)
        error_set(err, 0, NO_VERSION "it is still loading", model->name);
    else if (state == MODEL_UNAVAILABLE)
        error_set(err, 0, NO_VERSION "%.300s", model->name, model->reason);
    return state == MODEL_READY;
}
