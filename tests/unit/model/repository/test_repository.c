/* test_repository.c - what a directory gives. */
#include "unit/test.h"

#include <errno.h>

#include "model/config/ensemble.h"
#include "unit/model/repository/world.h"

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

TEST_WITH(both_layouts_are_found_and_sorted, world_make, world_remove) {
    struct world *w = *state;
    put(w, "zebra.onnx", "x");
    put(w, "apple/1/model.onnx", "x");
    put(w, "apple/10/model.onnx", "x");
    put(w, "apple/9/model.onnx", "x");
    put(w, "apple/011/model.onnx", "x"); /* not versions, as Triton sees it */
    put(w, "apple/12a/model.onnx", "x");
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

TEST_WITH(one_model_is_a_repository_too, world_make, world_remove) {
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

TEST_WITH(broken_models_do_not_stop_the_others, world_make, world_remove) {
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
    put(w, "zeros/0000001/model.onnx", "x");
    put(w, "badyaml/1/model.onnx", "x");
    put(w, "badyaml/symphony.yaml", "slo_ms: 5\nslo: 5\n");
    put(w, "noprofile/1/model.onnx", "x");
    put(w, "noprofile/symphony.yaml", "profile: p.json\n");
    put(w, "folder.onnx/x", "");
    put(w, "pointer.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 90000\n");
    char link[256];
    in_root(w, link, "dangling.onnx");
    assert_int_equal(symlink("/nowhere", link), 0);
    assert_int_equal(scan(w, ""), 0);
    assert_int_equal(w->count, 15);
    assert_found(w, "good", 1, "@/good.onnx");
    assert_refused(w, "pointer",
                   "@/pointer.onnx: a pointer of Git LFS, and not the model, which 'git lfs pull' fetches");
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
    assert_refused(w, "platform", "@/platform/config.pbtxt:1:1: platform: an ensemble needs ensemble_scheduling");
    assert_refused(w, "misnamed",
                   "@/misnamed/config.pbtxt: the name is 'other', but the folder's is 'misnamed'; they "
                   "must be the same");
    assert_refused(w, "zeros",
                   "@/zeros: no version folder with a model.onnx in it: '0000001' is none, since it has leading zeros");
    assert_refused(w, "badyaml",
                   "@/badyaml/symphony.yaml:2: slo: unknown key (expected slo_ms, max_batch, batch, weight, "
                   "pinned, profile, shapes, sample, steps, prepare)");
    assert_refused(w, "noprofile", "@/noprofile/symphony.yaml: profile: @/noprofile/p.json: No such file or directory");
    assert_refused(w, "dangling", "@/dangling.onnx: No such file or directory");
}

/* Else neither metrics nor gRPC's answers that list them can be read. */
TEST_WITH(names_and_reasons_are_utf8, world_make, world_remove) {
    struct world *w = *state;
    put(w, "\xff\n/1/model.onnx", "x");
    put(w, "config/1/model.onnx", "x");
    put(w, "config/config.pbtxt", "name: '\\377'");
    assert_int_equal(scan(w, ""), 0);
    assert_non_null(strstr(find(w, "? ")->reason, "/? : '? ' will not do as a model's name"));
    assert_non_null(strstr(find(w, "config")->reason, "the name is '?', but the folder's is 'config'"));
}

TEST_WITH(links_are_followed, world_make, world_remove) {
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

TEST_WITH(two_of_one_name_are_both_named, world_make, world_remove) {
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

TEST_WITH(versions_are_models_of_their_own, world_make, world_remove) {
    struct world *w = *state;
    put(w, "all/config.pbtxt", "version_policy { all { } }");
    put(w, "all/1/model.onnx", "x");
    put(w, "all/20/model.onnx", "x");
    put(w, "all/3/notes.txt", "no model");
    put(w, "latest/config.pbtxt", "version_policy { latest { num_versions: 2 } }");
    put(w, "latest/1/model.onnx", "x");
    put(w, "latest/2/model.onnx", "x");
    put(w, "latest/3/model.onnx", "x");
    assert_int_equal(scan(w, ""), 0);
    assert_int_equal(w->count, 5);
    const struct {
        const char *name, *path;
        uint32_t version;
    } want[] = {{"all", "@/all/1/model.onnx", 1},
                {"all", "", 3},
                {"all", "@/all/20/model.onnx", 20},
                {"latest", "@/latest/2/model.onnx", 2},
                {"latest", "@/latest/3/model.onnx", 3}};
    for (uint32_t i = 0; i < w->count; i++) {
        assert_string_equal(w->models[i].name, want[i].name);
        assert_int_equal(w->models[i].version, want[i].version);
        assert_int_equal(w->models[i].state, *want[i].path ? MODEL_LOADING : MODEL_UNAVAILABLE);
        if (*want[i].path)
            assert_text(w, w->models[i].path, want[i].path);
    }
}

/* Nor is a lower version served in its place. */
TEST_WITH(a_version_that_is_too_large_is_named, world_make, world_remove) {
    struct world *w = *state;
    put(w, "most/4294967295/model.onnx", "x");
    put(w, "more/4294967296/model.onnx", "x");
    put(w, "dated/1/model.onnx", "x");
    put(w, "dated/99999999999999999999999/model.onnx", "x");
    put(w, "dated/20240101123000/model.onnx", "x");
    put(w, "dated/9999999999/model.onnx", "x");
    put(w, "all/config.pbtxt", "version_policy { all { } }");
    put(w, "all/1/model.onnx", "x");
    put(w, "all/20240101123000/model.onnx", "x");
    put(w, "one/config.pbtxt", "version_policy { specific { versions: [ 1 ] } }");
    put(w, "one/1/model.onnx", "x");
    put(w, "one/20240101123000/model.onnx", "x"); /* not wanted */
    put(w, "file/20240101123000", "no folder");
    put(w, "file/2/model.onnx", "x");
    assert_int_equal(scan(w, ""), 0);
    assert_int_equal(w->count, 6);
    assert_found(w, "most", UINT32_MAX, "@/most/4294967295/model.onnx");
    assert_refused(w, "more", "@/more/4294967296: the number of a version is at most 4294967295");
    assert_refused(w, "dated", "@/dated/99999999999999999999999: the number of a version is at most 4294967295");
    assert_refused(w, "all", "@/all/20240101123000: the number of a version is at most 4294967295");
    assert_found(w, "one", 1, "@/one/1/model.onnx");
    assert_found(w, "file", 2, "@/file/2/model.onnx");
    assert_int_equal(scan(w, "more"), 0); /* one model's folder */
    assert_refused(w, "more", "@/more/4294967296: the number of a version is at most 4294967295");
}

TEST_WITH(versions_that_are_there_are_served, world_make, world_remove) {
    struct world *w = *state;
    put(w, "some/config.pbtxt", "version_policy { specific { versions: [ 1, 3 ] } }");
    put(w, "some/2/model.onnx", "x");
    put(w, "some/3/model.onnx", "x");
    put(w, "none/config.pbtxt", "version_policy { specific { versions: [ 4, 5 ] } }");
    put(w, "none/2/model.onnx", "x");
    assert_int_equal(scan(w, ""), 0);
    assert_int_equal(w->count, 2);
    assert_found(w, "some", 3, "@/some/3/model.onnx");
    assert_refused(w, "none", "@/none: none of the versions that version_policy names is there: 4,5");
}

#define CHAIN                                                                                                          \
    "input { name: 'x' data_type: TYPE_FP32 dims: 4 } output { name: 'y' data_type: TYPE_FP32 dims: 2 }\n"             \
    "ensemble_scheduling { step [ { model_name: 'b' input_map { key: 'i' value: 't' } "                                \
    "output_map { key: 'o' value: 'y' } },\n { model_name: 'a' input_map { key: 'i' value: 'x' } "                     \
    "output_map { key: 'o' value: 't' } } ] }\n"

TEST_WITH(ensembles_need_no_files, world_make, world_remove) {
    struct world *w = *state;
    put(w, "bare/config.pbtxt", "platform: 'ensemble'\n" CHAIN);
    put(w, "versions/1/.keep", "");
    put(w, "versions/12/model.onnx", "not looked at");
    put(w, "versions/config.pbtxt", "max_batch_size: 16 " CHAIN);
    put(w, "versions/symphony.yaml", "slo_ms: 20\nweight: 2\nsteps: [{step: b, for_each: t, limit: 3, beyond: cut}]");
    put(w, "large/config.pbtxt", "max_batch_size: 2000000000 " CHAIN);
    put(w, "dated/20240101123000/.keep", "");
    put(w, "dated/config.pbtxt", CHAIN);
    assert_int_equal(scan(w, ""), 0);
    assert_int_equal(w->count, 4);
    assert_refused(w, "dated", "@/dated/20240101123000: the number of a version is at most 4294967295");
    const struct served_model *bare = find(w, "bare"), *versions = find(w, "versions");
    assert_string_equal(bare->reason, "");
    assert_int_equal(bare->state, MODEL_LOADING);
    assert_int_equal(bare->version, 1);
    assert_string_equal(bare->platform, "ensemble");
    assert_null(bare->path);
    assert_int_equal(bare->batch_max, 1);
    assert_false(bare->signature.batched);
    assert_int_equal(bare->signature.inputs[0].dim_count, 1);
    assert_int_equal(bare->ensemble->step_count, 2);
    assert_text(w, bare->ensemble->path, "@/bare/config.pbtxt");
    assert_string_equal(versions->reason, "");
    assert_int_equal(versions->version, 12);
    assert_int_equal(versions->batch_max, 16);
    assert_true(versions->signature.batched);
    assert_int_equal(versions->slo_ns, 20000000);
    assert_true(versions->weight == 2);
    assert_int_equal(versions->ensemble->steps[1].each_most, 3);
    assert_int_equal(versions->ensemble->steps[1].beyond, ENSEMBLE_CUT);
    assert_int_equal(find(w, "large")->batch_max, 1024);
    assert_int_equal(scan(w, "bare"), 0);
    assert_non_null(find(w, "bare")->ensemble);
}

TEST_WITH(ensembles_have_versions, world_make, world_remove) {
    struct world *w = *state;
    put(w, "e/config.pbtxt", "version_policy { specific { versions: [ 2, 3, 7 ] } }" CHAIN);
    for (int version = 1; version <= 3; version++) {
        char path[32];
        snprintf(path, sizeof(path), "e/%d/.keep", version);
        put(w, path, "");
    }
    assert_int_equal(scan(w, ""), 0);
    assert_int_equal(w->count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_string_equal(w->models[i].reason, "");
        assert_int_equal(w->models[i].version, 2 + i);
        assert_int_equal(w->models[i].ensemble->step_count, 2);
    }
    assert_ptr_not_equal(w->models[0].ensemble, w->models[1].ensemble);
    put(w, "e/config.pbtxt", "version_policy { specific { versions: [ 7 ] } }" CHAIN);
    assert_int_equal(scan(w, ""), 0);
    assert_refused(w, "e", "@/e: none of the versions that version_policy names is there: 7");
}

TEST_WITH(broken_ensembles_are_refused, world_make, world_remove) {
    struct world *w = *state;
    put(w, "circle/config.pbtxt",
        "input { name: 'x' } output { name: 'y' } ensemble_scheduling { step [ { model_name: 'a' "
        "input_map [ { key: 'i' value: 'x' }, { key: 'j' value: 'y' } ] output_map { key: 'o' value: 'y' } } ] }");
    put(w, "typeless/config.pbtxt", "input { name: 'z' } " CHAIN);
    put(w, "plain/1/model.onnx", "x");
    put(w, "plain/symphony.yaml", "\nsteps: [{step: 1, for_each: x}]");
    put(w, "profiled/config.pbtxt", CHAIN);
    put(w, "profiled/symphony.yaml", "max_batch: 4");
    put(w, "unknown/config.pbtxt", CHAIN);
    put(w, "unknown/symphony.yaml", "steps:\n- {step: 2, for_each: t}");
    put(w, "twice/config.pbtxt", CHAIN);
    put(w, "twice.onnx", "x");
    assert_int_equal(scan(w, ""), 0);
    assert_refused(w, "circle",
                   "@/circle/config.pbtxt:1:64: step 1 (a): the steps wait for each other in a circle: 1 (a), which "
                   "waits for 1 (a)");
    assert_refused(w, "typeless", "@/typeless/config.pbtxt:1:1: input 'z': no step takes it");
    assert_refused(w, "plain", "@/plain/symphony.yaml:2: steps: the model is no ensemble");
    assert_refused(w, "profiled",
                   "@/profiled/symphony.yaml: max_batch: not for an ensemble, whose steps' models have it");
    assert_refused(w, "unknown",
                   "@/unknown/symphony.yaml:2: steps.0: for_each: 't' is no tensor that step 2 (a) takes");
    assert_refused(w, "twice", "@/twice.onnx: a second model of the name 'twice'; the first is @/twice");
    for (uint32_t i = 0; i < w->count; i++)
        assert_null(w->models[i].ensemble);
}

/* Scans two of the root's folders, or one, with the name of the one model; NULL: without. */
static int scan_two(struct world *w, const char *first, const char *second, const char *name) {
    char one[256], other[256];
    const char *paths[] = {one, other};
    struct repositories from = {.paths = paths, .count = second ? 2 : 1, .name = name};
    in_root(w, one, first);
    in_root(w, other, second ? second : "");
    served_models_free(w->models, w->count);
    w->models = NULL;
    w->count = 0;
    return repository_scan(&from, &w->models, &w->count, &w->err);
}

TEST_WITH(several_repositories_are_one, world_make, world_remove) {
    struct world *w = *state;
    put(w, "one/z/1/model.onnx", "x");
    put(w, "one/both/1/model.onnx", "x");
    put(w, "other/a/config.pbtxt", "version_policy { all { } }");
    put(w, "other/a/1/model.onnx", "x");
    put(w, "other/a/2/model.onnx", "x");
    put(w, "other/both/2/model.onnx", "x");
    put(w, "empty/.keep", "");
    put(w, "blank/.keep", "");
    assert_int_equal(scan_two(w, "one", "other/", NULL), 0);
    assert_int_equal(w->count, 4);
    assert_string_equal(w->models[0].name, "a");
    assert_found(w, "z", 1, "@/one/z/1/model.onnx");
    assert_refused(w, "both", "@/other/both: a second model of the name 'both'; the first is @/one/both");
    assert_int_equal(scan_two(w, "one", "empty", NULL), 0);
    assert_int_equal(w->count, 2);
    assert_int_equal(scan_two(w, "one", "one/z", NULL), 0); /* a repository, and a model in it */
    assert_int_equal(w->count, 2);
    assert_refused(w, "z", "@/one/z: a second model of the name 'z'; the first is @/one/z");
    assert_int_equal(scan_two(w, "other", "other", NULL), 0);
    assert_int_equal(w->count, 2);
    assert_refused(w, "a", "@/other/a: a second model of the name 'a'; the first is @/other/a");
    assert_int_equal(scan_two(w, "one", "missing", NULL), -ENOENT);
    assert_text(w, w->err.text, "@/missing: No such file or directory");
    assert_int_equal(scan_two(w, "empty", "blank", NULL), -ENOENT);
    assert_text(w, w->err.text,
                "@/empty, @/blank: no model in it; expected <model>/<version>/model.onnx or <model>.onnx");
}

TEST_WITH(the_one_model_can_be_named, world_make, world_remove) {
    struct world *w = *state;
    put(w, "models/model.onnx", "x");
    put(w, "file/a net.onnx", "x"); /* no name for a model */
    put(w, "versions/config.pbtxt", "name: 'net' version_policy { all { } }");
    put(w, "versions/1/model.onnx", "x");
    put(w, "versions/2/model.onnx", "x");
    put(w, "tree/resnet/1/model.onnx", "x");
    put(w, "wrong/resnet/config.pbtxt", "name: 'net'");
    put(w, "wrong/resnet/1/model.onnx", "x");
    put(w, "two/a.onnx", "x");
    put(w, "two/b/1/model.onnx", "x");
    assert_int_equal(scan_two(w, "models", NULL, "mine"), 0);
    assert_int_equal(w->count, 1);
    assert_found(w, "mine", 1, "@/models/model.onnx");
    assert_int_equal(scan_two(w, "file/a net.onnx", NULL, "mine"), 0);
    assert_found(w, "mine", 1, "@/file/a net.onnx");
    assert_int_equal(scan_two(w, "versions", NULL, "mine"), 0);
    assert_int_equal(w->count, 2);
    assert_found(w, "mine", 1, "@/versions/1/model.onnx");
    assert_string_equal(w->models[1].name, "mine");
    assert_int_equal(scan_two(w, "tree", NULL, "mine"), 0);
    assert_found(w, "mine", 1, "@/tree/resnet/1/model.onnx");
    assert_int_equal(scan_two(w, "wrong", NULL, "mine"), 0);
    assert_refused(
        w, "mine",
        "@/wrong/resnet/config.pbtxt: the name is 'net', but the folder's is 'resnet'; they must be the same");
    assert_int_equal(scan_two(w, "two", NULL, "mine"), -EINVAL);
    assert_text(w, w->err.text, "the name 'mine' was given for one model, but there are @/two/a.onnx and @/two/b");
    assert_int_equal(scan_two(w, "models", "tree", "mine"), -EINVAL);
}

/* Scans the folder of one model, whose libraries may lie in @/shared, too; with `brought` a client brought the model.
 */
static struct served_model *library_scan(struct world *w, const char *folder, bool brought) {
    char path[256], shared[256];
    const char *paths[] = {path};
    struct repositories from = {.paths = paths, .count = 1, .op_library_dir = shared, .brought = brought};
    in_root(w, path, folder);
    in_root(w, shared, "shared");
    served_models_free(w->models, w->count);
    w->models = NULL;
    w->count = 0;
    assert_int_equal(repository_scan(&from, &w->models, &w->count, &w->err), 0);
    return &w->models[0];
}

TEST_WITH(libraries_of_operators_are_found, world_make, world_remove) {
    struct world *w = *state;
    struct served_model *model;
    put(w, "m/1/model.onnx", "x");
    put(w, "m/lib/a.so", "x");
    put(w, "shared/lib/a.so", "x");
    put(w, "shared/b.so", "x");
    put(w, "m/config.pbtxt", "model_operations { op_library_filename: [ 'lib/a.so', 'b.so' ] }");
    model = library_scan(w, "m", false);
    assert_text(w, model->op_libraries->paths[0], "@/m/lib/a.so"); /* its own first */
    assert_text(w, model->op_libraries->paths[1], "@/shared/b.so");
    assert_string_equal(model->op_libraries->paths[2], "");
    model = library_scan(w, "m", true);
    assert_text(w, model->op_libraries->paths[0], "@/shared/lib/a.so");
    put(w, "m/config.pbtxt", "model_operations { op_library_filename: '../shared/b.so' }");
    library_scan(w, "m", false);
    assert_refused(w, "m",
                   "@/m/config.pbtxt:1:20: op_library_filename: '../shared/b.so' is not within the model's folder, nor "
                   "within that of --op-library-dir");
    put(w, "m/config.pbtxt", "model_operations { op_library_filename: 'c.so' }");
    library_scan(w, "m", false);
    assert_refused(w, "m", "@/m/config.pbtxt:1:20: op_library_filename: @/shared/c.so: No such file or directory");
    put(w, "m/config.pbtxt", "model_operations { op_library_filename: 'lib' }");
    library_scan(w, "m", false);
    assert_refused(w, "m", "@/m/config.pbtxt:1:20: op_library_filename: @/m/lib: not a file");
    put(w, "m/config.pbtxt", "model_operations { op_library_filename: '' }");
    library_scan(w, "m", false);
    assert_refused(w, "m", "@/m/config.pbtxt:1:20: op_library_filename: the name is empty");
    put(w, "m/config.pbtxt", "model_operations { op_library_filename: 'b.so' }");
    assert_int_equal(scan(w, "m"), 0); /* without a folder for all */
    assert_refused(w, "m", "@/m/config.pbtxt:1:20: op_library_filename: @/m/b.so: No such file or directory");
}

TEST_WITH(nothing_to_serve_is_said_clearly, world_make, world_remove) {
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
