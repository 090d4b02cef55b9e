/* test_catalogue.c - drawn histories of backends that come and go, against what they have right now. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/membership/catalogue.h"
#include "core/util/rng.h"
#include "histories.h"
#include "model/config/model_name.h"
#include "specs.h"
#include "unit/model/repository/one_step.h"
#include "unit/test.h"

#define BACKENDS 12
#define MODELS   6
#define TYPES    4
#define HISTORY  3000 /* steps */

static const char *const types[TYPES] = {"cpu", "t4", "a100", "h200"};

/* What a backend has: a bit for each model that it runs on a type. */
struct backend {
    bool here;
    uint32_t runs[TYPES];
    uint32_t class[TYPES]; /* CATALOGUE_NONE: it has none of the type, or there was no room */
    struct brought_model brought[MODELS];
    uint32_t brought_count;
};

struct world {
    struct catalogue catalogue;
    struct backend backends[BACKENDS];
};

static struct served_model *model_new(uint32_t m, int64_t outputs) {
    struct served_model *model = calloc(1, sizeof(*model));
    assert_non_null(model);
    snprintf(model->name, sizeof(model->name), "m-%u", m);
    model->version = 1;
    strcpy(model->platform, "onnxruntime_onnx");
    specs_set(model, (struct signature){
                         .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 4}}),
                         .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, outputs}}),
                         .input_count = 1,
                         .output_count = 1,
                         .batched = true});
    model->batch_max = 8;
    model->slo_ns = 1000000000;
    model->weight = 1;
    model->queue.priorities = 1;
    model->queue.priority_default = 1;
    model->item_elements = 4;
    memcpy(model->reference_dims[0], (int64_t[]){1, 4}, 2 * sizeof(int64_t));
    return model;
}

/* A description of model `m`, with a profile for each type of the bits. `outputs`: of its one output. */
static char *describe_batches(uint32_t m, uint32_t type_bits, int64_t outputs, uint32_t batch_max) {
    struct served_model *model = model_new(m, outputs);
    model->batch_max = batch_max;
    struct described_profile profiles[TYPES];
    struct sy_error err;
    uint32_t count = 0;
    for (uint32_t t = 0; t < TYPES; t++) {
        if (!(type_bits >> t & 1))
            continue;
        struct described_profile *p = &profiles[count++];
        strcpy(p->type, types[t]);
        p->profile = malloc(profile_bytes(8));
        assert_int_equal(profile_set_points(p->profile, 8, (uint32_t[]){1, 8}, (int64_t[]){1000000, 2000000}, 2), 0);
    }
    char *text = model_description_write(model, profiles, count, NULL, &err);
    if (!text)
        fail_msg("%s", err.text);
    for (uint32_t i = 0; i < count; i++)
        free(profiles[i].profile);
    served_models_free(model, 1);
    return text;
}

static char *describe(uint32_t m, uint32_t type_bits, int64_t outputs) {
    return describe_batches(m, type_bits, outputs, 8);
}

static int world_make(void **state) {
    *state = calloc(1, sizeof(struct world));
    return *state ? 0 : -1;
}

static int world_free(void **state) {
    struct world *w = *state;
    for (uint32_t b = 0; b < BACKENDS; b++)
        for (uint32_t i = 0; i < w->backends[b].brought_count; i++)
            catalogue_take(&w->catalogue, &w->backends[b].brought[i]);
    catalogue_free(&w->catalogue);
    free(w);
    return 0;
}

static void bring(struct world *w, struct backend *b, uint32_t m, uint32_t type_bits) {
    struct sy_error err;
    char *text = describe(m, type_bits, 3);
    int rc = catalogue_bring(&w->catalogue, text, strlen(text), &b->brought[b->brought_count], &err);
    if (rc < 0)
        fail_msg("%s", err.text);
    b->brought_count++;
    free(text);
}

/* The number of its model in the catalogue; CATALOGUE_NONE: no backend has it. */
static uint32_t known_of(const struct world *w, uint32_t m) {
    char name[16];
    snprintf(name, sizeof(name), "m-%u", m);
    for (uint32_t i = 0; i < w->catalogue.known_count; i++)
        if (w->catalogue.known[i].model && strcmp(w->catalogue.known[i].model->name, name) == 0)
            return i;
    return CATALOGUE_NONE;
}

