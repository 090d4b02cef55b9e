/* http_headers.c - one pass over a request's headers. */
#include "frontend/http_headers.h"

#include <string.h>
#include <strings.h>

#include "base/container.h"
#include "frontend/deflate.h"
#include "frontend/infer_parse.h"

struct reading {
    struct http_headers *headers;
    const struct auth *auth;
    bool host, encoded;
    const char *next; /* where the next line must begin; NULL: not known */
};

/* Digits only; -2: not a number, or over 2^62. */
static int64_t digits_read(const char *value, size_t length) {
    int64_t n = 0;
    for (size_t i = 0; i < length; i++) {
        if (value[i] < '0' || value[i] > '9' || n > (INT64_MAX >> 1) / 10)
            return -2;
        n = n * 10 + (value[i] - '0');
    }
    return length > 0 ? n : -2;
}

static void content_length_read(struct reading *reading, const char *value, size_t length) {
    struct http_headers *h = reading->headers;
    if (h->content_length != HEADER_ABSENT)
        h->fault = "Content-Length is given more than once";
    h->content_length = digits_read(value, length);
    if (h->content_length < 0)
        h->fault = "Content-Length is not a number";
}

static void json_bytes_read(struct reading *reading, const char *value, size_t length) {
    struct http_headers *h = reading->headers;
    if (h->json_bytes != INFER_NO_HEADER)
        h->fault = "Inference-Header-Content-Length is given more than once";
    h->json_bytes = digits_read(value, length);
    if (h->json_bytes < 0)
        h->fault = "Inference-Header-Content-Length is not a number";
}

static void transfer_encoding_read(struct reading *reading, const char *value, size_t length) {
    struct http_headers *h = reading->headers;
    if (reading->encoded || length != 7 || strncasecmp(value, "chunked", 7) != 0)
        h->fault = "the only Transfer-Encoding understood is 'chunked'";
    reading->encoded = h->chunked = true;
}

static void content_encoding_read(struct reading *reading, const char *value, size_t length) {
    enum body_encoding encoding = body_encoding_of(value, length);
    if (encoding != BODY_IDENTITY) /* of two, they are one upon the other */
        reading->headers->encoding = reading->headers->encoding == BODY_IDENTITY ? encoding : BODY_UNKNOWN;
}

static void accept_encoding_read(struct reading *reading, const char *value, size_t length) {
    reading->headers->accepts = accepted_encoding(value, length);
}

static void expect_read(struct reading *reading, const char *value, size_t length) {
    reading->headers->expects_continue = length == 12 && strncasecmp(value, "100-continue", 12) == 0;
}

static void host_read(struct reading *reading, const char *value, size_t length) {
    (void)value;
    (void)length;
    if (reading->host)
        reading->headers->fault = "Host is given more than once";
    reading->host = true;
}

static void authorization_read(struct reading *reading, const char *value, size_t length) {
    reading->headers->authorized |= reading->auth && auth_allows_bearer(reading->auth, value, length);
}

static void api_key_read(struct reading *reading, const char *value, size_t length) {
    reading->headers->authorized |= reading->auth && auth_allows(reading->auth, value, length);
}

/* libmicrohttpd 0.9 leaves a head where it arrived, with zeros in the place of ends of lines, but for folded lines,
 * which it moves: so every line begins two bytes behind the end of the one before, or there was no CR LF. */
static void line_check(struct reading *reading, const char *name, const char *value, size_t length) {
    if (HTTP_LINES_ARE_LAX && reading->next && (name != reading->next || !value))
        reading->headers->fault = "a header is folded, or its line does not end in CR LF";
    else if (value && memchr(value, '\r', length))
        reading->headers->fault = "a header holds a CR";
    reading->next = reading->next && value ? value + length + 2 : NULL;
}

static void head_check(struct reading *reading, struct MHD_Connection *connection, const char *method) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    struct http_headers *h = reading->headers;
    if (HTTP_LINES_ARE_LAX && info && reading->next && reading->next + 2 != method + info->header_size)
        h->fault = "the head does not end in CR LF";
    if (!h->fault && info && info->header_size > HTTP_HEAD_BYTES_MAX) {
        h->fault = "the head is larger than 16384 bytes";
        h->fault_status = MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE;
    }
}

/* Without the blanks at its end, which libmicrohttpd leaves: they are no part of a value (RFC 9110, 5.5). */
static size_t trimmed(const char *value, size_t length) {
    while (length > 0 && (value[length - 1] == ' ' || value[length - 1] == '\t'))
        length--;
    return length;
}

static enum MHD_Result header_read(void *context, enum MHD_ValueKind kind, const char *name, size_t name_length,
                                   const char *value, size_t length) {
    static const struct {
        const char *name;
        size_t length;
        void (*read)(struct reading *reading, const char *value, size_t length);
        bool whole; /* as libmicrohttpd reads it, which frames the body by it: with the blanks at its end */
    } rows[] = {
        {"Host", 4, host_read, false},
        {"Content-Length", 14, content_length_read, true},
        {"Inference-Header-Content-Length", 31, json_bytes_read, false},
        {"Transfer-Encoding", 17, transfer_encoding_read, true},
        {"Content-Encoding", 16, content_encoding_read, false},
        {"Accept-Encoding", 15, accept_encoding_read, false},
        {"Expect", 6, expect_read, false},
        {"Authorization", 13, authorization_read, false},
        {"X-Api-Key", 9, api_key_read, false},
    };
    struct reading *reading = context;
    (void)kind;
    line_check(reading, name, value, length);
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++)
        if (name_length == rows[i].length && strncasecmp(name, rows[i].name, name_length) == 0) {
            value = value ? value : "";
            length = *value ? length : 0;
            rows[i].read(reading, value, rows[i].whole ? length : trimmed(value, length));
            return MHD_YES;
        }
    if (memchr(name, ' ', name_length) || memchr(name, '\t', name_length))
        reading->headers->fault = "a header's name holds a blank";
    return MHD_YES;
}

void http_headers_read(struct http_headers *headers, struct MHD_Connection *connection, const char *method,
                       const char *version, const struct auth *auth) {
    struct reading reading = {
        .headers = headers, .auth = auth, .next = version[0] ? version + strlen(version) + 2 : NULL};
    *headers = (struct http_headers){
        .content_length = HEADER_ABSENT, .json_bytes = INFER_NO_HEADER, .fault_status = MHD_HTTP_BAD_REQUEST};
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, header_read, &reading);
    if (headers->chunked && headers->content_length != HEADER_ABSENT)
        headers->fault = "Content-Length and Transfer-Encoding are given together";
    if (!reading.host && strcmp(version, MHD_HTTP_VERSION_1_1) == 0)
        headers->fault = "the Host header is missing";
    head_check(&reading, connection, method);
}

bool http_authorized(struct MHD_Connection *connection, const struct auth *auth) {
    struct http_headers headers = {.authorized = false};
    struct reading reading = {.headers = &headers, .auth = auth};
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, header_read, &reading);
    return headers.authorized;
}
