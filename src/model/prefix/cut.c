/* cut.c - makes one graph of the nodes that all models have, and finds its cuts. */
#include "model/prefix/cut.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONE       UINT32_MAX
#define VISITS_MAX 300000000 /* most edges that the search for cuts before single nodes looks at: about a second */

/* ---- a model ---- */

static int model_complete(struct cut_model *model, int read, struct sy_error *err) {
    int rc = read ? read : onnx_digests_make(&model->graph, &model->digests, err);
    if (!read && rc)
        onnx_graph_free(&model->graph);
    if (rc)
        return rc;
    const struct onnx_graph *graph = &model->graph;
    bool *nodes = calloc(graph->node_count + 1, sizeof(*nodes));
    bool *tensors = calloc(graph->tensor_count + 1, sizeof(*tensors));
    if (nodes && tensors) {
        cut_needed(graph, graph->outputs, graph->output_count, NULL, nodes, tensors);
        for (uint32_t n = 0; n < graph->node_count; n++)
            model->node_count += nodes[n];
        for (uint32_t t = 0; t < graph->tensor_count; t++)
            model->weights_bytes += tensors[t] ? model->digests.weights_bytes[t] : 0;
    } else {
        rc = error_set(err, -ENOMEM, "%s: out of memory", graph->path);
        cut_model_free(model);
    }
    free(nodes);
    free(tensors);
    return rc;
}

int cut_model_read(const char *path, struct cut_model *model, struct sy_error *err) {
    *model = (struct cut_model){.node_count = 0};
    return model_complete(model, onnx_graph_read(path, &model->graph, err), err);
}

int cut_model_parse(const char *path, const void *data, size_t bytes, struct cut_model *model, struct sy_error *err) {
    *model = (struct cut_model){.node_count = 0};
    return model_complete(model, onnx_graph_parse(path, data, bytes, &model->graph, err), err);
}

void cut_model_free(struct cut_model *model) {
    onnx_digests_free(&model->digests);
    onnx_graph_free(&model->graph);
}

void cut_needed(const struct onnx_graph *graph, const uint32_t *goals, uint32_t goal_count, const bool *stops,
                bool *nodes, bool *tensors) {
    for (uint32_t g = 0; g < goal_count; g++) {
        tensors[goals[g]] = true;
        if (graph->tensors[goals[g]].node != ONNX_NONE && !(stops && stops[goals[g]]))
            nodes[graph->tensors[goals[g]].node] = true;
    }
    for (uint32_t n = graph->node_count; n-- > 0;) {
        const struct onnx_node *node = &graph->nodes[n];
        for (uint32_t i = 0; nodes[n] && i < node->input_count + node->captured_count; i++) {
            uint32_t t = graph->uses[node->uses_at + i];
            if (t == ONNX_NONE)
                continue;
            tensors[t] = true;
            if (graph->tensors[t].node != ONNX_NONE && !(stops && stops[t]))
                nodes[graph->tensors[t].node] = true;
        }
    }
}

/* ---- a table of digests ---- */

struct entry {
    const struct onnx_digest *digest; /* digest of the entry; NULL: the entry is free */
    uint32_t models;                  /* number of models, from the first on, that have the digest */
    uint32_t class;
};

struct table {
    struct entry *entries;
    uint32_t slots;
};

/* The entry of a digest, or the free entry where it would go. */
static struct entry *table_find(const struct table *table, const struct onnx_digest *digest) {
    uint32_t at = (uint32_t)digest->words[0] & (table->slots - 1);
    while (table->entries[at].digest && !onnx_digest_equal(table->entries[at].digest, digest))
        at = (at + 1) & (table->slots - 1);
    return &table->entries[at];
}

/* Whether a node may be in a prefix: the node depends on inputs, an output depends on the node, and another node may
 * equal it. */
static bool eligible(const struct cut_model *model, uint32_t n) {
    const struct onnx_node *node = &model->graph.nodes[n];
    if (!model->digests.live[n] || onnx_digest_none(&model->digests.nodes[n]))
        return false;
    for (uint32_t o = 0; o < node->output_count; o++) {
        uint32_t t = model->graph.gives[node->gives_at + o];
        if (t != ONNX_NONE && model->digests.from_input[t])
            return true;
    }
    return false;
}

