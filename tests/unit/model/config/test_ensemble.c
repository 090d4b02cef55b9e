/* test_ensemble.c - ensembles: graphs that are read, what symphony.yaml adds, whether models fit, and every mistake. */
#include "unit/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "model/config/ensemble.h"
#include "model/config/model_config.h"
#include "model/config/served_model.h"
#include "model/config/symphony_yaml.h"

#define X         "input { name: 'x' data_type: TYPE_FP32 dims: 4 }\n"
#define Y         "output { name: 'y' data_type: TYPE_FP32 dims: 2 }\n"
#define STEPS     "ensemble_scheduling {\n"
#define IN(k, v)  " input_map { key: '" k "' value: '" v "' }"
#define OUT(k, v) " output_map { key: '" k "' value: '" v "' }"

/* One step a line, from line 4 on; x -> a -> t -> b -> y. */
#define CHAIN                                                                                                          \
    X Y STEPS "step { model_name: 'a'" IN("i", "x") OUT("o", "t") " }\n"                                               \
                                                                  "step { model_name: 'b'" IN("i", "t")                \
                                                                      OUT("o", "y") " }\n }"

struct world {
    struct model_config config;
    struct symphony_yaml yaml;
    struct served_model whole, models[4];
    struct signature_room rooms[3]; /* of the first two models, and the whole */
    struct sy_error err;
};

static int world_make(void **state) {
    *state = calloc(1, sizeof(struct world));
    return *state ? 0 : -1;
}

static int world_free(void **state) {
    struct world *w = *state;
    model_config_release(&w->config);
    free(w);
    return 0;
}

static int read_text(struct world *w, const char *text) {
    model_config_release(&w->config);
    w->err.text[0] = '\0';
    return model_config_read_text("c", text, strlen(text), true, &w->config, &w->err);
}

static struct ensemble *read_good(struct world *w, const char *text) {
    if (read_text(w, text) != 0)
        fail_msg("%s: %s", text, w->err.text);
    assert_non_null(w->config.ensemble);
    return w->config.ensemble;
}

static struct symphony_yaml_step *setting_add(struct world *w, const char *step) {
    struct symphony_yaml_step *setting = &w->yaml.steps[w->yaml.step_count++];
    *setting = (struct symphony_yaml_step){.line = w->yaml.step_count};
    strcpy(setting->step, step);
    strcpy(w->yaml.path, "y");
    return setting;
}

static int settings_apply(struct world *w) {
    int rc = ensemble_settings(w->config.ensemble, &w->yaml, &w->err);
    w->yaml.step_count = 0;
    return rc;
}

/* ---- graphs ---- */

TEST(a_chain_is_put_in_order) {
    struct world *w = *state;
    const struct ensemble *e =
        read_good(w, X Y STEPS "step { model_name: 'b' model_version: 3" IN("i", "t")
                         OUT("o", "y") " }\n"
                                       "step { model_name: 'a' model_version: -1" IN("i", "x") OUT("o", "t") " }\n }");
    assert_string_equal(e->path, "c");
    assert_int_equal(e->step_count, 2);
    assert_string_equal(e->steps[0].model, "a");
    assert_int_equal(e->steps[0].written, 2);
    assert_int_equal(e->steps[0].version, 0);
    assert_int_equal(e->steps[0].line, 5);
    assert_int_equal(e->steps[0].after, 0);
    assert_int_equal(e->steps[0].each, ENSEMBLE_NONE);
    assert_int_equal(e->steps[0].when, ENSEMBLE_NONE);
    assert_string_equal(e->steps[1].model, "b");
    assert_int_equal(e->steps[1].written, 1);
    assert_int_equal(e->steps[1].version, 3);
    assert_int_equal(e->steps[1].after, 1);
    assert_int_equal(e->tensor_count, 3);
    uint32_t x = ensemble_tensor_find(e, "x"), t = ensemble_tensor_find(e, "t"), y = ensemble_tensor_find(e, "y");
    assert_int_equal(e->tensors[x].step, ENSEMBLE_NONE);
    assert_int_equal(e->tensors[x].place, 0);
    assert_int_equal(e->tensors[x].output, ENSEMBLE_NONE);
    assert_int_equal(e->tensors[t].step, 0);
    assert_int_equal(e->tensors[y].step, 1);
    assert_int_equal(e->tensors[y].output, 0);
    assert_int_equal(e->steps[1].inputs[0].tensor, t);
    assert_string_equal(e->steps[1].inputs[0].name, "i");
    assert_int_equal(ensemble_tensor_find(e, "z"), ENSEMBLE_NONE);
    assert_int_equal(settings_apply(w), 0);
}

