/* http_head.c - reads the headers of a request one after the other. */
#include "front/http/http_head.h"

#include <string.h>
#include <strings.h>

#include "core/util/container.h"
#include "front/bulk/deflate.h"
#include "front/v2/infer_parse.h"

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

static void content_length_read(struct http_head *h, const char *value, size_t length) {
    if (h->content_length != HEADER_ABSENT)
        h->fault = "Content-Length is given more than once";
    h->content_length = digits_read(value, length);
    if (h->content_length < 0)
        h->fault = "Content-Length is not a number";
}

static void json_bytes_read(struct http_head *h, const char *value, size_t length) {
    if (h->json_bytes != INFER_NO_HEADER)
        h->fault = "Inference-Header-Content-Length is given more than once";
    h->json_bytes = digits_read(value, length);
    if (h->json_bytes < 0)
        h->fault = "Inference-Header-Content-Length is not a number";
}

static void transfer_encoding_read(struct http_head *h, const char *value, size_t length) {
    if (h->chunked || length != 7 || strncasecmp(value, "chunked", 7) != 0)
        h->fault = "the only Transfer-Encoding understood is 'chunked'";
    h->chunked = true;
}

static void content_encoding_read(struct http_head *h, const char *value, size_t length) {
    enum body_encoding encoding = body_encoding_of(value, length);
    if (encoding != BODY_IDENTITY) /* two encodings, one upon the other, are not decoded */
        h->encoding = h->encoding == BODY_IDENTITY ? encoding : BODY_UNKNOWN;
}

static void accept_encoding_read(struct http_head *h, const char *value, size_t length) {
    h->accepts = accepted_encoding(value, length);
}

static void expect_read(struct http_head *h, const char *value, size_t length) {
    h->expects_continue = length == 12 && strncasecmp(value, "100-continue", 12) == 0;
}

static void authority_copy(char to[AUTHORITY_BYTES], const char *value, size_t length) {
    length = length < AUTHORITY_BYTES ? length : 0;
    if (length > 0) /* else there may be no value at all */
        memcpy(to, value, length);
    to[length] = '\0';
}

static void host_read(struct http_head *h, const char *value, size_t length) {
    if (h->host)
        h->fault = "Host is given more than once";
    h->host = true;
    authority_copy(h->host_name, value, length);
}

/* SCHEME://HOST:PORT, or null. */
static void origin_read(struct http_head *h, const char *value, size_t length) {
    const char *authority = length > 0 ? memmem(value, length, "://", 3) : NULL;
    h->foreign |= h->origin || !authority;
    h->origin = true;
    if (authority)
        authority_copy(h->origin_name, authority + 3, length - (size_t)(authority + 3 - value));
}

static void fetch_site_read(struct http_head *h, const char *value, size_t length) {
    h->foreign |= (length == 10 && strncasecmp(value, "cross-site", 10) == 0) ||
                  (length == 9 && strncasecmp(value, "same-site", 9) == 0);
}

static void request_id_read(struct http_head *h, const char *value, size_t length) {
    if (!h->named)
        h->id.length = 0;
    request_id_set(&h->id, value, length);
    h->named = true;
}

static void traceparent_read(struct http_head *h, const char *value, size_t length) {
    request_id_from_trace(&h->id, value, length);
}

static void trail_read(struct http_head *h, const char *value, size_t length) {
    h->trail = length == 1 && *value == '1';
}

static void accept_read(struct http_head *h, const char *value, size_t length) {
    static const char events[] = "text/event-stream";
    h->events = length >= sizeof(events) - 1 && strncasecmp(value, events, sizeof(events) - 1) == 0;
}

static bool blank(char c) {
    return c == ' ' || c == '\t';
}

void http_head_begin(struct http_head *head) {
    *head = (struct http_head){.content_length = HEADER_ABSENT, .json_bytes = INFER_NO_HEADER, .fault_status = 400};
}

void http_head_field(struct http_head *head, const struct auth *auth, const char *name, size_t name_length,
                     const char *value, size_t length) {
    static const struct {
        const char *name;
        size_t length;
        void (*read)(struct http_head *head, const char *value, size_t length);
    } rows[] = {
        {"Host", 4, host_read},
        {"Content-Length", 14, content_length_read},
        {"Inference-Header-Content-Length", 31, json_bytes_read},
        {"Transfer-Encoding", 17, transfer_encoding_read},
        {"Content-Encoding", 16, content_encoding_read},
        {"Accept-Encoding", 15, accept_encoding_read},
        {"Accept", 6, accept_read},
        {"Expect", 6, expect_read},
        {"Origin", 6, origin_read},
        {"Sec-Fetch-Site", 14, fetch_site_read},
        {"X-Request-Id", 12, request_id_read},
        {"traceparent", 11, traceparent_read},
        {"X-Symphony-Trail", 16, trail_read},
    };
    while (length > 0 && blank(value[length - 1]))
        length--;
    while (length > 0 && blank(*value)) {
        value++;
        length--;
    }
    head->authorized |= auth && auth_header_allows(auth, name, name_length, value, length, &head->credentials);
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++)
        if (name_length == rows[i].length && strncasecmp(name, rows[i].name, name_length) == 0) {
            rows[i].read(head, value, length);
            return;
        }
}

void http_head_end(struct http_head *head, unsigned major, unsigned minor) {
    if (head->origin && (*head->origin_name == '\0' || strcasecmp(head->origin_name, head->host_name) != 0))
        head->foreign = true;
    if (head->chunked && minor == 0) /* it has no chunks: who passed the request on took them for something else */
        head->fault = "Transfer-Encoding is not part of HTTP/1.0";
    if (head->chunked && head->content_length != HEADER_ABSENT)
        head->fault = "Content-Length and Transfer-Encoding are given together";
    if (!head->host && minor >= 1)
        head->fault = "the Host header is missing";
    if (major != 1) {
        head->fault = HTTP_VERSION_UNKNOWN;
        head->fault_status = 505;
    }
}

static int digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

void http_path_decode(char *path) {
    char *out = path;
    path[strcspn(path, "?")] = '\0';
    if (strstr(path, "%00"))
        return;
    for (const char *at = path; *at; at++) {
        int high = *at == '%' ? digit_of(at[1]) : -1, low = high >= 0 ? digit_of(at[2]) : -1;
        *out++ = low >= 0 ? (char)(high * 16 + low) : *at;
        at += low >= 0 ? 2 : 0;
    }
    *out = '\0';
}