static void backend_comes(struct world *w, struct backend *b, struct rng *rng, uint32_t used) {
    uint32_t has = (uint32_t)rng_below(rng, 1 << TYPES);
    *b = (struct backend){.here = true};
    for (uint32_t t = 0; t < TYPES; t++) /* few sets of models, so that some are alike */
        b->runs[t] = rng_below(rng, 2) ? (1u << MODELS) - 1 : (uint32_t)rng_below(rng, 4);
    for (uint32_t m = 0; m < MODELS; m++) {
        uint32_t type_bits = 0;
        for (uint32_t t = 0; t < TYPES; t++)
            type_bits |= (b->runs[t] >> m & 1) << t;
        if (type_bits)
            bring(w, b, m, type_bits);
    }
    for (uint32_t t = 0; t < TYPES; t++) {
        uint32_t taken = used;
        b->class[t] = CATALOGUE_NONE;
        if (!(has >> t & 1))
            continue;
        for (uint32_t k = 0; k < ACCELERATOR_TYPES_MAX; k++)
            taken |= (w->catalogue.classes[k].backends > 0) << k;
        b->class[t] = catalogue_class(&w->catalogue, types[t], 1, b->brought, b->brought_count, used, 0);
        if (b->class[t] == CATALOGUE_NONE)
            assert_int_equal(taken, (1u << ACCELERATOR_TYPES_MAX) - 1);
    }
}

static void backend_goes(struct world *w, struct backend *b) {
    for (uint32_t t = 0; t < TYPES; t++)
        if (b->class[t] != CATALOGUE_NONE)
            catalogue_class_leave(&w->catalogue, b->class[t]);
    for (uint32_t i = 0; i < b->brought_count; i++) {
        catalogue_take(&w->catalogue, &b->brought[i]);
        catalogue_put_down(&w->catalogue, &b->brought[i]);
    }
    *b = (struct backend){.here = false};
}

/* Two backends' accelerators are of one class if type and models are the same, and only then. */
static void classes_are_right(const struct world *w) {
    for (uint32_t i = 0; i < BACKENDS * TYPES; i++)
        for (uint32_t j = 0; j < i; j++) {
            const struct backend *a = &w->backends[i / TYPES], *b = &w->backends[j / TYPES];
            uint32_t s = i % TYPES, t = j % TYPES;
            if (!a->here || !b->here || a->class[s] == CATALOGUE_NONE || b->class[t] == CATALOGUE_NONE)
                continue;
            bool alike = s == t && a->runs[s] == b->runs[t];
            assert_int_equal(a->class[s] == b->class[t], alike);
        }
}

static void models_run_where_they_are(const struct world *w) {
    for (uint32_t m = 0; m < MODELS; m++) {
        uint32_t runs_on = 0, backends = 0, known = known_of(w, m);
        for (uint32_t b = 0; b < BACKENDS; b++) {
            const struct backend *one = &w->backends[b];
            bool has = false;
            for (uint32_t t = 0; one->here && t < TYPES; t++) {
                bool runs = one->runs[t] >> m & 1;
                has |= runs;
                if (runs && one->class[t] != CATALOGUE_NONE)
                    runs_on |= 1u << one->class[t];
            }
            backends += has;
        }
        if (known == CATALOGUE_NONE) {
            assert_int_equal(backends, 0);
            continue;
        }
        assert_int_equal(w->catalogue.known[known].backends, backends);
        assert_int_equal(catalogue_runs_on(&w->catalogue, known), runs_on);
        for (uint32_t k = 0; k < ACCELERATOR_TYPES_MAX; k++)
            if (runs_on >> k & 1)
                assert_non_null(w->catalogue.known[known].profiles[k]);
    }
}