/* The steps in an order in which they may run, each with the steps it comes after: "a b:a c:a d:b,c". */
static void order_format(const struct ensemble *e, char *text) {
    *text = '\0';
    for (uint32_t s = 0; s < e->step_count; s++) {
        text += sprintf(text, "%s%s", s ? " " : "", e->steps[s].model);
        for (uint32_t b = 0, any = 0; b < e->step_count; b++)
            if (e->steps[s].after >> b & 1)
                text += sprintf(text, "%s%s", any++ ? "," : ":", e->steps[b].model);
    }
}

#define STEP(m, maps) "step { model_name: '" m "'" maps " }\n"

TEST(forks_and_joins_are_read) {
    struct world *w = *state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {X Y STEPS STEP("a", IN("i", "x") OUT("o", "y")) "}", "a"},
        {CHAIN, "a b:a"},
        {X Y STEPS STEP("d", IN("i", "t") IN("j", "u") OUT("o", "y")) STEP("b", IN("i", "s") OUT("o", "t"))
             STEP("c", IN("i", "s") OUT("o", "u")) STEP("a", IN("i", "x") OUT("o", "s")) "}",
         "a b:a c:a d:b,c"},
        {X "output [ { name: 'y' }, { name: 'z' } ]\n" STEPS STEP("a", IN("i", "x") OUT("o", "y"))
             STEP("b", IN("i", "x") IN("j", "x") OUT("o", "z")) "}",
         "a b"},
        {X "output [ { name: 'y' }, { name: 'z' } ]\n" STEPS STEP("b", IN("i", "y") OUT("o", "z"))
             STEP("a", IN("i", "x") OUT("o", "y")) "}",
         "a b:a"}, /* an output of the ensemble that a step takes as well */
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[256];
        order_format(read_good(w, cases[i].text), text);
        assert_string_equal(text, cases[i].want);
        assert_int_equal(settings_apply(w), 0);
    }
}

TEST(ensembles_need_no_platform) {
    struct world *w = *state;
    read_good(w, CHAIN);
    read_good(w, "platform: ''" CHAIN);
    read_good(w, "platform: 'ensemble' backend: ''" CHAIN);
}

/* ---- mistakes in config.pbtxt ---- */

