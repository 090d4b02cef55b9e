/* test_lines.c - text files line by line, hostile ones included. */
#include "core/util/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/test.h"
#include "unit/text_file.h"

static char path[] = TEXT_FILE;
static struct lines lines;

static void file_of(const void *text, size_t bytes) {
    text_file(path, text, bytes);
    struct sy_error err;
    assert_int_equal(lines_open(&lines, path, &err), 0);
}

static void file_done(void) {
    lines_close(&lines);
    unlink(path);
}

TEST(a_mark_before_the_first_line_is_no_text) {
    static const char text[] = "\xef\xbb\xbf# a comment\n\xef\xbb\xbfone\n", only[] = "\xef\xbb\xbf";
    struct sy_error err;
    file_of(text, strlen(text));
    assert_int_equal(lines_next(&lines, &err), 1);
    assert_string_equal(lines.text, "\xef\xbb\xbfone"); /* elsewhere it is */
    file_done();
    file_of(only, strlen(only));
    assert_int_equal(lines_next(&lines, &err), 0);
    file_done();
}

TEST(lines_come_without_ends_comments_and_blanks) {
    static const char text[] = "# a comment\n\none\r\n  \t\n  two, three \n#\nlast";
    struct sy_error err;
    file_of(text, strlen(text));
    assert_int_equal(lines_next(&lines, &err), 1);
    assert_string_equal(lines.text, "one");
    assert_int_equal(lines.number, 3);
    assert_int_equal(lines_next(&lines, &err), 1);
    assert_int_equal(lines.number, 5);
    char *rest = lines.text;
    assert_string_equal(lines_field(&rest), "two");
    assert_string_equal(lines_field(&rest), "three");
    assert_null(lines_field(&rest));
    assert_int_equal(lines_next(&lines, &err), 1);
    assert_string_equal(lines.text, "last");
    assert_int_equal(lines_error(&lines, &err, "not %s", "good"), -EINVAL);
    assert_memory_equal(err.text, path, strlen(path));
    assert_string_equal(err.text + strlen(path), ":7: not good");
    assert_int_equal(lines_next(&lines, &err), 0);
    assert_int_equal(lines_next(&lines, &err), 0);
    file_done();
}

TEST(hostile_files_are_refused) {
    struct sy_error err;
    file_of("a\nb\0c\n", 6);
    assert_int_equal(lines_next(&lines, &err), 1);
    assert_int_equal(lines_next(&lines, &err), -EINVAL);
    assert_non_null(strstr(err.text, ":2: a zero byte"));
    file_done();
    char *text = malloc(LINES_LENGTH_MAX + 2);
    memset(text, 'x', LINES_LENGTH_MAX + 2);
    text[LINES_LENGTH_MAX] = '\n';
    file_of(text, LINES_LENGTH_MAX + 1);
    assert_int_equal(lines_next(&lines, &err), 1);
    assert_int_equal(strlen(lines.text), LINES_LENGTH_MAX);
    file_done();
    text[LINES_LENGTH_MAX] = 'x';
    file_of(text, LINES_LENGTH_MAX + 2);
    assert_int_equal(lines_next(&lines, &err), -EINVAL);
    assert_non_null(strstr(err.text, ":1: a line of more than 65535 characters"));
    file_done();
    free(text);
    assert_int_equal(lines_open(&lines, "/nonexistent/file", &err), -ENOENT);
    assert_string_equal(err.text, "/nonexistent/file: No such file or directory");
    assert_int_equal(lines_open(&lines, "/", &err), 0);
    assert_int_equal(lines_next(&lines, &err), -EISDIR);
    lines_close(&lines);
}

TEST(fields_end_at_commas) {
    char text[] = ",, a ,";
    char *rest = text;
    assert_string_equal(lines_field(&rest), "");
    assert_string_equal(lines_field(&rest), "");
    assert_string_equal(lines_field(&rest), "a");
    assert_string_equal(lines_field(&rest), "");
    assert_null(lines_field(&rest));
}
