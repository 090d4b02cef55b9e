/* scenario.c - reads scenario files. */
#include "sim/scenario.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/container.h"
#include "base/fmath.h"
#include "base/time.h"
#include "profile/profile.h"
#include "profile/zoo.h"
#include "repository/model_name.h"

#define ACCELERATORS_MAX 1000000
#define SECONDS_MAX      1e7
#define RATE_MAX         1e12 /* requests per second */
#define SEED_MAX         9007199254740992.0
#define SLO_MS_MAX       3.6e6

/* The sections, kept until all are known: models depend on the cluster, the popularity on the models. */
struct sections {
    const struct conf_node *cluster, *models, *workload, *policy, *network, *autoscale, *run;
};

static const struct conf_key section_keys[] = {
    CONF_KEY_NODE(struct sections, cluster, "cluster"),   CONF_KEY_NODE(struct sections, models, "models"),
    CONF_KEY_NODE(struct sections, workload, "workload"), CONF_KEY_NODE(struct sections, policy, "policy"),
    CONF_KEY_NODE(struct sections, network, "network"),   CONF_KEY_NODE(struct sections, autoscale, "autoscale"),
    CONF_KEY_NODE(struct sections, run, "run"),           CONF_KEYS_END,
};

/* ---- cluster ---- */

struct cluster {
    const struct conf_node *accelerators;
    char type[64];
};

struct type_entry {
    char type[64];
    int64_t count;
};

static const struct conf_key cluster_keys[] = {
    CONF_KEY_NODE(struct cluster, accelerators, "accelerators"),
    CONF_KEY_TEXT(struct cluster, type, "type", "the name of an accelerator type"),
    CONF_KEYS_END,
};

static const struct conf_key type_keys[] = {
    CONF_KEY_TEXT(struct type_entry, type, "type", "the name of an accelerator type"),
    CONF_KEY_INT(struct type_entry, count, "count", 1, ACCELERATORS_MAX, "a number of accelerators"),
    CONF_KEYS_END,
};

static int types_read(const struct conf_node *list, struct scenario *s, struct sy_error *err) {
    if (!list->count || list->count > ACCELERATOR_TYPES_MAX)
        return conf_error(list, err, "expected 1 to %d accelerator types", ACCELERATOR_TYPES_MAX);
    for (const struct conf_node *item = list->first; item; item = item->next) {
        struct type_entry entry = {.count = 0};
        int rc = conf_read_map(item, type_keys, &entry, err);
        if (rc)
            return rc;
        if (!entry.type[0] || !entry.count)
            return conf_error(item, err, "'%s' is missing", entry.type[0] ? "count" : "type");
        for (uint32_t i = 0; i < s->type_count; i++)
            if (strcmp(s->types[i].name, entry.type) == 0)
                return conf_error(item, err, "the type '%s' is listed twice", entry.type);
        struct scenario_type *type = &s->types[s->type_count++];
        memcpy(type->name, entry.type, sizeof(type->name));
        type->count = (uint32_t)entry.count;
        s->accelerator_count += type->count;
    }
    return 0;
}

/* The type that is meant when the cluster names none: the zoo that the models come from. */
static void type_default(const struct conf_node *models, char *type, size_t bytes) {
    const struct conf_node *zoo = models ? conf_find(models, "zoo") : NULL;
    if (!zoo || conf_get_text(zoo, type, bytes, "", NULL) != 0)
        snprintf(type, bytes, "emulated");
}

static int cluster_read(const struct conf_node *node, const struct conf_node *models, struct scenario *s,
                        struct sy_error *err) {
    struct cluster cluster = {0};
    int rc = conf_read_map(node, cluster_keys, &cluster, err);
    if (rc)
        return rc;
    if (!cluster.accelerators)
        return conf_error(node, err, "'accelerators' is missing");
    if (cluster.accelerators->kind == CONF_LIST) {
        if (cluster.type[0])
            return conf_error(node, err, "'type' goes with a number of accelerators, not with a list of types");
        return types_read(cluster.accelerators, s, err);
    }
    int64_t count;
    rc = conf_get_int(cluster.accelerators, 1, ACCELERATORS_MAX, "a number of accelerators or a list of {type, count}",
                      &count, err);
    if (rc)
        return rc;
    if (!cluster.type[0])
        type_default(models, cluster.type, sizeof(cluster.type));
    memcpy(s->types[0].name, cluster.type, sizeof(s->types[0].name));
    s->types[0].count = s->accelerator_count = (uint32_t)count;
    s->type_count = 1;
    return 0;
}

