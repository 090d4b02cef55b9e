/* prefix_parts.c - makes parts in a temporary folder, and moves them into a repository. */
#include "lab/planfile/prefix_parts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/temporary_folder.h"
#include "core/util/text.h"
#include "model/prefix/parts.h"

/* The making of parts: models are written to ROOT/NAME/1/model.onnx. */
struct making {
    struct temporary_folder folder; /* folder whose path is `root` */
    char root[PATH_MAX - 256];
    struct prefix_parts *parts;
    struct cut_model *models;
    const struct served_model *served;
    const struct group *group;
    char prefix_path[PATH_MAX];
    char (*paths)[PATH_MAX]; /* [members] paths of the suffixes */
    struct cut_model **members;
    const char **suffix_paths;
    uint32_t items; /* most items of a request to an ensemble */
    bool ensembles; /* whether ensembles are written */
    struct sy_error *err;
};

/* ---- files ---- */

static int folder_make(const char *path, struct sy_error *err) {
    return mkdir(path, 0777) && errno != EEXIST ? error_set(err, -errno, "%s: %s", path, strerror(errno)) : 0;
}

/* Sets `path` to the file of a model of this name, and makes its folders. */
static int model_place(const struct making *m, const char *name, char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "%s/%s", m->root, name);
    int rc = folder_make(path, m->err);
    if (rc)
        return rc;
    snprintf(path, PATH_MAX, "%s/%s/1", m->root, name);
    rc = folder_make(path, m->err);
    snprintf(path, PATH_MAX, "%s/%s/1/model.onnx", m->root, name);
    return rc;
}

static int text_write(const struct making *m, const char *model, const char *file, struct text *text) {
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s/%s", m->root, model, file);
    FILE *to = fopen(path, "we");
    bool wrote = to && !text->failed && fwrite(text->data, 1, text->length, to) == text->length;
    if (!to || fclose(to) || !wrote)
        return error_set(m->err, -EIO, "%s: cannot be written", path);
    return 0;
}

/* ---- names ---- */

static bool name_taken(const struct making *m, uint32_t model_count, const char *name) {
    for (uint32_t i = 0; i < model_count; i++)
        if (strcmp(m->served[m->group->members[i]].name, name) == 0)
            return true;
    return false;
}

static int names_make(struct making *m) {
    const char *first = m->served[m->group->members[0]].name;
    struct prefix_parts *parts = m->parts;
    parts->suffix_names = calloc(m->group->count, sizeof(*parts->suffix_names));
    m->paths = calloc(m->group->count, sizeof(*m->paths));
    m->members = calloc(m->group->count, sizeof(*m->members));
    m->suffix_paths = calloc(m->group->count, sizeof(*m->suffix_paths));
    if (!parts->suffix_names || !m->paths || !m->members || !m->suffix_paths)
        return error_set(m->err, -ENOMEM, "out of memory");
    int length = snprintf(parts->prefix_name, sizeof(parts->prefix_name), "%s.prefix", first);
    bool fits = length < (int)sizeof(parts->prefix_name) && !name_taken(m, m->group->count, parts->prefix_name);
    for (uint32_t i = 0; fits && i < m->group->count; i++) {
        length = snprintf(parts->suffix_names[i], sizeof(parts->suffix_names[i]), "%s.suffix",
                          m->served[m->group->members[i]].name);
        fits = length < (int)sizeof(parts->suffix_names[i]) && !name_taken(m, m->group->count, parts->suffix_names[i]);
    }
    return fits ? 0 : error_set(m->err, -EINVAL, "the parts of '%s' find no names", first);
}

/* ---- ensembles ---- */

static void quoted(struct text *text, const char *name) {
    text_put_char(text, '"');
    for (const char *c = name; *c; c++) {
        if (*c == '"' || *c == '\\')
            text_put_char(text, '\\');
        text_put_char(text, *c);
    }
    text_put_char(text, '"');
}

static void entry(struct text *text, const char *map, const char *key, const char *value) {
    text_printf(text, "      %s { key: ", map);
    quoted(text, key);
    text_put(text, " value: ");
    quoted(text, value);
    text_put(text, " }\n");
}

