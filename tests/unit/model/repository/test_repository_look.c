/* test_repository_look.c - names and stamps of a repository, single models of it, and folders of overrides. */
#include "unit/test.h"

#include <errno.h>

#include "model/config/model_override.h"
#include "model/repository/repository_look.h"
#include "unit/model/repository/world.h"

static uint64_t stamp(const struct world *w, const char *name) {
    const char *path = w->root;
    return repository_stamp(&(struct repositories){.paths = &path, .count = 1}, name);
}

TEST_WITH(names_are_sorted_and_merged, world_make, world_remove) {
    struct world *w = *state;
    const char *path = w->root;
    struct repositories from = {.paths = &path, .count = 1};
    struct repository_entry *entries;
    uint32_t count;
    struct sy_error err;
    put(w, "zebra.onnx", "x");
    put(w, "apple/1/model.onnx", "x");
    put(w, "apple.onnx", "x");
    put(w, "README.md", "not a model");
    put(w, ".hidden/1/model.onnx", "x");
    put(w, "two words/1/model.onnx", "x");
    assert_int_equal(repository_look(&from, NULL, &entries, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_string_equal(entries[0].name, "apple");
    assert_string_equal(entries[1].name, "zebra");
    assert_true(stamp(w, "apple") != 0);
    free(entries);
    path = "/nowhere";
    assert_int_equal(repository_look(&from, NULL, &entries, &count, &err), -ENOENT);
    free(entries);
    assert_true(stamp(w, "none") == 0 && stamp(w, "../x") == 0 && stamp(w, "") == 0);
}

TEST_WITH(stamps_change_with_the_files, world_make, world_remove) {
    struct world *w = *state;
    uint64_t before, after;
    put(w, "m/1/model.onnx", "x");
    before = stamp(w, "m");
    assert_true(before == stamp(w, "m"));
    put(w, "m/1/.symphony/model-0.cache.json", "what we keep ourselves");
    assert_true(before == stamp(w, "m"));
    put(w, "m/config.pbtxt", "max_batch_size: 4");
    assert_true((after = stamp(w, "m")) != before);
    put(w, "m/1/model.onnx", "xy"); /* another size */
    assert_true(stamp(w, "m") != after);
    after = stamp(w, "m");
    put(w, "m/2/model.onnx", "xy");
    assert_true(stamp(w, "m") != after);
    /* written over in place, of the same size, and given the time that it had, as by rsync -t --inplace */
    char command[1024];
    after = stamp(w, "m");
    snprintf(command, sizeof(command),
             "cd %s/m/1 && touch -r model.onnx /tmp/symphony-time-$$ && printf yz > model.onnx && "
             "touch -r /tmp/symphony-time-$$ model.onnx && rm /tmp/symphony-time-$$",
             w->root);
    assert_int_equal(system(command), 0);
    assert_true(stamp(w, "m") != after);
}

TEST_WITH(one_model_is_found, world_make, world_remove) {
    struct world *w = *state;
    const char *path = w->root;
    struct repositories from = {.paths = &path, .count = 1};
    struct served_model *model;
    uint32_t count;
    struct sy_error err;
    put(w, "folder/3/model.onnx", "x");
    put(w, "flat.onnx", "x");
    put(w, "both/1/model.onnx", "x");
    put(w, "both.onnx", "x");
    put(w, "empty/notes.txt", "x");
    assert_int_equal(repository_find(&from, "folder", &model, &count, &err), 0);
    assert_int_equal(model->version, 3);
    assert_int_equal(model->state, MODEL_LOADING);
    served_models_free(model, count);
    assert_int_equal(repository_find(&from, "flat", &model, &count, &err), 0);
    assert_text(w, model->path, "@/flat.onnx");
    served_models_free(model, count);
    assert_int_equal(repository_find(&from, "both", &model, &count, &err), 0);
    assert_int_equal(model->state, MODEL_UNAVAILABLE);
    served_models_free(model, count);
    assert_int_equal(repository_find(&from, "empty", &model, &count, &err), -ENOENT);
    assert_int_equal(repository_find(&from, "none", &model, &count, &err), -ENOENT);
    assert_int_equal(repository_find(&from, "../x", &model, &count, &err), -ENOENT);
    assert_false(repository_is_model(w->root));
}

static void names_note(void *context, const char *name) {
    strcat(strcat(context, name ? name : "-"), " ");
}

TEST_WITH(several_repositories_are_one, world_make, world_remove) {
    struct world *w = *state;
    char one[256], other[256];
    const char *paths[] = {one, other};
    struct repositories from = {.paths = paths, .count = 2}, first = {.paths = paths, .count = 1};
    struct repository_entry *entries;
    struct served_model *model;
    const char *holder = NULL;
    uint32_t count;
    struct sy_error err;
    in_root(w, one, "one");
    in_root(w, other, "other");
    put(w, "one/a/1/model.onnx", "x");
    put(w, "one/both/1/model.onnx", "x");
    put(w, "other/b.onnx", "x");
    put(w, "other/both.onnx", "x");
    assert_int_equal(repository_look(&from, NULL, &entries, &count, &err), 0);
    assert_int_equal(count, 3);
    assert_string_equal(entries[0].name, "a");
    assert_string_equal(entries[1].name, "b");
    assert_string_equal(entries[2].name, "both");
    free(entries);
    assert_int_equal(repository_holders(&from, "b", &holder), 1);
    assert_string_equal(holder, other);
    assert_int_equal(repository_holders(&from, "both", &holder), 2);
    assert_string_equal(holder, one);
    assert_int_equal(repository_find(&from, "b", &model, &count, &err), 0);
    assert_text(w, model->path, "@/other/b.onnx");
    served_models_free(model, count);
    assert_int_equal(repository_find(&from, "both", &model, &count, &err), 0);
    assert_int_equal(model->state, MODEL_UNAVAILABLE);
    assert_text(w, model->reason, "@/other/both.onnx: a second model of the name 'both'; the first is @/one/both");
    served_models_free(model, count);
    assert_true(repository_stamp(&from, "both") != repository_stamp(&first, "both"));
    /* the same files, in another repository */
    uint64_t before = repository_stamp(&from, "a");
    assert_int_equal(rename(strcat(one, "/a"), strcat(other, "/a")), 0);
    in_root(w, one, "one");
    in_root(w, other, "other");
    assert_true(repository_stamp(&from, "a") != 0 && repository_stamp(&from, "a") != before);
    /* one that cannot be read hides nothing of the others */
    in_root(w, one, "gone");
    assert_int_equal(repository_look(&from, NULL, &entries, &count, &err), -ENOENT);
    assert_non_null(strstr(err.text, "gone"));
    assert_int_equal(count, 3);
    free(entries);
    char marked[64] = "";
    struct repositories_seen seen = {.devices = {0}};
    repository_mark(&from, &seen, names_note, marked);
    assert_string_equal(marked, "a b both "); /* none is taken for gone */
    in_root(w, one, "one");
    *marked = '\0';
    repository_mark(&from, &seen, names_note, marked);
    assert_string_equal(marked, "- a b both ");
}

/* A mount that has gone leaves an empty folder of another file system behind; /dev/shm is one. */
TEST_WITH(what_is_no_longer_mounted_is_not_gone, world_make, world_remove) {
    struct world *w = *state;
    char one[256], other[256], none[] = "/dev/shm/symphony-test-XXXXXX", marked[64] = "";
    const char *path = one;
    struct repositories from = {.paths = &path, .count = 1};
    struct repositories_seen seen = {.devices = {0}};
    put(w, "one/a/1/model.onnx", "x");
    in_root(w, one, "one");
    repository_mark(&from, &seen, names_note, marked);
    assert_string_equal(marked, "- a ");
    struct stat here, there;
    assert_int_equal(stat(one, &here), 0);
    if (!mkdtemp(none) || stat(none, &there) < 0)
        skip();
    path = none;
    *marked = '\0';
    repository_mark(&from, &seen, names_note, marked);
    rmdir(none);
    assert_string_equal(marked, here.st_dev == there.st_dev ? "- " : "");
    /* where models were taken away, others are not awaited */
    in_root(w, one, "one/a");
    in_root(w, other, "a");
    assert_int_equal(rename(one, other), 0);
    in_root(w, one, "one");
    path = one;
    *marked = '\0';
    repository_mark(&from, &seen, names_note, marked);
    assert_string_equal(marked, "- ");
}

static void check_override(const struct world *w, const struct model_override *override, const char *name,
                           uint32_t version) {
    struct temporary_folder folder;
    struct served_model *model;
    uint32_t count;
    struct sy_error err;
    assert_int_equal(override_folder_make(override, w->root, name, &folder, &err), 0);
    const char *path = folder.path;
    assert_int_equal(repository_find(&(struct repositories){.paths = &path, .count = 1}, name, &model, &count, &err),
                     0);
    assert_string_equal(model->reason, "");
    assert_int_equal(model->version, version);
    assert_int_equal(access(model->path, R_OK), 0);
    served_models_free(model, count);
    temporary_folder_remove(&folder);
    assert_int_equal(access(folder.path, F_OK), -1);
}

TEST_WITH(overrides_stand_in_for_what_is_there, world_make, world_remove) {
    struct world *w = *state;
    struct temporary_folder folder;
    char json[] = "{\"max_batch_size\": 2}", wrong[] = "{\"speed\": 2}", data[] = "content";
    struct model_override config = {.config = json, .config_bytes = strlen(json)}, files = config, mistake = config;
    struct sy_error err;
    put(w, "m/config.pbtxt", "nonsense");
    put(w, "m/4/model.onnx", "x");
    put(w, "flat.onnx", "x");
    check_override(w, &config, "m", 4);
    check_override(w, &config, "flat", 1);
    files.files[0] = (struct override_file){.version = "7", .name = "model.onnx", .data = data, .bytes = 7};
    files.file_count = 1;
    check_override(w, &files, "brought", 7);
    check_override(w, &files, "m", 7);
    mistake.config = wrong;
    mistake.config_bytes = strlen(wrong);
    assert_int_equal(override_folder_make(&mistake, w->root, "m", &folder, &err), -EINVAL);
    assert_non_null(strstr(err.text, "no field 'speed'"));
    assert_int_equal(override_folder_make(&config, w->root, "none", &folder, &err), -ENOENT);
    assert_int_equal(override_folder_make(&config, w->root, "../m", &folder, &err), -EINVAL);
    files.config = NULL;
    assert_int_equal(override_folder_make(&files, w->root, "m", &folder, &err), -EINVAL);
    struct stat st; /* what is linked to stays */
    char path[256];
    in_root(w, path, "m/4/model.onnx");
    assert_int_equal(stat(path, &st), 0);
}