/* ---- models ---- */

static int64_t line_ns(double alpha_ns, double beta_ns, uint32_t batch) {
    return llround(alpha_ns * batch + beta_ns);
}

uint32_t scenario_batch_max(const struct scenario *scenario, const struct scenario_model *model) {
    uint32_t greatest = 1;
    for (uint32_t t = 0; t < scenario->type_count; t++)
        while (greatest < PROFILE_BATCH_MAX &&
               line_ns(model->alpha_ns[t], model->beta_ns[t], greatest + 1) <= model->slo_ns)
            greatest++;
    return greatest;
}

/* Room for one more model; NULL after an error. */
static struct scenario_model *model_new(struct scenario *s, const struct conf_node *node, struct sy_error *err) {
    if (s->model_count == SCENARIO_MODELS_MAX) {
        conf_error(node, err, "more than %d models", SCENARIO_MODELS_MAX);
        return NULL;
    }
    if ((s->model_count & (s->model_count - 1)) == 0) { /* full at every power of two */
        size_t capacity = s->model_count ? 2 * (size_t)s->model_count : 1;
        struct scenario_model *grown = realloc(s->models, capacity * sizeof(*grown));
        if (!grown) {
            conf_error(node, err, "out of memory");
            return NULL;
        }
        s->models = grown;
    }
    return &s->models[s->model_count++];
}

