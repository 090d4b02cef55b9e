/* plan_prefixes.c - `symphony plan prefixes`: finds models that begin with the same layers, says what sharing these
 * layers saves, and writes the parts as models of their own. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lab/commands/plan.h"
#include "lab/planfile/prefix_parts.h"
#include "model/prefix/groups.h"
#include "model/repository/repository.h"
#include "server/commands/options.h"

#define ITEMS_MAX 1024

struct settings {
    int64_t tensors, items;
    double share;
    const char *write;
    bool json, untried;
};

static const struct option_row rows[] = {
    OPTION_INT(struct settings, tensors, "tensors", "N", 1, CUT_TENSORS_MAX, "tensors that may cross a cut"),
    OPTION_DOUBLE(struct settings, share, "share", "PERCENT", 0, 100,
                  "a prefix must have this share of the nodes or of the weights of each model"),
    OPTION_FLAG(struct settings, untried, "untried", "only look at the graphs: run nothing"),
    OPTION_TEXT(struct settings, write, "write", "DIR",
                "write a model repository: each prefix, each suffix, and for each model an ensemble of its name"),
    OPTION_INT(struct settings, items, "items", "N", 1, ITEMS_MAX, "the most items of a request to an ensemble"),
    OPTION_FLAG(struct settings, json, "json", "machine-readable result on standard output"),
    OPTION_END,
};

static const struct options options = {
    .command = "plan prefixes",
    .usage = "DIR|MODEL.onnx... [OPTION]...",
    .intro = "Finds models that begin with the same layers, so that these need be loaded and run only once for all of\n"
             "them (Nexus, SOSP 2019, section 6.3). The parts are run against the whole on random inputs; a cut is\n"
             "taken only if they answer the same, bit by bit.",
    .status = "0 models share a prefix, 1 none do, 2 bad usage or input",
    .rows = rows,
    .args_min = 1,
    .args_max = GROUPS_MODELS_MAX,
    .args_name = "DIR or MODEL.onnx",
};

/* A group of models, and the cut that is taken. */
struct shared {
    struct group *group;
    const struct cut *cut; /* cut that is taken; NULL: none of the group's cuts will do */
    char reason[512];      /* why the deepest cut, or all cuts, were refused; "": the deepest cut is taken */
    struct prefix_parts parts;
};

struct answer {
    struct cut_model *models;
    const struct cut_model **pointers;
    struct served_model *served; /* [count] models, with names and SLOs */
    const char **names;
    char (*reasons)[512]; /* [count] why a model shares no layers; "": it does, or its group says why not */
    uint32_t count, group_count;
    struct group *groups;
    struct shared *shared; /* [group_count] */
};

/* ---- models ---- */

/* Appends the models of a path: of each the highest version that is served. */
static int models_scan(struct answer *a, const char *path, struct sy_error *err) {
    struct served_model *found = NULL;
    uint32_t count = 0;
    int rc = repository_scan(&(struct repositories){.paths = &path, .count = 1}, &found, &count, err);
    if (rc)
        return rc;
    struct served_model *served = realloc(a->served, (a->count + count) * sizeof(*served));
    if (!served)
        rc = error_set(err, -ENOMEM, "out of memory");
    else
        a->served = served;
    for (uint32_t m = 0; !rc && m < count; m++) { /* they are sorted by name and version */
        struct served_model *model = &found[m];
        if (!model->path)
            continue;
        if (m + 1 < count && strcmp(model->name, found[m + 1].name) == 0)
            fprintf(stderr, "symphony plan prefixes: %s: version %u is passed over, as there is a higher one\n",
                    model->path, model->version);
        else if (op_libraries_any(model->op_libraries)) /* which the parts would lack */
            fprintf(stderr,
                    "symphony plan prefixes: %s is passed over, as it has operators of its own (model_operations)\n",
                    model->path);
        else
            served_model_move(&a->served[a->count++], model);
    }
    served_models_free(found, count);
    if (!rc && a->count > GROUPS_MODELS_MAX)
        rc = error_set(err, -EINVAL, "there are %u models; at most %d are compared", a->count, GROUPS_MODELS_MAX);
    return rc;
}

/* Reads the models. A model that cannot be read gets its reason, and is passed over. */
static int models_read(struct answer *a, struct sy_error *err) {
    a->models = calloc(a->count + 1, sizeof(*a->models));
    a->pointers = calloc(a->count + 1, sizeof(*a->pointers));
    a->names = calloc(a->count + 1, sizeof(*a->names));
    a->reasons = calloc(a->count + 1, sizeof(*a->reasons));
    a->groups = calloc(a->count + 1, sizeof(*a->groups));
    if (!a->models || !a->pointers || !a->names || !a->reasons || !a->groups)
        return error_set(err, -ENOMEM, "out of memory");
    uint32_t kept = 0;
    for (uint32_t m = 0; m < a->count; m++) {
        struct sy_error why;
        if (cut_model_read(a->served[m].path, &a->models[kept], &why)) {
            fprintf(stderr, "symphony plan prefixes: %s\n", why.text);
            served_model_release(&a->served[m]);
            continue;
        }
        if (kept != m)
            served_model_move(&a->served[kept], &a->served[m]);
        a->names[kept] = a->served[kept].name;
        a->pointers[kept] = &a->models[kept];
        kept++;
    }
    a->count = kept;
    for (uint32_t m = 0; m < kept; m++)
        for (uint32_t o = 0; o < m; o++)
            if (strcmp(a->names[m], a->names[o]) == 0)
                return error_set(err, -EINVAL, "there are two models '%s': %.200s and %.200s", a->names[m],
                                 a->served[o].path, a->served[m].path);
    return 0;
}

