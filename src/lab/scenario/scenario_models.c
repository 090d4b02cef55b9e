/* scenario_models.c - the section `models` of a scenario: published models and the file's own, and their latencies. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/residency.h"
#include "core/data/shared.h"
#include "core/data/zoo.h"
#include "core/util/array.h"
#include "core/util/decimal.h"
#include "core/util/time.h"
#include "lab/scenario/scenario_sections.h"
#include "model/config/model_name.h"

#define WEIGHTS_MB_MAX   1e7
#define MB               1e6 /* bytes of an MB in the published tables */
#define MS_EXPECTED      "a number of milliseconds"
#define WEIGHTS_EXPECTED "a number of megabytes"
#define WEIGHT_EXPECTED  "how much a model's share weighs beside the others'"

/* ---- latencies ---- */

static void latency_table(const struct scenario_latency *l, uint32_t batch_max, struct profile *profile) {
    if (l->points)
        profile_set_points(profile, batch_max, l->batch, l->latency_ns, l->points); /* checked when read */
    else
        profile_set_line(profile, batch_max, l->alpha_ns, l->beta_ns);
}

/* A profile of any size, for the stack. */
union table {
    struct profile profile;
    char bytes[sizeof(struct profile) + (PROFILE_BATCH_MAX + 2) * sizeof(int64_t)];
};

void scenario_variants(const struct scenario_model *model, uint32_t type, uint32_t batch_max, struct profile *prefix,
                       struct profile *suffix) {
    latency_table(&model->latency[type], batch_max, prefix);
    latency_table(&model->suffix[type], batch_max, suffix);
}

void scenario_profile(const struct scenario_model *model, uint32_t type, uint32_t batch_max, struct profile *profile) {
    if (!model->variants) {
        latency_table(&model->latency[type], batch_max, profile);
        return;
    }
    union table prefix, suffix;
    scenario_variants(model, type, batch_max, &prefix.profile, &suffix.profile);
    struct shared_suffixes suffixes = {&suffix.profile, model->variants};
    shared_profile_set(profile, batch_max, &prefix.profile, &suffixes, 1);
}

const struct scenario_model *scenario_with_variants(const struct scenario *scenario) {
    for (uint32_t m = 0; m < scenario->model_count; m++)
        if (scenario->models[m].variants)
            return &scenario->models[m];
    return NULL;
}

/* l(1) on the fastest type, and the greatest batch within `time_ns` on the type where that is greatest. */
static int limits_find(const struct scenario *s, const struct scenario_model *model, int64_t time_ns,
                       int64_t *fastest_ns, uint32_t *batch_max) {
    struct profile *profile = malloc(profile_bytes(PROFILE_BATCH_MAX));
    if (!profile)
        return -ENOMEM;
    *fastest_ns = INT64_MAX;
    *batch_max = 1;
    for (uint32_t t = 0; t < s->type_count; t++) {
        scenario_profile(model, t, PROFILE_BATCH_MAX, profile);
        if (profile->latency_ns[1] < *fastest_ns)
            *fastest_ns = profile->latency_ns[1];
        while (*batch_max < PROFILE_BATCH_MAX && profile->latency_ns[*batch_max + 1] <= time_ns)
            (*batch_max)++;
    }
    free(profile);
    return 0;
}

uint32_t scenario_batch_max(const struct scenario *s, const struct scenario_model *model, int64_t time_ns) {
    int64_t fastest_ns;
    uint32_t batch_max;
    return limits_find(s, model, time_ns, &fastest_ns, &batch_max) ? 0 : batch_max;
}

/* ---- what a model is ---- */

/* Keys that zoo choices and own models share. */
struct model_keys {
    int64_t copies, slo_ns, load_ns; /* not given: copies and slo_ns 0, load_ns -1 */
    int64_t batch_max;               /* most items of a batch; 0: not given */
    double weights_mb;               /* MB of weights; -1: not given */
    double weight;
    bool pinned;
    double best_effort;
    const struct conf_node *priorities; /* NULL: not given */
};