/* Enters the nodes of the models in the table. Nodes that all models have end with `models` = model_count. */
static bool table_fill(struct table *table, const struct cut_model *const *models, uint32_t model_count) {
    for (table->slots = 16; table->slots < 2 * models[0]->graph.node_count;)
        table->slots *= 2;
    table->entries = calloc(table->slots, sizeof(*table->entries));
    if (!table->entries)
        return false;
    for (uint32_t m = 0; m < model_count; m++)
        for (uint32_t n = 0; n < models[m]->graph.node_count; n++) {
            if (!eligible(models[m], n))
                continue;
            struct entry *entry = table_find(table, &models[m]->digests.nodes[n]);
            if (m == 0 && !entry->digest)
                *entry = (struct entry){.digest = &models[0]->digests.nodes[n], .models = 1, .class = NONE};
            else if (entry->digest && entry->models == m)
                entry->models = m + 1;
        }
    return true;
}

uint32_t cut_common(const struct cut_model *a, const struct cut_model *b) {
    const struct cut_model *const both[] = {a, b};
    struct table table;
    uint32_t common = 0;
    if (!table_fill(&table, both, 2))
        return 0;
    for (uint32_t s = 0; s < table.slots; s++)
        common += table.entries[s].digest && table.entries[s].models == 2;
    free(table.entries);
    return common;
}

/* ---- the common graph ---- */

/* A use of a tensor of the common graph. */
struct use {
    uint32_t tensor, by; /* tensor, and class that uses it; `class_count`: a node that is not common, or an output */
};

/* Nodes that all models have and that compute the same are one class. Classes are numbered in the first model's order,
 * so a class takes only tensors of lower ones. The tensors of class c are first[c]..first[c + 1] - 1. */
struct common {
    uint32_t class_count, tensor_count, use_count, before_count;
    uint32_t *node;               /* [class_count] node of the first model, by class */
    uint32_t *first;              /* [class_count + 1] first tensor of each class */
    uint32_t *last_use;           /* [tensor_count] greatest class that uses a tensor, plus 1; 0: none */
    struct use *uses;             /* [use_count] uses, by tensor */
    uint32_t *uses_at;            /* [tensor_count + 1] place in `uses` of each tensor's first use */
    uint32_t *before, *before_at; /* classes whose tensors a class takes; [class_count + 1] the first of them */
    int32_t *open;                /* [class_count + 1] scratch: change of the number of open tensors at each class */
    bool *in;                     /* [class_count] scratch */
    uint32_t *stack;              /* [class_count] scratch */
};

static void common_free(struct common *c) {
    free(c->node);
    free(c->first);
    free(c->last_use);
    free(c->uses);
    free(c->uses_at);
    free(c->before);
    free(c->before_at);
    free(c->open);
    free(c->in);
    free(c->stack);
}

static bool common_make(struct common *c, struct table *table, const struct cut_model *const *models,
                        uint32_t model_count) {
    const struct onnx_graph *graph = &models[0]->graph;
    uint64_t uses = 1;
    for (uint32_t m = 0; m < model_count; m++)
        uses += models[m]->graph.use_count + models[m]->graph.output_count;
    if (uses >= UINT32_MAX)
        uses = 0;
    *c = (struct common){
        .node = calloc(graph->node_count + 1, sizeof(*c->node)),
        .first = calloc(graph->node_count + 2, sizeof(*c->first)),
        .last_use = calloc(graph->give_count + 1, sizeof(*c->last_use)),
        .uses = calloc(uses, sizeof(*c->uses)),
        .uses_at = calloc(graph->give_count + 2, sizeof(*c->uses_at)),
        .before = calloc(graph->use_count + 1, sizeof(*c->before)),
        .before_at = calloc(graph->node_count + 2, sizeof(*c->before_at)),
        .open = calloc(graph->node_count + 2, sizeof(*c->open)),
        .in = calloc(graph->node_count + 1, sizeof(*c->in)),
        .stack = calloc(graph->node_count + 1, sizeof(*c->stack)),
    };
    if (!uses || !c->node || !c->first || !c->last_use || !c->uses || !c->uses_at || !c->before || !c->before_at ||
        !c->open || !c->in || !c->stack)
        return false;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        struct entry *entry = eligible(models[0], n) ? table_find(table, &models[0]->digests.nodes[n]) : NULL;
        if (!entry || entry->models != model_count || entry->class != NONE)
            continue;
        entry->class = c->class_count;
        c->node[c->class_count] = n;
        c->first[c->class_count++] = c->tensor_count;
        c->tensor_count += graph->nodes[n].output_count;
    }
    c->first[c->class_count] = c->tensor_count;
    return true;
}

