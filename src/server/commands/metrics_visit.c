/* metrics_visit.c - asks a server by libcurl. */
#include "server/commands/metrics_visit.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/system/clock.h"
#include "server/commands/bearer.h"

#define PORT_DEFAULT 8002
#define ANSWER_MOST  ((size_t)256 << 20)

struct metrics_visit {
    struct metrics_visit_settings settings;
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    struct text base; /* address of the server, terminated, without a '/' at its end */
    bool asks;        /* a question is under way */
    metrics_take *take;
    void *context;
    struct text refusal; /* body of an answer that is none */
    int64_t heard_ns;    /* time at which the server last said something */
    char reason[CURL_ERROR_SIZE];
};

static bool answer_is_good(struct metrics_visit *v) {
    long status = 0;
    curl_easy_getinfo(v->easy, CURLINFO_RESPONSE_CODE, &status);
    return status == 200;
}

static size_t take(char *data, size_t size, size_t count, void *context) {
    struct metrics_visit *v = context;
    v->heard_ns = clock_now_ns();
    if (answer_is_good(v))
        v->take(v->context, data, size * count);
    else if (v->refusal.length < 4096)
        text_append(&v->refusal, data, size * count);
    return size * count;
}

/* Adds what the URL leaves out. */
static int base_set(struct metrics_visit *v, const char *url, struct sy_error *err) {
    bool scheme = strstr(url, "://") != NULL;
    size_t length = strlen(url);
    while (length > 0 && url[length - 1] == '/')
        length--;
    if (scheme && strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0)
        return error_set(err, -EINVAL, "'%s' is no address of a server: expected http://HOST[:PORT] or https://...",
                         url);
    text_printf(&v->base, "%s%.*s", scheme ? "" : "http://", (int)length, url);
    const char *authority = strstr(text_end(&v->base), "://");
    authority = authority ? authority + 3 : "";
    const char *bracket = strrchr(authority, ']'), *path = strchr(authority, '/');
    if (!*authority || *authority == '/' || *authority == ':')
        return error_set(err, -EINVAL, "'%s' names no host", url);
    if (!path && !strchr(bracket ? bracket : authority, ':'))
        text_printf(&v->base, ":%d", PORT_DEFAULT);
    text_end(&v->base);
    return v->base.failed ? error_set(err, -ENOMEM, "out of memory") : 0;
}