#define MODEL_KEYS(type_)                                                                                              \
    CONF_KEY_INT(type_, common.copies, "copies", 1, SCENARIO_MODELS_MAX, "a number of copies"),                        \
        CONF_KEY_TIME(type_, common.slo_ns, "slo_ms", NS_PER_MS, 0.001, SLO_MS_MAX, MS_EXPECTED),                      \
        CONF_KEY_INT(type_, common.batch_max, "batch_max", 1, PROFILE_BATCH_MAX, "a number of items"),                 \
        CONF_KEY_DOUBLE(type_, common.weights_mb, "weights_mb", 0, WEIGHTS_MB_MAX, WEIGHTS_EXPECTED),                  \
        CONF_KEY_TIME(type_, common.load_ns, "load_ms", NS_PER_MS, 0, SLO_MS_MAX, MS_EXPECTED),                        \
        CONF_KEY_BOOL(type_, common.pinned, "pinned"),                                                                 \
        CONF_KEY_DOUBLE(type_, common.weight, "weight", MODEL_WEIGHT_LEAST, MODEL_WEIGHT_MOST, WEIGHT_EXPECTED),       \
        CONF_KEY_DOUBLE(type_, common.best_effort, "best_effort", 0, 1, "a share of the requests, 0 to 1"),            \
        CONF_KEY_NODE(type_, common.priorities, "priorities")

static const struct model_keys model_keys_absent = {.copies = 1, .load_ns = -1, .weights_mb = -1, .weight = 1};

/* Makes room for one more model; NULL after an error. */
static struct scenario_model *model_new(struct scenario *s, const struct conf_node *node, struct sy_error *err) {
    if (s->model_count == SCENARIO_MODELS_MAX) {
        conf_error(node, err, "more than %d models", SCENARIO_MODELS_MAX);
        return NULL;
    }
    struct scenario_model *grown = array_room(s->models, s->model_count, sizeof(*grown));
    if (!grown) {
        conf_error(node, err, "out of memory");
        return NULL;
    }
    s->models = grown;
    return &s->models[s->model_count++];
}

/* Checks a model and adds its copies. */
static int copies_add(struct scenario *s, const struct conf_node *node, struct scenario_model *model, int64_t copies,
                      struct sy_error *err) {
    int64_t fastest_ns;
    if (!model_name_is_valid(model->name))
        return conf_error(node, err, "'%.60s' will not do as a model's name (expected " MODEL_NAME_EXPECTED ")",
                          model->name);
    model->own_slo = model->slo_ns;
    uint32_t batch_max;
    if (limits_find(s, model, model->slo_ns, &fastest_ns, &batch_max))
        return conf_error(node, err, "out of memory");
    model->batch_max = model->own_batch_max ? model->batch_max : batch_max;
    if (model->own_slo && fastest_ns > model->slo_ns)
        return conf_error(node, err, "'%s' cannot meet its SLO of %.10g ms: one request alone takes %.10g ms",
                          model->name, (double)model->slo_ns / 1e6, (double)fastest_ns / 1e6);
    for (int64_t i = 1; i <= copies; i++) {
        struct scenario_model *copy = model_new(s, node, err);
        if (!copy)
            return -EINVAL;
        *copy = *model;
        int length = copies == 1 ? 0 : snprintf(copy->name, sizeof(copy->name), "%s-%lld", model->name, (long long)i);
        if ((size_t)length >= sizeof(copy->name))
            return conf_error(node, err, "the names of the copies are too long");
    }
    return 0;
}

/* Reads the keys about a model's batches, and about the classes of its requests. */
static int classes_read(struct scenario_model *model, const struct model_keys *keys, struct sy_error *err) {
    const struct conf_node *list = keys->priorities;
    double sum = 0;
    model->best_effort = keys->best_effort;
    model->batch_max = (uint32_t)keys->batch_max;
    model->own_batch_max = keys->batch_max > 0;
    if (!list)
        return 0;
    if (list->kind != CONF_LIST || list->count < 1 || list->count > PRIORITIES_MAX)
        return conf_error(list, err, "expected a list of the shares of 1 to %d priorities, the highest first",
                          PRIORITIES_MAX);
    for (const struct conf_node *item = list->first; item; item = item->next) {
        double *share = &model->priorities[model->priority_count++];
        int rc = conf_get_double(item, 0, 1e12, "a share: any unit, only their ratios matter", share, err);
        if (rc)
            return rc;
        sum += *share;
    }
    for (uint32_t i = 0; i < model->priority_count && sum > 0; i++)
        model->priorities[i] /= sum;
    return sum > 0 ? 0 : conf_error(list, err, "the shares add up to nothing");
}

