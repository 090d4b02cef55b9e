/* test_part_folders.c - notes of parts, and which folders of parts are removed. */
#include "model/prefix/part_folders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/folder.h"
#include "unit/temp_folder.h"
#include "unit/test.h"

/* Two models a and b, each a file in a folder of its own. */
struct fixture {
    char root[64], paths[2][128], contents[2][FINGERPRINT_TEXT], folder[SIDECAR_PATH_MAX];
    struct part_owner owners[2];
};

static void file_write(const char *path, const char *text) {
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    fputs(text, to);
    fclose(to);
}

static void fingerprint_take(struct fixture *f, int model) {
    struct fingerprint fingerprint;
    assert_int_equal(fingerprint_model(f->paths[model], &fingerprint, NULL), 0);
    fingerprint_format(&fingerprint, f->contents[model]);
}

/* The folder of the parts of both, with its note. */
static void folder_fill(struct fixture *f) {
    mkdir(f->folder, 0777);
    assert_int_equal(part_note_write(f->folder, part_note_new(f->folder, f->owners, 2), NULL), 0);
}

static int fixture_make(void **state) {
    struct fixture *f = *state = calloc(1, sizeof(*f));
    temp_folder(f->root);
    for (int m = 0; m < 2; m++) {
        char folder[96], path[128];
        snprintf(folder, sizeof(folder), "%s/%c", f->root, 'a' + m);
        mkdir(folder, 0777);
        snprintf(path, sizeof(path), "%s/model.onnx", folder);
        strcpy(f->paths[m], path);
        file_write(f->paths[m], m ? "" : "\x08\x09");
        fingerprint_take(f, m);
        f->owners[m] = (struct part_owner){m ? "b" : "a", f->paths[m], f->contents[m]};
    }
    char beside[96], folder[128];
    snprintf(beside, sizeof(beside), "%s/a/.symphony", f->root);
    mkdir(beside, 0777);
    snprintf(folder, sizeof(folder), "%s/model-01234567.parts", beside);
    strcpy(f->folder, folder);
    folder_fill(f);
    return 0;
}

static int fixture_free(void **state) {
    struct fixture *f = *state;
    folder_remove(f->root);
    free(f);
    return 0;
}

static bool is_there(const struct fixture *f) {
    return access(f->folder, F_OK) == 0;
}

TEST_WITH(a_note_is_read_for_the_same_files, fixture_make, fixture_free) {
    struct fixture *f = *state;
    json_t *note = part_note_read(f->folder, f->owners, 2);
    assert_non_null(note);
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(note, "members"), 1), "path")),
                        "../../../b/model.onnx"); /* the whole may be moved */
    json_decref(note);
    assert_null(part_note_read(f->folder, f->owners, 1));
    strcpy(f->contents[1], "another");
    assert_null(part_note_read(f->folder, f->owners, 2));
    assert_null(part_note_read("/nowhere", f->owners, 2));
}

TEST_WITH(a_note_that_others_may_write_is_not_read, fixture_make, fixture_free) {
    struct fixture *f = *state;
    char note[SIDECAR_PATH_MAX];
    assert_int_equal(part_file(note, f->folder, "split.json", 0, NULL), 0);
    json_decref(part_note_read(f->folder, f->owners, 2));
    assert_int_equal(chmod(f->folder, 0777), 0);
    assert_null(part_note_read(f->folder, f->owners, 2));
    assert_int_equal(chmod(f->folder, 0700), 0);
    assert_int_equal(chmod(note, 0660), 0);
    assert_null(part_note_read(f->folder, f->owners, 2));
}

TEST(numbers_come_back) {
    const uint32_t numbers[] = {3, UINT32_MAX, 0};
    uint32_t read[3];
    json_t *list = part_numbers_pack(numbers, 3);
    assert_int_equal(part_numbers_read(list, 3, 4, true, read), 0);
    assert_memory_equal(read, numbers, sizeof(numbers));
    assert_int_equal(part_numbers_read(list, 3, 4, false, read), -EINVAL); /* -1 */
    assert_int_equal(part_numbers_read(list, 3, 3, true, read), -EINVAL);  /* 3 is too much */
    assert_int_equal(part_numbers_read(list, 2, 4, true, read), -EINVAL);
    json_decref(list);
}

TEST_WITH(parts_of_present_files_stay, fixture_make, fixture_free) {
    struct fixture *f = *state;
    part_folders_tidy(f->paths[0], NULL);
    part_folders_tidy(f->paths[1], NULL);
    assert_true(is_there(f));
}

TEST_WITH(parts_of_a_file_that_has_changed_go, fixture_make, fixture_free) {
    struct fixture *f = *state;
    file_write(f->paths[1], "\x08\x07");
    part_folders_tidy(f->paths[1], NULL); /* they are not beside this one */
    assert_true(is_there(f));
    part_folders_tidy(f->paths[0], NULL);
    assert_false(is_there(f));
    fingerprint_take(f, 1);
    folder_fill(f);
    unlink(f->paths[1]); /* and of one that is gone */
    part_folders_tidy(f->paths[0], NULL);
    assert_false(is_there(f));
}

TEST_WITH(parts_in_use_stay, fixture_make, fixture_free) {
    struct fixture *f = *state;
    int first = part_folder_hold(f->folder), second = part_folder_hold(f->folder);
    assert_true(first >= 0 && second >= 0);
    file_write(f->paths[1], "\x08\x07");
    part_folder_release(first);
    part_folders_tidy(f->paths[0], NULL);
    part_folder_remove(f->folder);
    assert_true(is_there(f));
    part_folder_release(second);
    part_folders_tidy(f->paths[0], NULL);
    assert_false(is_there(f));
    assert_int_equal(part_folder_hold(f->folder), -1);
}

