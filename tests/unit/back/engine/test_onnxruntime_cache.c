/* test_onnxruntime_cache.c - optimised copies are used while everything about them is right, and never otherwise. */
#include "unit/temp_folder.h"
#include "unit/test.h"

#include <stdio.h>

#ifdef SYMPHONY_HAVE_ONNXRUNTIME

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "back/engine/onnxruntime_cache.h"
#include "core/util/container.h"

static const struct engine_ops *const ops = &engine_onnxruntime;

struct place {
    char folder[64], model[128];
    struct engine_options options;
    struct engine *engine;
    struct signature_room room;
    struct engine_model_source source;
    float x[2 * 32];
    struct engine_trial trials[3];
};

static int shell(const char *format, const char *a, const char *b) {
    char command[8192];
    snprintf(command, sizeof(command), format, a, b);
    return system(command);
}

static int set_up(void **state) {
    struct place *p = calloc(1, sizeof(*p));
    temp_folder(p->folder);
    snprintf(p->model, sizeof(p->model), "%s/mlp.onnx", p->folder);
    assert_int_equal(shell("cp '%s/unit/back/engine/data/mlp.onnx' %s", TESTS_DIR, p->model), 0);
    p->options.provider = "cpu";
    assert_int_equal(ops->signature(p->model, NULL, &p->room, NULL), 0);
    assert_int_equal(ops->open(&p->engine, &p->options, NULL), 0);
    p->source =
        (struct engine_model_source){.name = "mlp", .path = p->model, .signature = &p->room.signature, .batch_max = 8};
    for (int i = 0; i < 64; i++)
        p->x[i] = (float)(i % 5);
    for (uint32_t i = 0; i < 3; i++) { /* one item, two, and a shape that the model refuses */
        p->trials[i].items = i == 1 ? 2 : 1;
        p->trials[i].inputs[0] = (struct tensor_view){
            .data = p->x, .bytes = i == 1 ? 256 : 128, .dim_count = 2, .dims = {i == 1 ? 2 : 1, i == 2 ? 33 : 32}};
    }
    *state = p;
    return 0;
}

static int tear_down(void **state) {
    struct place *p = *state;
    ops->close(p->engine);
    int rc = shell("rm -rf %s%s", p->folder, "");
    free(p);
    return rc;
}

static void cache_make(struct place *p, uint32_t attempt, const char *want) {
    const char *made = NULL;
    struct sy_error err = {""};
    int rc = ops->cache(p->engine, &p->source, p->trials, 3, attempt, &made, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, 0);
    assert_string_equal(made, want);
}

/* Loads and runs the model with whatever cache there is: it must always work, and give the same. */
static void runs(struct place *p) {
    float first[8];
    for (int original = 1; original >= 0; original--) {
        struct engine_model *model;
        struct output_block *block;
        p->source.original = original;
        assert_int_equal(ops->load(p->engine, &p->source, &model, NULL), 0);
        assert_int_equal(ops->run(model, p->trials[0].inputs, 1, &block, NULL), 0);
        if (original)
            memcpy(first, block->outputs[0].data, sizeof(first));
        else
            assert_memory_equal(first, block->outputs[0].data, sizeof(first));
        output_block_put(block);
        ops->unload(model);
    }
}

static enum cache_format found(struct place *p) {
    char path[SIDECAR_PATH_MAX];
    return cache_find(p->model, &p->options, path);
}

TEST_WITH(forms_are_made_in_turn, set_up, tear_down) {
    struct place *p = *state;
    const char *made;
    assert_int_equal(found(p), CACHE_NONE);
    cache_make(p, 0, "prepacked");
    assert_int_equal(found(p), CACHE_PREPACKED);
    runs(p);
    cache_make(p, 1, "ort");
    assert_int_equal(found(p), CACHE_ORT);
    runs(p);
    cache_make(p, 2, "none");
    assert_int_equal(found(p), CACHE_NONE);
    runs(p);
    assert_int_equal(ops->cache(p->engine, &p->source, p->trials, 3, 3, &made, NULL), -ENOENT);
}

