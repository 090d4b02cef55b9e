/* scenario_pipelines.c - the section `pipelines` of a scenario: reads queries of several models, and splits their SLOs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/time.h"
#include "lab/scenario/scenario_sections.h"
#include "model/config/model_name.h"

#define FAN_OUT_MOST     1000.0
#define FAN_OUT_EXPECTED "the items that each item of the stages before comes to"
#define TURNS            1.0 /* split_stage.turns: an item takes the latency of one batch, as in the paper's program */

/* ---- fan-outs ---- */

static int whole_read(const struct conf_node *node, enum fan_out_kind kind, struct fan_out *f, struct sy_error *err) {
    int64_t items;
    int rc = conf_get_int(node, 0, (int64_t)FAN_OUT_MOST, "a whole number of items", &items, err);
    *f = (struct fan_out){.kind = kind, .a = (double)items};
    return rc;
}

static int fan_out_read(const struct conf_node *node, struct fan_out *f, struct sy_error *err) {
    const struct conf_node *fixed = scenario_only(node, "fixed"), *chance = scenario_only(node, "chance"),
                           *uniform = scenario_only(node, "uniform"), *query = scenario_only(node, "query");
    if (fixed || query)
        return whole_read(fixed ? fixed : query, fixed ? FAN_OUT_FIXED : FAN_OUT_QUERY, f, err);
    if (uniform) {
        struct fan_out last;
        if (uniform->kind != CONF_LIST || uniform->count != 2)
            return conf_error(uniform, err, "expected [least, most]");
        int rc = whole_read(uniform->first, FAN_OUT_UNIFORM, f, err);
        rc = rc ? rc : whole_read(uniform->last, FAN_OUT_UNIFORM, &last, err);
        f->b = rc ? 0 : last.a;
        return !rc && f->b < f->a ? conf_error(uniform, err, "expected two numbers, the least and the most") : rc;
    }
    f->kind = chance ? FAN_OUT_CHANCE : FAN_OUT_POISSON;
    if (chance)
        return conf_get_double(chance, 0, 1, "a probability", &f->a, err);
    if (node->kind != CONF_SCALAR)
        return conf_error(node, err,
                          "expected a mean, {fixed: N}, {chance: P}, {uniform: [LEAST, MOST]} or {query: N}");
    return conf_get_double(node, 0, FAN_OUT_MOST, FAN_OUT_EXPECTED, &f->a, err);
}

/* ---- stages ---- */

struct stage_keys {
    char name[MODEL_NAME_MAX], model[MODEL_NAME_MAX];
    const struct conf_node *node, *after, *fan_out;
    bool placed;
};

static const struct conf_key stage_keys[] = {
    CONF_KEY_TEXT(struct stage_keys, name, "name", "a stage's name"),
    CONF_KEY_TEXT(struct stage_keys, model, "model", "a model's name"),
    CONF_KEY_NODE(struct stage_keys, after, "after"),
    CONF_KEY_NODE(struct stage_keys, fan_out, "fan_out"),
    CONF_KEYS_END,
};

static int stage_find(const struct scenario_pipeline *p, const char *name) {
    for (uint32_t v = 0; v < p->graph.stage_count; v++)
        if (strcmp(p->stage_names[v], name) == 0)
            return (int)v;
    return -1;
}

static int model_find(const struct scenario *s, const char *name) {
    for (uint32_t m = 0; m < s->model_count; m++)
        if (strcmp(s->models[m].name, name) == 0)
            return (int)m;
    return -1;
}

static int stage_keys_read(const struct conf_node *node, struct stage_keys *keys, struct sy_error *err) {
    *keys = (struct stage_keys){.node = node};
    int rc = conf_read_map(node, stage_keys, keys, err);
    if (!rc && !keys->model[0])
        return conf_error(node, err, "'model' is missing");
    if (!keys->name[0])
        memcpy(keys->name, keys->model, sizeof(keys->name));
    return rc;
}

static bool is_stage(const struct stage_keys *keys, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(keys[i].name, name) == 0)
            return true;
    return false;
}

