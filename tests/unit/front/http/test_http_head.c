/* test_http_head.c - headers one by one, and paths. */
#include "unit/test.h"

#include <string.h>

#include "front/http/http_head.h"
#include "front/v2/infer_parse.h"

struct line {
    const char *name, *value;
};

static struct http_head head_of(const struct line *lines, unsigned major, unsigned minor) {
    struct http_head head;
    http_head_begin(&head);
    for (; lines->name; lines++)
        http_head_field(&head, NULL, lines->name, strlen(lines->name), lines->value, strlen(lines->value));
    http_head_end(&head, major, minor);
    return head;
}

#define HEAD(...) head_of((const struct line[]){__VA_ARGS__, {NULL, NULL}}, 1, 1)

TEST(what_matters_is_read) {
    struct http_head head =
        HEAD({"host", "x"}, {"Content-LENGTH", "12"}, {"inference-header-content-length", " 7\t"},
             {"Content-Encoding", "gzip"}, {"Accept-Encoding", "deflate"}, {"Expect", "100-Continue"}, {"X", "y"});
    assert_null(head.fault);
    assert_int_equal(head.content_length, 12);
    assert_int_equal(head.json_bytes, 7);
    assert_int_equal(head.encoding, BODY_GZIP);
    assert_int_equal(head.accepts, BODY_DEFLATE);
    assert_true(head.expects_continue && !head.chunked && !head.authorized);
    head = HEAD({"Host", ""}, {"Transfer-Encoding", "Chunked"});
    assert_null(head.fault);
    assert_true(head.chunked);
    assert_int_equal(head.content_length, HEADER_ABSENT);
    assert_int_equal(head.json_bytes, INFER_NO_HEADER);
    assert_int_equal(HEAD({"Host", "x"}, {"Content-Encoding", "gzip"}, {"Content-Encoding", "gzip"}).encoding,
                     BODY_UNKNOWN);
}

TEST(faults) {
    assert_non_null(HEAD({"X", "y"}).fault); /* no Host */
    assert_null(head_of((const struct line[]){{NULL, NULL}}, 1, 0).fault);
    assert_non_null(HEAD({"Host", "x"}, {"Host", "x"}).fault);
    assert_non_null(HEAD({"Host", "x"}, {"Content-Length", "5"}, {"Content-Length", "5"}).fault);
    assert_non_null(HEAD({"Host", "x"}, {"Content-Length", "5"}, {"Transfer-Encoding", "chunked"}).fault);
    assert_non_null(HEAD({"Host", "x"}, {"Transfer-Encoding", "gzip, chunked"}).fault);
    assert_non_null(HEAD({"Host", "x"}, {"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "chunked"}).fault);
    static const char *const wrong[] = {"", "-5", "+5", "0x5", "5 5", "5,5", "5/", ":5", "99999999999999999999"};
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_non_null(HEAD({"Host", "x"}, {"Content-Length", wrong[i]}).fault);
        assert_non_null(HEAD({"Host", "x"}, {"Inference-Header-Content-Length", wrong[i]}).fault);
    }
}

TEST(versions) {
    static const struct line plain[] = {{"Host", "x"}, {NULL, NULL}},
                             chunked[] = {{"Host", "x"}, {"Transfer-Encoding", "chunked"}, {NULL, NULL}};
    assert_null(head_of(plain, 1, 0).fault);
    assert_non_null(head_of(chunked, 1, 0).fault);
    assert_int_equal(head_of(chunked, 1, 0).fault_status, 400);
    assert_non_null(head_of(plain, 2, 0).fault);
    assert_int_equal(head_of(plain, 2, 0).fault_status, 505);
    assert_int_equal(head_of(plain, 0, 9).fault_status, 505);
}

TEST(pages_of_other_sites_are_told) {
    char long_name[400] = "http://";
    memset(long_name + 7, 'a', sizeof(long_name) - 8);
    assert_false(HEAD({"Host", "x:8000"}).foreign);
    assert_false(HEAD({"Host", "x:8000"}, {"Origin", "http://x:8000"}).foreign);
    assert_false(HEAD({"origin", "https://X.y"}, {"host", "x.Y"}).foreign);
    assert_false(HEAD({"Host", "[::1]:8000"}, {"Origin", "http://[::1]:8000"}).foreign);
    assert_false(HEAD({"Host", "x"}, {"Origin", "http://x"}, {"Sec-Fetch-Site", "same-origin"}).foreign);
    assert_false(HEAD({"Host", "x"}, {"Sec-Fetch-Site", "none"}).foreign);
    assert_true(HEAD({"Host", "x"}, {"Sec-Fetch-Site", "cross-site"}).foreign);
    assert_true(HEAD({"Host", "x"}, {"Sec-Fetch-Site", "same-site"}).foreign);
    assert_true(HEAD({"Host", "x:8000"}, {"Origin", "http://x:8001"}).foreign);
    assert_true(HEAD({"Host", "x:8000"}, {"Origin", "http://x"}).foreign);
    assert_true(HEAD({"Host", "x"}, {"Origin", "http://x.evil"}).foreign);
    assert_true(HEAD({"Host", "x"}, {"Origin", "null"}).foreign);
    assert_true(HEAD({"Host", "x"}, {"Origin", ""}).foreign);
    assert_true(HEAD({"Host", ""}, {"Origin", "http://"}).foreign);
    assert_true(HEAD({"Host", "x"}, {"Origin", "http://x"}, {"Origin", "http://x"}).foreign);
    assert_true(HEAD({"Host", long_name + 7}, {"Origin", long_name}).foreign); /* it cannot be told */
}

TEST(paths) {
    static const struct {
        const char *sent, *path;
    } rows[] = {{"/v2", "/v2"},
                {"/v2?a=%00", "/v2"},
                {"/l%69ve", "/live"},
                {"/a%2Fb%", "/a/b%"},
                {"/a%4", "/a%4"},
                {"/%zz", "/%zz"},
                {"/a%00b", "/a%00b"},
                {"/%41%00%41", "/%41%00%41"},
                {"*", "*"},
                {"", ""},
                {"?", ""},
                {"/%e4%BD%a0", "/\xe4\xbd\xa0"}};
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char path[32];
        strcpy(path, rows[i].sent);
        http_path_decode(path);
        assert_string_equal(path, rows[i].path);
    }
}
