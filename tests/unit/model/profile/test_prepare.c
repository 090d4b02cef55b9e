/* test_prepare.c - default SLOs; profiles found, made, kept and made again. This program is also the child. */
#include "unit/temp_folder.h"
#include "unit/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/system/folder.h"
#include "core/util/container.h"
#include "core/util/time.h"
#include "model/engine/fingerprint.h"
#include "model/profile/prepare.h"
#include "model/profile/twins.h"
#include "model/profile/worker.h"

#define MS NS_PER_MS

TEST(the_default_slo_leaves_room) {
    static const struct {
        double alpha_ms, beta_ms, want_ms;
    } cases[] = {
        {0.01, 0.1, 25},  /* tiny: the floor */
        {7.55, 0, 76},    /* batching gains nothing: ten items, 75.5 */
        {1, 4.0001, 119}, /* twice l(55) = 59.0001, where l(b)/b is within 1 % of the best; up to whole milliseconds */
        {0.1, 6, 61},     /* ten lone items are more than twice l(63) */
    };
    struct profile *profile = malloc(profile_bytes(64));
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        profile_set_line(profile, 64, cases[i].alpha_ms * MS, cases[i].beta_ms * MS);
        assert_int_equal(profile_default_slo_ns(profile), (int64_t)(cases[i].want_ms * MS));
    }
    free(profile);
}

#ifdef SYMPHONY_HAVE_ONNXRUNTIME

struct place {
    char folder[64], model[128];
    struct profile_options options;
};

static int copy(const char *name, const char *to, long bytes) {
    char command[512];
    snprintf(command, sizeof(command), "head -c %ld '%s/unit/back/engine/data/%s' > '%s'", bytes, TESTS_DIR, name, to);
    return system(command);
}

static int set_up(void **state) {
    struct place *p = calloc(1, sizeof(*p));
    temp_folder(p->folder);
    snprintf(p->model, sizeof(p->model), "%s/net.onnx", p->folder);
    p->options = (struct profile_options){.engine = &engine_onnxruntime, .provider = "cpu", .core = -1, .batch_max = 4};
    *state = p;
    return 0;
}

static int tear_down(void **state) {
    struct place *p = *state;
    int rc = folder_remove(p->folder);
    free(p);
    return rc;
}

static struct served_model *model_new(const struct place *p) {
    struct served_model *model = calloc(1, sizeof(*model));
    strcpy(model->name, "net");
    model->path = p->model;
    return model;
}

/* Prepares the model anew, as a start of the server does; it must become usable. */
static void prepare(const struct place *p, bool want_measured, struct served_model **out,
                    struct profile_record *record) {
    struct served_model *model = model_new(p);
    struct profile_progress progress = {.model = model->name, .count = 1};
    struct profile *profile;
    bool measured;
    int rc = profile_prepare(model, &p->options, &progress, record, &profile, &measured);
    assert_string_equal(model->reason, "");
    assert_int_equal(rc, 0);
    assert_int_equal(measured, want_measured);
    assert_int_equal(profile->batch_max, model->batch_max);
    free(profile);
    *out = model;
}

TEST_WITH(a_profile_is_measured_once, set_up, tear_down) {
    struct place *p = *state;
    struct profile_record record;
    struct served_model *model;
    assert_int_equal(copy("add.onnx", p->model, 100000), 0);
    prepare(p, true, &model, &record);
    assert_int_equal(model->batch_max, 4);
    assert_int_equal(model->slo_ns, 25 * MS);
    assert_int_equal(model->item_elements, 16 + 16 + 2);
    assert_int_equal(model->signature.input_count, 3);
    assert_true(model->signature.batched);
    assert_int_equal(record.point_count, 4);
    assert_string_equal(record.cache, "prepacked");
    served_models_free(model, 1);
    prepare(p, false, &model, &record);
    assert_int_equal(model->signature.input_count, 3);
    assert_int_equal(model->item_elements, 16 + 16 + 2);
    served_models_free(model, 1);
    /* a larger batch than was measured, another file of that name, or force: again */
    p->options.batch_max = 5;
    prepare(p, true, &model, &record);
    served_models_free(model, 1);
    assert_int_equal(copy("mlp.onnx", p->model, 100000), 0);
    prepare(p, true, &model, &record);
    assert_int_equal(model->signature.input_count, 1);
    served_models_free(model, 1);
    p->options.force = true;
    prepare(p, true, &model, &record);
    served_models_free(model, 1);
}