TEST(mistakes_name_the_step) {
    struct world *w = *state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {X Y "ensemble_scheduling { }", "c:3:1: ensemble_scheduling: it has no step"},
        {Y STEPS "}", "c:2:1: ensemble_scheduling: the ensemble has no input"},
        {X STEPS "}", "c:2:1: ensemble_scheduling: the ensemble has no output"},
        {X Y STEPS "step { }}", "c:4:1: step 1: model_name is missing"},
        {X Y STEPS "step { model_name: '' }}", "c:4:1: step 1: model_name is missing"},
        {X Y STEPS STEP("a b", ""),
         "c:4:8: step 1: 'a b' will not do as a model's name: expected 1 to 127 printable ASCII characters without "
         "blanks, quotes and slashes"},
        {X Y STEPS STEP("a\\000b", ""), "c:4:8: step 1: model_name: not UTF-8, or a zero byte in it"},
        {X Y STEPS STEP("a", ""), "c:4:1: step 1 (a): input_map is missing"},
        {X Y STEPS STEP("a", IN("i", "x")), "c:4:1: step 1 (a): output_map is missing"},
        {X Y STEPS STEP("a", " model_version: 0" IN("i", "x") OUT("o", "y")),
         "c:4:24: step 1 (a): model_version: '0' is neither -1 (the latest) nor a version from 1 to 4294967295"},
        {X Y STEPS STEP("a", " model_version: 4294967296" IN("i", "x") OUT("o", "y")),
         "c:4:24: step 1 (a): model_version: '4294967296' is neither -1 (the latest) nor a version from 1 to "
         "4294967295"},
        {X Y STEPS STEP("a", " input_map { value: 'x' }"), "c:4:24: step 1 (a): input_map: key is missing"},
        {X Y STEPS STEP("a", " input_map { key: 'i' }"), "c:4:24: step 1 (a): input_map: value is missing"},
        {X Y STEPS STEP("a", IN("i", "x") " output_map { key: '\\377' value: 'y' }"),
         "c:4:71: step 1 (a): key: not UTF-8, or a zero byte in it"},
        {X Y STEPS STEP("a", IN("i", "x") IN("i", "x") OUT("o", "y")),
         "c:4:58: step 1 (a): input_map: the model's input 'i' is given twice"},
        {X Y STEPS STEP("a", IN("i", "x") OUT("o", "y") OUT("o", "t")),
         "c:4:93: step 1 (a): output_map: the model's output 'o' is given twice"},
        {X Y STEPS STEP("a", IN("i", "x") OUT("o", "y") OUT("p", "y")),
         "c:4:93: step 1 (a): it gives 'y', as step 1 (a) does"},
        {X Y STEPS STEP("a", IN("i", "x") OUT("o", "y")) STEP("b", IN("i", "x") OUT("o", "y")),
         "c:5:58: step 2 (b): it gives 'y', as step 1 (a) does"},
        {X Y STEPS STEP("a", IN("i", "x") OUT("o", "x")),
         "c:4:58: step 1 (a): it gives 'x', which is an input of the ensemble"},
        {X Y STEPS STEP("a", IN("i", "z") OUT("o", "y")),
         "c:4:24: step 1 (a): it takes 'z', which no step gives and which is no input of the ensemble"},
        {X Y STEPS STEP("a", IN("i", "x") OUT("o", "t")), "c:2:1: output 'y': no step gives it"},
        {X "output { name: 'x' }\n" STEPS STEP("a", IN("i", "x") OUT("o", "t")), "c:2:1: output 'x': no step gives it"},
        {X Y STEPS STEP("a", IN("i", "x") IN("j", "y") OUT("o", "y")),
         "c:4:1: step 1 (a): the steps wait for each other in a circle: 1 (a), which waits for 1 (a)"},
        {X Y STEPS STEP("a", IN("i", "x") OUT("o", "y")) STEP("b", IN("i", "u") OUT("o", "s"))
             STEP("c", IN("i", "s") OUT("o", "t")) STEP("d", IN("i", "t") OUT("o", "u")),
         "c:5:1: step 2 (b): the steps wait for each other in a circle: 2 (b), which waits for 4 (d), which waits for "
         "3 (c), which waits for 2 (b)"},
        {X Y STEPS STEP("e", IN("i", "t") OUT("o", "y")) STEP("b", IN("i", "x") IN("j", "t") OUT("o", "s"))
             STEP("c", IN("i", "s") OUT("o", "t")),
         "c:5:1: step 2 (b): the steps wait for each other in a circle: 2 (b), which waits for 3 (c), which waits for "
         "2 (b)"}, /* the first step is not in the circle, but waits for it */
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[2048];
        bool open = cases[i].text[strlen(cases[i].text) - 1] != '}';
        snprintf(text, sizeof(text), "%s%s", cases[i].text, open ? "}" : "");
        assert_int_equal(read_text(w, text), -EINVAL);
        assert_string_equal(w->err.text, cases[i].want);
        assert_null(w->config.ensemble);
    }
}

