/* test_model_override.c - the folders made of what clients bring along: what is in them, and that nothing stays. */
#include "unit/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "core/util/container.h"
#include "model/config/model_override.h"
#include "unit/model/repository/world.h"

/* The temporary files' directory is the world's, so that whatever stays there is seen. */
static int setup(void **state) {
    if (world_make(state) != 0)
        return -1;
    const struct world *w = *state;
    put(w, "tmp/here", "");
    put(w, "models/own/1/model.onnx", "own");
    put(w, "models/own/2/model.onnx", "second");
    put(w, "models/own/config.pbtxt", "max_batch_size: 1");
    put(w, "models/own/warmup/x", "sample");
    put(w, "models/own/.symphony/profile", "kept");
    put(w, "models/flat.onnx", "flat");
    char path[256];
    in_root(w, path, "tmp");
    return setenv("TMPDIR", path, 1);
}

static int make(struct world *w, const struct model_override *override, const char *name,
                struct temporary_folder *folder) {
    char repository[256];
    in_root(w, repository, "models");
    w->err.text[0] = '\0';
    return override_folder_make(override, repository, name, folder, &w->err);
}

/* The text of FOLDER/name, or "none". */
static const char *text_of(const char *folder, const char *name) {
    static char path[PATH_MAX + 64], text[64];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file)
        return "none";
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';
    return text;
}

static void assert_nothing_stays(const struct world *w) {
    char path[256];
    uint32_t count = 0;
    in_root(w, path, "tmp");
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    assert_int_equal(count, 3); /* ., .. and what setup() put there */
}

#define CONFIG(text) .config = text, .config_bytes = sizeof(text) - 1

TEST_WITH(a_configuration_takes_the_place_of_the_models_own, setup, world_remove) {
    struct world *w = *state;
    struct temporary_folder folder;
    struct model_override override = {CONFIG("{\"max_batch_size\": 7}")};
    assert_int_equal(make(w, &override, "own", &folder), 0);
    assert_string_equal(text_of(folder.path, "own/config.pbtxt"), "max_batch_size: 7\n");
    assert_string_equal(text_of(folder.path, "own/2/model.onnx"), "second");
    assert_string_equal(text_of(folder.path, "own/warmup/x"), "sample");
    assert_string_equal(text_of(folder.path, "own/.symphony/profile"), "none"); /* of another configuration */
    temporary_folder_remove(&folder);
    assert_nothing_stays(w);
    assert_string_equal(text_of(w->root, "models/own/config.pbtxt"), "max_batch_size: 1");
    assert_string_equal(text_of(w->root, "models/own/1/model.onnx"), "own"); /* links were not followed */
}

TEST_WITH(a_flat_file_becomes_version_1, setup, world_remove) {
    struct world *w = *state;
    struct temporary_folder folder;
    struct model_override override = {CONFIG("{}")};
    assert_int_equal(make(w, &override, "flat", &folder), 0);
    assert_string_equal(text_of(folder.path, "flat/1/model.onnx"), "flat");
    temporary_folder_remove(&folder);
    assert_nothing_stays(w);
    assert_string_equal(text_of(w->root, "models/flat.onnx"), "flat");
}

TEST_WITH(files_are_all_that_the_model_has, setup, world_remove) {
    struct world *w = *state;
    struct temporary_folder folder;
    struct model_override override = {
        CONFIG("{}"), .file_count = 3,
        .files = {{"1", "model.onnx", "brought", 7}, {"1", "weights", "", 0}, {"3", "model.onnx", "third", 5}}};
    static const char *const names[] = {"own", "new"}; /* whether the repository has it or not */
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        char file[64];
        assert_int_equal(make(w, &override, names[i], &folder), 0);
        snprintf(file, sizeof(file), "%s/1/model.onnx", names[i]);
        assert_string_equal(text_of(folder.path, file), "brought");
        snprintf(file, sizeof(file), "%s/1/weights", names[i]);
        assert_string_equal(text_of(folder.path, file), "");
        snprintf(file, sizeof(file), "%s/3/model.onnx", names[i]);
        assert_string_equal(text_of(folder.path, file), "third");
        snprintf(file, sizeof(file), "%s/2/model.onnx", names[i]);
        assert_string_equal(text_of(folder.path, file), "none");
        temporary_folder_remove(&folder);
    }
    assert_nothing_stays(w);
    assert_string_equal(text_of(w->root, "models/own/1/model.onnx"), "own");
}

TEST_WITH(what_makes_no_sense_leaves_nothing_behind, setup, world_remove) {
    static struct override_file file = {"1", "model.onnx", "x", 1};
    static const struct {
        const char *name, *config;
        bool twice, alone; /* the same file; a file without a configuration */
        int rc;
        const char *want;
    } cases[] = {
        {"none", "{}", false, false, -ENOENT, "there is no model 'none' in the repository"},
        {"../own", "{}", false, false, -EINVAL, "'../own' will not do as a model's name"},
        {".own", "{}", false, false, -EINVAL, "'.own' will not do as a model's name"},
        {"own", NULL, false, true, -EINVAL, "a model of given files needs the parameter 'config' as well"},
        {"own", "[]", false, false, -EINVAL, "config: expected an object"},
        {"own", "{\"max_batch_size\": []}", false, false, -EINVAL,
         "config: ModelConfig.max_batch_size: expected a whole number"},
        {"own", "{}", true, false, -EEXIST, "File exists"},
    };
    struct world *w = *state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct model_override override = {.config = (char *)cases[i].config};
        struct temporary_folder folder;
        override.config_bytes = cases[i].config ? strlen(cases[i].config) : 0;
        override.file_count = cases[i].twice ? 2 : cases[i].alone ? 1 : 0;
        override.files[0] = override.files[1] = file;
        assert_int_equal(make(w, &override, cases[i].name, &folder), cases[i].rc);
        assert_non_null(strstr(w->err.text, cases[i].want));
        assert_nothing_stays(w);
    }
}
