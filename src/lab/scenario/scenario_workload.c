/* scenario_workload.c - the section `workload` of a scenario: number, times and models of requests. */
#include <stdlib.h>
#include <string.h>

#include "core/util/fmath.h"
#include "core/util/time.h"
#include "lab/scenario/scenario_sections.h"

#define RATE_MAX 1e12 /* requests per second */

struct workload {
    const struct conf_node *rate, *arrivals, *popularity, *surges, *query_size;
};

static const struct conf_key workload_keys[] = {
    CONF_KEY_NODE(struct workload, rate, "rate_rps"),         CONF_KEY_NODE(struct workload, arrivals, "arrivals"),
    CONF_KEY_NODE(struct workload, popularity, "popularity"), CONF_KEY_NODE(struct workload, surges, "surges"),
    CONF_KEY_NODE(struct workload, query_size, "query_size"), CONF_KEYS_END,
};

static bool is_word(const struct conf_node *node, const char *word) {
    return node->kind == CONF_SCALAR && strcmp(node->text, word) == 0;
}

static int rate_read(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    const struct conf_node *steps = scenario_only(node, "steps");
    if (node->kind != CONF_SCALAR && (!steps || steps->kind != CONF_LIST || !steps->count))
        return conf_error(node, err, "expected a number or {steps: [[second, requests per second], ...]}");
    s->steps = calloc(steps ? steps->count : 1, sizeof(*s->steps));
    if (!s->steps)
        return conf_error(node, err, "out of memory");
    if (!steps) {
        s->step_count = 1;
        return conf_get_double(node, 0, RATE_MAX, "a number of requests per second", &s->steps[0].rate_rps, err);
    }
    for (const struct conf_node *item = steps->first; item; item = item->next, s->step_count++) {
        if (item->kind != CONF_LIST || item->count != 2)
            return conf_error(item, err, "expected [second, requests per second]");
        struct scenario_step *step = &s->steps[s->step_count];
        int rc = conf_get_time(item->first, NS_PER_S, 0, SECONDS_MAX, "a second from the start", &step->start_ns, err);
        if (!rc)
            rc = conf_get_double(item->last, 0, RATE_MAX, "a number of requests per second", &step->rate_rps, err);
        if (rc)
            return rc;
        if (s->step_count == 0 && step->start_ns != 0)
            return conf_error(item, err, "the first step must be at second 0");
        if (s->step_count && step->start_ns <= step[-1].start_ns)
            return conf_error(item, err, "the steps' seconds must rise");
    }
    return 0;
}

/* The path of a file, relative to the one that names it; if --set names it, relative to the working directory. */
static int path_read(const struct conf_node *node, const char *what, char *into, size_t bytes, struct sy_error *err) {
    char path[4096];
    int rc = conf_get_text(node, path, sizeof(path), what, err);
    if (rc)
        return rc;
    const char *slash = path[0] == '/' || !node->line ? NULL : strrchr(node->origin, '/');
    int folder = slash ? (int)(slash + 1 - node->origin) : 0;
    if ((size_t)snprintf(into, bytes, "%.*s%s", folder, node->origin, path) >= bytes)
        return conf_error(node, err, "the path is too long");
    return 0;
}

static int trace_path_parse(const struct conf_node *node, void *into, struct sy_error *err) {
    struct trace_spec *spec = into;
    return path_read(node, "the path of a trace", spec->path, sizeof(spec->path), err);
}

static int trace_format_parse(const struct conf_node *node, void *into, struct sy_error *err) {
    struct trace_spec *spec = into;
    spec->format = is_word(node, "azure")        ? TRACE_AZURE
                   : is_word(node, "timestamps") ? TRACE_TIMESTAMPS
                   : is_word(node, "blox")       ? TRACE_BLOX
                                                 : TRACE_DETECT;
    return spec->format ? 0 : conf_error(node, err, "expected azure, timestamps or blox");
}

static int trace_functions_parse(const struct conf_node *node, void *into, struct sy_error *err) {
    struct trace_spec *spec = into;
    spec->by_rows = is_word(node, "rows");
    return spec->by_rows || is_word(node, "round_robin") ? 0 : conf_error(node, err, "expected round_robin or rows");
}

static const struct conf_key trace_keys[] = {
    CONF_KEY_PARSED("trace", trace_path_parse),
    CONF_KEY_PARSED("format", trace_format_parse),
    CONF_KEY_DOUBLE(struct trace_spec, scale, "scale", 1e-9, 1e9, "how many times the recorded rate"),
    CONF_KEY_DOUBLE(struct trace_spec, start_s, "start_s", 0, 1e9, "a number of seconds"),
    CONF_KEY_DOUBLE(struct trace_spec, job_s, "job_s", 0.001, 1e9, "a number of seconds"),
    CONF_KEY_PARSED("functions", trace_functions_parse),
    CONF_KEYS_END,
};