TEST(what_nobody_takes_is_refused) {
    struct world *w = *state;
    read_good(w, X "input { name: 'z' }\n" Y STEPS STEP("a", IN("i", "x") OUT("o", "y")) "}");
    assert_int_equal(settings_apply(w), -EINVAL);
    assert_string_equal(w->err.text, "c:2:1: input 'z': no step takes it");
    read_good(w, X Y STEPS STEP("a", IN("i", "x") OUT("o", "y") OUT("p", "t")) "}");
    assert_int_equal(settings_apply(w), -EINVAL);
    assert_string_equal(w->err.text,
                        "c:4:93: step 1 (a): it gives 't', which no step takes and which is no output of the ensemble");
}

/* ---- limits ---- */

TEST(limits_have_sentences) {
    struct world *w = *state;
    static char text[1 << 17];
    size_t at = (size_t)sprintf(text, "%s", X Y STEPS STEP("s0", IN("i", "x") OUT("o", "y")));
    for (int i = 1; i < ENSEMBLE_STEPS_MAX; i++)
        at += (size_t)sprintf(text + at, STEP("s", IN("i", "x") OUT("o", "t%d")), i);
    strcpy(text + at, "}");
    assert_int_equal(read_good(w, text)->step_count, ENSEMBLE_STEPS_MAX);
    strcpy(text + at, STEP("last", IN("i", "x") OUT("o", "u")) "}");
    assert_int_equal(read_text(w, text), -EINVAL);
    assert_string_equal(w->err.text, "c:68:1: step: an ensemble has at most 64 steps");

    at = (size_t)sprintf(text, "%s", X Y STEPS "step { model_name: 'a'\n");
    for (int i = 0; i < TENSORS_MAX; i++)
        at += (size_t)sprintf(text + at, IN("i%d", "x") "\n", i);
    size_t full = at;
    strcpy(text + full, OUT("o", "y") "}}");
    read_good(w, text);
    strcpy(text + full, IN("one more", "x") OUT("o", "y") "}}");
    assert_int_equal(read_text(w, text), -EINVAL);
    assert_string_equal(w->err.text, "c:133:2: step 1 (a): input_map: more than 128 entries");

    at = (size_t)sprintf(text, "%s", X Y STEPS);
    for (int i = 0, t = 0; i < 9; i++) {
        at += (size_t)sprintf(text + at, "step { model_name: 'm'" IN("i", "x"));
        for (int k = 0; k < TENSORS_MAX; k++, t++)
            at += (size_t)sprintf(text + at, OUT("o%d", "t%d"), k, t);
        at += (size_t)sprintf(text + at, "}\n");
    }
    strcpy(text + at, "}");
    assert_int_equal(read_text(w, text), -EINVAL);
    assert_non_null(strstr(w->err.text, "step 8 (m): 't1022' is one tensor too many; an ensemble has at most 1024"));
}

TEST(long_names_are_refused) {
    struct world *w = *state;
    char text[1024], name[TENSOR_NAME_MAX + 1];
    memset(name, 'n', TENSOR_NAME_MAX);
    name[TENSOR_NAME_MAX] = '\0';
    snprintf(text, sizeof(text), X Y STEPS STEP("a", IN("i", "x") OUT("%s", "y")) "}", name);
    assert_int_equal(read_text(w, text), -EINVAL);
    assert_string_equal(w->err.text, "c:4:71: step 1 (a): key: longer than 127 bytes");
    snprintf(text, sizeof(text), X Y STEPS STEP("%s", IN("i", "x") OUT("o", "y")) "}", name);
    assert_int_equal(read_text(w, text), -EINVAL);
    assert_string_equal(w->err.text, "c:4:8: step 1: model_name: longer than 127 bytes");
}

/* ---- symphony.yaml ---- */

