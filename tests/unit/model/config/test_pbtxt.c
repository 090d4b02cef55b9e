/* test_pbtxt.c - what the text format's reader accepts, and where it says mistakes are. */
#include "unit/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "model/config/pbtxt.h"

/* A tree as text: a canonical form that shows kinds. */
static void tree_print(const struct pbtxt_node *message, FILE *to) {
    for (const struct pbtxt_node *node = message->first; node; node = node->next) {
        fprintf(to, "%s", node->name);
        if (node->kind == PBTXT_MESSAGE) {
            fprintf(to, "{");
            tree_print(node, to);
            fprintf(to, "}");
        } else {
            fprintf(to, "%c", "?$#="[node->kind]);
            fwrite(node->text, 1, node->length, to);
            fprintf(to, ";");
        }
    }
}

TEST(trees_are_read) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", ""},
        {"# only a comment", ""},
        {"a: 1 b:2;c : 3,", "a#1;b#2;c#3;"},
        {"a: -1 b: - 2 c: 1.5e-3 d: 0x1F e: 010 f: .5 g: 1f", "a#-1;b#-2;c#1.5e-3;d#0x1F;e#010;f#.5;g#1f;"},
        {"a: 0xe-1", NULL},
        {"a: -inf b: KIND_CPU c: true", "a#-inf;b=KIND_CPU;c=true;"},
        {"a: \"x\" b: 'y\"z'", "a$x;b$y\"z;"},
        {"a: \"x\" 'y'\n# c\n\"z\" b: 1", "a$xyz;b#1;"},
        {"a: \"\\n\\t\\\\\\\"\\101\\x42\\u00e9\\U0001F600\"", "a$\n\t\\\"AB\xc3\xa9\xf0\x9f\x98\x80;"},
        {"a: ''", "a$;"},
        {"m { a: 1 } n: { b: 2 } o < c: 3 > p: <>", "m{a#1;}n{b#2;}o{c#3;}p{}"},
        {"a: [1, 2,3] b: [] c: ['x' 'y', \"z\"]", "a#1;a#2;a#3;c$xy;c$z;"},
        {"b: [] a: 1", "a#1;"},
        {"m: { b: [] }", "m{}"},
        {"input [ { name: 'x' }, { name: 'y' } ]", "input{name$x;}input{name$y;}"},
        {"m: [ <a:1>, {b:2} ]", "m{a#1;}m{b#2;}"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct pbtxt_node *root;
        struct sy_error err = {""};
        int rc = pbtxt_read("c", cases[i].text, strlen(cases[i].text), &root, &err);
        assert_int_equal(rc, cases[i].want ? 0 : -EINVAL);
        if (rc)
            continue;
        char *text;
        size_t size;
        FILE *to = open_memstream(&text, &size);
        tree_print(root, to);
        fclose(to);
        assert_string_equal(text, cases[i].want);
        free(text);
        pbtxt_free(root);
    }
}

TEST(mistakes_name_line_and_column) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"a", "c:1:2: expected ':' after a field's name, found the end of the file"},
        {"a 1", "c:1:3: expected ':' after a field's name, found '1'"},
        {"a:", "c:1:3: expected a value, found the end of the file"},
        {"a: }", "c:1:4: expected a value, found '}'"},
        {"\n  }", "c:2:3: expected a field's name, found '}'"},
        {"m {\n a: 1\n", "c:3:1: expected a field's name, found the end of the file"},
        {"m { a: 1 >", "c:1:10: expected a field's name, found '>'"},
        {"a: \"x\nb\"", "c:1:6: the string does not end on its line"},
        {"a: 'x", "c:1:6: the string does not end on its line"},
        {"a: 'x\\", "c:1:7: expected an escape, found the end of the file"},
        {"a: 'x\\q'", "c:1:7: not an escape that the text format knows"},
        {"a: '\\777'", "c:1:9: not an escape that the text format knows"},
        {"a: '\\u12'", "c:1:9: \\u needs 4 hexadecimal digits"},
        {"a: '\\ud800'", "c:1:11: \\ud800 is not a character"},
        {"a: [1 2]", "c:1:7: expected ',' or ']', found '2'"},
        {"a: [1,]", "c:1:7: expected a value, found ']'"},
        {"a [1]", "c:1:4: expected '{' (a list without ':' is one of messages), found '1'"},
        {"a: [[1]]", "c:1:5: expected a value, found '['"},
        {"[x.y]: 1", "c:1:1: extensions and Any are not supported"},
        {"a: \x01", "c:1:4: expected a value, found the byte 0x01"},
        {"\xef: 1", "c:1:1: expected a field's name, found the byte 0xef"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct pbtxt_node *root;
        struct sy_error err = {""};
        assert_int_equal(pbtxt_read("c", cases[i].text, strlen(cases[i].text), &root, &err), -EINVAL);
        assert_string_equal(err.text, cases[i].want);
    }
}

TEST(depth_and_size_are_bounded) {
    struct pbtxt_node *root;
    struct sy_error err = {""};
    size_t bytes = PBTXT_BYTES_MAX + 1;
    char *text = malloc(bytes);
    for (size_t i = 0; i + 1 < bytes; i += 2)
        memcpy(text + i, "a{", 2);
    text[bytes - 1] = ' ';
    assert_int_equal(pbtxt_read("c", text, bytes - 1, &root, &err), -EINVAL);
    assert_string_equal(err.text, "c:1:67: messages nested deeper than 32");
    assert_int_equal(pbtxt_read("c", text, bytes, &root, &err), -EFBIG);
    free(text);
}

TEST(fields_are_found) {
    struct pbtxt_node *root;
    struct sy_error err = {""};
    static const char text[] = "a: 1\nb: 'x'\na: [0x10,\n  -3]\nc: 9223372036854775808";
    assert_int_equal(pbtxt_read("c", text, strlen(text), &root, &err), 0);
    const struct pbtxt_node *node = pbtxt_find(root, "a");
    int64_t value;
    assert_int_equal(pbtxt_get_int("c", node, 0, 100, &value, &err), 0);
    assert_int_equal(value, 1);
    node = pbtxt_next(node);
    assert_int_equal(pbtxt_get_int("c", node, 0, 100, &value, &err), 0);
    assert_int_equal(value, 16);
    node = pbtxt_next(node);
    assert_int_equal(pbtxt_get_int("c", node, 0, 100, &value, &err), -EINVAL);
    assert_string_equal(err.text, "c:4:3: a: -3 is not in 0 to 100");
    assert_null(pbtxt_next(node));
    assert_int_equal(pbtxt_get_int("c", pbtxt_find(root, "b"), 0, 100, &value, &err), -EINVAL);
    assert_string_equal(err.text, "c:2:1: b: expected a whole number, found 'x'");
    assert_int_equal(pbtxt_get_int("c", pbtxt_find(root, "c"), 0, 100, &value, &err), -EINVAL);
    assert_null(pbtxt_find(root, "d"));
    pbtxt_free(root);
}
