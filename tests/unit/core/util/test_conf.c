/* test_conf.c - trees, values, overrides and mistakes of YAML files. */
#include "unit/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/conf.h"
#include "core/util/container.h"
#include "core/util/time.h"

struct settings {
    double rate;
    int64_t count, slo_ns;
    bool on;
    char name[8];
    const struct conf_node *extra;
};

static const struct conf_key keys[] = {
    CONF_KEY_DOUBLE(struct settings, rate, "rate", 0.5, 100, "a rate"),
    CONF_KEY_INT(struct settings, count, "count", 1, 9, "a count"),
    CONF_KEY_TIME(struct settings, slo_ns, "slo_ms", NS_PER_MS, 0, 1000, "milliseconds"),
    CONF_KEY_BOOL(struct settings, on, "on"),
    CONF_KEY_TEXT(struct settings, name, "name", "a name"),
    CONF_KEY_NODE(struct settings, extra, "extra"),
    CONF_KEYS_END,
};

static int settings_read(const char *text, const char *set, struct settings *s, struct sy_error *err) {
    struct conf_node *root;
    *s = (struct settings){.count = 7};
    int rc = conf_read_text("f.yaml", text, strlen(text), &root, err);
    if (rc)
        return rc;
    rc = set ? conf_set(root, set, err) : 0;
    if (!rc)
        rc = conf_read_map(root, keys, s, err);
    s->extra = s->extra ? (const void *)1 : NULL;
    conf_free(root);
    return rc;
}

TEST(values_land_in_the_struct) {
    struct settings s;
    struct sy_error err = {""};
    static const char text[] =
        "# comment\nrate: 2.5\ncount: 3\nslo_ms: 0.25\non: true\nname: \"25\"\nextra: [1, {a: b}]\n";
    assert_int_equal(settings_read(text, NULL, &s, &err), 0);
    assert_true(s.rate == 2.5);
    assert_int_equal(s.count, 3);
    assert_int_equal(s.slo_ns, 250000);
    assert_true(s.on);
    assert_string_equal(s.name, "25");
    assert_non_null(s.extra);
    assert_int_equal(settings_read("{\"rate\": 3}", NULL, &s, &err), 0); /* JSON is YAML */
    assert_true(s.rate == 3);
    assert_int_equal(s.count, 7);
    assert_int_equal(settings_read("", NULL, &s, &err), 0);
    assert_int_equal(settings_read("# nothing\n---\n", NULL, &s, &err), -EINVAL); /* a null document is no mapping */
}

TEST(mistakes_name_line_and_expectation) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"rate: x", "f.yaml:1: rate: 'x' is not a number (expected a rate)"},
        {"\nrate: 0.25", "f.yaml:2: rate: 0.25 is not in 0.5 to 100 (expected a rate)"},
        {"rate: nan", "f.yaml:1: rate: 'nan' is not a number (expected a rate)"},
        {"rate: '1'", "f.yaml:1: rate: found the text '1' (expected a rate, without quotes)"},
        {"rate:", "f.yaml:1: rate: has no value (expected a rate)"},
        {"rate: [1]", "f.yaml:1: rate: found a list (expected a rate)"},
        {"rate: {a: 1}", "f.yaml:1: rate: found a mapping (expected a rate)"},
        {"count: 1.5", "f.yaml:1: count: '1.5' is not a whole number (expected a count)"},
        {"count: 10", "f.yaml:1: count: 10 is not in 1 to 9 (expected a count)"},
        {"count: 99999999999999999999", "f.yaml:1: count: 99999999999999999999 is not in 1 to 9 (expected a count)"},
        {"on: yes", "f.yaml:1: on: 'yes' is neither true nor false"},
        {"name: longerthan7", "f.yaml:1: name: longer than 7 bytes (expected a name)"},
        {"name: ''", "f.yaml:1: name: has no value (expected a name)"},
        {"rate: 1\nrat: 2", "f.yaml:2: rat: unknown key (expected rate, count, slo_ms, on, name, extra)"},
        {"rate: 1\nrate: 2", "f.yaml:2: 'rate' is given twice"},
        {"- 1", "f.yaml:1: expected a mapping with the keys rate, count, slo_ms, on, name, extra"},
        {"extra: &a 1\nrate: *a", "f.yaml:2: aliases (*a) are not supported"},
        {"[a]: 1", "f.yaml:1: a key must be a word"},
        {"rate: 1\n---\nrate: 2", "f.yaml:2: a second document in one file"},
        {"\"a\\0b\": 1", "f.yaml:1: a zero byte in a key"},
        {"extra: [[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]", "f.yaml:1: nested deeper than 16"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct settings s;
        struct sy_error err = {""};
        assert_int_equal(settings_read(cases[i].text, NULL, &s, &err), -EINVAL);
        assert_string_equal(err.text, cases[i].want);
    }
    struct settings s;
    struct sy_error err = {""};
    assert_int_equal(settings_read("a: 1\n  b: {", NULL, &s, &err), -EINVAL);
    assert_non_null(strstr(err.text, "f.yaml:2: not valid YAML: "));
}