TEST(rows_become_items) {
    struct world *w = *state;
    struct ensemble *e = read_good(w, CHAIN);
    strcpy(setting_add(w, "b")->for_each, "t");
    assert_int_equal(settings_apply(w), 0);
    assert_int_equal(e->steps[0].each, ENSEMBLE_NONE);
    assert_int_equal(e->steps[1].each, ensemble_tensor_find(e, "t"));
    assert_int_equal(e->steps[1].each_most, ENSEMBLE_EACH);
    assert_int_equal(e->steps[1].beyond, ENSEMBLE_REFUSE);
    e = read_good(w, CHAIN);
    struct symphony_yaml_step *setting = setting_add(w, "2");
    strcpy(setting->for_each, "t");
    setting->limit = ENSEMBLE_EACH_MAX;
    setting->beyond = ENSEMBLE_CUT;
    assert_int_equal(settings_apply(w), 0);
    assert_int_equal(e->steps[1].each_most, ENSEMBLE_EACH_MAX);
    assert_int_equal(e->steps[1].beyond, ENSEMBLE_CUT);
}

/* The tensor of `when` is taken by it, and its step comes first. */
TEST(conditions_are_waited_for) {
    struct world *w = *state;
    char text[256];
    struct ensemble *e =
        read_good(w, X Y STEPS STEP("a", IN("i", "x") OUT("o", "y")) STEP("gate", IN("i", "x") OUT("o", "go")) "}");
    order_format(e, text);
    assert_string_equal(text, "a gate");
    strcpy(setting_add(w, "1")->when, "go");
    assert_int_equal(settings_apply(w), 0);
    order_format(e, text);
    assert_string_equal(text, "gate a:gate");
    assert_int_equal(e->steps[1].when, ensemble_tensor_find(e, "go"));
    assert_int_equal(e->tensors[ensemble_tensor_find(e, "go")].step, 0);
    assert_int_equal(e->tensors[ensemble_tensor_find(e, "y")].step, 1);
    e = read_good(w, X "input { name: 'wanted' }\n" Y STEPS STEP("a", IN("i", "x") OUT("o", "y")) "}");
    strcpy(setting_add(w, "a")->when, "wanted");
    assert_int_equal(settings_apply(w), 0);
    assert_int_equal(e->steps[0].after, 0);
}