/* The class of a node of any of the models; NONE: the node is not common. */
static uint32_t class_of(const struct table *table, const struct cut_model *model, uint32_t n, uint32_t model_count) {
    if (n == ONNX_NONE || !eligible(model, n))
        return NONE;
    const struct entry *entry = table_find(table, &model->digests.nodes[n]);
    return entry->digest && entry->models == model_count ? entry->class : NONE;
}

/* The number in the common graph of a model's tensor; NONE: the tensor is not in it, or depends on no input. */
static uint32_t common_tensor(const struct common *c, const struct table *table, const struct cut_model *model,
                              uint32_t t, uint32_t model_count) {
    uint32_t n = t == ONNX_NONE ? ONNX_NONE : model->graph.tensors[t].node;
    uint32_t class = class_of(table, model, n, model_count);
    if (class == NONE || !model->digests.from_input[t])
        return NONE;
    const struct onnx_node *node = &model->graph.nodes[n];
    for (uint32_t o = 0; o < node->output_count; o++)
        if (model->graph.gives[node->gives_at + o] == t)
            return c->first[class] + o;
    return NONE;
}

static void use_note(struct common *c, uint32_t tensor, uint32_t by) {
    c->uses[c->use_count++] = (struct use){tensor, by};
    if (c->last_use[tensor] < by + 1)
        c->last_use[tensor] = by + 1;
}

static int use_order(const void *a, const void *b) {
    const struct use *x = a, *y = b;
    return x->tensor != y->tensor ? (x->tensor < y->tensor ? -1 : 1) : (x->by > y->by) - (x->by < y->by);
}

static void model_uses(struct common *c, const struct table *table, const struct cut_model *model,
                       uint32_t model_count) {
    const struct onnx_graph *graph = &model->graph;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct onnx_node *node = &graph->nodes[n];
        uint32_t by = class_of(table, model, n, model_count);
        for (uint32_t i = 0; model->digests.live[n] && i < node->input_count + node->captured_count; i++) {
            uint32_t t = common_tensor(c, table, model, graph->uses[node->uses_at + i], model_count);
            if (t != NONE)
                use_note(c, t, by == NONE ? c->class_count : by);
        }
    }
    for (uint32_t i = 0; i < graph->output_count; i++) {
        uint32_t t = common_tensor(c, table, model, graph->outputs[i], model_count);
        if (t != NONE)
            use_note(c, t, c->class_count);
    }
}

static void common_edges(struct common *c, const struct table *table, const struct cut_model *const *models,
                         uint32_t model_count) {
    const struct onnx_graph *graph = &models[0]->graph;
    for (uint32_t m = 0; m < model_count; m++)
        model_uses(c, table, models[m], model_count);
    qsort(c->uses, c->use_count, sizeof(*c->uses), use_order);
    for (uint32_t u = 0; u < c->use_count; u++)
        c->uses_at[c->uses[u].tensor + 1]++;
    for (uint32_t t = 0; t < c->tensor_count; t++)
        c->uses_at[t + 1] += c->uses_at[t];
    for (uint32_t k = 0; k < c->class_count; k++) {
        const struct onnx_node *node = &graph->nodes[c->node[k]];
        for (uint32_t i = 0; i < node->input_count; i++) {
            uint32_t t = graph->uses[node->uses_at + i];
            uint32_t from = t == ONNX_NONE ? NONE : class_of(table, models[0], graph->tensors[t].node, model_count);
            if (from != NONE)
                c->before[c->before_count++] = from;
        }
        c->before_at[k + 1] = c->before_count;
    }
}