TEST_WITH(what_is_not_ours_stays, fixture_make, fixture_free) {
    struct fixture *f = *state;
    static const char *const names[] = {"model-0123456.parts", "model-0123456x.parts", "model-01234567.parts.tmp",
                                        "other-01234567.parts", "model-01234567"};
    char to[SIDECAR_PATH_MAX];
    file_write(f->paths[1], "\x08\x07"); /* its note says that it is of no use */
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(to, sizeof(to), "%s/a/.symphony/%s", f->root, names[i]);
        assert_int_equal(rename(f->folder, to), 0);
        part_folders_tidy(f->paths[0], NULL);
        assert_int_equal(rename(to, f->folder), 0);
    }
    char note[SIDECAR_PATH_MAX];
    snprintf(note, sizeof(note), "%.4000s/split.json", f->folder);
    static const char *const notes[] = {"", "{}", "{\"format\": 2, \"members\": []}",
                                        "{\"format\": 1, \"members\": []}",
                                        "{\"format\": 1, \"members\": [{\"path\": \"../../../b/model.onnx\"}]}"};
    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
        file_write(note, notes[i]);
        part_folders_tidy(f->paths[0], NULL);
        assert_true(is_there(f));
    }
    unlink(note);
    assert_int_equal(mkfifo(note, 0600), 0); /* whoever opens it waits for its writer */
    part_folders_tidy(f->paths[0], NULL);
    assert_true(is_there(f));
}

/* Makes parts as the fixture says, for part_folder_get(). */
struct maker {
    struct fixture *f;
    int rc;
    const char *refusal; /* NULL: none */
    bool note;           /* it leaves one */
    bool outrun;         /* another server makes the same parts meanwhile */
    uint32_t made;       /* how often it was called */
    char folder[SIDECAR_PATH_MAX];
};

static int parts_make(void *context, const char *made, struct sy_error *err) {
    struct maker *m = context;
    m->made++;
    strcpy(m->folder, made);
    assert_int_equal(access(made, F_OK), 0);
    assert_false(is_there(m->f));
    if (m->outrun)
        folder_fill(m->f);
    if (m->refusal)
        assert_int_equal(part_refusal_write(made, m->f->owners, 2, m->refusal, err), 0);
    else if (m->note)
        assert_int_equal(part_note_write(made, part_note_new(made, m->f->owners, 2), err), 0);
    return m->rc ? error_set(err, m->rc, "a trial failed") : 0;
}

/* Returns what part_folder_get() does; a note and a folder that is held go, and nothing stays beside it. */
static int get(struct maker *m, struct sy_error *err) {
    const struct part_want want = {m->f->owners, 2, parts_make, m};
    int held;
    json_t *note;
    int rc = part_folder_get(m->f->folder, &want, &held, &note, err);
    assert_true(!note == (rc != 0));
    assert_true((held >= 0) == is_there(m->f)); /* who has it holds it */
    part_folder_remove(m->f->folder);
    assert_true((held >= 0) == is_there(m->f));
    assert_true(!m->made || access(m->folder, F_OK) != 0);
    json_decref(note);
    part_folder_release(held);
    return rc;
}

TEST_WITH(parts_that_are_there_are_not_made, fixture_make, fixture_free) {
    struct maker m = {.f = *state, .note = true};
    struct sy_error err;
    assert_int_equal(get(&m, &err), 0);
    assert_int_equal(m.made, 0);
    folder_remove(m.f->folder);
    assert_int_equal(get(&m, &err), 0);
    assert_int_equal(m.made, 1);
    assert_int_equal(get(&m, &err), 0); /* found again */
    assert_int_equal(m.made, 1);
    strcpy(m.f->contents[1], "another");
    assert_int_equal(get(&m, &err), 0); /* they were of an earlier file */
    assert_int_equal(m.made, 2);
}

TEST_WITH(a_refusal_is_kept, fixture_make, fixture_free) {
    struct maker m = {.f = *state, .refusal = "it differs"};
    struct sy_error err;
    folder_remove(m.f->folder);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(get(&m, &err), -EINVAL);
        assert_string_equal(err.text, "it differs");
    }
    assert_int_equal(m.made, 1);
}

TEST_WITH(a_trial_without_an_outcome_leaves_nothing, fixture_make, fixture_free) {
    struct maker m = {.f = *state, .note = true, .rc = -EINTR};
    struct sy_error err;
    folder_remove(m.f->folder);
    assert_int_equal(get(&m, &err), -EINTR);
    assert_string_equal(err.text, "a trial failed");
    assert_false(is_there(m.f));
}

TEST_WITH(parts_of_another_server_made_meanwhile_are_kept, fixture_make, fixture_free) {
    struct maker m = {.f = *state, .refusal = "it differs", .outrun = true};
    struct sy_error err;
    folder_remove(m.f->folder);
    assert_int_equal(get(&m, &err), 0); /* that server's note is no refusal */
    assert_true(is_there(m.f));
}

TEST_WITH(what_a_killed_maker_left_goes, fixture_make, fixture_free) {
    struct maker m = {.f = *state, .note = true};
    struct sy_error err;
    char left[SIDECAR_PATH_MAX + 16];
    folder_remove(m.f->folder);
    snprintf(left, sizeof(left), "%s.making-123456", m.f->folder);
    assert_int_equal(mkdir(left, 0700), 0);
    assert_int_equal(get(&m, &err), 0);
    assert_int_equal(access(left, F_OK), -1);
}

TEST_WITH(parts_without_a_note_are_an_error, fixture_make, fixture_free) {
    struct maker m = {.f = *state};
    struct sy_error err;
    folder_remove(m.f->folder);
    assert_int_equal(get(&m, &err), -EIO);
    assert_non_null(strstr(err.text, "the note of the parts cannot be read"));
}