/* ---- groups ---- */

static int answer_find(struct answer *a, const struct settings *s, struct sy_error *err) {
    struct group_rules rules = {.tensors_max = (uint32_t)s->tensors, .share = s->share / 100};
    int rc = groups_find(a->pointers, a->count, &rules, a->groups, &a->group_count, err);
    a->shared = calloc(a->group_count + 1, sizeof(*a->shared));
    if (!rc && !a->shared)
        rc = error_set(err, -ENOMEM, "out of memory");
    if (rc)
        return rc;
    for (uint32_t g = 0; g < a->group_count; g++) { /* tries the group's cuts, the deepest first */
        struct shared *shared = &a->shared[g];
        struct sy_error why = {""}, deepest;
        shared->group = &a->groups[g];
        if (s->untried) {
            shared->cut = &a->groups[g].cuts[0];
            continue;
        }
        rc = prefix_parts_make(&shared->parts, s->write, a->models, a->served, &a->groups[g], (uint32_t)s->items,
                               &deepest, &why);
        if (!rc)
            shared->cut = &a->groups[g].cuts[shared->parts.cut];
        snprintf(shared->reason, sizeof(shared->reason), "%s", rc && !*deepest.text ? why.text : deepest.text);
    }
    bool grouped[GROUPS_MODELS_MAX] = {false};
    for (uint32_t g = 0; g < a->group_count; g++)
        for (uint32_t m = 0; m < a->groups[g].count; m++)
            grouped[a->groups[g].members[m]] = true;
    for (uint32_t m = 0; m < a->count; m++)
        if (!grouped[m])
            group_reason(a->pointers, a->names, a->count, &rules, m, a->reasons[m], sizeof(a->reasons[m]));
    return 0;
}

static void answer_free(struct answer *a) {
    for (uint32_t m = 0; a->models && m < a->count; m++)
        cut_model_free(&a->models[m]);
    for (uint32_t g = 0; a->shared && g < a->group_count; g++)
        prefix_parts_free(&a->shared[g].parts);
    free(a->models);
    free(a->pointers);
    served_models_free(a->served, a->count);
    free(a->names);
    free(a->reasons);
    free(a->groups);
    free(a->shared);
}

/* ---- what is printed ---- */

/* Weights of all members together: as whole models, and with a shared prefix. With a prefix they may be more, since
 * some weights may be on both sides of a cut. */
static void weights_sum(const struct answer *a, const struct shared *shared, double *whole, double *split) {
    *whole = *split = 0;
    for (uint32_t m = 0; m < shared->group->count; m++)
        *whole += (double)a->models[shared->group->members[m]].weights_bytes;
    *split = *whole - (double)(shared->group->count - 1) * (double)shared->cut->weights_bytes;
}

static json_t *member_json(const struct answer *a, const struct shared *shared, uint32_t m) {
    uint32_t model = shared->group->members[m];
    const struct cut_model *of = &a->models[model];
    json_t *member = json_pack("{s:s, s:s, s:I, s:I}", "model", a->names[model], "file", a->served[model].path, "nodes",
                               (json_int_t)of->node_count, "weights_bytes", (json_int_t)of->weights_bytes);
    if (!shared->cut)
        return member;
    /* the names that this model has for the tensors at the cut */
    uint32_t tensors[CUT_TENSORS_MAX];
    json_t *list = json_array();
    cut_tensors(&a->models[model], shared->cut, tensors);
    for (uint32_t i = 0; i < shared->cut->tensor_count; i++) {
        struct onnx_bytes name = a->models[model].graph.tensors[tensors[i]].name;
        json_array_append_new(list, json_stringn_nocheck((const char *)name.data, name.length));
    }
    json_object_set_new(member, "tensors", list);
    if (shared->parts.written)
        json_object_set_new(member, "suffix", json_string(shared->parts.suffix_names[m]));
    return member;
}