TEST_WITH(drawn_histories_are_followed, world_make, world_free) {
    struct world *w = *state;
    struct rng rng;
    rng_seed(&rng, histories_first());
    for (uint32_t step = 0; step < histories_count(HISTORY); step++) {
        struct backend *b = &w->backends[rng_below(&rng, BACKENDS)];
        uint32_t used = rng_below(&rng, 4) ? 0 : 1u << rng_below(&rng, ACCELERATOR_TYPES_MAX);
        if (b->here)
            backend_goes(w, b);
        else
            backend_comes(w, b, &rng, used);
        for (uint32_t i = 0; i < w->catalogue.known_count && step % 3 == 0; i++)
            catalogue_forget(&w->catalogue, i);
        classes_are_right(w);
        models_run_where_they_are(w);
    }
    for (uint32_t b = 0; b < BACKENDS; b++)
        if (w->backends[b].here)
            backend_goes(w, &w->backends[b]);
    for (uint32_t i = 0; i < w->catalogue.known_count; i++) {
        catalogue_forget(&w->catalogue, i);
        assert_null(w->catalogue.known[i].model);
        assert_int_equal(w->catalogue.known[i].ending, 0);
    }
}

TEST_WITH(a_place_keeps_its_class, world_make, world_free) {
    struct world *w = *state;
    struct backend *b = w->backends;
    bring(w, b, 0, 1);
    uint32_t class = catalogue_class(&w->catalogue, types[0], 1, b->brought, 1, 0, 0);
    catalogue_class_leave(&w->catalogue, class);
    uint32_t other = catalogue_class(&w->catalogue, types[1], 1, b->brought, 1, 1u << class, 0);
    assert_int_not_equal(other, class);
    assert_int_equal(catalogue_class(&w->catalogue, types[0], 1, b->brought, 1, 1u << class, 0),
                     class); /* it is back */
}

TEST_WITH(another_model_of_the_same_name_is_refused, world_make, world_free) {
    struct world *w = *state;
    struct brought_model brought;
    struct sy_error err;
    bring(w, &w->backends[0], 2, 1);
    char *text = describe(2, 1, 5);
    assert_int_equal(catalogue_bring(&w->catalogue, text, strlen(text), &brought, &err), -EEXIST);
    assert_non_null(strstr(err.text, "model 'm-2' version 1 is another one on other backends: outputs[0].shape[1]"));
    assert_int_equal(w->catalogue.known[known_of(w, 2)].backends, 1);
    assert_int_equal(catalogue_bring(&w->catalogue, text, strlen(text) / 2, &brought, &err), -EINVAL);
    free(text);
}

TEST_WITH(what_is_in_use_is_not_forgotten, world_make, world_free) {
    struct world *w = *state;
    struct backend *b = &w->backends[0];
    bring(w, b, 3, 1);
    uint32_t known = known_of(w, 3);
    assert_false(catalogue_forget(&w->catalogue, known));
    catalogue_take(&w->catalogue, &b->brought[--b->brought_count]);
    assert_false(catalogue_forget(&w->catalogue, known)); /* its number is still told to the backend */
    catalogue_put_down(&w->catalogue, &b->brought[b->brought_count]);
    w->catalogue.known[known].place = 5;
    assert_false(catalogue_forget(&w->catalogue, known));
    assert_int_equal(known_of(w, 3), known);
    w->catalogue.known[known].place = CATALOGUE_NONE;
    assert_true(catalogue_forget(&w->catalogue, known));
    assert_int_equal(known_of(w, 3), CATALOGUE_NONE);
}

/* A model that its backend lets go of counts for no class, and another of its name may come while its last requests
 * run.
 */