int metrics_visit_open(struct metrics_visit **visit, const struct metrics_visit_settings *settings, const char *url,
                       struct sy_error *err) {
    struct metrics_visit *v = *visit = calloc(1, sizeof(*v));
    char header[BEARER_BYTES];
    if (!v || curl_global_init(CURL_GLOBAL_DEFAULT) || !(v->multi = curl_multi_init()) || !(v->easy = curl_easy_init()))
        return error_set(err, -ENOMEM, "out of memory");
    v->settings = *settings;
    int rc = base_set(v, url, err);
    if (rc == 0 && settings->token && (rc = bearer_read(settings->token, header, err)) == 0)
        v->headers = curl_slist_append(NULL, header);
    if (rc < 0)
        return rc;
    curl_easy_setopt(v->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(v->easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(v->easy, CURLOPT_HTTPHEADER, v->headers);
    curl_easy_setopt(v->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(settings->timeout_s * 1000));
    curl_easy_setopt(v->easy, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(v->easy, CURLOPT_WRITEDATA, v);
    curl_easy_setopt(v->easy, CURLOPT_ERRORBUFFER, v->reason);
    if (settings->ca)
        curl_easy_setopt(v->easy, CURLOPT_CAINFO, settings->ca);
    if (settings->cert)
        curl_easy_setopt(v->easy, CURLOPT_SSLCERT, settings->cert);
    if (settings->key)
        curl_easy_setopt(v->easy, CURLOPT_SSLKEY, settings->key);
    return 0;
}

static void question_end(struct metrics_visit *v) {
    if (v->asks)
        curl_multi_remove_handle(v->multi, v->easy);
    v->asks = false;
}

void metrics_visit_close(struct metrics_visit *v) {
    if (!v)
        return;
    if (v->multi && v->easy)
        question_end(v);
    curl_easy_cleanup(v->easy);
    if (v->multi)
        curl_multi_cleanup(v->multi);
    curl_slist_free_all(v->headers);
    text_free(&v->base);
    text_free(&v->refusal);
    free(v);
}

int metrics_visit_ask(struct metrics_visit *v, const char *path, metrics_take *taker, void *context,
                      struct sy_error *err) {
    struct text url = {0};
    question_end(v);
    text_printf(&url, "%s%s", v->base.data, path);
    curl_easy_setopt(v->easy, CURLOPT_URL, text_end(&url)); /* it is copied */
    text_free(&url);
    v->take = taker;
    v->context = context;
    v->refusal.length = 0;
    v->reason[0] = '\0';
    v->heard_ns = clock_now_ns();
    v->asks = curl_multi_add_handle(v->multi, v->easy) == CURLM_OK;
    return v->asks ? 0 : error_set(err, -ENOMEM, "out of memory");
}

/* The answer is complete, or none came. */
static int over(struct metrics_visit *v, CURLcode code, struct sy_error *err) {
    question_end(v);
    if (code != CURLE_OK)
        return error_set(err, -EIO, "%s: %s", v->base.data, *v->reason ? v->reason : curl_easy_strerror(code));
    if (answer_is_good(v))
        return 0;
    long status = 0;
    json_error_t why;
    curl_easy_getinfo(v->easy, CURLINFO_RESPONSE_CODE, &status);
    json_t *json = json_loads(text_end(&v->refusal), 0, &why);
    const char *sentence = json_string_value(json_object_get(json, "error"));
    int rc = error_set(err, -EPROTO, "%s answers %ld%s%s%s", v->base.data, status, sentence ? ": " : "",
                       sentence ? sentence : "",
                       status == 404 ? ": this is no metrics port of a server of this version" : "");
    json_decref(json);
    return rc;
}

int metrics_visit_wait(struct metrics_visit *v, int fd, int ms, struct sy_error *err) {
    struct curl_waitfd also = {.fd = fd, .events = CURL_WAIT_POLLIN};
    int running = 0, left;
    curl_multi_perform(v->multi, &running);
    if (running > 0 || !v->asks) {
        curl_multi_poll(v->multi, &also, fd >= 0 ? 1 : 0, ms, NULL);
        curl_multi_perform(v->multi, &running);
    }
    for (CURLMsg *message; (message = curl_multi_info_read(v->multi, &left));)
        if (message->msg == CURLMSG_DONE)
            return over(v, message->data.result, err);
    if (v->asks && clock_now_ns() - v->heard_ns > (int64_t)(v->settings.timeout_s * (double)NS_PER_S)) {
        question_end(v);
        return error_set(err, -ETIMEDOUT, "%s has said nothing for %g s", v->base.data, v->settings.timeout_s);
    }
    return v->asks;
}

static void collect(void *context, const char *data, size_t bytes) {
    struct text *text = context;
    if (text->length + bytes > ANSWER_MOST)
        text->failed = true;
    else
        text_append(text, data, bytes);
}

int metrics_visit_json(struct metrics_visit *v, const char *path, json_t **json, struct sy_error *err) {
    struct text text = {0};
    json_error_t why;
    int rc = metrics_visit_ask(v, path, collect, &text, err);
    for (bool goes_on = rc == 0; goes_on; goes_on = rc > 0)
        rc = metrics_visit_wait(v, -1, 1000, err);
    *json = NULL;
    if (rc == 0 && !(*json = text.failed ? NULL : json_loadb(text.length ? text.data : "", text.length, 0, &why)))
        rc = error_set(err, -EPROTO, "%s answers with what is no JSON", v->base.data);
    text_free(&text);
    return rc;
}