static void weights_set(struct scenario_model *model, const struct model_keys *keys, double known_mb, double known_ms) {
    model->weights_bytes = (uint64_t)llround((keys->weights_mb < 0 ? known_mb : keys->weights_mb) * MB);
    model->load_ns = keys->load_ns < 0 && known_ms > 0 ? llround(known_ms * NS_PER_MS) : keys->load_ns;
}

/* Once all weights are known: without a time to load them, it is that over the link. */
static void load_set(const struct scenario *s, struct scenario_model *model) {
    if (model->load_ns < 0)
        model->load_ns = residency_link_ns(model->weights_bytes, s->link_bytes_s);
}

/* ---- {zoo: gtx1080ti, select: all} ---- */

struct zoo_choice {
    char name[64], select[16];
    const struct zoo *zoo;
    const struct conf_node *names;
    struct model_keys common;
};

static const struct conf_key zoo_keys[] = {
    CONF_KEY_TEXT(struct zoo_choice, name, "zoo", ZOO_NAMES),
    CONF_KEY_TEXT(struct zoo_choice, select, "select", "all, gt2 or lt2"),
    CONF_KEY_NODE(struct zoo_choice, names, "names"),
    MODEL_KEYS(struct zoo_choice),
    CONF_KEYS_END,
};

/* The entry that says how long a zoo's model takes on a type: the type's own if the zoo's source has measured it there;
 * on a cluster of one type that it has not, that of the zoo. */
static const struct zoo_entry *zoo_entry_on(const struct scenario *s, uint32_t type, const struct zoo_entry *entry) {
    const char *source = zoo_type_source(s->types[type].name);
    if (source && strcmp(source, entry->source) == 0)
        return zoo_find(entry->model, s->types[type].name);
    return s->type_count == 1 ? entry : NULL;
}

static int zoo_add(struct scenario *s, const struct conf_node *node, const struct zoo_entry *entry,
                   const struct zoo_choice *choice, struct sy_error *err) {
    struct scenario_model model = {
        .slo_ns = choice->common.slo_ns, .weight = choice->common.weight, .pinned = choice->common.pinned};
    snprintf(model.name, sizeof(model.name), "%s", entry->model);
    if (!model.slo_ns)
        model.slo_ns = llround(entry->slo_ms * NS_PER_MS);
    if (!model.slo_ns && !s->pipeline_count)
        return conf_error(node, err, "'slo_ms' is missing: the zoo '%s' has no SLOs", choice->zoo->name);
    weights_set(&model, &choice->common, entry->weights_mb, entry->load_ms);
    load_set(s, &model);
    int rc = classes_read(&model, &choice->common, err);
    if (rc)
        return rc;
    for (uint32_t t = 0; t < s->type_count; t++) {
        const struct zoo_entry *on = zoo_entry_on(s, t, entry);
        if (!on)
            return conf_error(node, err, "the zoo has no profile of '%s' on '%s'", entry->model, s->types[t].name);
        model.latency[t] = (struct scenario_latency){
            .alpha_ns = on->alpha_ms * NS_PER_MS,
            .beta_ns = on->beta_ms * NS_PER_MS,
            .points = on->points,
            .batch = on->batch,
            .latency_ns = on->latency_ns,
        };
    }
    return copies_add(s, node, &model, choice->common.copies, err);
}

static int zoo_names_read(struct scenario *s, const struct zoo_choice *choice, struct sy_error *err) {
    if (choice->names->kind != CONF_LIST || !choice->names->count)
        return conf_error(choice->names, err, "expected a list of the zoo's models");
    for (const struct conf_node *item = choice->names->first; item; item = item->next) {
        char name[MODEL_NAME_MAX];
        int rc = conf_get_text(item, name, sizeof(name), "the name of a model", err);
        if (rc)
            return rc;
        const struct zoo_entry *entry = zoo_find(name, choice->zoo->type);
        rc = entry ? zoo_add(s, item, entry, choice, err)
                   : conf_error(item, err, "the zoo has no '%.60s' on '%s'", name, choice->zoo->type);
        if (rc)
            return rc;
    }
    return 0;
}