TEST_WITH(what_others_may_write_is_not_loaded, set_up, tear_down) {
    struct place *p = *state;
    cache_make(p, 0, "prepacked");
    assert_int_equal(shell("test -z \"$(find %s/.symphony -type f ! -perm 600)\"%s", p->folder, ""), 0);
    assert_int_equal(found(p), CACHE_PREPACKED);
    static const char *const files[] = {"json", "onnx", "weights"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        assert_int_equal(shell("chmod g+w %s/.symphony/*.cache.%s", p->folder, files[i]), 0);
        assert_int_equal(found(p), CACHE_NONE);
        assert_int_equal(shell("chmod g-w %s/.symphony/*.cache.%s", p->folder, files[i]), 0);
        assert_int_equal(found(p), CACHE_PREPACKED);
    }
    runs(p);
}

TEST_WITH(a_copy_that_cannot_be_tried_is_not_kept, set_up, tear_down) {
    struct place *p = *state;
    const char *made;
    struct sy_error err = {""};
    assert_true(ops->cache(p->engine, &p->source, p->trials + 2, 1, 0, &made, &err) < 0); /* the first must run */
    assert_true(*err.text);
    assert_int_equal(found(p), CACHE_NONE);
}

TEST_WITH(another_file_has_no_cache, set_up, tear_down) {
    struct place *p = *state;
    cache_make(p, 0, "prepacked");
    /* a copy, with a time of its own, is the same file */
    assert_int_equal(shell("cp -r %s %s.moved", p->folder, p->folder), 0);
    assert_int_equal(shell("touch -d '2001-01-01' %s.moved/mlp.onnx %s.moved/.symphony/*", p->folder, p->folder), 0);
    char moved[160], path[SIDECAR_PATH_MAX];
    snprintf(moved, sizeof(moved), "%s.moved/mlp.onnx", p->folder);
    assert_int_equal(cache_find(moved, &p->options, path), CACHE_PREPACKED);
    assert_int_equal(shell("rm -r %s.moved%s", p->folder, ""), 0);
    /* one with other weights, of the same size, is not */
    assert_int_equal(shell("printf X | dd of=%s bs=1 seek=5000 conv=notrunc 2>/dev/null %s", p->model, ""), 0);
    assert_int_equal(found(p), CACHE_NONE);
    runs(p);
}

/* Retrained: other weights of the same size, and a time that says nothing (as in images whose times are all set to one,
 * or after cp -p and rsync -t). */
TEST_WITH(another_file_of_the_same_size_and_time_has_no_cache, set_up, tear_down) {
    static const char *const changes[] = {
        "touch -r %s %s.time && printf X | dd of=%s bs=1 seek=5000 conv=notrunc 2>/dev/null && touch -r %s.time %s",
        "cp -p %s %s.new && printf Y | dd of=%s.new bs=1 seek=5000 conv=notrunc 2>/dev/null && touch -r %s %s.new && "
        "mv %s.new %s",
    };
    struct place *p = *state;
    char command[1200];
    for (size_t i = 0; i < ARRAY_COUNT(changes); i++) {
        cache_make(p, 0, "prepacked");
        assert_int_equal(found(p), CACHE_PREPACKED);
        snprintf(command, sizeof(command), changes[i], p->model, p->model, p->model, p->model, p->model, p->model,
                 p->model);
        assert_int_equal(system(command), 0);
        assert_int_equal(found(p), CACHE_NONE);
        runs(p);
    }
}

