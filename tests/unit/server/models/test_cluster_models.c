/* test_cluster_models.c - models that a scheduler announces to a frontend: some cannot be prepared for there, some are
 * replaced. */
/* Starts threads. */
#include "unit/test.h"

#include "server/models/cluster_models.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "front/request/infer_counters.h"
#include "model/repository/model_description.h"
#include "specs.h"
#include "unit/server/world.h"

#define CLUSTER(places)                                                                                                \
    "cluster: {accelerators: 1, type: test}\n"                                                                         \
    "models:\n  - {name: place, alpha_ms: 1, beta_ms: 1, slo_ms: 50, copies: " places "}\n"                            \
    "workload: {rate_rps: 10}\n"

/* A server whose places are given to the models. */
struct frontend_world {
    struct world world;
    struct cluster_models *models;
    uint32_t version; /* of the model that is announced next */
};

static void begin_places(struct frontend_world *f, const char *cluster) {
    world_plan(&f->world, cluster);
    struct server_config config = world_config(&f->world, &policy_deferred);
    world_begin(&f->world, &config);
    for (uint32_t i = 0; i < f->world.deployment.model_count; i++)
        served_model_release(&f->world.deployment.models[i]);
    f->models =
        cluster_models_create(&f->world.server->config, &f->world.server->models, &f->world.server->readiness, NULL);
    assert_non_null(f->models);
    cluster_models_told(f->models);
    f->version = 1;
}

static void begin(struct frontend_world *f) {
    begin_places(f, CLUSTER("3"));
}

static void end(struct frontend_world *f) {
    cluster_models_destroy(f->models); /* no request is left that holds one */
    world_end(&f->world);
}

/* Announces model `m` of these contents, whose input `file` prepares, or an image, or nothing. Its place. */
static uint32_t serve_contents(struct frontend_world *f, const char *of, const char *file, bool image) {
    static struct served_model model;
    struct described_profile profile = {.type = "cpu", .profile = malloc(profile_bytes(4))};
    struct prepared_file *contents = calloc(1, sizeof(*contents) + 16);
    struct sy_error err = {""};
    size_t bytes;
    assert_true(profile.profile && contents);
    profile_set_line(profile.profile, 4, NS_PER_MS, NS_PER_MS);
    served_model_release(&model);
    model = (struct served_model){
        .name = "m",
        .version = f->version,
        .platform = "onnxruntime_onnx",
        .batch_max = 4,
        .slo_ns = 50 * NS_PER_MS,
        .weight = 1,
        .item_elements = 12,
        .prepared = file || image,
    };
    specs_set(&model, (struct signature){
                          .inputs = SPECS({.name = "x", .type = DATATYPE_UINT8, .dim_count = 4, .dims = {-1, 2, 2, 3}}),
                          .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 1}}),
                          .input_count = 1,
                          .output_count = 1,
                          .batched = true});
    memcpy(model.reference_dims[0], (int64_t[]){1, 2, 2, 3}, 4 * sizeof(int64_t));
    model.preparations = mem_pool_take(&model.memory, sizeof(*model.preparations));
    model.preparations[0] = (struct served_preparation){
        .bytes_max = image ? 1 << 20 : 0, .pixels_max = image ? 1 << 20 : 0, .image_line = 2};
    strcpy(model.contents, of);
    if (file) {
        struct served_preparation *p = &model.preparations[0];
        strcpy(p->file, "prep.onnx");
        p->file_line = 3;
        p->contents = contents;
        contents->bytes = (uint32_t)strlen(file);
        memcpy(contents->data, file, contents->bytes);
    }
    char *text = model_description_write(&model, &profile, 1, &bytes, &err);
    if (!text)
        fail_msg("%s", err.text);
    int place = cluster_models_serve(f->models, text, bytes, &err);
    if (place < 0)
        fail_msg("%s", err.text);
    free(text);
    free(contents);
    free(profile.profile);
    return (uint32_t)place;
}

static uint32_t serve(struct frontend_world *f, const char *file, bool image) {
    return serve_contents(f, "0123456789abcdef0123456789abcdef", file, image);
}

/* Until all files have been opened, or could not be. */
static void settle(struct frontend_world *f) {
    while (cluster_models_look(f->models))
        sched_yield();
}

/* What clients are told of the model: its place if it is served, or -1 with the reason why not. */
static int told(struct frontend_world *f, enum model_state *state, char reason[512]) {
    const struct model_index *now = server_models_lock(f->world.server);
    int place = now->count ? (int)now->listed[0] : -1;
    if (place < 0) {
        assert_int_equal(now->absent_count, 1);
        *state = now->absent[0].state;
        strcpy(reason, now->absent[0].reason);
    }
    server_models_unlock(f->world.server);
    return place;
}

TEST(a_file_that_cannot_be_opened_sets_its_model_aside) {
    struct frontend_world f;
    enum model_state is;
    char reason[512];
    begin(&f);
    serve(&f, "no model", false);
    assert_int_equal(told(&f, &is, reason), -1);
    assert_int_equal(is, MODEL_LOADING);
    settle(&f);
    assert_int_equal(told(&f, &is, reason), -1);
    assert_int_equal(is, MODEL_UNAVAILABLE);
    assert_non_null(strstr(reason, "m/symphony.yaml:3: prepare.0: "));
    assert_non_null(strstr(reason, "prep.onnx"));
    end(&f);
}

TEST(many_models_are_all_published) {
    struct frontend_world f;
    begin_places(&f, CLUSTER("150"));
    for (; f.version <= 150; f.version++)
        serve(&f, NULL, false);
    settle(&f);
    assert_int_equal(server_models_lock(f.world.server)->count, 150);
    server_models_unlock(f.world.server);
    end(&f);
}