static void tensors_put(struct text *text, const char *kind, const struct signature *s, const struct tensor_spec *specs,
                        uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const char *type = datatype_name(specs[i].type);
        text_printf(text, "%s { name: ", kind);
        quoted(text, specs[i].name);
        text_printf(text, " data_type: TYPE_%s dims: [", specs[i].type == DATATYPE_BYTES ? "STRING" : type);
        for (uint32_t d = s->batched; d < specs[i].dim_count; d++)
            text_printf(text, "%s%lld", d > s->batched ? ", " : " ", (long long)specs[i].dims[d]);
        text_put(text, " ] }\n");
    }
}

/* A tensor at the cut, as the ensemble calls it: no input of a model has such a name. */
static void between_name(uint32_t place, char *name, size_t size) {
    snprintf(name, size, "prefix:%u", place);
}

static void step_begin(struct text *text, const char *model) {
    text_put(text, "  step {\n      model_name: ");
    quoted(text, model);
    text_put(text, "\n      model_version: -1\n");
}

static bool suffix_takes(const struct split_member *member, uint32_t place) {
    for (uint32_t i = 0; i < member->suffix.signature.input_count; i++)
        if (member->suffix_takes[i] == place)
            return true;
    return false;
}

static int ensemble_write(const struct making *m, const struct split *split, uint32_t member_index) {
    const struct split_member *member = &split->members[member_index];
    const struct served_model *served = &m->served[m->group->members[member_index]];
    char between[TENSOR_NAME_MAX];
    struct text text;
    text_init(&text, NULL, 0);
    text_printf(&text, "platform: \"ensemble\"\nmax_batch_size: %u\n", member->whole.signature.batched ? m->items : 0);
    tensors_put(&text, "input", &member->whole.signature, member->whole.inputs, member->whole.signature.input_count);
    tensors_put(&text, "output", &member->whole.signature, member->whole.outputs, member->whole.signature.output_count);
    text_put(&text, "ensemble_scheduling {\n");
    step_begin(&text, m->parts->prefix_name);
    for (uint32_t i = 0; i < split->prefix.signature.input_count; i++)
        entry(&text, "input_map", split->prefix.inputs[i].name, member->whole.inputs[member->prefix_takes[i]].name);
    for (uint32_t o = 0; o < split->prefix.signature.output_count; o++) {
        between_name(o, between, sizeof(between));
        if (suffix_takes(member, o))
            entry(&text, "output_map", split->prefix.outputs[o].name, between);
    }
    text_put(&text, "  }\n");
    step_begin(&text, m->parts->suffix_names[member_index]);
    for (uint32_t i = 0; i < member->suffix.signature.input_count; i++) {
        if (member->suffix_takes[i] != SPLIT_NONE)
            between_name(member->suffix_takes[i], between, sizeof(between));
        entry(&text, "input_map", member->suffix.inputs[i].name,
              member->suffix_takes[i] != SPLIT_NONE ? between : member->whole.inputs[member->suffix_own[i]].name);
    }
    for (uint32_t o = 0; o < member->suffix.signature.output_count; o++)
        entry(&text, "output_map", member->suffix.outputs[o].name, member->suffix.outputs[o].name);
    text_put(&text, "  }\n}\n");
    int rc = text_write(m, served->name, "config.pbtxt", &text);
    text_free(&text);
    if (!rc && served->slo_ns) {
        text_init(&text, NULL, 0);
        text_printf(&text, "slo_ms: %.6g\n", (double)served->slo_ns / 1e6);
        rc = text_write(m, served->name, "symphony.yaml", &text);
        text_free(&text);
    }
    return rc;
}

/* ---- the whole ---- */

/* Sets the paths of the parts' files, and makes their folders. */
static int places_make(struct making *m) {
    int rc = model_place(m, m->parts->prefix_name, m->prefix_path);
    for (uint32_t i = 0; !rc && i < m->group->count; i++) {
        rc = model_place(m, m->parts->suffix_names[i], m->paths[i]);
        m->suffix_paths[i] = m->paths[i];
        m->members[i] = &m->models[m->group->members[i]];
    }
    return rc;
}