/* Changes a byte in the middle of the file, which are weights. */
static void weights_change(const struct place *p) {
    FILE *file = fopen(p->model, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    assert_int_equal(fseek(file, ftell(file) / 2, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
}

TEST_WITH(twins_are_measured_once, set_up, tear_down) {
    struct place *p = *state;
    struct profile_twins twins = {.count = 0};
    struct profile_record record, of_twin;
    struct served_model *model;
    p->options.twins = &twins;
    assert_int_equal(copy("mlp.onnx", p->model, 100000), 0);
    prepare(p, true, &model, &record);
    assert_string_not_equal(record.graph, "");
    served_models_free(model, 1);
    weights_change(p);
    prepare(p, false, &model, &of_twin);
    assert_int_equal(fingerprint_model_holds(p->model, model->contents), 1);
    assert_string_not_equal(of_twin.fingerprint, record.fingerprint);
    assert_string_equal(of_twin.graph, record.graph);
    assert_memory_equal(of_twin.latency_ns, record.latency_ns, sizeof(record.latency_ns));
    assert_string_equal(of_twin.cache, "none"); /* an optimised copy would be the other's */
    served_models_free(model, 1);
    twins_free(&twins);
    prepare(p, false, &model, &record); /* it was kept */
    assert_int_equal(twins.count, 1);   /* and is known to those that follow */
    served_models_free(model, 1);
    p->options.batch_max = 5; /* more than the twin was measured with */
    weights_change(p);
    prepare(p, true, &model, &record);
    served_models_free(model, 1);
    twins_free(&twins);
}

/* Where a start first takes what is there. */
TEST_WITH(what_is_not_cached_is_left, set_up, tear_down) {
    struct place *p = *state;
    struct served_model *model = model_new(p);
    struct profile_progress progress = {.model = model->name, .count = 1};
    struct profile_record record;
    struct profile *profile;
    bool measured;
    assert_int_equal(copy("mlp.onnx", p->model, 100000), 0);
    p->options.cached = true;
    assert_int_equal(profile_prepare(model, &p->options, &progress, &record, &profile, &measured), -EAGAIN);
    assert_null(profile);
    assert_int_equal(model->state, MODEL_LOADING);
    p->options.cached = false;
    p->options.missed = true;
    assert_int_equal(profile_prepare(model, &p->options, &progress, &record, &profile, &measured), 0);
    assert_true(measured);
    free(profile);
    served_models_free(model, 1);
    p->options.cached = true;
    p->options.missed = false;
    prepare(p, false, &model, &record);
    served_models_free(model, 1);
}

/* What happens to the file while it is being measured. */
struct meddling {
    struct place *place;
    bool again; /* each time, not only the first */
    int count;
};

/* Replaces the file by another model, or changes bytes of it that make no difference (ModelProto.doc_string). */
static void meddle(void *context, const struct profile_progress *progress) {
    struct meddling *m = context;
    if (strcmp(progress->phase, "measuring") != 0 || (!m->again && m->count > 0))
        return;
    m->count++;
    if (!m->again) {
        assert_int_equal(copy("mlp.onnx", m->place->model, 100000), 0);
        return;
    }
    FILE *to = fopen(m->place->model, "ab");
    assert_non_null(to);
    fputs("\x32\x01!", to);
    fclose(to);
}

/* The record, and the kept profile, are those of the contents that were measured. */
TEST_WITH(a_file_that_is_replaced_meanwhile_is_measured_anew, set_up, tear_down) {
    struct place *p = *state;
    struct meddling meddling = {.place = p};
    struct profile_record record;
    struct served_model *model;
    assert_int_equal(copy("add.onnx", p->model, 100000), 0);
    p->options.progress = meddle;
    p->options.context = &meddling;
    prepare(p, true, &model, &record);
    assert_int_equal(meddling.count, 1);
    assert_int_equal(model->signature.input_count, 1);
    assert_int_equal(fingerprint_model_holds(p->model, model->contents), 1);
    served_models_free(model, 1);
    prepare(p, false, &model, &record);
    assert_int_equal(model->signature.input_count, 1);
    served_models_free(model, 1);
}

TEST_WITH(a_file_that_keeps_changing_is_refused, set_up, tear_down) {
    struct place *p = *state;
    struct meddling meddling = {.place = p, .again = true};
    struct served_model *model = model_new(p);
    struct profile_progress progress = {.model = model->name, .count = 1};
    struct profile_record record;
    struct profile *profile;
    struct sy_error err;
    bool measured;
    assert_int_equal(copy("add.onnx", p->model, 100000), 0);
    p->options.progress = meddle;
    p->options.context = &meddling;
    assert_int_equal(profile_prepare(model, &p->options, &progress, &record, &profile, &measured), -EBUSY);
    assert_null(profile);
    assert_int_equal(model->state, MODEL_UNAVAILABLE);
    assert_non_null(strstr(model->reason, p->model));
    assert_non_null(strstr(model->reason, "has changed while it was being measured"));
    assert_int_equal(profile_cached(model, &p->options, &record, &err), -ENOENT); /* nothing was kept */
    served_models_free(model, 1);
}

/* In a folder that many models share, the names of two may have one hash. */
TEST_WITH(another_models_profile_is_not_taken, set_up, tear_down) {
    struct place *p = *state;
    struct profile_record record;
    struct served_model *model;
    char shared[200], command[1200];
    assert_int_equal(copy("add.onnx", p->model, 100000), 0);
    snprintf(shared, sizeof(shared), "%s/cache", p->folder);
    snprintf(command, sizeof(command), "touch %s/.symphony", p->folder); /* no folder */
    assert_int_equal(system(command), 0);
    p->options.cache_dir = shared;
    prepare(p, true, &model, &record);
    served_models_free(model, 1);
    prepare(p, false, &model, &record);
    served_models_free(model, 1);
    snprintf(command, sizeof(command), "sed -i 's|\"of\": \".*\"|\"of\": \"/another/net.onnx\"|' %s/*.profile.json",
             shared);
    assert_int_equal(system(command), 0);
    prepare(p, true, &model, &record);
    served_models_free(model, 1);
}

TEST_WITH(a_damaged_profile_is_measured_again, set_up, tear_down) {
    struct place *p = *state;
    struct profile_record record;
    struct served_model *model;
    char command[256];
    assert_int_equal(copy("add.onnx", p->model, 100000), 0);
    prepare(p, true, &model, &record);
    served_models_free(model, 1);
    snprintf(command, sizeof(command), "for f in %s/.symphony/*.profile.json; do echo '{' > $f; done", p->folder);
    assert_int_equal(system(command), 0);
    prepare(p, true, &model, &record);
    served_models_free(model, 1);
}

TEST_WITH(what_cannot_be_batched_is_not, set_up, tear_down) {
    struct place *p = *state;
    struct profile_record record;
    struct served_model *model;
    assert_int_equal(copy("mixing.onnx", p->model, 100000), 0);
    for (int start = 0; start < 2; start++) { /* measured, and from the file */
        prepare(p, start == 0, &model, &record);
        assert_false(model->signature.batched);
        assert_true(model->signature.variable_shapes); /* the first dimension is one like others now */
        assert_int_equal(model->batch_max, 1);
        served_models_free(model, 1);
    }
    assert_string_equal(record.note,
                        "items are not run together, since nobody has said 'batch: true': ReduceSum, which "
                        "gives 's', reduces over the items");
}

TEST_WITH(broken_models_do_not_stop_the_others, set_up, tear_down) {
    struct place *p = *state;
    struct served_model *models = calloc(4, sizeof(*models));
    struct profile *profiles[4];
    char paths[4][256];
    for (int i = 0; i < 4; i++) {
        models[i].on[i == 3].count = 1; /* the last one does not run on type 0 */
        snprintf(models[i].name, sizeof(models[i].name), "m%d", i);
        snprintf(paths[i], sizeof(paths[i]), "%s/m%d.onnx", p->folder, i);
        models[i].path = paths[i];
    }
    assert_int_equal(copy("mlp.onnx", models[0].path, 5000), 0);
    assert_int_equal(copy("fails.onnx", models[1].path, 100000), 0);
    assert_int_equal(copy("add.onnx", models[2].path, 100000), 0);
    assert_int_equal(profile_prepare_all(models, 4, 0, &p->options, profiles), 1);
    assert_int_equal(models[0].state, MODEL_UNAVAILABLE);
    assert_non_null(strstr(models[0].reason, models[0].path));
    assert_int_equal(models[1].state, MODEL_UNAVAILABLE);
    assert_non_null(strstr(models[1].reason, "Reshape"));
    assert_int_equal(models[2].state, MODEL_LOADING);
    assert_null(profiles[0]);
    assert_null(profiles[1]);
    assert_non_null(profiles[2]);
    assert_int_equal(models[3].state, MODEL_LOADING);
    assert_null(profiles[3]);
    free(profiles[2]);
    served_models_free(models, 4);
}

TEST_WITH(a_profile_that_was_given_is_used, set_up, tear_down) {
    struct place *p = *state;
    struct served_model *model = model_new(p);
    struct profile_progress progress = {.model = "net", .count = 1};
    struct profile *profile;
    bool measured;
    assert_int_equal(copy("add.onnx", p->model, 100000), 0);
    char path[256];
    snprintf(path, sizeof(path), "%s/mine.json", p->folder);
    model->profile_path = path;
    FILE *to = fopen(model->profile_path, "w");
    fputs("{\"symphony_profile\": 1, \"points\": [{\"batch\": 1, \"latency_ms\": 10}, {\"batch\": 3, \"latency_ms\": "
          "12}]}",
          to);
    fclose(to);
    p->options.batch_max = 0;
    assert_int_equal(profile_prepare(model, &p->options, &progress, NULL, &profile, &measured), 0);
    assert_int_equal(profile->latency_ns[2], 11 * MS);
    assert_int_equal(model->batch_max, 3);
    assert_int_equal(model->slo_ns, 100 * MS);
    free(profile);
    served_models_free(model, 1);
}

#endif

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[2], WORKER_ARGUMENT) == 0)
        return worker_main();
    return tests_run(NULL, NULL);
}