TEST(the_model_that_it_was_to_replace_goes_on) {
    struct frontend_world f;
    enum model_state is;
    char reason[512];
    begin(&f);
    uint32_t first = serve(&f, NULL, false);
    assert_int_equal(told(&f, &is, reason), first);
    assert_false(cluster_models_outlasts(f.models, first));
    assert_int_not_equal(serve(&f, "no model", false), first);
    assert_true(cluster_models_outlasts(f.models, first));
    settle(&f);
    assert_false(cluster_models_outlasts(f.models, first));
    assert_int_equal(told(&f, &is, reason), first);
    end(&f);
}

TEST(one_that_is_gone_before_it_is_opened_goes) {
    struct frontend_world f;
    enum model_state is;
    char reason[512];
    begin(&f);
    uint32_t first = serve(&f, NULL, false), second = serve(&f, "no model", false);
    cluster_models_gone(f.models, second);
    assert_false(cluster_models_outlasts(f.models, first));
    settle(&f);
    assert_int_equal(told(&f, &is, reason), first);
    assert_int_equal(serve_contents(&f, "fedcba9876543210fedcba9876543210", NULL, false), second); /* it is free */
    assert_int_equal(told(&f, &is, reason), second);
    settle(&f);
    end(&f);
}

/* By a request whose head has been read, and whose body has not. */
TEST(a_replaced_model_goes_on_while_requests_come_in) {
    struct frontend_world f;
    begin(&f);
    uint32_t first = serve(&f, NULL, false);
    _Atomic uint32_t *held = (_Atomic uint32_t *)&frontends_counters(&f.world.server->frontends, 0)->models[first].held;
    atomic_store(held, 1); /* as its frontend does, which sleeps */
    assert_false(cluster_models_outlasts(f.models, first));
    int64_t replaced_ns = clock_now_ns();
    serve_contents(&f, "fedcba9876543210fedcba9876543210", NULL, false);
    bool goes_on = cluster_models_outlasts(f.models, first);
    assert_true(goes_on || clock_now_ns() - replaced_ns > NS_PER_S / 2);
    while (cluster_models_outlasts(f.models, first)) /* a client that never sends the rest */
        usleep(1000);
    assert_true(clock_now_ns() - replaced_ns >= NS_PER_S);
    assert_true(cluster_models_look(f.models)); /* its answer is still to be given */
    atomic_store(held, 0);
    settle(&f);
    assert_false(cluster_models_outlasts(f.models, first));
    end(&f);
}

/* Where this process knows which models are to be served. */
TEST(a_model_that_is_unloaded_says_so_until_its_last_answer) {
    static const struct model_absent known = {.name = "m", .state = MODEL_UNAVAILABLE, .reason = "unloaded"};
    struct frontend_world f;
    enum model_state is;
    char reason[512];
    begin(&f);
    uint32_t first = serve(&f, NULL, false);
    _Atomic uint32_t *held = (_Atomic uint32_t *)&frontends_counters(&f.world.server->frontends, 0)->models[first].held;
    atomic_store(held, 1);
    assert_int_equal(cluster_models_hand(f.models, MODELS_KNOWN, &known, 1), 0);
    settle(&f);
    assert_int_equal(told(&f, &is, reason), first); /* the scheduler has not said yet that it is gone */
    cluster_models_gone(f.models, first);
    assert_true(cluster_models_outlasts(f.models, first)); /* clients are not told yet */
    assert_true(cluster_models_look(f.models));
    assert_int_equal(told(&f, &is, reason), -1);
    assert_int_equal(is, MODEL_UNLOADING);
    assert_string_equal(reason, "");
    assert_true(cluster_models_outlasts(f.models, first));
    atomic_store(held, 0);
    settle(&f);
    assert_int_equal(told(&f, &is, reason), -1);
    assert_int_equal(is, MODEL_UNAVAILABLE);
    assert_string_equal(reason, "unloaded");
    end(&f);
}

/* As while the processes of `serve --isolate` prepare their models. */
TEST(what_is_awaited_is_shown_until_it_serves) {
    static const struct model_absent awaited = {
        .name = "m", .version = 1, .state = MODEL_LOADING, .reason = "it waits"};
    struct frontend_world f;
    enum model_state is;
    char reason[512];
    begin(&f);
    assert_int_equal(cluster_models_hand(f.models, MODELS_ASIDE, &awaited, 1), 0);
    assert_false(cluster_models_shown(f.models, MODELS_ASIDE));
    settle(&f);
    assert_true(cluster_models_shown(f.models, MODELS_ASIDE));
    assert_int_equal(told(&f, &is, reason), -1);
    assert_int_equal(is, MODEL_LOADING);
    assert_string_equal(reason, "it waits");
    uint32_t place = serve(&f, NULL, false);
    settle(&f);
    assert_int_equal(told(&f, &is, reason), place);
    const struct model_index *now = server_models_lock(f.world.server);
    assert_int_equal(now->absent_count, 0);
    server_models_unlock(f.world.server);
    end(&f);
}

TEST(a_process_that_prepares_nothing_says_so) {
    struct frontend_world f;
    enum model_state is;
    char reason[512];
    begin(&f);
    serve(&f, NULL, true);
    assert_int_equal(told(&f, &is, reason), -1);
    assert_int_equal(is, MODEL_UNAVAILABLE);
    assert_string_equal(reason, "no thread here prepares inputs");
    end(&f);
}