/* ---- cuts ---- */

struct candidate {
    uint32_t classes, tensors;
    uint32_t at;  /* class of the candidate, see `closure` */
    bool closure; /* true: the cut is behind class `at` and all classes before it in the graph; false: behind all
                     classes up to number `at` */
};

static int candidate_order(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->classes != y->classes)
        return x->classes > y->classes ? -1 : 1;
    if (x->tensors != y->tensors)
        return x->tensors < y->tensors ? -1 : 1;
    return x->at != y->at ? (x->at > y->at ? -1 : 1) : (int)x->closure - (int)y->closure;
}

/* Marks a candidate's classes in `in`, which must be clear. Returns the number of classes; *visits counts the edges. */
static uint32_t candidate_mark(struct common *c, const struct candidate *candidate, uint64_t *visits) {
    uint32_t depth = 0, count = 1;
    if (!candidate->closure) {
        memset(c->in, true, candidate->at + 1);
        return candidate->at + 1;
    }
    c->in[candidate->at] = true;
    c->stack[depth++] = candidate->at;
    while (depth > 0) {
        uint32_t k = c->stack[--depth];
        *visits += c->before_at[k + 1] - c->before_at[k] + 1;
        for (uint32_t e = c->before_at[k]; e < c->before_at[k + 1]; e++)
            if (!c->in[c->before[e]]) {
                c->in[c->before[e]] = true;
                c->stack[depth++] = c->before[e];
                count++;
            }
    }
    return count;
}

static bool tensor_open(const struct common *c, uint32_t t) {
    for (uint32_t u = c->uses_at[t]; u < c->uses_at[t + 1]; u++)
        if (c->uses[u].by == c->class_count || !c->in[c->uses[u].by])
            return true;
    return false;
}

/* The number of tensors of marked classes that other classes use, counted up to `most` + 1. */
static uint32_t tensors_open(const struct common *c, uint32_t last, uint32_t most, uint32_t *tensors) {
    uint32_t count = 0;
    for (uint32_t k = 0; k <= last; k++)
        for (uint32_t t = c->first[k]; c->in[k] && t < c->first[k + 1]; t++)
            if (tensor_open(c, t)) {
                if (count == most)
                    return most + 1;
                tensors[count++] = t;
            }
    return count;
}

/* Tries each class with all that comes before it as a cut, from the last class on, since later classes are deeper. */
static uint32_t candidates_closures(struct common *c, uint32_t tensors_max, struct candidate *candidates) {
    uint32_t count = 0, tensors[CUT_TENSORS_MAX];
    uint64_t visits = 0;
    for (uint32_t k = c->class_count; k-- > 0 && visits < VISITS_MAX;) {
        struct candidate candidate = {.at = k, .closure = true};
        candidate.classes = candidate_mark(c, &candidate, &visits);
        candidate.tensors = tensors_open(c, k, tensors_max, tensors);
        visits += k;
        memset(c->in, false, k + 1);
        if (candidate.tensors >= 1 && candidate.tensors <= tensors_max)
            candidates[count++] = candidate;
    }
    return count;
}

/* Tries all classes up to each class as a cut. A tensor is open from its class until the class before its last use. */
static uint32_t candidates_orders(struct common *c, uint32_t tensors_max, struct candidate *candidates) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < c->class_count; k++)
        for (uint32_t t = c->first[k]; t < c->first[k + 1]; t++)
            if (c->last_use[t]) {
                c->open[k]++;
                c->open[c->last_use[t] - 1]--;
            }
    int32_t open = 0;
    for (uint32_t k = 0; k < c->class_count; k++) {
        open += c->open[k];
        if (open >= 1 && open <= (int32_t)tensors_max)
            candidates[count++] = (struct candidate){.classes = k + 1, .tensors = (uint32_t)open, .at = k};
    }
    return count;
}