/* In a folder that many models share, the names of two may have one hash. */
TEST_WITH(another_models_cache_is_not_taken, set_up, tear_down) {
    struct place *p = *state;
    char shared[128], mine[SIDECAR_PATH_MAX], twins[SIDECAR_PATH_MAX], path[SIDECAR_PATH_MAX], twin[160];
    struct cache_draft draft;
    snprintf(shared, sizeof(shared), "%s/cache", p->folder);
    snprintf(twin, sizeof(twin), "%s/twin/mlp.onnx", p->folder);
    assert_int_equal(shell("mkdir %s/twin%s", p->folder, ""), 0);
    assert_int_equal(shell("cp -p %s %s", p->model, twin), 0);
    assert_int_equal(shell("touch %s/.symphony %s/twin/.symphony", p->folder, p->folder), 0); /* no folders */
    p->options.cache_dir = shared;
    ops->close(p->engine);
    assert_int_equal(ops->open(&p->engine, &p->options, NULL), 0);
    cache_make(p, 0, "prepacked");
    assert_int_equal(cache_find(p->model, &p->options, path), CACHE_PREPACKED);
    assert_int_equal(strncmp(path, shared, strlen(shared)), 0);
    /* the twin finds the model's verdict under its own name */
    assert_int_equal(cache_draft_open(&draft, p->model, &p->options, CACHE_NONE, NULL), 0);
    strcpy(mine, draft.verdict);
    cache_draft_close(&draft);
    assert_int_equal(cache_draft_open(&draft, twin, &p->options, CACHE_NONE, NULL), 0);
    strcpy(twins, draft.verdict);
    cache_draft_close(&draft);
    assert_int_equal(shell("cp -p %s %s", mine, twins), 0);
    assert_int_equal(cache_find(twin, &p->options, path), CACHE_NONE);
}

/* A copy belongs to the contents that it was made of. */
TEST_WITH(a_file_that_is_replaced_meanwhile_gets_no_copy, set_up, tear_down) {
    struct place *p = *state;
    struct cache_draft draft;
    struct sy_error err = {""};
    assert_int_equal(cache_draft_open(&draft, p->model, &p->options, CACHE_NONE, NULL), 0);
    assert_int_equal(shell("cp '%s/unit/back/engine/data/add.onnx' %s", TESTS_DIR, p->model), 0);
    assert_int_equal(cache_draft_commit(&draft, p->model, &p->options, "", &err), -EBUSY);
    assert_non_null(strstr(err.text, p->model));
    assert_int_equal(access(draft.verdict, F_OK), -1);
    cache_draft_close(&draft);
}

TEST_WITH(weights_in_other_files_count, set_up, tear_down) {
    struct place *p = *state;
    /* Makes the model name a file of weights, in a field that the engine does not look into (ModelProto.doc_string). */
    static const char field[] = "\x32\x17\x0a\x08location\x12\x0bweights.bin";
    FILE *to = fopen(p->model, "ab");
    assert_int_equal(fwrite(field, 1, sizeof(field) - 1, to), sizeof(field) - 1);
    fclose(to);
    assert_int_equal(shell("echo 1234 > %s/weights.bin%s", p->folder, ""), 0);
    cache_make(p, 0, "prepacked");
    assert_int_equal(found(p), CACHE_PREPACKED);
    assert_int_equal(shell("echo 1235 > %s/weights.bin%s", p->folder, ""), 0);
    assert_int_equal(found(p), CACHE_NONE);
    runs(p);
    assert_int_equal(shell("rm %s/weights.bin%s", p->folder, ""), 0);
    assert_int_equal(found(p), CACHE_NONE);
}

