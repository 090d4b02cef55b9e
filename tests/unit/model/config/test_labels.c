/* test_labels.c - lines of every kind. */
#include "unit/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/util/container.h"
#include "model/config/labels.h"

static struct labels *labels_of(const char *text, size_t bytes) {
    char path[] = "/tmp/symphony-test-XXXXXX";
    struct labels *labels;
    struct sy_error err;
    int fd = mkstemp(path);
    assert_int_equal(write(fd, text, bytes), (ssize_t)bytes);
    close(fd);
    assert_int_equal(labels_read(path, &labels, &err), 0);
    unlink(path);
    return labels;
}

TEST(a_line_is_a_label) {
    static const struct {
        const char *text;
        uint32_t count;
        const char *labels[3];
    } cases[] = {
        {"", 0, {NULL}},
        {"\n", 1, {""}},
        {"cat", 1, {"cat"}},
        {"cat\n", 1, {"cat"}},
        {"cat\r\ndog\r\n", 2, {"cat", "dog"}},
        {"\n\ngrey cat", 3, {"", "", "grey cat"}},
        {"a\n#b\n", 2, {"a", "#b"}},
        {"\r\r\n", 1, {"\r"}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct labels *labels = labels_of(cases[i].text, strlen(cases[i].text));
        size_t length;
        for (uint32_t k = 0; k < cases[i].count; k++) {
            const char *label = labels_get(labels, k, &length);
            assert_int_equal(length, strlen(cases[i].labels[k]));
            assert_memory_equal(label, cases[i].labels[k], length);
        }
        assert_null(labels_get(labels, cases[i].count, &length));
        assert_null(labels_get(labels, UINT64_MAX, &length));
        labels_free(labels);
    }
}

TEST(no_file_and_no_labels) {
    struct labels *labels = NULL;
    struct sy_error err = {""};
    size_t length;
    assert_int_equal(labels_read("/nowhere/labels.txt", &labels, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nowhere/labels.txt"));
    assert_null(labels_get(NULL, 0, &length));
    labels_free(NULL);
}
