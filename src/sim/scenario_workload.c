/* scenario_workload.c - the section `workload` of a scenario: how many requests, when, and of which models. */
#include <stdlib.h>
#include <string.h>

#include "base/fmath.h"
#include "base/time.h"
#include "sim/scenario_sections.h"

#define RATE_MAX 1e12 /* requests per second */

struct workload {
    const struct conf_node *rate, *arrivals, *popularity;
};

static const struct conf_key workload_keys[] = {
    CONF_KEY_NODE(struct workload, rate, "rate_rps"),
    CONF_KEY_NODE(struct workload, arrivals, "arrivals"),
    CONF_KEY_NODE(struct workload, popularity, "popularity"),
    CONF_KEYS_END,
};

/* The value of a mapping with just this key; NULL otherwise. */
static const struct conf_node *only(const struct conf_node *node, const char *key) {
    return node->kind == CONF_MAP && node->count == 1 ? conf_find(node, key) : NULL;
}

static bool is_word(const struct conf_node *node, const char *word) {
    return node->kind == CONF_SCALAR && strcmp(node->text, word) == 0;
}

static int step_read(const struct conf_node *item, struct scenario *s, struct sy_error *err) {
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
    s->step_count++;
    return 0;
}

static int rate_read(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    const struct conf_node *steps = only(node, "steps");
    if (node->kind != CONF_SCALAR && (!steps || steps->kind != CONF_LIST || !steps->count))
        return conf_error(node, err, "expected a number or {steps: [[second, requests per second], ...]}");
    s->steps = calloc(steps ? steps->count : 1, sizeof(*s->steps));
    if (!s->steps)
        return conf_error(node, err, "out of memory");
    int rc = 0;
    for (const struct conf_node *item = steps ? steps->first : NULL; item && !rc; item = item->next)
        rc = step_read(item, s, err);
    if (!steps) {
        s->step_count = 1;
        rc = conf_get_double(node, 0, RATE_MAX, "a number of requests per second", &s->steps[0].rate_rps, err);
    }
    return rc;
}

static int trace_read(const struct conf_node *trace, struct scenario *s, struct sy_error *err) {
    char path[sizeof(s->trace_path)];
    int rc = conf_get_text(trace, path, sizeof(path), "the path of a trace", err);
    if (rc)
        return rc;
    /* relative to the file that names it; --set is on a command line, so relative to where that is */
    const char *slash = path[0] == '/' || !trace->line ? NULL : strrchr(trace->origin, '/');
    int folder = slash ? (int)(slash + 1 - trace->origin) : 0;
    if ((size_t)snprintf(s->trace_path, sizeof(s->trace_path), "%.*s%s", folder, trace->origin, path) >=
        sizeof(s->trace_path))
        return conf_error(trace, err, "the path is too long");
    return 0;
}

static int arrivals_read(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    const struct conf_node *gamma = only(node, "gamma"), *trace = only(node, "trace");
    if (is_word(node, "poisson") || is_word(node, "uniform")) {
        s->arrivals = is_word(node, "uniform") ? ARRIVALS_UNIFORM : ARRIVALS_POISSON;
        return 0;
    }
    if (gamma) {
        s->arrivals = ARRIVALS_GAMMA;
        return conf_get_double(gamma, 0.001, 1000, "the shape of a gamma distribution", &s->gamma_shape, err);
    }
    if (trace) {
        s->arrivals = ARRIVALS_TRACE;
        return trace_read(trace, s, err);
    }
    return conf_error(node, err, "expected poisson, uniform, {gamma: SHAPE} or {trace: FILE}");
}

/* Is `name` this model, or one of its copies (NAME-1...)? */
static bool is_copy_of(const char *name, const char *base) {
    size_t length = strlen(base);
    if (strncmp(name, base, length) != 0)
        return false;
    const char *rest = name + length;
    return !*rest || (rest[0] == '-' && rest[1] && strspn(rest + 1, "0123456789") == strlen(rest + 1));
}

/* A model's share; a name with copies divides its share among them. */
static int share_read(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    double share;
    int rc = conf_get_double(node, 0, 1e12, "a share: any unit, only their ratios matter", &share, err);
    if (rc)
        return rc;
    uint32_t matches = 0;
    bool exact = false;
    for (uint32_t i = 0; i < s->model_count && !exact; i++) {
        exact = strcmp(s->models[i].name, node->key) == 0;
        matches = exact ? 1 : matches + is_copy_of(s->models[i].name, node->key);
    }
    if (!matches)
        return conf_error(node, err, "there is no such model");
    for (uint32_t i = 0; i < s->model_count; i++) {
        const char *name = s->models[i].name;
        if (exact ? strcmp(name, node->key) == 0 : is_copy_of(name, node->key))
            s->models[i].share = share / matches;
    }
    return 0;
}

static int popularity_read(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    const struct conf_node *zipf = node ? only(node, "zipf") : NULL, *shares = node ? only(node, "shares") : NULL;
    double exponent = 0, sum = 0;
    int rc = 0;
    if (zipf)
        rc = conf_get_double(zipf, 0, 100, "an exponent", &exponent, err);
    else if (node && !is_word(node, "equal") && (!shares || shares->kind != CONF_MAP))
        rc = conf_error(node, err, "expected equal, {zipf: EXPONENT} or {shares: {MODEL: x, ...}}");
    for (uint32_t i = 0; i < s->model_count; i++)
        s->models[i].share = shares ? 0 : fmath_exp(-exponent * fmath_log(i + 1.0));
    for (const struct conf_node *child = shares ? shares->first : NULL; child && !rc; child = child->next)
        rc = share_read(child, s, err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < s->model_count; i++)
        sum += s->models[i].share;
    if (sum <= 0)
        return conf_error(shares, err, "the shares add up to nothing");
    for (uint32_t i = 0; i < s->model_count; i++)
        s->models[i].share /= sum;
    return 0;
}

int scenario_read_workload(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    struct workload workload = {0};
    int rc = node ? conf_read_map(node, workload_keys, &workload, err) : 0;
    if (!rc && workload.rate)
        rc = rate_read(workload.rate, s, err);
    if (!rc && workload.arrivals)
        rc = arrivals_read(workload.arrivals, s, err);
    return rc ? rc : popularity_read(workload.popularity, s, err);
}