/* Checks a model and adds its copies. */
static int copies_add(struct scenario *s, const struct conf_node *node, const struct scenario_model *model,
                      int64_t copies, struct sy_error *err) {
    if (!model_name_is_valid(model->name))
        return conf_error(node, err, "'%.60s' will not do as a model's name (expected " MODEL_NAME_EXPECTED ")",
                          model->name);
    int64_t fastest_ns = INT64_MAX;
    for (uint32_t t = 0; t < s->type_count; t++) {
        int64_t one_ns = line_ns(model->alpha_ns[t], model->beta_ns[t], 1);
        fastest_ns = one_ns < fastest_ns ? one_ns : fastest_ns;
    }
    if (fastest_ns > model->slo_ns)
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

/* {zoo: gtx1080ti, select: all} */
struct zoo_choice {
    char zoo[64], select[16];
    const struct conf_node *names;
    int64_t copies, slo_ns;
};

static const struct conf_key zoo_keys[] = {
    CONF_KEY_TEXT(struct zoo_choice, zoo, "zoo", "gtx1080ti or a100"),
    CONF_KEY_TEXT(struct zoo_choice, select, "select", "all, gt2 or lt2"),
    CONF_KEY_NODE(struct zoo_choice, names, "names"),
    CONF_KEY_INT(struct zoo_choice, copies, "copies", 1, SCENARIO_MODELS_MAX, "a number of copies"),
    CONF_KEY_TIME(struct zoo_choice, slo_ns, "slo_ms", NS_PER_MS, 0.001, SLO_MS_MAX, "a number of milliseconds"),
    CONF_KEYS_END,
};

/* A model's line on every type of the cluster. A type that the zoo lists has its own; on a cluster of one type that it
 * does not list, the line is that of the zoo named. */
static int zoo_add(struct scenario *s, const struct conf_node *node, const struct zoo_entry *entry,
                   const struct zoo_choice *choice, struct sy_error *err) {
    struct scenario_model model = {.slo_ns = choice->slo_ns ? choice->slo_ns : llround(entry->slo_ms * 1e6)};
    snprintf(model.name, sizeof(model.name), "%s", entry->model);
    for (uint32_t t = 0; t < s->type_count; t++) {
        const char *type = s->types[t].name;
        const struct zoo_entry *on = zoo_has_type(type)   ? zoo_find(entry->model, type)
                                     : s->type_count == 1 ? entry
                                                          : NULL;
        if (!on)
            return conf_error(node, err, "the zoo has no profile of '%s' on '%s'", entry->model, type);
        model.alpha_ns[t] = on->alpha_ms * 1e6;
        model.beta_ns[t] = on->beta_ms * 1e6;
    }
    return copies_add(s, node, &model, choice->copies, err);
}

static int zoo_names_read(struct scenario *s, const struct zoo_choice *choice, struct sy_error *err) {
    if (choice->names->kind != CONF_LIST || !choice->names->count)
        return conf_error(choice->names, err, "expected a list of the zoo's models");
    for (const struct conf_node *item = choice->names->first; item; item = item->next) {
        char name[MODEL_NAME_MAX];
        int rc = conf_get_text(item, name, sizeof(name), "the name of a model", err);
        if (rc)
            return rc;
        const struct zoo_entry *entry = zoo_find(name, choice->zoo);
        rc = entry ? zoo_add(s, item, entry, choice, err)
                   : conf_error(item, err, "the zoo has no '%.60s' on '%s'", name, choice->zoo);
        if (rc)
            return rc;
    }
    return 0;
}

static int zoo_select_read(struct scenario *s, const struct conf_node *node, const struct zoo_choice *choice,
                           struct sy_error *err) {
    enum zoo_set set = strcmp(choice->select, "gt2") == 0 ? ZOO_GT2 : ZOO_LT2;
    if (strcmp(choice->select, "all") == 0)
        set = ZOO_ALL;
    else if (set == ZOO_LT2 && strcmp(choice->select, "lt2") != 0)
        return conf_error(conf_find(node, "select"), err, "'%s' is not one of all, gt2, lt2", choice->select);
    for (const struct zoo_entry *entry = zoo_entries; entry->model; entry++) {
        int rc = zoo_entry_in(entry, choice->zoo, set) ? zoo_add(s, node, entry, choice, err) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

static int zoo_read(struct scenario *s, const struct conf_node *node, struct sy_error *err) {
    struct zoo_choice choice = {.select = "all", .copies = 1};
    int rc = conf_read_map(node, zoo_keys, &choice, err);
    if (rc)
        return rc;
    if (!choice.zoo[0])
        return conf_error(node, err, "'zoo' is missing (gtx1080ti or a100); models of your own are a list");
    if (!zoo_has_type(choice.zoo))
        return conf_error(conf_find(node, "zoo"), err, "there is no zoo '%s' (expected gtx1080ti or a100)", choice.zoo);
    if (choice.names && conf_find(node, "select"))
        return conf_error(choice.names, err, "'names' and 'select' exclude each other");
    return choice.names ? zoo_names_read(s, &choice, err) : zoo_select_read(s, node, &choice, err);
}

/* {name: R50, alpha_ms: 1.053, beta_ms: 5.072, slo_ms: 25, copies: 1, types: {a100: {alpha_ms: 0.27, beta_ms: 5.2}}} */
struct line {
    double alpha_ms, beta_ms;
};

struct own_model {
    char name[MODEL_NAME_MAX];
    struct line line;
    const struct conf_node *types;
    int64_t copies, slo_ns;
};

#define LINE_EXPECTED "a number of milliseconds"
static const struct conf_key line_keys[] = {
    CONF_KEY_DOUBLE(struct line, alpha_ms, "alpha_ms", 0, SLO_MS_MAX, LINE_EXPECTED),
    CONF_KEY_DOUBLE(struct line, beta_ms, "beta_ms", 0, SLO_MS_MAX, LINE_EXPECTED),
    CONF_KEYS_END,
};

static const struct conf_key own_keys[] = {
    CONF_KEY_TEXT(struct own_model, name, "name", "a model's name"),
    CONF_KEY_DOUBLE(struct own_model, line.alpha_ms, "alpha_ms", 0, SLO_MS_MAX, LINE_EXPECTED),
    CONF_KEY_DOUBLE(struct own_model, line.beta_ms, "beta_ms", 0, SLO_MS_MAX, LINE_EXPECTED),
    CONF_KEY_TIME(struct own_model, slo_ns, "slo_ms", NS_PER_MS, 0.001, SLO_MS_MAX, "a number of milliseconds"),
    CONF_KEY_INT(struct own_model, copies, "copies", 1, SCENARIO_MODELS_MAX, "a number of copies"),
    CONF_KEY_NODE(struct own_model, types, "types"),
    CONF_KEYS_END,
};

static int line_check(const struct conf_node *node, const struct line *line, struct sy_error *err) {
    if (line->alpha_ms < 0 || line->beta_ms < 0)
        return conf_error(node, err, "'%s' is missing", line->alpha_ms < 0 ? "alpha_ms" : "beta_ms");
    if (line->alpha_ms + line->beta_ms <= 0)
        return conf_error(node, err, "alpha_ms and beta_ms are both 0");
    return 0;
}

/* A type's own line instead of the model's. */
static int own_types_read(const struct scenario *s, const struct conf_node *types, struct scenario_model *model,
                          struct sy_error *err) {
    if (types->kind != CONF_MAP)
        return conf_error(types, err, "expected a mapping of accelerator types to {alpha_ms, beta_ms}");
    for (const struct conf_node *child = types->first; child; child = child->next) {
        uint32_t t = 0;
        while (t < s->type_count && strcmp(s->types[t].name, child->key) != 0)
            t++;
        if (t == s->type_count)
            return conf_error(child, err, "the cluster has no accelerators of this type");
        struct line line = {-1, -1};
        int rc = conf_read_map(child, line_keys, &line, err);
        if (!rc)
            rc = line_check(child, &line, err);
        if (rc)
            return rc;
        model->alpha_ns[t] = line.alpha_ms * 1e6;
        model->beta_ns[t] = line.beta_ms * 1e6;
    }
    return 0;
}

static int own_read(struct scenario *s, const struct conf_node *node, struct sy_error *err) {
    struct own_model own = {.line = {-1, -1}, .copies = 1};
    int rc = conf_read_map(node, own_keys, &own, err);
    if (!rc)
        rc = line_check(node, &own.line, err);
    if (rc)
        return rc;
    if (!own.name[0] || !own.slo_ns)
        return conf_error(node, err, "'%s' is missing", own.name[0] ? "slo_ms" : "name");
    struct scenario_model model = {.slo_ns = own.slo_ns};
    memcpy(model.name, own.name, sizeof(model.name));
    for (uint32_t t = 0; t < s->type_count; t++) {
        model.alpha_ns[t] = own.line.alpha_ms * 1e6;
        model.beta_ns[t] = own.line.beta_ms * 1e6;
    }
    rc = own.types ? own_types_read(s, own.types, &model, err) : 0;
    return rc ? rc : copies_add(s, node, &model, own.copies, err);
}

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

/* One zoo's, or a list whose items are models or zoos. */
static int models_read(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
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

/* ---- workload ---- */

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

static int workload_read(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    struct workload workload = {0};
    int rc = node ? conf_read_map(node, workload_keys, &workload, err) : 0;
    if (!rc && workload.rate)
        rc = rate_read(workload.rate, s, err);
    if (!rc && workload.arrivals)
        rc = arrivals_read(workload.arrivals, s, err);
    return rc ? rc : popularity_read(workload.popularity, s, err);
}

/* ---- the rest ---- */

static int policy_section_read(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    const struct conf_node *named = conf_find(node, "name");
    char text[64];
    struct sy_error why;
    if (node->kind != CONF_MAP)
        return conf_error(node, err, "expected {name: POLICY, OPTION: VALUE, ...}");
    int rc = named ? conf_get_text(named, text, sizeof(text), "a policy's name", err) : 0;
    if (rc)
        return rc;
    if (named && !(s->policy = policy_find(text, &why)))
        return conf_error(named, err, "%s", why.text);
    policy_options_preset(s->policy, &s->policy_options);
    for (const struct conf_node *option = node->first; option && !rc; option = option->next) {
        if (option == named)
            continue;
        rc = conf_get_text(option, text, sizeof(text), "a value", err);
        if (!rc && policy_option_read(s->policy, option->key, text, &s->policy_options, &why) < 0)
            rc = conf_error(option, err, "%s", why.text);
    }
    return rc;
}

#define US_EXPECTED "a number of microseconds"
static const struct conf_key network_keys[] = {
    CONF_KEY_TIME(struct scenario, ctrl_ns, "ctrl_us", NS_PER_US, 0, 6e7, US_EXPECTED),
    CONF_KEY_TIME(struct scenario, data_ns, "data_us_per_request", NS_PER_US, 0, 6e7, US_EXPECTED),
    CONF_KEY_TIME(struct scenario, reply_margin_ns, "reply_margin_us", NS_PER_US, 0, 6e7, US_EXPECTED),
    CONF_KEYS_END,
};

#define SECONDS_EXPECTED "a number of seconds"
static const struct conf_key autoscale_keys[] = {
    CONF_KEY_INT(struct scenario_autoscale, min, "min", 1, ACCELERATORS_MAX, "a number of accelerators"),
    CONF_KEY_INT(struct scenario_autoscale, max, "max", 1, ACCELERATORS_MAX, "a number of accelerators"),
    CONF_KEY_TIME(struct scenario_autoscale, start_delay_ns, "start_delay_s", NS_PER_S, 0, SECONDS_MAX,
                  SECONDS_EXPECTED),
    CONF_KEY_DOUBLE(struct scenario_autoscale, headroom, "headroom", 0, 0.9, "a share of the accelerators"),
    CONF_KEY_TIME(struct scenario_autoscale, every_ns, "every_s", NS_PER_S, 0.001, SECONDS_MAX, SECONDS_EXPECTED),
    CONF_KEYS_END,
};

static const struct conf_key run_keys[] = {
    CONF_KEY_TIME(struct scenario, duration_ns, "seconds", NS_PER_S, 0.001, SECONDS_MAX, SECONDS_EXPECTED),
    CONF_KEY_TIME(struct scenario, warmup_ns, "warmup_seconds", NS_PER_S, 0, SECONDS_MAX, SECONDS_EXPECTED),
    CONF_KEY_INT(struct scenario, seed, "seed", 0, SEED_MAX, "a whole number"),
    CONF_KEYS_END,
};

static int autoscale_read(const struct conf_node *node, struct scenario *s, struct sy_error *err) {
    s->autoscale = (struct scenario_autoscale){
        .enabled = true, .min = 1, .headroom = 0.1, .start_delay_ns = 60 * NS_PER_S, .every_ns = 10 * NS_PER_S};
    int rc = conf_read_map(node, autoscale_keys, &s->autoscale, err);
    if (rc)
        return rc;
    if (!s->autoscale.max)
        return conf_error(node, err, "'max' is missing");
    if (s->autoscale.min > s->accelerator_count || s->accelerator_count > s->autoscale.max)
        return conf_error(node, err, "it begins with the cluster's %u accelerators, which are not in %lld to %lld",
                          s->accelerator_count, (long long)s->autoscale.min, (long long)s->autoscale.max);
    if (s->type_count > 1)
        return conf_error(node, err, "works with one accelerator type, but the cluster has %u", s->type_count);
    return 0;
}

static int root_read(const struct conf_node *root, struct scenario *s, struct sy_error *err) {
    struct sections sections = {0};
    int rc = conf_read_map(root, section_keys, &sections, err);
    if (rc)
        return rc;
    if (!sections.cluster || !sections.models)
        return conf_error(root, err, "'%s' is missing", sections.cluster ? "models" : "cluster");
    rc = cluster_read(sections.cluster, sections.models, s, err);
    if (!rc)
        rc = models_read(sections.models, s, err);
    if (!rc)
        rc = workload_read(sections.workload, s, err);
    if (!rc && sections.policy)
        rc = policy_section_read(sections.policy, s, err);
    if (!rc && sections.network)
        rc = conf_read_map(sections.network, network_keys, s, err);
    if (!rc && sections.autoscale)
        rc = autoscale_read(sections.autoscale, s, err);
    if (!rc && sections.run)
        rc = conf_read_map(sections.run, run_keys, s, err);
    return rc;
}

/* Takes the tree. */
static int tree_read(struct conf_node *root, const char *const *sets, uint32_t set_count, struct scenario *s,
                     struct sy_error *err) {
    *s = (struct scenario){
        .policy = &policy_deferred, .duration_ns = 30 * NS_PER_S, .warmup_ns = 3 * NS_PER_S, .seed = 1};
    policy_options_preset(s->policy, &s->policy_options);
    int rc = 0;
    for (uint32_t i = 0; i < set_count && !rc; i++)
        rc = conf_set(root, sets[i], err);
    if (!rc)
        rc = root_read(root, s, err);
    conf_free(root);
    if (rc)
        scenario_free(s);
    return rc;
}

int scenario_read(const char *path, const char *const *sets, uint32_t set_count, struct scenario *scenario,
                  struct sy_error *err) {
    struct conf_node *root;
    memset(scenario, 0, sizeof(*scenario));
    int rc = conf_read_file(path, &root, err);
    return rc ? rc : tree_read(root, sets, set_count, scenario, err);
}

int scenario_read_text(const char *origin, const char *text, size_t bytes, const char *const *sets, uint32_t set_count,
                       struct scenario *scenario, struct sy_error *err) {
    struct conf_node *root;
    memset(scenario, 0, sizeof(*scenario));
    int rc = conf_read_text(origin, text, bytes, &root, err);
    return rc ? rc : tree_read(root, sets, set_count, scenario, err);
}

void scenario_free(struct scenario *scenario) {
    free(scenario->models);
    free(scenario->steps);
    memset(scenario, 0, sizeof(*scenario));
}