TEST(overrides_replace_and_add) {
    static const char text[] = "a: {b: 1, c: [x, y]}\nd: 2\n";
    static const struct {
        const char *set;
        const char *path[4]; /* to look the value up again */
        const char *want;
    } cases[] = {
        {"a.b=5", {"a", "b"}, "5"},    {"d=7", {"d"}, "7"},
        {"a.c.1=z", {"a", "c"}, "z"},  {"n.m.o=new", {"n", "m", "o"}, "new"},
        {"a={q: 3}", {"a", "q"}, "3"}, {"d=", {"d"}, ""},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct conf_node *root, *node;
        struct sy_error err = {""};
        assert_int_equal(conf_read_text("f", text, strlen(text), &root, &err), 0);
        assert_int_equal(conf_set(root, cases[i].set, &err), 0);
        node = root;
        for (const char *const *key = cases[i].path; *key; key++)
            node = conf_find(node, *key);
        if (node->kind == CONF_LIST)
            node = node->last;
        if (node->kind == CONF_MAP && !node->count)
            assert_string_equal(cases[i].want, "");
        else
            assert_string_equal(node->text, cases[i].want);
        conf_free(root);
    }
}

TEST(wrong_overrides_are_named) {
    static const struct {
        const char *set, *want;
    } cases[] = {
        {"rate", "--set rate: expected KEY=VALUE"},
        {"=1", "--set =1: expected KEY=VALUE"},
        {"extra.5=1", "--set extra.5=1: there is no '5'"},
        {"extra..=1", "--set extra..=1: there is no ''"},
        {"extra.=1", "--set extra.=1: there is no ''"},
        {"extra.-0=1", "--set extra.-0=1: there is no '-0'"},
        {"extra.+0=1", "--set extra.+0=1: there is no '+0'"},
        {"extra. 0=1", "--set extra. 0=1: there is no ' 0'"},
        {"extra.5.x=1", "--set extra.5.x=1: there is no '5'"},
        {"rate.x=1", "--set rate.x=1: there is no 'x'"},
        {"rate=fast", "--set: rate: 'fast' is not a number (expected a rate)"},
        {"speed=1", "--set: speed: unknown key (expected rate, count, slo_ms, on, name, extra)"},
        {".=1", "--set .=1: there is no ''"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct settings s;
        struct sy_error err = {""};
        assert_int_equal(settings_read("rate: 1\nextra: [1]\n", cases[i].set, &s, &err), -EINVAL);
        assert_string_equal(err.text, cases[i].want);
    }
}

TEST(missing_files_are_named) {
    struct conf_node *root;
    struct sy_error err = {""};
    assert_int_equal(conf_read_file("/nowhere/x.yaml", &root, &err), -ENOENT);
    assert_string_equal(err.text, "/nowhere/x.yaml: No such file or directory");
    assert_int_equal(conf_read_file("/", &root, &err), -EISDIR);
}

TEST(files_have_a_greatest_size) {
    char path[] = "/tmp/conf-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    while (ftell(file) <= CONF_BYTES_MAX)
        fputs("- 1\n", file);
    assert_int_equal(fclose(file), 0);
    struct conf_node *root = NULL;
    struct sy_error err = {""};
    assert_int_equal(conf_read_file(path, &root, &err), -EFBIG);
    assert_non_null(strstr(err.text, ": larger than 1048576 bytes"));
    assert_int_equal(conf_read_large_file(path, &root, &err), 0);
    assert_int_equal(root->count, CONF_BYTES_MAX / 4 + 1);
    conf_free(root);
    remove(path);
}