/* Checks that no two stages have one name, and that the stages named in `after` exist. */
static int names_check(const struct stage_keys *keys, uint32_t count, struct sy_error *err) {
    for (uint32_t i = 0; i < count; i++) {
        const struct conf_node *after = keys[i].after;
        if (is_stage(keys, i, keys[i].name))
            return conf_error(keys[i].node, err, "two stages are named '%.60s'", keys[i].name);
        if (after && after->kind == CONF_MAP)
            return conf_error(after, err, "expected the name of a stage, or a list of them");
        const struct conf_node *item = after && after->kind == CONF_LIST ? after->first : after;
        for (; item; item = after->kind == CONF_LIST ? item->next : NULL)
            if (item->kind != CONF_SCALAR || !is_stage(keys, count, item->text))
                return conf_error(item, err, "there is no such stage");
    }
    return 0;
}

/* Finds the bits of the stages that a stage follows; false: not all of them have a number yet. */
static bool after_find(const struct scenario_pipeline *p, const struct conf_node *after, uint64_t *bits) {
    *bits = 0;
    const struct conf_node *item = after && after->kind == CONF_LIST ? after->first : after;
    for (; item; item = after->kind == CONF_LIST ? item->next : NULL) {
        int v = stage_find(p, item->text);
        if (v < 0)
            return false;
        *bits |= 1ULL << v;
    }
    return true;
}

/* Gives a number to the next stage, in the file's order, that follows only stages with a number. */
static int stage_place(struct scenario *s, struct scenario_pipeline *p, struct stage_keys *keys, uint32_t count,
                       struct sy_error *err) {
    struct stage_keys *circle = NULL;
    uint64_t after;
    for (uint32_t i = 0; i < count; i++) {
        if (keys[i].placed)
            continue;
        circle = circle ? circle : &keys[i];
        if (!after_find(p, keys[i].after, &after))
            continue;
        struct pipeline_stage *stage = &p->graph.stages[p->graph.stage_count];
        int m = model_find(s, keys[i].model);
        if (m < 0)
            return conf_error(conf_find(keys[i].node, "model"), err, "there is no such model");
        *stage =
            (struct pipeline_stage){.model = (uint32_t)m, .after = after, .fan_out = {.kind = FAN_OUT_FIXED, .a = 1}};
        s->models[m].staged = keys[i].placed = true;
        memcpy(p->stage_names[p->graph.stage_count++], keys[i].name, sizeof(keys[i].name));
        return keys[i].fan_out ? fan_out_read(keys[i].fan_out, &stage->fan_out, err) : 0;
    }
    return conf_error(circle->after, err, "the stages follow each other in a circle");
}

static int stages_read(const struct conf_node *node, struct scenario *s, struct scenario_pipeline *p,
                       struct sy_error *err) {
    if (node->kind != CONF_LIST || node->count < 1 || node->count > PIPELINE_STAGES_MAX)
        return conf_error(node, err, "expected a list of 1 to %d stages", PIPELINE_STAGES_MAX);
    struct stage_keys *keys = calloc(node->count, sizeof(*keys));
    if (!keys)
        return conf_error(node, err, "out of memory");
    uint32_t count = 0;
    int rc = 0;
    for (const struct conf_node *item = node->first; item && !rc; item = item->next)
        rc = stage_keys_read(item, &keys[count++], err);
    if (!rc)
        rc = names_check(keys, count, err);
    while (!rc && p->graph.stage_count < count)
        rc = stage_place(s, p, keys, count, err);
    free(keys);
    return rc;
}

/* ---- the SLO's parts ---- */

struct splitting {
    struct split_stage stages[PIPELINE_STAGES_MAX];
    struct split_part parts[PIPELINE_STAGES_MAX];
    struct profile *profiles[PIPELINE_STAGES_MAX];
    int64_t least_ns[PIPELINE_STAGES_MAX]; /* least times of the pipeline's stages */
    void *memory;
};