static int arrivals_read(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    const struct conf_node *gamma = scenario_only(node, "gamma");
    if (is_word(node, "poisson") || is_word(node, "uniform")) {
        s->arrivals = is_word(node, "uniform") ? ARRIVALS_UNIFORM : ARRIVALS_POISSON;
        return 0;
    }
    if (gamma) {
        s->arrivals = ARRIVALS_GAMMA;
        return conf_get_double(gamma, 0.001, 1000, "the shape of a gamma distribution", &s->gamma_shape, err);
    }
    if (!conf_find(node, "trace"))
        return conf_error(node, err, "expected poisson, uniform, {gamma: SHAPE} or {trace: FILE}");
    /* a trace has a rate of its own; a rate beside it is what its mean is scaled to */
    s->arrivals = ARRIVALS_TRACE;
    if (s->pipeline_count)
        return conf_error(node, err, "recorded arrivals are of models, and there are pipelines");
    if (s->step_count > 1)
        return conf_error(node, err, "a trace takes one rate_rps, or none, not steps");
    if (s->step_count && conf_find(node, "scale"))
        return conf_error(conf_find(node, "scale"), err, "excludes rate_rps, to which the trace's mean is scaled");
    return conf_read_map(node, trace_keys, &s->trace, err);
}

/* Whether `name` is this model, or one of its copies (NAME-1...). */
static bool is_copy_of(const char *name, const char *base) {
    size_t length = strlen(base);
    if (strncmp(name, base, length) != 0)
        return false;
    const char *rest = name + length;
    return !*rest || (rest[0] == '-' && rest[1] && strspn(rest + 1, "0123456789") == strlen(rest + 1));
}

/* The number of models that a name means: one, or all its copies. */
static uint32_t matches_count(const struct scenario *s, const char *base, bool *exact) {
    uint32_t matches = 0;
    *exact = false;
    for (uint32_t i = 0; i < s->model_count && !*exact; i++) {
        *exact = strcmp(s->models[i].name, base) == 0;
        matches = *exact ? 1 : matches + is_copy_of(s->models[i].name, base);
    }
    return matches;
}

static bool is_meant(const char *name, const char *base, bool exact) {
    return exact ? strcmp(name, base) == 0 : is_copy_of(name, base);
}

/* A model's share; a name with copies divides its share among them. */
static int share_read(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    double share;
    bool exact;
    int rc = conf_get_double(node, 0, 1e12, "a share: any unit, only their ratios matter", &share, err);
    if (rc)
        return rc;
    for (uint32_t p = 0; p < s->pipeline_count; p++)
        if (strcmp(s->pipelines[p].name, node->key) == 0) {
            s->pipelines[p].share = share;
            return 0;
        }
    uint32_t matches = matches_count(s, node->key, &exact);
    if (!matches)
        return conf_error(node, err,
                          s->pipeline_count ? "there is no such model or pipeline" : "there is no such model");
    for (uint32_t i = 0; i < s->model_count; i++) {
        if (!is_meant(s->models[i].name, node->key, exact))
            continue;
        if (!s->models[i].own_slo)
            return conf_error(node, err, "the model has no slo_ms, so it can have no traffic of its own");
        s->models[i].share = share / matches;
    }
    return 0;
}

struct surge {
    char model[MODEL_NAME_MAX];
    double at_s, factor;
};

static const struct conf_key surge_keys[] = {
    CONF_KEY_TEXT(struct surge, model, "model", "a model's name"),
    CONF_KEY_DOUBLE(struct surge, at_s, "at_s", 0, SECONDS_MAX, "a second from the start"),
    CONF_KEY_DOUBLE(struct surge, factor, "factor", 0.001, 1e6, "how many times the rate before"),
    CONF_KEYS_END,
};

static int surge_read(const struct conf_node *item, struct scenario *s, struct sy_error *err) {
    struct surge surge = {.at_s = 0};
    bool exact;
    int rc = conf_read_map(item, surge_keys, &surge, err);
    if (rc)
        return rc;
    if (!surge.model[0] || surge.factor <= 0)
        return conf_error(item, err, "'%s' is missing", surge.model[0] ? "factor" : "model");
    if (!matches_count(s, surge.model, &exact))
        return conf_error(item, err, "there is no model '%s'", surge.model);
    for (uint32_t i = 0; i < s->model_count; i++) {
        struct scenario_model *m = &s->models[i];
        if (!is_meant(m->name, surge.model, exact))
            continue;
        if (m->surge_factor > 0)
            return conf_error(item, err, "the model '%s' has a surge already", m->name);
        m->surge_at_s = surge.at_s;
        m->surge_factor = surge.factor;
    }
    return 0;
}

static int surges_read(const struct conf_node *list, struct scenario *s, struct sy_error *err) {
    if (list->kind != CONF_LIST)
        return conf_error(list, err, "expected a list of {model: NAME, at_s: S, factor: X}");
    int rc = 0;
    for (const struct conf_node *item = list->first; item && !rc; item = item->next)
        rc = surge_read(item, s, err);
    return rc;
}

/* The sum of 1/rank^exponent, from *rank on, over the models that one stands for (its variants). */
static double zipf_share(const struct scenario_model *model, double exponent, uint32_t *rank) {
    double share = 0;
    for (uint32_t v = 0; v < (model->variants ? model->variants : 1); v++)
        share += fmath_exp(-exponent * fmath_log((*rank)++));
    return share;
}