TEST(mistakes_in_settings_are_named) {
    struct world *w = *state;
    static const struct {
        const char *step, *each, *when, *want;
    } cases[] = {
        {"c", "t", "", "y:1: steps.0: step: the ensemble has no step 'c' (expected a model's name, or 1 to 3)"},
        {"4", "t", "", "y:1: steps.0: step: the ensemble has no step '4' (expected a model's name, or 1 to 3)"},
        {"0", "t", "", "y:1: steps.0: step: the ensemble has no step '0' (expected a model's name, or 1 to 3)"},
        {"b", "t", "", "y:1: steps.0: step: 'b' is the model of steps 2 and 3; give a number"},
        {"2", "y", "", "y:1: steps.0: for_each: 'y' is no tensor that step 2 (b) takes"},
        {"2", "q", "", "y:1: steps.0: for_each: 'q' is no tensor that step 2 (b) takes"},
        {"2", "", "q", "y:1: steps.0: when: the ensemble has no tensor 'q'"},
        {"1", "", "t", "c:4:1: step 1 (a): the steps wait for each other in a circle: 1 (a), which waits for 1 (a)"},
        {"1", "", "y",
         "c:4:1: step 1 (a): the steps wait for each other in a circle: 1 (a), which waits for 3 (b), which waits for "
         "2 (b), which waits for 1 (a)"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        read_good(w, X Y STEPS STEP("a", IN("i", "x") OUT("o", "t")) STEP("b", IN("i", "t") OUT("o", "u"))
                         STEP("b", IN("i", "u") OUT("o", "y")) "}");
        struct symphony_yaml_step *setting = setting_add(w, cases[i].step);
        strcpy(setting->for_each, cases[i].each);
        strcpy(setting->when, cases[i].when);
        assert_int_equal(settings_apply(w), -EINVAL);
        assert_string_equal(w->err.text, cases[i].want);
    }
    read_good(w, CHAIN);
    strcpy(setting_add(w, "b")->for_each, "t");
    strcpy(setting_add(w, "2")->for_each, "t");
    assert_int_equal(settings_apply(w), -EINVAL);
    assert_string_equal(w->err.text, "y:2: steps.1: step 2 (b) is given twice");
}

/* ---- the signature ---- */

TEST(the_signature_is_the_configuration_s) {
    struct world *w = *state;
    struct signature_room room;
    struct signature s = *signature_room_open(&room);
    read_good(w, CHAIN);
    assert_int_equal(ensemble_signature(&w->config, &s, &w->err), 0);
    assert_false(s.batched);
    assert_false(s.variable_shapes);
    assert_int_equal(s.inputs[0].dim_count, 1);
    assert_int_equal(s.inputs[0].dims[0], 4);
    read_good(w, "max_batch_size: 8 input { name: 'z' data_type: TYPE_STRING dims: -1 optional: true }" X Y STEPS STEP(
                     "a", IN("i", "x") IN("j", "z") OUT("o", "y")) "}");
    assert_int_equal(ensemble_signature(&w->config, &s, &w->err), 0);
    assert_true(s.batched);
    assert_true(s.variable_shapes);
    assert_int_equal(s.inputs_optional, 1);
    assert_int_equal(s.input_count, 2);
    assert_int_equal(s.inputs[0].type, DATATYPE_BYTES);
    assert_string_equal(s.inputs[1].name, "x");
    assert_int_equal(s.inputs[1].dim_count, 2);
    assert_int_equal(s.inputs[1].dims[0], -1);
    assert_int_equal(s.outputs[0].dims[1], 2);
}

TEST(signatures_lack_nothing) {
    struct world *w = *state;
    static const struct {
        const char *head, *want;
    } cases[] = {
        {"input { name: 'x' dims: 1 }" Y, "c:1:1: input 'x': an ensemble's needs a data_type"},
        {"input { name: 'x' data_type: TYPE_FP32 }" Y, "c:1:1: input 'x': an ensemble's needs dims"},
        {X "output { name: 'y' dims: 1 }", "c:2:1: output 'y': an ensemble's needs a data_type"},
        {X "max_batch_size: 1 output { name: 'y' data_type: TYPE_BOOL dims: [ 1, 1, 1, 1, 1, 1, 1, 1 ] }",
         "c:2:19: output 'y': too many dimensions, the batch's included"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct signature_room room;
        struct signature s = *signature_room_open(&room);
        char text[512];
        snprintf(text, sizeof(text), "%s%s", cases[i].head, STEPS STEP("a", IN("i", "x") OUT("o", "y")) "}");
        read_good(w, text);
        assert_int_equal(ensemble_signature(&w->config, &s, &w->err), -EINVAL);
        assert_string_equal(w->err.text, cases[i].want);
    }
}

/* ---- against the models ---- */

/* Steps a (x -> t) and b (t -> y) of max_batch_size 8, as cases change them. */
struct fit {
    enum datatype a_in, a_out, b_in;
    int64_t a_dims[2], t_dims[2], b_dims[2];
    bool b_flat;    /* b has no batch dimension */
    uint32_t b_max; /* 0: 8 */
    bool b_more;    /* b has a second input */
    bool b_more_may_miss;
    const char *each, *when; /* of b */
    const char *want;        /* NULL: it fits */
};

static struct tensor_spec spec_of(const char *name, enum datatype type, const int64_t *dims) {
    struct tensor_spec spec = {.type = type ? type : DATATYPE_FP32, .dim_count = 2};
    strcpy(spec.name, name);
    spec.dims[0] = dims[0] ? dims[0] : -1;
    spec.dims[1] = dims[1] ? dims[1] : 4;
    return spec;
}

static int fit_check(struct world *w, const struct fit *f) {
    static const int64_t two[2] = {-1, 2}, flat[2] = {1, 4};
    const struct served_model *models[] = {&w->models[0], &w->models[1]};
    memset(w->models, 0, sizeof(w->models));
    read_good(w, "max_batch_size: 8 " CHAIN);
    if (f->each)
        strcpy(setting_add(w, "b")->for_each, f->each);
    if (f->when)
        strcpy(w->yaml.step_count ? w->yaml.steps[0].when : setting_add(w, "b")->when, f->when);
    assert_int_equal(settings_apply(w), 0);
    w->whole.signature = *signature_room_open(&w->rooms[2]);
    assert_int_equal(ensemble_signature(&w->config, &w->whole.signature, &w->err), 0);
    w->whole.batch_max = 8;
    w->whole.ensemble = w->config.ensemble;
    struct signature *a = &w->models[0].signature, *b = &w->models[1].signature;
    *a = *signature_room_open(&w->rooms[0]);
    a->input_count = a->output_count = 1;
    a->batched = true;
    a->inputs[0] = spec_of("i", f->a_in, f->a_dims);
    a->outputs[0] = spec_of("o", f->a_out, f->t_dims);
    *b = *signature_room_open(&w->rooms[1]);
    b->input_count = f->b_more ? 2 : 1;
    b->output_count = 1;
    b->batched = !f->b_flat;
    b->inputs[0] = spec_of("i", f->b_in, f->b_flat ? flat : f->b_dims);
    b->inputs[1] = spec_of("j", f->b_in, f->b_dims);
    b->inputs_optional = f->b_more_may_miss ? 2 : 0;
    b->outputs[0] = spec_of("o", DATATYPE_FP32, two);
    w->models[0].batch_max = 8;
    w->models[1].batch_max = f->b_max ? f->b_max : 8;
    return ensemble_check(&w->whole, w->whole.ensemble, models, &w->err);
}

TEST(models_must_fit) {
    struct world *w = *state;
    static const struct fit cases[] = {
        {.want = NULL},
        {.t_dims = {-1, -1}},
        {.a_dims = {-1, -1}, .b_dims = {-1, -1}},
        {.t_dims = {1, 4}},
        {.b_flat = true},
        {.b_more = true, .b_more_may_miss = true},
        {.each = "t", .b_max = 2},
        {.when = "t", .a_out = DATATYPE_BOOL, .b_in = DATATYPE_BOOL},
        {.a_in = DATATYPE_INT64, .want = "c:4:24: step 1 (a): the model's input 'i' is INT64, but 'x' is FP32"},
        {.a_dims = {-1, 5}, .want = "c:4:24: step 1 (a): the model's input 'i' is [-1,5], but 'x' is [-1,4]"},
        {.a_out = DATATYPE_BYTES, .want = "c:5:24: step 2 (b): the model's input 'i' is FP32, but 't' is BYTES"},
        {.t_dims = {-1, 3}, .want = "c:5:24: step 2 (b): the model's input 'i' is [-1,4], but 't' is [-1,3]"},
        {.b_more = true, .want = "c:5:1: step 2 (b): input_map lacks the model's input 'j'"},
        {.b_max = 7, .want = "c:5:1: step 2 (b): the ensemble's max_batch_size is 8, but the model's is 7"},
        {.each = "t", .b_flat = true, .want = "c:5:1: step 2 (b): for_each: the model has no batch dimension"},
        {.when = "t", .want = "c:5:1: step 2 (b): when: 't' is FP32, not BOOL"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int rc = fit_check(w, &cases[i]);
        if (rc != (cases[i].want ? -EINVAL : 0))
            fail_msg("case %zu: %d, %s", i, rc, w->err.text);
        if (cases[i].want)
            assert_string_equal(w->err.text, cases[i].want);
    }
}

/* Steps a (x -> t) and b (t -> y) of an ensemble without batching, with x [4] and y [2]. */
TEST(a_batch_dimension_of_one_comes_and_goes) {
    struct world *w = *state;
    static const struct {
        const char *head;
        bool a_batched, b_batched;
        const char *want; /* NULL: it fits */
    } cases[] = {
        {"", true, true, NULL},
        {"", true, false, NULL},
        {"", false, true, NULL},
        {"", false, false, NULL},
        {"max_batch_size: 8 ", true, false,
         "c:5:24: step 2 (b): the model's input 'i' is [4], but 't' is [-1,4]"}, /* there may be more than one */
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const struct served_model *models[] = {&w->models[0], &w->models[1]};
        char text[1024];
        memset(w->models, 0, sizeof(w->models));
        snprintf(text, sizeof(text), "%s%s", cases[i].head, CHAIN);
        read_good(w, text);
        assert_int_equal(settings_apply(w), 0);
        w->whole.signature = *signature_room_open(&w->rooms[2]);
        assert_int_equal(ensemble_signature(&w->config, &w->whole.signature, &w->err), 0);
        w->whole.batch_max = w->whole.signature.batched ? 8 : 1;
        w->whole.ensemble = w->config.ensemble;
        for (int m = 0; m < 2; m++) {
            bool batched = m == 0 ? cases[i].a_batched : cases[i].b_batched;
            struct signature *s = &w->models[m].signature;
            *s = *signature_room_open(&w->rooms[m]);
            s->input_count = s->output_count = 1;
            s->batched = batched;
            s->inputs[0] = (struct tensor_spec){.name = "i", .type = DATATYPE_FP32, .dim_count = 1, .dims = {4}};
            s->outputs[0] =
                (struct tensor_spec){.name = "o", .type = DATATYPE_FP32, .dim_count = 1, .dims = {m ? 2 : 4}};
            if (batched) {
                s->inputs[0] =
                    (struct tensor_spec){.name = "i", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 4}};
                s->outputs[0] =
                    (struct tensor_spec){.name = "o", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, m ? 2 : 4}};
            }
            w->models[m].batch_max = 8;
        }
        int rc = ensemble_check(&w->whole, w->whole.ensemble, models, &w->err);
        if (rc != (cases[i].want ? -EINVAL : 0))
            fail_msg("case %zu: %d, %s", i, rc, w->err.text);
        if (cases[i].want)
            assert_string_equal(w->err.text, cases[i].want);
    }
}

TEST(names_must_be_the_models_) {
    struct world *w = *state;
    static const struct fit good = {.want = NULL};
    const struct served_model *models[] = {&w->models[0], &w->models[1]};
    assert_int_equal(fit_check(w, &good), 0);
    strcpy(w->models[0].signature.inputs[0].name, "in");
    assert_int_equal(ensemble_check(&w->whole, w->whole.ensemble, models, &w->err), -EINVAL);
    assert_string_equal(w->err.text, "c:4:24: step 1 (a): the model has no input 'i' (it has 1, the first is 'in')");
    assert_int_equal(fit_check(w, &good), 0);
    strcpy(w->models[1].signature.outputs[0].name, "out");
    assert_int_equal(ensemble_check(&w->whole, w->whole.ensemble, models, &w->err), -EINVAL);
    assert_string_equal(w->err.text, "c:5:58: step 2 (b): the model has no output 'o' (it has 1, the first is 'out')");
    assert_int_equal(fit_check(w, &good), 0);
    w->models[1].signature.outputs[0].type = DATATYPE_FP16;
    assert_int_equal(ensemble_check(&w->whole, w->whole.ensemble, models, &w->err), -EINVAL);
    assert_string_equal(w->err.text, "c:5:58: step 2 (b): the model's output 'o' is FP16, but 'y' is FP32");
    assert_int_equal(fit_check(w, &good), 0);
    w->whole.signature.inputs_optional = 1;
    assert_int_equal(ensemble_check(&w->whole, w->whole.ensemble, models, &w->err), -EINVAL);
    assert_string_equal(w->err.text,
                        "c:4:24: step 1 (a): the ensemble's input 'x' is optional, but the model's 'i' is not");
}

int main(void) {
    return tests_run(world_make, world_free);
}