static json_t *shared_json(const struct answer *a, const struct shared *shared, bool untried) {
    json_t *members = json_array();
    for (uint32_t m = 0; m < shared->group->count; m++)
        json_array_append_new(members, member_json(a, shared, m));
    json_t *group = json_pack("{s:o, s:b, s:b}", "models", members, "shared", shared->cut != NULL, "tried", !untried);
    json_object_set_new(group, "reason", shared->reason[0] ? json_string(shared->reason) : json_null());
    if (shared->cut) {
        double whole, split;
        weights_sum(a, shared, &whole, &split);
        json_object_set_new(group, "nodes", json_integer(shared->cut->node_count));
        json_object_set_new(group, "weights_bytes", json_integer((json_int_t)shared->cut->weights_bytes));
        json_object_set_new(group, "weights_bytes_saved", json_integer((json_int_t)(whole - split)));
    }
    if (shared->parts.written)
        json_object_set_new(group, "prefix", json_string(shared->parts.prefix_name));
    return group;
}

static void answer_json(const struct answer *a, bool untried) {
    json_t *groups = json_array(), *alone = json_array();
    for (uint32_t g = 0; g < a->group_count; g++)
        json_array_append_new(groups, shared_json(a, &a->shared[g], untried));
    for (uint32_t m = 0; m < a->count; m++)
        if (a->reasons[m][0])
            json_array_append_new(alone, json_pack("{s:s, s:s, s:s}", "model", a->names[m], "file", a->served[m].path,
                                                   "reason", a->reasons[m]));
    json_t *all = json_pack("{s:o, s:o}", "groups", groups, "alone", alone);
    cli_json_print(all, JSON_ENSURE_ASCII);
}

/* Prints the members, one a row. */
static void shared_print(const struct answer *a, const struct shared *shared, uint32_t number, int width) {
    for (uint32_t m = 0; m < shared->group->count; m++) {
        uint32_t model = shared->group->members[m];
        char first[16] = "";
        if (m == 0)
            snprintf(first, sizeof(first), "%u", number);
        printf("%-6s %-*s %6u %11.3f", first, width, a->names[model], a->models[model].node_count,
               (double)a->models[model].weights_bytes / 1e6);
        if (shared->cut) {
            uint32_t tensors[CUT_TENSORS_MAX];
            cut_tensors(&a->models[model], shared->cut, tensors);
            printf("  ");
            for (uint32_t i = 0; i < shared->cut->tensor_count; i++) {
                struct onnx_bytes name = a->models[model].graph.tensors[tensors[i]].name;
                printf(" %.*s", (int)name.length, (const char *)name.data);
            }
        }
        putchar('\n');
    }
}

static void answer_table(const struct answer *a, bool untried) {
    int width = 5;
    for (uint32_t m = 0; m < a->count; m++)
        if ((int)strlen(a->names[m]) > width)
            width = (int)strlen(a->names[m]);
    if (a->group_count)
        printf("%-6s %-*s %6s %11s   %s\n", "GROUP", width, "model", "nodes", "weights MB", "tensors at the cut");
    for (uint32_t g = 0; g < a->group_count; g++) {
        const struct shared *shared = &a->shared[g];
        shared_print(a, shared, g, width);
        if (shared->cut) {
            double whole, split;
            weights_sum(a, shared, &whole, &split);
            printf("       shared: %u nodes, %.3f MB of weights; all together %.3f MB instead of %.3f MB%s\n",
                   shared->cut->node_count, (double)shared->cut->weights_bytes / 1e6, split / 1e6, whole / 1e6,
                   untried ? " (not tried)" : "");
        }
        if (shared->reason[0])
            printf("       %s: %s\n", shared->cut ? "a deeper cut was refused" : "served whole", shared->reason);
    }
    for (uint32_t m = 0; m < a->count; m++)
        if (a->reasons[m][0])
            printf("%s: %s\n", a->names[m], a->reasons[m]);
}

static int prefixes_run(int argc, char **argv) {
    struct settings s = {.tensors = GROUP_TENSORS, .items = 8, .share = 100 * GROUP_SHARE};
    struct answer a = {.count = 0};
    struct sy_error err;
    int args_count, status = options_parse(&options, argc, argv, &s, &args_count);
    if (status != OPTIONS_GO_ON)
        return status;
    if (s.write && s.untried)
        return cli_usage_error("plan prefixes", "--write needs the parts to be tried: without --untried");
    int rc = 0;
    for (int i = 1; !rc && i <= args_count; i++)
        rc = models_scan(&a, argv[i], &err);
    if (!rc)
        rc = models_read(&a, &err);
    if (!rc)
        rc = answer_find(&a, &s, &err);
    bool any = false;
    if (rc) {
        fprintf(stderr, "symphony plan prefixes: %s\n", err.text);
    } else {
        for (uint32_t g = 0; g < a.group_count; g++)
            any |= a.shared[g].cut != NULL;
        if (s.json)
            answer_json(&a, s.untried);
        else
            answer_table(&a, s.untried);
    }
    answer_free(&a);
    return rc ? CLI_USAGE : any ? CLI_OK : CLI_FAILURE;
}

const struct cli_command plan_prefixes = {
    .name = "plan prefixes",
    .summary = "models that begin with the same layers, and what sharing them saves (Nexus)",
    .run = prefixes_run,
};