TEST_WITH(damage_is_noticed, set_up, tear_down) {
    static const char *const damages[] = {
        "truncate -s -1 %s/.symphony/*.weights %s",
        "rm %s/.symphony/*.cache.onnx %s",
        "rm %s/.symphony/*.weights %s",
        "printf XXXX | dd of=$(echo %s/.symphony/*.weights) bs=1 seek=100 conv=notrunc 2>/dev/null %s",
        "printf '{' > $(echo %s/.symphony/*.cache.json) %s",
        "printf '{\"made_by\": 3}' > $(echo %s/.symphony/*.cache.json) %s",
        "sed -i 's|\"name\": \"mlp-|\"name\": \"../mlp-|' %s/.symphony/*.cache.json %s",
        "sed -i 's|prepacked|preposterous|' %s/.symphony/*.cache.json %s",
    };
    struct place *p = *state;
    for (size_t i = 0; i < ARRAY_COUNT(damages); i++) {
        cache_make(p, 0, "prepacked");
        assert_int_equal(found(p), CACHE_PREPACKED);
        assert_int_equal(shell(damages[i], p->folder, ""), 0);
        assert_int_equal(found(p), CACHE_NONE);
        runs(p);
    }
}

/* The session maps them: an access to what is cut off traps. */
TEST_WITH(weights_that_are_cut_under_a_session_are_replaced, set_up, tear_down) {
    struct place *p = *state;
    struct engine_model *model;
    struct output_block *blocks[3];
    cache_make(p, 0, "prepacked");
    assert_int_equal(ops->load(p->engine, &p->source, &model, NULL), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ops->run(model, p->trials[0].inputs, 1, &blocks[i], NULL), 0);
        assert_memory_equal(blocks[0]->outputs[0].data, blocks[i]->outputs[0].data, blocks[0]->outputs[0].bytes);
        if (i == 0)
            assert_int_equal(shell("truncate -s 0 %s/.symphony/*.weights %s", p->folder, ""), 0);
    }
    for (int i = 0; i < 2; i++)
        output_block_put(blocks[i]);
    ops->unload(model);
    output_block_put(blocks[2]);
}

TEST_WITH(a_model_whose_files_are_all_lost_fails, set_up, tear_down) {
    struct place *p = *state;
    struct engine_model *model;
    struct output_block *block;
    cache_make(p, 0, "prepacked");
    assert_int_equal(ops->load(p->engine, &p->source, &model, NULL), 0);
    assert_int_equal(shell("truncate -s 0 %s/.symphony/*.weights && rm %s", p->folder, p->model), 0);
    for (int i = 0; i < 2; i++) {
        struct sy_error err = {""};
        assert_int_equal(ops->run(model, p->trials[0].inputs, 1, &block, &err), -EIO);
        assert_non_null(strstr(err.text, "its weights can no longer be read"));
    }
    ops->unload(model);
}

TEST_WITH(dead_makers_leave_nothing, set_up, tear_down) {
    struct place *p = *state;
    struct cache_draft draft;
    glob_t left;
    char pattern[160], abandoned[SIDECAR_PATH_MAX + 64];
    cache_make(p, 0, "prepacked");
    assert_int_equal(cache_draft_open(&draft, p->model, &p->options, CACHE_ORT, NULL), 0);
    snprintf(abandoned, sizeof(abandoned), "%s.draft-999999999", draft.verdict); /* over the greatest process id */
    assert_int_equal(mkdir(abandoned, 0777), 0);
    assert_int_equal(shell("touch %s/half.ort%s", abandoned, ""), 0);
    cache_draft_close(&draft);
    cache_make(p, 0, "prepacked");
    /* a maker of the same number may live elsewhere: in another container, whose processes this one does not see */
    struct cache_draft first, second;
    assert_int_equal(cache_draft_open(&first, p->model, &p->options, CACHE_ORT, NULL), 0);
    assert_int_equal(cache_draft_open(&second, p->model, &p->options, CACHE_ORT, NULL), 0);
    assert_string_not_equal(first.folder.path, second.folder.path);
    assert_int_equal(access(first.folder.path, W_OK), 0);
    cache_draft_close(&first);
    assert_int_equal(access(second.folder.path, W_OK), 0);
    cache_draft_close(&second);
    snprintf(pattern, sizeof(pattern), "%s/.symphony/*draft*", p->folder);
    assert_int_equal(glob(pattern, 0, NULL, &left), GLOB_NOMATCH);
}

#endif