static int popularity_read(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    const struct conf_node *zipf = node ? scenario_only(node, "zipf") : NULL,
                           *shares = node ? scenario_only(node, "shares") : NULL;
    double exponent = 0, sum = 0;
    int rc = 0;
    if (zipf)
        rc = conf_get_double(zipf, 0, 100, "an exponent", &exponent, err);
    else if (node && !is_word(node, "equal") && (!shares || shares->kind != CONF_MAP))
        rc = conf_error(node, err, "expected equal, {zipf: EXPONENT} or {shares: {MODEL: x, ...}}");
    uint32_t rank = 1;
    for (uint32_t i = 0; i < s->model_count; i++)
        s->models[i].share = shares || s->models[i].staged ? 0 : zipf_share(&s->models[i], exponent, &rank);
    for (uint32_t p = 0; p < s->pipeline_count; p++)
        s->pipelines[p].share = shares ? 0 : fmath_exp(-exponent * fmath_log(rank++));
    for (const struct conf_node *child = shares ? shares->first : NULL; child && !rc; child = child->next)
        rc = share_read(child, s, err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < s->model_count; i++)
        sum += s->models[i].share;
    for (uint32_t p = 0; p < s->pipeline_count; p++)
        sum += s->pipelines[p].share;
    if (sum <= 0)
        return conf_error(shares, err, "the shares add up to nothing");
    for (uint32_t i = 0; i < s->model_count; i++)
        s->models[i].share /= sum;
    for (uint32_t p = 0; p < s->pipeline_count; p++)
        s->pipelines[p].share /= sum;
    return 0;
}

/* [a, b] as two numbers. */
static int pair_read(const struct conf_node *node, const char *form, double min, double max, const char *what,
                     struct query_size_spec *spec, struct sy_error *err) {
    if (node->kind != CONF_LIST || node->count != 2)
        return conf_error(node, err, "expected %s", form);
    int rc = conf_get_double(node->first, min, max, what, &spec->a, err);
    return rc ? rc : conf_get_double(node->last, min, max, what, &spec->b, err);
}

static int query_size_read(const struct conf_node *node, struct query_size_spec *spec, struct sy_error *err) {
    const struct conf_node *uniform = scenario_only(node, "uniform"), *gaussian = scenario_only(node, "gaussian"),
                           *deeprecsys = scenario_only(node, "deeprecsys"), *table = scenario_only(node, "table");
    int64_t items;
    if (uniform) {
        spec->kind = QUERY_UNIFORM;
        int rc = pair_read(uniform, "[least, most]", 1, QUERY_SIZE_MAX, "a number of items", spec, err);
        if (!rc && (spec->a > spec->b || spec->a != (uint32_t)spec->a || spec->b != (uint32_t)spec->b))
            rc = conf_error(uniform, err, "expected two whole numbers, the least and the most");
        return rc;
    }
    if (gaussian) {
        spec->kind = QUERY_GAUSSIAN;
        int rc = pair_read(gaussian, "[mean, standard deviation]", 0, QUERY_SIZE_MAX, "a number of items", spec, err);
        if (!rc && (spec->a < 1 || spec->b <= 0))
            rc = conf_error(gaussian, err, "expected a mean from 1 and a standard deviation over 0");
        return rc;
    }
    if (deeprecsys) {
        spec->kind = QUERY_PUBLISHED;
        spec->published = deeprecsys->kind == CONF_SCALAR ? query_size_published("deeprecsys", deeprecsys->text) : NULL;
        return spec->published ? 0 : conf_error(deeprecsys, err, "expected " QUERY_DEEPRECSYS_NAMES);
    }
    if (table) {
        spec->kind = QUERY_TABLE;
        return path_read(table, "the path of a table of sizes", spec->table_path, sizeof(spec->table_path), err);
    }
    if (is_word(node, "kairos")) {
        spec->kind = QUERY_PUBLISHED;
        spec->published = query_size_published("kairos", "kairos");
        return 0;
    }
    if (node->kind != CONF_SCALAR || conf_get_int(node, 1, QUERY_SIZE_MAX, "", &items, NULL))
        return conf_error(node, err,
                          "expected a number of items from 1 to %d, kairos, {deeprecsys: NAME}, {uniform: [a, b]}, "
                          "{gaussian: [mean, deviation]} or {table: FILE}",
                          QUERY_SIZE_MAX);
    spec->a = (double)items;
    return 0;
}

int scenario_read_workload(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    struct workload workload = {0};
    int rc = node ? conf_read_map(node, workload_keys, &workload, err) : 0;
    if (!rc && workload.rate)
        rc = rate_read(workload.rate, s, err);
    if (!rc && workload.arrivals)
        rc = arrivals_read(workload.arrivals, s, err);
    if (!rc && workload.query_size)
        rc = query_size_read(workload.query_size, &s->query_size, err);
    if (!rc && workload.surges)
        rc = surges_read(workload.surges, s, err);
    return rc ? rc : popularity_read(workload.popularity, s, err);
}