static int zoo_select_read(struct scenario *s, const struct conf_node *node, const struct zoo_choice *choice,
                           struct sy_error *err) {
    const struct conf_node *select = conf_find(node, "select");
    enum zoo_set set = strcmp(choice->select, "gt2") == 0 ? ZOO_GT2 : ZOO_LT2;
    if (strcmp(choice->select, "all") == 0)
        set = ZOO_ALL;
    else if (set == ZOO_LT2 && strcmp(choice->select, "lt2") != 0)
        return conf_error(select, err, "'%s' is not one of all, gt2, lt2", choice->select);
    if (set != ZOO_ALL && strcmp(choice->zoo->source, "symphony") != 0)
        return conf_error(select, err, "the models of '%s' have tables, not lines, so there is no beta/alpha",
                          choice->zoo->name);
    for (const struct zoo_entry *entry = zoo_entries; entry->model; entry++) {
        int rc = zoo_entry_in(entry, choice->zoo->type, set) ? zoo_add(s, node, entry, choice, err) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

static int zoo_read(struct scenario *s, const struct conf_node *node, struct sy_error *err) {
    struct zoo_choice choice = {.select = "all", .common = model_keys_absent};
    int rc = conf_read_map(node, zoo_keys, &choice, err);
    if (rc)
        return rc;
    if (!choice.name[0])
        return conf_error(node, err, "'zoo' is missing (" ZOO_NAMES "); models of your own are a list");
    choice.zoo = zoo_named(choice.name);
    if (!choice.zoo)
        return conf_error(conf_find(node, "zoo"), err, "there is no zoo '%s' (expected " ZOO_NAMES ")", choice.name);
    if (choice.names && conf_find(node, "select"))
        return conf_error(choice.names, err, "'names' and 'select' exclude each other");
    return choice.names ? zoo_names_read(s, &choice, err) : zoo_select_read(s, node, &choice, err);
}

/* ---- {name: R50, alpha_ms: 1.053, beta_ms: 5.072, slo_ms: 25, types: {a100: {latency_ms: {1: 2, 8: 6.5}}}} ---- */

struct latency_keys {
    double alpha_ms, beta_ms; /* line of latencies; -1: not given */
    const struct conf_node *table;
};

#define LATENCY_KEYS(type_, member)                                                                                    \
    CONF_KEY_DOUBLE(type_, member alpha_ms, "alpha_ms", 0, SLO_MS_MAX, MS_EXPECTED),                                   \
        CONF_KEY_DOUBLE(type_, member beta_ms, "beta_ms", 0, SLO_MS_MAX, MS_EXPECTED),                                 \
        CONF_KEY_NODE(type_, member table, "latency_ms")

static const struct latency_keys latency_keys_absent = {-1, -1, NULL};

static const struct conf_key latency_keys[] = {
    LATENCY_KEYS(struct latency_keys, ),
    CONF_KEYS_END,
};

struct own_model {
    char name[MODEL_NAME_MAX];
    struct latency_keys latency;
    const struct conf_node *types, *suffix;
    int64_t variants; /* number of variants; 0: not given */
    double suffix_weights_mb;
    bool shared;
    struct model_keys common;
};

static const struct conf_key own_keys[] = {
    CONF_KEY_TEXT(struct own_model, name, "name", "a model's name"),
    LATENCY_KEYS(struct own_model, latency.),
    MODEL_KEYS(struct own_model),
    CONF_KEY_NODE(struct own_model, types, "types"),
    CONF_KEY_INT(struct own_model, variants, "variants", 1, SHARED_MODELS_MAX, "a number of models"),
    CONF_KEY_NODE(struct own_model, suffix, "suffix"),
    CONF_KEY_DOUBLE(struct own_model, suffix_weights_mb, "suffix_weights_mb", 0, WEIGHTS_MB_MAX, WEIGHTS_EXPECTED),
    CONF_KEY_BOOL(struct own_model, shared, "shared"),
    CONF_KEYS_END,
};

/* The latency of a suffix: the same on all types, or by type. */
struct suffix_keys {
    struct latency_keys latency;
    const struct conf_node *types;
};

static const struct conf_key suffix_keys[] = {
    LATENCY_KEYS(struct suffix_keys, latency.),
    CONF_KEY_NODE(struct suffix_keys, types, "types"),
    CONF_KEYS_END,
};

/* A row of a table: `8: 6.5` of a mapping or `[8, 6.5]` of a list. */
static int point_read(const struct conf_node *row, int64_t *batch, int64_t *latency_ns, struct sy_error *err) {
    const struct conf_node *value = row;
    int rc = 0;
    if (row->key) {
        if (decimal_int(row->key, 1, PROFILE_BATCH_MAX, batch) < 0)
            return conf_error(row, err, "expected a batch size from 1 to %d before the colon", PROFILE_BATCH_MAX);
    } else {
        if (row->kind != CONF_LIST || row->count != 2)
            return conf_error(row, err, "expected [batch size, milliseconds]");
        value = row->last;
        rc = conf_get_int(row->first, 1, PROFILE_BATCH_MAX, "a batch size", batch, err);
    }
    return rc ? rc : conf_get_time(value, NS_PER_MS, 1e-6, SLO_MS_MAX, MS_EXPECTED, latency_ns, err);
}

static int points_read(const struct conf_node *table, struct scenario *s, struct scenario_latency *latency,
                       struct sy_error *err) {
    if (table->kind == CONF_SCALAR || !table->count)
        return conf_error(table, err,
                          "expected a table, {1: 2.6, 2: 4} or [[1, 2.6], [2, 4]]: batch sizes and "
                          "milliseconds");
    struct scenario_points *points = calloc(1, sizeof(*points) + table->count * (sizeof(int64_t) + sizeof(uint32_t)));
    if (!points)
        return conf_error(table, err, "out of memory");
    points->next = s->points;
    s->points = points; /* which frees them */
    uint32_t *batches = (uint32_t *)(points->latency_ns + table->count), count = 0;
    for (const struct conf_node *row = table->first; row; row = row->next) {
        int64_t batch;
        int rc = point_read(row, &batch, &points->latency_ns[count], err);
        if (rc)
            return rc;
        if (count && (uint32_t)batch <= batches[count - 1])
            return conf_error(row, err, "the batch sizes must rise");
        batches[count++] = (uint32_t)batch;
    }
    *latency = (struct scenario_latency){.points = count, .batch = batches, .latency_ns = points->latency_ns};
    return 0;
}

/* Reads a latency from `keys`: a line or a table. */
static int latency_read(const struct conf_node *node, const struct latency_keys *keys, struct scenario *s,
                        struct scenario_latency *latency, struct sy_error *err) {
    if (keys->table && (keys->alpha_ms >= 0 || keys->beta_ms >= 0))
        return conf_error(keys->table, err, "a table excludes alpha_ms and beta_ms");
    if (keys->table)
        return points_read(keys->table, s, latency, err);
    if (keys->alpha_ms < 0 || keys->beta_ms < 0)
        return conf_error(node, err, "'%s' is missing", keys->alpha_ms < 0 ? "alpha_ms" : "beta_ms");
    if (keys->alpha_ms + keys->beta_ms <= 0)
        return conf_error(node, err, "alpha_ms and beta_ms are both 0");
    *latency = (struct scenario_latency){.alpha_ns = keys->alpha_ms * NS_PER_MS, .beta_ns = keys->beta_ms * NS_PER_MS};
    return 0;
}

/* Reads a type's own latency, which replaces that of the model. */
static int own_types_read(struct scenario *s, const struct conf_node *types, struct scenario_latency *latencies,
                          struct sy_error *err) {
    if (types->kind != CONF_MAP)
        return conf_error(types, err, "expected a mapping of accelerator types to {alpha_ms, beta_ms} or {latency_ms}");
    for (const struct conf_node *child = types->first; child; child = child->next) {
        uint32_t t = 0;
        while (t < s->type_count && strcmp(s->types[t].name, child->key) != 0)
            t++;
        if (t == s->type_count)
            return conf_error(child, err, "the cluster has no accelerators of this type");
        struct latency_keys keys = latency_keys_absent;
        int rc = conf_read_map(child, latency_keys, &keys, err);
        if (!rc)
            rc = latency_read(child, &keys, s, &latencies[t], err);
        if (rc)
            return rc;
    }
    return 0;
}

/* Latencies by type. */
static int own_latencies_read(struct scenario *s, const struct conf_node *node, const struct latency_keys *keys,
                              const struct conf_node *types, struct scenario_latency *latencies, struct sy_error *err) {
    struct scenario_latency usual = {.points = 0};
    bool by_type =
        types && !(keys->table || keys->alpha_ms >= 0 || keys->beta_ms >= 0); /* then every type must have its own */
    int rc = by_type ? 0 : latency_read(node, keys, s, &usual, err);
    for (uint32_t t = 0; t < s->type_count; t++)
        latencies[t] = usual;
    if (!rc && types)
        rc = own_types_read(s, types, latencies, err);
    for (uint32_t t = 0; by_type && !rc && t < s->type_count; t++)
        if (!conf_find(types, s->types[t].name))
            rc = conf_error(types, err, "there is no latency on '%s'", s->types[t].name);
    return rc;
}

/* Variants that share their first layers. If the file says not to share them, the variants are models of their own,
 * each a single variant that shares with none; *copies says how many. */
static int variants_read(struct scenario *s, const struct conf_node *node, const struct own_model *own,
                         struct scenario_model *model, int64_t *copies, struct sy_error *err) {
    struct suffix_keys keys = {.latency = latency_keys_absent};
    if (!own->variants) {
        static const char *const others[] = {"suffix", "suffix_weights_mb", "shared"};
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
            if (conf_find(node, others[i]))
                return conf_error(conf_find(node, others[i]), err, "goes with 'variants'");
        return 0;
    }
    if (!own->suffix)
        return conf_error(node, err, "'suffix' is missing: what each of the variants runs of its own");
    if (own->common.copies > 1)
        return conf_error(conf_find(node, "copies"), err, "'copies' and 'variants' exclude each other");
    int rc = conf_read_map(own->suffix, suffix_keys, &keys, err);
    if (!rc)
        rc = own_latencies_read(s, own->suffix, &keys.latency, keys.types, model->suffix, err);
    model->variants = own->shared ? (uint32_t)own->variants : 1;
    model->weights_bytes += model->variants * (uint64_t)llround(own->suffix_weights_mb * MB);
    if (!own->shared)
        *copies = own->variants;
    return rc;
}

static int own_read(struct scenario *s, const struct conf_node *node, struct sy_error *err) {
    struct own_model own = {.latency = latency_keys_absent, .shared = true, .common = model_keys_absent};
    int rc = conf_read_map(node, own_keys, &own, err);
    if (rc)
        return rc;
    struct scenario_model model = {
        .slo_ns = own.common.slo_ns, .weight = own.common.weight, .pinned = own.common.pinned};
    int64_t copies = own.common.copies;
    weights_set(&model, &own.common, 0, 0);
    rc = classes_read(&model, &own.common, err);
    if (!rc)
        rc = own_latencies_read(s, node, &own.latency, own.types, model.latency, err);
    if (!rc)
        rc = variants_read(s, node, &own, &model, &copies, err);
    if (rc)
        return rc;
    load_set(s, &model);
    if (!own.name[0] || (!own.common.slo_ns && !s->pipeline_count))
        return conf_error(node, err, "'%s' is missing", own.name[0] ? "slo_ms" : "name");
    memcpy(model.name, own.name, sizeof(model.name));
    return copies_add(s, node, &model, copies, err);
}

/* ---- the section ---- */

static int name_compare(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int names_check_unique(const struct scenario *s, const struct conf_node *node, struct sy_error *err) {
    const char **names = malloc(s->model_count * sizeof(*names));
    if (!names)
        return conf_error(node, err, "out of memory");
    for (uint32_t i = 0; i < s->model_count; i++)
        names[i] = s->models[i].name;
    qsort(names, s->model_count, sizeof(*names), name_compare);
    int rc = 0;
    for (uint32_t i = 1; !rc && i < s->model_count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            rc = conf_error(node, err, "two models are named '%s'", names[i]);
    free(names);
    return rc;
}

/* Reads the models of one zoo, or a list whose items are models or zoos. */
int scenario_read_models(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    int rc = 0;
    if (node->kind == CONF_SCALAR)
        return conf_error(node, err, "expected {zoo: ...} or a list of models");
    if (node->kind == CONF_MAP)
        rc = zoo_read(s, node, err);
    for (const struct conf_node *item = node->kind == CONF_LIST ? node->first : NULL; item && !rc; item = item->next)
        rc = conf_find(item, "zoo") ? zoo_read(s, item, err) : own_read(s, item, err);
    if (rc)
        return rc;
    return s->model_count ? names_check_unique(s, node, err) : conf_error(node, err, "no models");
}