TEST_WITH(a_model_that_ends_makes_room_for_another, world_make, world_free) {
    struct world *w = *state;
    struct backend *b = &w->backends[0], *c = &w->backends[1];
    struct brought_model another;
    struct sy_error err;
    bring(w, b, 1, 1);
    bring(w, b, 2, 1);
    uint32_t both = catalogue_class(&w->catalogue, types[0], 1, b->brought, 2, 0, 0), first = known_of(w, 1);
    w->catalogue.known[first].place = 7; /* whose last requests run */
    catalogue_take(&w->catalogue, &b->brought[0]);
    assert_true(b->brought[0].ends);
    assert_int_equal(catalogue_successor(&w->catalogue, first), CATALOGUE_NONE);
    uint32_t one = catalogue_class(&w->catalogue, types[0], 1, b->brought, 2, 1u << both, 0);
    assert_int_not_equal(one, both);
    assert_int_equal(catalogue_runs_on(&w->catalogue, known_of(w, 2)), 1u << one | 1u << both);
    assert_int_equal(catalogue_runs_on(&w->catalogue, first), 1u << both);
    bring(w, c, 2, 1); /* another backend with the same models is of the same class */
    assert_int_equal(catalogue_class(&w->catalogue, types[0], 1, c->brought, 1, 0, 0), one);

    char *text = describe(1, 1, 5);
    assert_int_equal(catalogue_bring(&w->catalogue, text, strlen(text), &another, &err), 0);
    assert_int_not_equal(another.known, first);
    assert_int_equal(catalogue_successor(&w->catalogue, first), another.known);
    free(text);
    text = describe(1, 1, 3); /* the one before may not come back beside it */
    assert_int_equal(catalogue_bring(&w->catalogue, text, strlen(text), &b->brought[2], &err), -EEXIST);
    free(text);
    catalogue_take(&w->catalogue, &another);
    bring(w, b, 1, 1); /* now it may, as what it was */
    assert_int_equal(b->brought[2].known, first);
    w->catalogue.known[first].place = CATALOGUE_NONE;
    b->brought[0] = b->brought[--b->brought_count];
}

/* Only until it is served: a version that was there all the time takes nothing over. */
TEST_WITH(another_version_takes_over, world_make, world_free) {
    struct world *w = *state;
    struct backend *b = &w->backends[0];
    struct brought_model *next = &b->brought[1];
    struct sy_error err;
    bring(w, b, 1, 1);
    uint32_t first = known_of(w, 1);
    w->catalogue.known[first].place = 7;
    char *text = describe(1, 1, 3), *version = strstr(text, "\"version\":1");
    assert_non_null(version);
    version[strlen("\"version\":")] = '2';
    assert_int_equal(catalogue_bring(&w->catalogue, text, strlen(text), next, &err), 0);
    free(text);
    b->brought_count++;
    catalogue_take(&w->catalogue, &b->brought[0]);
    assert_int_equal(catalogue_successor(&w->catalogue, first), next->known);
    w->catalogue.known[next->known].place = 8;
    assert_int_equal(catalogue_successor(&w->catalogue, first), CATALOGUE_NONE);
    w->catalogue.known[next->known].place = w->catalogue.known[first].place = CATALOGUE_NONE;
    b->brought[0] = b->brought[--b->brought_count];
}

TEST_WITH(an_ensemble_is_in_no_class, world_make, world_free) {
    struct world *w = *state;
    struct backend *b = &w->backends[0];
    struct served_model *model = model_new(4, 3);
    struct sy_error err;
    bring(w, b, 1, 1);
    uint32_t class = catalogue_class(&w->catalogue, types[0], 1, b->brought, 1, 0, 0);
    model->ensemble = one_step("m-1");
    char *text = model_description_write(model, NULL, 0, NULL, &err);
    assert_non_null(text);
    if (catalogue_bring(&w->catalogue, text, strlen(text), &b->brought[b->brought_count++], &err))
        fail_msg("%s", err.text);
    uint32_t known = known_of(w, 4);
    assert_non_null(w->catalogue.known[known].model->ensemble);
    assert_int_equal(catalogue_class(&w->catalogue, types[0], 1, b->brought, 2, 0, 0), class);
    assert_int_equal(catalogue_runs_on(&w->catalogue, known), 0);
    w->catalogue.known[known].told = true;
    catalogue_take(&w->catalogue, &b->brought[--b->brought_count]);
    catalogue_put_down(&w->catalogue, &b->brought[b->brought_count]);
    assert_false(catalogue_forget(&w->catalogue, known)); /* frontends know it */
    w->catalogue.known[known].told = false;
    assert_true(catalogue_forget(&w->catalogue, known));
    assert_int_equal(known_of(w, 4), CATALOGUE_NONE);
    free(text);
    served_models_free(model, 1);
}