/* Makes the cut of a candidate: its tensors, and the nodes and weights of the first model before them. */
static void cut_make(struct common *c, const struct candidate *candidate, const struct cut_model *model,
                     struct cut *cut, bool *nodes, bool *marked) {
    const struct onnx_graph *graph = &model->graph;
    uint32_t tensors[CUT_TENSORS_MAX], goals[CUT_TENSORS_MAX];
    uint64_t visits = 0;
    *cut = (struct cut){.node_count = 0};
    candidate_mark(c, candidate, &visits);
    cut->tensor_count = tensors_open(c, candidate->at, candidate->tensors, tensors);
    for (uint32_t i = 0, k = 0; i < cut->tensor_count; i++) {
        while (c->first[k + 1] <= tensors[i])
            k++;
        goals[i] = graph->gives[graph->nodes[c->node[k]].gives_at + tensors[i] - c->first[k]];
        cut->tensors[i] = model->digests.tensors[goals[i]];
    }
    memset(c->in, false, c->class_count);
    memset(nodes, false, graph->node_count);
    memset(marked, false, graph->tensor_count);
    cut_needed(graph, goals, cut->tensor_count, NULL, nodes, marked);
    for (uint32_t n = 0; n < graph->node_count; n++)
        cut->node_count += nodes[n];
    for (uint32_t t = 0; t < graph->tensor_count; t++)
        cut->weights_bytes += marked[t] ? model->digests.weights_bytes[t] : 0;
}

static int common_cuts(struct common *c, const struct cut_model *model, uint32_t tensors_max, struct cut *cuts,
                       uint32_t *count, struct sy_error *err) {
    struct candidate *candidates = calloc(2 * (size_t)c->class_count + 1, sizeof(*candidates));
    bool *nodes = calloc(model->graph.node_count + 1, sizeof(*nodes));
    bool *marked = calloc(model->graph.tensor_count + 1, sizeof(*marked));
    int rc = candidates && nodes && marked ? 0 : error_set(err, -ENOMEM, "out of memory");
    if (!rc) {
        uint32_t found = candidates_closures(c, tensors_max, candidates);
        found += candidates_orders(c, tensors_max, candidates + found);
        qsort(candidates, found, sizeof(*candidates), candidate_order);
        for (uint32_t i = 0; i < found && *count < CUTS_MAX; i++) {
            cut_make(c, &candidates[i], model, &cuts[*count], nodes, marked);
            bool again = false;
            for (uint32_t before = 0; before < *count; before++)
                again |= cuts[before].tensor_count == cuts[*count].tensor_count &&
                         memcmp(cuts[before].tensors, cuts[*count].tensors,
                                cuts[before].tensor_count * sizeof(cuts[0].tensors[0])) == 0;
            *count += !again;
        }
    }
    free(candidates);
    free(nodes);
    free(marked);
    return rc;
}

int cuts_find(const struct cut_model *const *models, uint32_t model_count, uint32_t tensors_max,
              struct cut cuts[CUTS_MAX], uint32_t *count, struct sy_error *err) {
    struct table table = {NULL, 0};
    struct common common = {.class_count = 0};
    int rc = 0;
    *count = 0;
    if (tensors_max > CUT_TENSORS_MAX)
        tensors_max = CUT_TENSORS_MAX;
    if (!table_fill(&table, models, model_count) || !common_make(&common, &table, models, model_count)) {
        rc = error_set(err, -ENOMEM, "out of memory");
    } else {
        common_edges(&common, &table, models, model_count);
        rc = common_cuts(&common, models[0], tensors_max, cuts, count, err);
    }
    common_free(&common);
    free(table.entries);
    return rc;
}

void cut_tensors(const struct cut_model *model, const struct cut *cut, uint32_t tensors[CUT_TENSORS_MAX]) {
    for (uint32_t i = 0; i < cut->tensor_count; i++) {
        tensors[i] = ONNX_NONE;
        for (uint32_t t = 0; t < model->graph.tensor_count && tensors[i] == ONNX_NONE; t++)
            if (onnx_digest_equal(&model->digests.tensors[t], &cut->tensors[i]))
                tensors[i] = t;
    }
}