/* Writes the ensembles, in the child process that has made the parts. */
static int ensembles_write(void *context, const struct split *split, uint32_t cut, struct sy_error *err) {
    struct making *m = context;
    char folder[PATH_MAX];
    int rc = 0;
    (void)cut;
    m->err = err;
    for (uint32_t i = 0; !rc && m->ensembles && i < m->group->count; i++) {
        snprintf(folder, sizeof(folder), "%s/%s", m->root, m->served[m->group->members[i]].name);
        rc = folder_make(folder, m->err);
        if (!rc)
            rc = ensemble_write(m, split, i);
    }
    return rc;
}

/* Calls `each` for the name of every part. */
static int parts_each(const struct making *m, const char *folder,
                      int (*each)(const struct making *m, const char *folder, const char *name)) {
    int rc = each(m, folder, m->parts->prefix_name);
    for (uint32_t i = 0; !rc && i < m->group->count; i++) {
        rc = each(m, folder, m->parts->suffix_names[i]);
        if (!rc)
            rc = each(m, folder, m->served[m->group->members[i]].name);
    }
    return rc;
}

static int part_absent(const struct making *m, const char *folder, const char *name) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        return error_set(m->err, -ENAMETOOLONG, "%s: the path is too long", folder);
    return access(path, F_OK) ? 0 : error_set(m->err, -EEXIST, "%s: is there already", path);
}

/* Moves a part from the temporary folder, which lies in the repository, into the repository itself. */
static int part_move(const struct making *m, const char *folder, const char *name) {
    char from[PATH_MAX], to[PATH_MAX];
    snprintf(from, sizeof(from), "%s/%s", m->root, name);
    snprintf(to, sizeof(to), "%s/%s", folder, name);
    return rename(from, to) ? error_set(m->err, -errno, "%s: %s", to, strerror(errno)) : 0;
}

static int root_make(struct making *m, const char *folder) {
    int rc = folder ? folder_make(folder, m->err) : 0;
    if (!rc)
        rc = temporary_folder_make(&m->folder, folder, m->err);
    if (rc)
        return rc;
    if (snprintf(m->root, sizeof(m->root), "%s", m->folder.path) < (int)sizeof(m->root))
        return 0;
    temporary_folder_remove(&m->folder);
    return error_set(m->err, -ENAMETOOLONG, "%.400s: the path is too long", m->folder.path);
}

int prefix_parts_make(struct prefix_parts *parts, const char *folder, struct cut_model *models,
                      const struct served_model *served, const struct group *group, uint32_t items,
                      struct sy_error *deepest, struct sy_error *err) {
    struct making m = {.parts = parts,
                       .models = models,
                       .served = served,
                       .group = group,
                       .items = items,
                       .ensembles = folder != NULL,
                       .err = err};
    *parts = (struct prefix_parts){.written = false};
    deepest->text[0] = '\0';
    const struct engine_ops *engine = engine_find("onnxruntime");
    if (!engine)
        return error_set(err, -ENOTSUP, "this build has no ONNX Runtime to try the parts with; see --untried");
    int rc = names_make(&m);
    if (!rc && folder)
        rc = parts_each(&m, folder, part_absent);
    bool made = !rc && (rc = root_make(&m, folder)) == 0;
    if (!rc)
        rc = places_make(&m);
    if (!rc) {
        struct parts_maker maker = {.engine = engine,
                                    .members = m.members,
                                    .group = group,
                                    .prefix_path = m.prefix_path,
                                    .suffix_paths = m.suffix_paths,
                                    .finish = ensembles_write,
                                    .context = &m};
        rc = parts_make(&maker, &parts->cut, deepest, err);
    }
    if (!rc && folder)
        rc = parts_each(&m, folder, part_move);
    if (made)
        temporary_folder_remove(&m.folder);
    free(m.paths);
    free(m.members);
    free(m.suffix_paths);
    parts->written = !rc && folder;
    if (rc)
        prefix_parts_free(parts);
    return rc;
}

void prefix_parts_free(struct prefix_parts *parts) {
    free(parts->suffix_names);
    *parts = (struct prefix_parts){.written = false};
}