/* A class's batches are as large as the first backend's, so who can run only smaller ones is in another class. */
TEST_WITH(backends_of_a_class_run_its_batches, world_make, world_free) {
    static const uint32_t batch_max[] = {4, 8, 4, 3};
    struct world *w = *state;
    uint32_t classes[ARRAY_COUNT(batch_max)];
    struct sy_error err;
    for (uint32_t n = 0; n < ARRAY_COUNT(batch_max); n++) {
        struct backend *b = &w->backends[n];
        char *text = describe_batches(1, 1, 3, batch_max[n]);
        if (catalogue_bring(&w->catalogue, text, strlen(text), &b->brought[b->brought_count++], &err))
            fail_msg("%s", err.text);
        free(text);
        classes[n] = catalogue_class(&w->catalogue, types[0], 1, b->brought, 1, 0, 0);
        assert_int_not_equal(classes[n], CATALOGUE_NONE);
    }
    uint32_t known = known_of(w, 1);
    assert_true(classes[1] == classes[0] && classes[2] == classes[0] && classes[3] != classes[0]);
    assert_int_equal(w->catalogue.known[known].profiles[classes[0]]->batch_max, 4); /* the table had 8 */
    assert_int_equal(w->catalogue.known[known].profiles[classes[3]]->batch_max, 3);
}

/* Backends of which no two have the same models: as many as there are types, or with a central policy some more. */
TEST_WITH(a_central_policy_tells_more_classes_apart, world_make, world_free) {
    struct world *w = *state;
    uint64_t used = 0;
    w->catalogue.many = true;
    for (uint32_t n = 0; n < BACKENDS; n++) {
        struct backend *b = &w->backends[n];
        bring(w, b, n, 1);
        uint32_t class = catalogue_class(&w->catalogue, types[0], 1, b->brought, 1, 0, 0);
        assert_int_equal(class, n);
        assert_true(catalogue_runs_on(&w->catalogue, known_of(w, n)) == 1ULL << class);
        used |= 1ULL << class;
        w->catalogue.many = false;
        if (n + 1 >= ACCELERATOR_TYPES_MAX)
            assert_int_equal(catalogue_class(&w->catalogue, types[1], 1, b->brought, 1, used, 0), CATALOGUE_NONE);
        w->catalogue.many = true;
    }
}

TEST_WITH(a_class_changes_with_its_backends, world_make, world_free) {
    struct world *w = *state;
    struct catalogue *c = &w->catalogue;
    struct backend *a = &w->backends[0], *b = &w->backends[1];
    bring(w, a, 1, 1);
    bring(w, b, 1, 1);
    uint32_t class = catalogue_class(c, types[0], 1, a->brought, 1, 0, 0), first = known_of(w, 1);
    assert_int_equal(catalogue_class(c, types[0], 1, b->brought, 1, 0, 0), class);
    bring(w, a, 2, 1);
    assert_false(catalogue_class_fits(c, class, a->brought, 2));
    assert_false(catalogue_alike(types[0], a->brought, 2, b->brought, 1));
    bring(w, b, 2, 1);
    assert_true(catalogue_alike(types[0], a->brought, 2, b->brought, 2));
    assert_true(catalogue_class_change(c, class, a->brought, 2));
    assert_true(catalogue_class_fits(c, class, a->brought, 2) && catalogue_class_fits(c, class, b->brought, 2));
    assert_int_equal(catalogue_runs_on(c, known_of(w, 2)), 1u << class);
    assert_non_null(c->known[known_of(w, 2)].profiles[class]);
    const struct profile *profile = c->known[first].profiles[class];
    catalogue_take(c, &a->brought[0]);
    assert_false(catalogue_class_change(c, class, a->brought, 2)); /* the other one still has it */
    assert_int_equal(catalogue_runs_on(c, first), 1u << class);
    catalogue_take(c, &b->brought[0]);
    assert_true(catalogue_class_change(c, class, a->brought, 2));
    assert_int_equal(catalogue_runs_on(c, first), 0);
    assert_ptr_equal(c->known[first].profiles[class], profile); /* its last requests run by it */
    struct backend *late = &w->backends[2];
    bring(w, late, 2, 1);
    assert_int_not_equal(catalogue_class(c, types[0], 1, late->brought, 1, 1u << class, 1u << class), class);
    a->brought[0] = a->brought[--a->brought_count];
    b->brought[0] = b->brought[--b->brought_count];
}