static void splitting_free(struct splitting *split) {
    for (uint32_t v = 0; split && v < PIPELINE_STAGES_MAX; v++)
        free(split->profiles[v]);
    free(split ? split->memory : NULL);
    free(split);
}

/* Makes the stages' profiles, and sets their least_ns: the time of one item on the fastest type. NULL: out of memory.
 */
static struct splitting *splitting_make(const struct scenario *s, struct pipeline *p) {
    double items[PIPELINE_STAGES_MAX];
    struct splitting *split = calloc(1, sizeof(*split));
    bool whole = split && (split->memory = malloc(split_bytes(p->stage_count)));
    uint32_t usual = 0; /* type that most accelerators are of; the SLO is split for it */
    for (uint32_t t = 1; t < s->type_count; t++)
        if (s->types[t].count > s->types[usual].count)
            usual = t;
    pipeline_items(p, items);
    for (uint32_t v = 0; whole && v < p->stage_count; v++) {
        struct pipeline_stage *stage = &p->stages[v];
        const struct scenario_model *model = &s->models[stage->model];
        struct profile *profile = split->profiles[v] = malloc(profile_bytes(PROFILE_BATCH_MAX));
        whole = profile;
        stage->least_ns = INT64_MAX;
        for (uint32_t t = 0; whole && t < s->type_count; t++) {
            scenario_profile(model, t, 1, profile);
            stage->least_ns = profile->latency_ns[1] < stage->least_ns ? profile->latency_ns[1] : stage->least_ns;
        }
        split->least_ns[v] = stage->least_ns;
        if (whole)
            scenario_profile(model, usual, PROFILE_BATCH_MAX, profile);
        split->stages[v] =
            (struct split_stage){.profile = profile,
                                 .batch_max = model->own_batch_max ? model->batch_max : PROFILE_BATCH_MAX,
                                 .rate = items[v],
                                 .turns = TURNS,
                                 .after = stage->after};
    }
    if (!whole) {
        splitting_free(split);
        return NULL;
    }
    return split;
}

/* Now that its rate is known, divides a pipeline's SLO for batches that gather. No batch may be larger than what runs
 * within its part, since deadlines float beyond the part. */
static int gathering_split(const struct scenario *s, struct scenario_pipeline *p, double rate_rps) {
    struct pipeline *g = &p->graph;
    struct splitting *split = splitting_make(s, g);
    if (!split)
        return -ENOMEM;
    for (uint32_t v = 0; v < g->stage_count; v++) {
        split->stages[v].rate *= rate_rps;
        split->stages[v].gathers = rate_rps > 0;
    }
    /* Succeeds, as it did in split_make(): a batch of one item gathers nothing. */
    split_best(split->stages, g->stage_count, g->slo_ns, split->memory, split->parts);
    split_share(split->stages, g->stage_count, g->slo_ns, split->least_ns, split->parts);
    for (uint32_t v = 0; v < g->stage_count; v++) {
        g->stages[v].part_ns = split->parts[v].budget_ns;
        g->stages[v].batch_most = split_batch_most(&split->stages[v], g->stages[v].part_ns);
    }
    splitting_free(split);
    return 0;
}

/* {STAGE: MS, ...} */
static int parts_read(const struct conf_node *node, struct scenario_pipeline *p, struct sy_error *err) {
    for (const struct conf_node *child = node->first; child; child = child->next) {
        int v = stage_find(p, child->key);
        if (v < 0)
            return conf_error(child, err, "there is no such stage");
        int rc = conf_get_time(child, NS_PER_MS, 0.001, SLO_MS_MAX, "a number of milliseconds",
                               &p->graph.stages[v].part_ns, err);
        if (rc)
            return rc;
    }
    for (uint32_t v = 0; v < p->graph.stage_count; v++)
        if (!conf_find(node, p->stage_names[v]))
            return conf_error(node, err, "stage '%.60s' has no part", p->stage_names[v]);
    return 0;
}

