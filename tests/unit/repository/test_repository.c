/* test_repository.c - what a directory gives, in temporary directories, with an engine that reads a text file. */
#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/container.h"
#include "repository/repository.h"

struct world {
    char root[64]; /* the test's directory */
    struct served_model *models;
    uint32_t count;
    struct sy_error err;
};

static void in_root(const struct world *w, char path[256], const char *name) {
    snprintf(path, 256, "%s/%s", w->root, name);
}

/* Writes ROOT/name, with the folders on its way. */
static void put(const struct world *w, const char *name, const char *text) {
    char path[256];
    in_root(w, path, name);
    for (char *slash = path + strlen(w->root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int scan(struct world *w, const char *name) {
    char path[256];
    in_root(w, path, name);
    free(w->models);
    w->models = NULL;
    w->count = 0;
    w->err.text[0] = '\0';
    return repository_scan(path, &w->models, &w->count, &w->err);
}

/* Does `text` equal `want`, whose "@" stands for the root? */
static void assert_text(const struct world *w, const char *text, const char *want) {
    char full[1024];
    size_t at = 0;
    for (; *want; want++) {
        if (*want == '@')
            at += (size_t)sprintf(full + at, "%s", w->root);
        else
            full[at++] = *want;
    }
    full[at] = '\0';
    assert_string_equal(text, full);
}

static struct served_model *find(const struct world *w, const char *name) {
    for (uint32_t i = 0; i < w->count; i++)
        if (strcmp(w->models[i].name, name) == 0)
            return &w->models[i];
    fail_msg("no model '%s'", name);
    return NULL;
}

static void assert_found(const struct world *w, const char *name, uint32_t version, const char *path) {
    const struct served_model *model = find(w, name);
    assert_string_equal(model->reason, "");
    assert_int_equal(model->state, MODEL_LOADING);
    assert_int_equal(model->version, version);
    assert_string_equal(model->platform, "onnxruntime_onnx");
    assert_text(w, model->path, path);
}

static void assert_refused(const struct world *w, const char *name, const char *reason) {
    const struct served_model *model = find(w, name);
    assert_int_equal(model->state, MODEL_UNAVAILABLE);
    assert_text(w, model->reason, reason);
}

static void both_layouts_are_found_and_sorted(void **state) {
    struct world *w = *state;
    put(w, "zebra.onnx", "x");
    put(w, "apple/1/model.onnx", "x");
    put(w, "apple/10/model.onnx", "x");
    put(w, "apple/9/model.onnx", "x");
    put(w, "apple/011/model.onnx", "x"); /* not versions, as Triton sees it */
    put(w, "apple/12a/model.onnx", "x");
    put(w, "apple/99999999999/model.onnx", "x");
    put(w, "mango/config.pbtxt", "name: 'mango'");
    put(w, "mango/3/model.onnx", "x");
    put(w, "plain/model.onnx", "x");
    put(w, "other/2/net.onnx", "x");
    put(w, "other/config.pbtxt", "default_model_filename: 'net.onnx'");
    put(w, "README.md", "not a model");
    put(w, "notes/a.txt", "nor this");
    put(w, ".hidden/1/model.onnx", "x");
    put(w, ".hidden.onnx", "x");
    assert_int_equal(scan(w, ""), 0);
    assert_int_equal(w->count, 5);
    assert_found(w, "apple", 10, "@/apple/10/model.onnx");
    assert_found(w, "mango", 3, "@/mango/3/model.onnx");
    assert_found(w, "other", 2, "@/other/2/net.onnx");
    assert_found(w, "plain", 1, "@/plain/model.onnx");
    assert_found(w, "zebra", 1, "@/zebra.onnx");
    for (uint32_t i = 1; i < w->count; i++)
        assert_true(strcmp(w->models[i - 1].name, w->models[i].name) < 0);
}

static void one_model_is_a_repository_too(void **state) {
    struct world *w = *state;
    put(w, "file/net.onnx", "x");
    put(w, "versions/2/model.onnx", "x");
    put(w, "flat/model.onnx", "x");
    put(w, "named/model.onnx", "x");
    put(w, "named/config.pbtxt", "name: 'resnet'");
    assert_int_equal(scan(w, "file/net.onnx"), 0);
    assert_found(w, "net", 1, "@/file/net.onnx");
    assert_int_equal(scan(w, "versions/"), 0);
    assert_found(w, "versions", 2, "@/versions/2/model.onnx");
    assert_int_equal(scan(w, "flat"), 0);
    assert_found(w, "flat", 1, "@/flat/model.onnx");
    assert_int_equal(scan(w, "named"), 0);
    assert_found(w, "resnet", 1, "@/named/model.onnx");
    put(w, "flat/second.onnx", "x"); /* now it is a directory of flat models */
    assert_int_equal(scan(w, "flat"), 0);
    assert_int_equal(w->count, 2);
    assert_found(w, "model", 1, "@/flat/model.onnx");
}

static void broken_models_do_not_stop_the_others(void **state) {
    struct world *w = *state;
    put(w, "good.onnx", "x");
    put(w, "empty.onnx", "");
    put(w, "blank name.onnx", "x");
    put(w, "noversion/config.pbtxt", "");
    put(w, "misplaced/resnet.onnx", "x");
    put(w, "nofile/1/other.txt", "x");
    put(w, "newest/1/model.onnx", "x");
    put(w, "newest/2/readme", "x");
    put(w, "badconfig/1/model.onnx", "x");
    put(w, "badconfig/config.pbtxt", "\nmax_batch_size: many");
    put(w, "platform/1/model.onnx", "x");
    put(w, "platform/config.pbtxt", "platform: 'ensemble'");
    put(w, "misnamed/1/model.onnx", "x");
    put(w, "misnamed/config.pbtxt", "name: 'other'");
    put(w, "badyaml/1/model.onnx", "x");
    put(w, "badyaml/symphony.yaml", "slo_ms: 5\nslo: 5\n");
    put(w, "noprofile/1/model.onnx", "x");
    put(w, "noprofile/symphony.yaml", "profile: p.json\n");
    put(w, "folder.onnx/x", "");
    char link[256];
    in_root(w, link, "dangling.onnx");
    assert_int_equal(symlink("/nowhere", link), 0);
    assert_int_equal(scan(w, ""), 0);
    assert_int_equal(w->count, 13);
    assert_found(w, "good", 1, "@/good.onnx");
    assert_refused(w, "empty", "@/empty.onnx: the file is empty");
    assert_refused(w, "blank name",
                   "@/blank name.onnx: 'blank name' will not do as a model's name: expected 1 to 127 "
                   "printable ASCII characters without blanks, quotes and slashes");
    assert_refused(w, "noversion", "@/noversion: no version folder with a model.onnx in it");
    assert_refused(w, "misplaced",
                   "@/misplaced: no version folder with a model.onnx in it (put resnet.onnx at 1/model.onnx)");
    assert_refused(w, "nofile", "@/nofile/1/model.onnx: No such file or directory");
    assert_refused(w, "newest", "@/newest/2/model.onnx: No such file or directory");
    assert_refused(w, "badconfig",
                   "@/badconfig/config.pbtxt:2:1: max_batch_size: expected a whole number, found 'many'");
    assert_refused(w, "platform",
                   "@/platform/config.pbtxt:1:1: platform is 'ensemble', but this server runs "
                   "'onnxruntime_onnx' only");
    assert_refused(w, "misnamed",
                   "@/misnamed/config.pbtxt: the name is 'other', but the folder's is 'misnamed'; they "
                   "must be the same");
    assert_refused(w, "badyaml",
                   "@/badyaml/symphony.yaml:2: slo: unknown key (expected slo_ms, max_batch, profile, "
                   "shapes)");
    assert_refused(w, "noprofile", "@/noprofile/symphony.yaml: profile: @/noprofile/p.json: No such file or directory");
    assert_refused(w, "dangling", "@/dangling.onnx: No such file or directory");
}

static void links_are_followed(void **state) {
    struct world *w = *state;
    char from[256], to[256];
    put(w, "store/blob", "x");
    put(w, "repo/x", "");
    in_root(w, to, "store/blob");
    in_root(w, from, "repo/net.onnx");
    assert_int_equal(symlink(to, from), 0);
    assert_int_equal(scan(w, "repo"), 0);
    assert_found(w, "net", 1, "@/repo/net.onnx");
}

static void two_of_one_name_are_both_named(void **state) {
    struct world *w = *state;
    put(w, "net.onnx", "x");
    put(w, "net/1/model.onnx", "x");
    put(w, "other.onnx", "x");
    assert_int_equal(scan(w, ""), 0);
    assert_int_equal(w->count, 2);
    assert_found(w, "other", 1, "@/other.onnx");
    const struct served_model *model = find(w, "net");
    assert_int_equal(model->state, MODEL_UNAVAILABLE);
    char path[256];
    in_root(w, path, "net.onnx");
    assert_non_null(strstr(model->reason, path));
    in_root(w, path, "net");
    assert_non_null(strstr(model->reason, path));
    assert_non_null(strstr(model->reason, "a second model of the name 'net'"));
}

static void nothing_to_serve_is_said_clearly(void **state) {
    struct world *w = *state;
    put(w, "text", "x");
    put(w, "empty/.keep", "");
    assert_int_equal(scan(w, "missing"), -ENOENT);
    assert_text(w, w->err.text, "@/missing: No such file or directory");
    assert_int_equal(scan(w, "text"), -EINVAL);
    assert_text(w, w->err.text, "@/text: neither a directory nor an .onnx file");
    assert_int_equal(scan(w, "empty"), -ENOENT);
    assert_text(w, w->err.text, "@/empty: no model in it; expected <model>/<version>/model.onnx or <model>.onnx");
}

/* ---- completion ---- */

static int text_signature(const char *path, struct signature *signature, struct sy_error *err) {
    FILE *file = fopen(path, "r");
    char kind = file ? (char)fgetc(file) : 'x';
    if (file)
        fclose(file);
    if (kind == 'x')
        return error_set(err, -EINVAL, "not a model");
    *signature = (struct signature){.inputs = {{"x", DATATYPE_FP32, 3, {-1, 3, 5}}},
                                    .outputs = {{"y", DATATYPE_FP32, 2, {-1, 10}}},
                                    .input_count = 1,
                                    .output_count = 1,
                                    .batched = true};
    if (kind == 'u') { /* unbatched */
        signature->batched = false;
        signature->inputs[0].dims[0] = signature->outputs[0].dims[0] = 1;
    } else if (kind == 'v') { /* variable */
        signature->inputs[0].dims[2] = -1;
        signature->variable_shapes = true;
    }
    return 0;
}

static const struct engine_ops text_engine = {.name = "text", .signature = text_signature};

static int complete(struct world *w, const char *name) {
    return served_model_complete(find(w, name), &text_engine, &w->err);
}

static void completion_fills_what_is_left_out(void **state) {
    struct world *w = *state;
    put(w, "flat.onnx", "b");
    put(w, "single.onnx", "u");
    put(w, "open.onnx", "v");
    put(w, "triton/1/model.onnx", "b");
    put(w, "triton/config.pbtxt", "max_batch_size: 4");
    put(w, "both/1/model.onnx", "b");
    put(w, "both/config.pbtxt", "max_batch_size: 4");
    put(w, "both/symphony.yaml", "max_batch: 7\nslo_ms: 20\nprofile: p.json");
    put(w, "both/p.json", "{}");
    put(w, "huge/1/model.onnx", "b");
    put(w, "huge/config.pbtxt", "max_batch_size: 100000");
    put(w, "off/1/model.onnx", "b");
    put(w, "off/config.pbtxt", "max_batch_size: 0");
    put(w, "shaped/1/model.onnx", "v");
    put(w, "shaped/symphony.yaml", "shapes: {x: [3, 20]}");
    assert_int_equal(scan(w, ""), 0);
    static const struct {
        const char *name;
        uint32_t batch_max;
        int64_t elements, dims[3];
        bool batched, variable;
    } cases[] = {
        {"flat", 64, 15, {1, 3, 5}, true, false}, {"single", 1, 15, {1, 3, 5}, false, false},
        {"open", 64, 0, {1, 3, 0}, true, true},   {"triton", 4, 15, {1, 3, 5}, true, false},
        {"both", 7, 15, {1, 3, 5}, true, false},  {"huge", 1024, 15, {1, 3, 5}, true, false},
        {"off", 1, 0, {0, 3, 5}, false, true},    {"shaped", 64, 60, {1, 3, 20}, true, true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(complete(w, cases[i].name), 0);
        const struct served_model *model = find(w, cases[i].name);
        assert_int_equal(model->batch_max, cases[i].batch_max);
        assert_int_equal(model->item_elements, cases[i].elements);
        assert_memory_equal(model->reference_dims[0], cases[i].dims, sizeof(cases[i].dims));
        assert_int_equal(model->signature.batched, cases[i].batched);
        assert_int_equal(model->signature.variable_shapes, cases[i].variable);
    }
    assert_int_equal(find(w, "both")->slo_ns, 20000000);
    assert_text(w, find(w, "both")->profile_path, "@/both/p.json");
}

static void completion_refuses_what_does_not_fit(void **state) {
    struct world *w = *state;
    static const struct {
        const char *name, *kind, *config, *yaml, *want;
    } cases[] = {
        {"broken", "x", "", "", "@/broken/1/model.onnx: not a model"},
        {"batch", "u", "max_batch_size: 4", "",
         "@/batch/config.pbtxt:1:1: max_batch_size is 4, but the model's inputs and outputs have no common batch "
         "dimension; without one it must be 0"},
        {"yaml", "u", "", "max_batch: 4",
         "@/yaml/symphony.yaml: max_batch is 4, but the model has no batch dimension, so that its batches are of 1"},
        {"dims", "b", "max_batch_size: 4 input { name: 'x' dims: [3, 6] }", "",
         "@/dims/config.pbtxt:1:19: input 'x': dims are [3,6], but the model's are [3,5] behind the batch dimension"},
        {"shape", "b", "", "shapes: {x: [3, 6]}",
         "@/shape/symphony.yaml: shapes.x is [3,6], but the model's input is [3,5] behind the batch dimension"},
        {"input", "b", "", "shapes: {z: [3]}", "@/input/symphony.yaml: shapes: the model has no input 'z'"},
    };
    char path[256];
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        snprintf(path, sizeof(path), "%s/1/model.onnx", cases[i].name);
        put(w, path, cases[i].kind);
        snprintf(path, sizeof(path), "%s/config.pbtxt", cases[i].name);
        put(w, path, cases[i].config);
        snprintf(path, sizeof(path), "%s/symphony.yaml", cases[i].name);
        put(w, path, cases[i].yaml);
    }
    assert_int_equal(scan(w, ""), 0);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(complete(w, cases[i].name), -EINVAL);
        assert_text(w, w->err.text, cases[i].want);
        assert_int_equal(find(w, cases[i].name)->signature.input_count, 0); /* as it was */
    }
}

/* ---- set-up ---- */

static int world_make(void **state) {
    struct world *w = calloc(1, sizeof(*w));
    strcpy(w->root, "/tmp/symphony-test-XXXXXX");
    *state = w;
    return mkdtemp(w->root) ? 0 : -1;
}

static int entry_remove(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static int world_remove(void **state) {
    struct world *w = *state;
    int rc = nftw(w->root, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
    free(w->models);
    free(w);
    return rc;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_layouts_are_found_and_sorted, world_make, world_remove),
        cmocka_unit_test_setup_teardown(one_model_is_a_repository_too, world_make, world_remove),
        cmocka_unit_test_setup_teardown(broken_models_do_not_stop_the_others, world_make, world_remove),
        cmocka_unit_test_setup_teardown(links_are_followed, world_make, world_remove),
        cmocka_unit_test_setup_teardown(two_of_one_name_are_both_named, world_make, world_remove),
        cmocka_unit_test_setup_teardown(nothing_to_serve_is_said_clearly, world_make, world_remove),
        cmocka_unit_test_setup_teardown(completion_fills_what_is_left_out, world_make, world_remove),
        cmocka_unit_test_setup_teardown(completion_refuses_what_does_not_fit, world_make, world_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