/* The version that carries the requests which name none; *share: what is stated of it gets. */
static uint32_t carries(const uint32_t backends[3], const struct rollout *stated, uint32_t *share) {
    static const uint32_t at[] = {3, 1, 4}; /* another model is at 0 */
    struct catalogue *c = calloc(1, sizeof(*c));
    uint32_t found = 0, sum = 0;
    assert_non_null(c);
    if (stated)
        c->rollouts = (struct rollouts){.count = 1, .of = {*stated}};
    for (uint32_t v = 0; v < 3; v++) {
        struct known_model *known = &c->known[at[v]];
        known->model = model_new(7, 1);
        known->model->version = v + 1;
        c->names[at[v]] = model_name_hash(known->model->name, strlen(known->model->name));
        known->backends = backends[v];
        known->place = backends[v] ? v : CATALOGUE_NONE;
    }
    c->known[0].model = model_new(8, 1);
    c->known[0].model->version = 9;
    c->names[0] = c->names[at[0]]; /* the numbers of two names may be the same */
    c->known[0].backends = 9;
    c->known_count = 5;
    catalogue_versions(c, 3);
    for (uint32_t i = 1; i < 5; i++)
        if (c->known[i].model && c->known[i].place != CATALOGUE_NONE && !c->known[i].begins &&
            c->known[i].model->version > found)
            found = c->known[i].model->version;
    *share = 0;
    for (uint32_t i = 1; i < 5; i++) {
        sum += c->known[i].share;
        if (c->known[i].model && c->known[i].share > 0 && c->known[i].begins)
            *share = c->known[i].share;
    }
    assert_int_equal(sum, *share ? ROLLOUT_SHARE_ALL : 0);
    assert_int_equal(catalogue_carries(c, "m-7"), found);
    for (uint32_t i = 0; i < 5; i++)
        if (c->known[i].model)
            served_models_free(c->known[i].model, 1);
    free(c);
    return found;
}

TEST(a_new_version_carries_once_as_many_backends_have_it) {
    static const struct {
        uint32_t backends[3], carries;
    } cases[] = {
        {{3, 0, 0}, 1}, {{3, 1, 0}, 1}, {{3, 2, 0}, 1}, {{3, 3, 0}, 2}, /* backends keep the one before */
        {{2, 1, 0}, 1}, {{1, 2, 0}, 2}, {{0, 3, 0}, 2},                 /* or not */
        {{3, 1, 2}, 1}, {{3, 1, 3}, 3}, {{1, 3, 2}, 2}, {{0, 0, 1}, 3},
    };
    uint32_t share;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_int_equal(carries(cases[i].backends, NULL, &share), cases[i].carries);
}

TEST(what_is_stated_of_versions_goes_before) {
    static const struct {
        uint32_t backends[3], version, share, before, carries, shares;
    } cases[] = {
        {{3, 3, 0}, 1, ROLLOUT_SHARE_ALL, 0, 1, 0}, /* held */
        {{3, 1, 0}, 2, ROLLOUT_SHARE_ALL, 1, 1, 0}, /* too few backends have it */
        {{3, 3, 0}, 2, ROLLOUT_SHARE_ALL, 1, 2, 0},
        {{3, 3, 3}, 2, ROLLOUT_SHARE_ALL, 1, 2, 0}, /* though there is a newer one */
        {{3, 1, 0}, 2, 1000, 1, 1, 1000},
        {{3, 1, 0}, 2, 3333, 1, 1, 3333},
        {{3, 1, 0}, 2, 3334, 1, 1, 0}, /* a third of the backends cannot carry more than a third */
        {{3, 3, 3}, 3, 1000, 1, 1, 1000},
        {{3, 0, 3}, 2, 1000, 1, 1, 0},              /* nobody has it any more */
        {{0, 2, 1}, 3, 5000, 2, 2, 5000},           /* files are replaced in place */
        {{0, 0, 3}, 3, 5000, 2, 3, 0},              /* nobody has the one before any more */
        {{3, 3, 0}, 3, ROLLOUT_SHARE_ALL, 0, 2, 0}, /* the rule, since neither is served */
        {{1, 3, 0}, 1, ROLLOUT_SHARE_ALL, 0, 1, 0}, /* back, however few have it */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rollout stated = {
            .model = "m-7", .version = cases[i].version, .share = cases[i].share, .before = cases[i].before};
        uint32_t share;
        assert_int_equal(carries(cases[i].backends, &stated, &share), cases[i].carries);
        assert_int_equal(share, cases[i].shares);
    }
}