static int parts_check(const struct conf_node *node, const struct scenario_pipeline *p, const struct splitting *split,
                       struct sy_error *err) {
    int64_t part_ns[PIPELINE_STAGES_MAX] = {0};
    for (uint32_t v = 0; v < p->graph.stage_count; v++) {
        const struct pipeline_stage *stage = &p->graph.stages[v];
        if (stage->part_ns < stage->least_ns)
            return conf_error(node, err, "stage '%.60s' gets %.10g ms of the SLO, but one item alone takes %.10g ms",
                              p->stage_names[v], (double)stage->part_ns / 1e6, (double)stage->least_ns / 1e6);
        part_ns[v] = stage->part_ns;
    }
    int64_t longest_ns = split_longest_path(split->stages, p->graph.stage_count, part_ns);
    return longest_ns <= p->graph.slo_ns
               ? 0
               : conf_error(node, err, "the parts on one path add up to %.10g ms, more than the SLO of %.10g ms",
                            (double)longest_ns / 1e6, (double)p->graph.slo_ns / 1e6);
}

static int split_make(const struct conf_node *node, const struct conf_node *how, struct scenario_pipeline *p,
                      struct splitting *split, struct sy_error *err) {
    struct pipeline *g = &p->graph;
    const char *word = how ? how->kind == CONF_SCALAR ? how->text : "" : "gathering";
    bool even = strcmp(word, "even") == 0;
    p->gathering = strcmp(word, "gathering") == 0;
    if (!even && !p->gathering && strcmp(word, "nexus") != 0 && how->kind != CONF_MAP)
        return conf_error(how, err, "expected gathering, nexus, even or {STAGE: MILLISECONDS, ...}");
    if (how && how->kind == CONF_MAP)
        return parts_read(how, p, err);
    if (even) {
        split_even(split->stages, g->stage_count, g->slo_ns, split->parts);
    } else if (!split_best(split->stages, g->stage_count, g->slo_ns, split->memory, split->parts)) {
        int64_t alone_ns[PIPELINE_STAGES_MAX]; /* on the type that the parts are for, which need not be the fastest */
        for (uint32_t v = 0; v < g->stage_count; v++)
            alone_ns[v] = split->profiles[v]->latency_ns[1];
        return conf_error(node, err, "an SLO of %.10g ms is too short: one item at a time takes %.10g ms",
                          (double)g->slo_ns / 1e6,
                          (double)split_longest_path(split->stages, g->stage_count, alone_ns) / 1e6);
    }
    for (uint32_t v = 0; v < g->stage_count; v++)
        g->stages[v].part_ns = split->parts[v].budget_ns;
    return 0;
}

/* ---- pipelines ---- */

struct pipeline_keys {
    char name[MODEL_NAME_MAX], deadlines[16];
    int64_t slo_ns;
    const struct conf_node *stages, *split;
};

static const struct conf_key pipeline_keys[] = {
    CONF_KEY_TEXT(struct pipeline_keys, name, "name", "a pipeline's name"),
    CONF_KEY_TIME(struct pipeline_keys, slo_ns, "slo_ms", NS_PER_MS, 0.001, SLO_MS_MAX, "a number of milliseconds"),
    CONF_KEY_NODE(struct pipeline_keys, stages, "stages"),
    CONF_KEY_NODE(struct pipeline_keys, split, "split"),
    CONF_KEY_TEXT(struct pipeline_keys, deadlines, "deadlines", "floating or fixed"),
    CONF_KEYS_END,
};

/* A pipeline's models take batches as large as the whole SLO allows, unless they say how large. */
static int models_fit(struct scenario *s, const struct conf_node *node, const struct pipeline *p,
                      struct sy_error *err) {
    for (uint32_t v = 0; v < p->stage_count; v++) {
        struct scenario_model *model = &s->models[p->stages[v].model];
        uint32_t batch_max = scenario_batch_max(s, model, p->slo_ns);
        if (!batch_max)
            return conf_error(node, err, "out of memory");
        if (!model->own_batch_max && batch_max > model->batch_max)
            model->batch_max = batch_max;
    }
    return 0;
}

static int pipeline_read(const struct conf_node *node, struct scenario *s, struct scenario_pipeline *p,
                         struct sy_error *err) {
    struct pipeline_keys keys = {.deadlines = "floating"};
    int rc = conf_read_map(node, pipeline_keys, &keys, err);
    if (rc)
        return rc;
    if (!keys.name[0] || !keys.slo_ns || !keys.stages)
        return conf_error(node, err, "'%s' is missing", !keys.name[0] ? "name" : !keys.slo_ns ? "slo_ms" : "stages");
    bool fixed = strcmp(keys.deadlines, "fixed") == 0;
    if (!fixed && strcmp(keys.deadlines, "floating") != 0)
        return conf_error(conf_find(node, "deadlines"), err, "expected floating or fixed");
    memcpy(p->name, keys.name, sizeof(p->name));
    p->graph.slo_ns = keys.slo_ns;
    p->graph.deadlines = fixed ? PIPELINE_FIXED : PIPELINE_FLOATING;
    if (!model_name_is_valid(p->name))
        return conf_error(node, err, "'%.60s' will not do as a pipeline's name (expected " MODEL_NAME_EXPECTED ")",
                          p->name);
    bool twice = model_find(s, p->name) >= 0;
    for (const struct scenario_pipeline *other = s->pipelines; other < p; other++)
        twice |= strcmp(other->name, p->name) == 0;
    if (twice)
        return conf_error(node, err, "a model or pipeline is named '%.60s' already", p->name);
    rc = stages_read(keys.stages, s, p, err);
    struct splitting *split = rc ? NULL : splitting_make(s, &p->graph);
    if (!rc && !split)
        return conf_error(node, err, "out of memory");
    rc = rc ? rc : split_make(node, keys.split, p, split, err);
    rc = rc ? rc : parts_check(keys.split ? keys.split : node, p, split, err);
    rc = rc ? rc : models_fit(s, node, &p->graph, err);
    splitting_free(split);
    return rc;
}

int scenario_take_pipelines(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    if (node->kind != CONF_LIST || node->count < 1 || node->count > SCENARIO_PIPELINES_MAX)
        return conf_error(node, err, "expected a list of 1 to %d pipelines", SCENARIO_PIPELINES_MAX);
    s->pipelines = calloc(node->count, sizeof(*s->pipelines));
    s->pipeline_count = s->pipelines ? node->count : 0;
    return s->pipelines ? 0 : conf_error(node, err, "out of memory");
}

int scenario_read_pipelines(const struct conf_node *node, const struct conf_node *models, struct scenario *s,
                            struct sy_error *err) {
    struct scenario_pipeline *next = s->pipelines;
    int rc = 0;
    for (const struct conf_node *item = node->first; item && !rc; item = item->next)
        rc = pipeline_read(item, s, next++, err);
    for (uint32_t m = 0; m < s->model_count && !rc; m++)
        if (!s->models[m].own_slo && !s->models[m].staged)
            rc = conf_error(models, err, "'%s' has no slo_ms, and is a stage of no pipeline", s->models[m].name);
    return rc;
}

int scenario_split_pipelines(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    double most_rps = 0; /* of several steps the highest, since lower rates leave accelerators idle */
    for (uint32_t i = 0; i < s->step_count; i++)
        most_rps = s->steps[i].rate_rps > most_rps ? s->steps[i].rate_rps : most_rps;
    for (uint32_t i = 0; i < s->pipeline_count; i++) {
        struct scenario_pipeline *p = &s->pipelines[i];
        if (p->gathering && gathering_split(s, p, p->share * most_rps))
            return conf_error(node, err, "out of memory");
        /* a model without an SLO of its own gets the smallest part that a pipeline gives it */
        for (uint32_t v = 0; v < p->graph.stage_count; v++) {
            const struct pipeline_stage *stage = &p->graph.stages[v];
            struct scenario_model *model = &s->models[stage->model];
            if (!model->own_slo && (!model->slo_ns || stage->part_ns < model->slo_ns))
                model->slo_ns = stage->part_ns;
        }
    }
    return 0;
}
