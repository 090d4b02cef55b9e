/* otlp.c - a thread that reads trails, and posts spans. */
#include "server/process/otlp.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/ticker.h"
#include "core/util/counter.h"
#include "front/net/metric_text.h"
#include "server/process/otlp_spans.h"
#include "server/process/server_trails.h"

#define EVERY_NS   (1 * NS_PER_S) /* time between two looks at the rings */
#define READ_MOST  256            /* trails that are sent at once */
#define ANSWER_MS  5000           /* longest time that the collector may take for an answer */
#define SAY_AGAIN  (60 * NS_PER_S)
#define NAME_BYTES 256

struct otlp {
    struct trail_follower follower;
    char *url, service[NAME_BYTES];
    CURL *easy;
    struct curl_slist *headers;
    char why[CURL_ERROR_SIZE]; /* libcurl's sentence of the last failure */
    struct text body;
    uint64_t salt;
    bool failing;                   /* whether the last post failed */
    int64_t said_ns;                /* time at which a failure was last said */
    int64_t until_ns;               /* time at which nothing more is sent; TIME_NEVER while the server serves */
    _Atomic uint64_t sent, dropped; /* spans; the thread writes, metrics read */
    struct ticker ticker;
};

static size_t answer_drop(char *bytes, size_t size, size_t count, void *context) {
    (void)bytes;
    (void)context;
    return size * count;
}

/* Posts the body. False: the collector has not taken it. */
static bool body_post(struct otlp *o) {
    long status = 0;
    int64_t left_ms = o->until_ns == TIME_NEVER ? ANSWER_MS : (o->until_ns - clock_now_ns()) / NS_PER_MS;
    if (o->body.failed || left_ms <= 0)
        return false;
    curl_easy_setopt(o->easy, CURLOPT_POSTFIELDS, o->body.data);
    curl_easy_setopt(o->easy, CURLOPT_POSTFIELDSIZE, (long)o->body.length);
    curl_easy_setopt(o->easy, CURLOPT_TIMEOUT_MS, (long)left_ms);
    o->why[0] = '\0';
    CURLcode code = curl_easy_perform(o->easy);
    curl_easy_getinfo(o->easy, CURLINFO_RESPONSE_CODE, &status);
    bool taken = code == CURLE_OK && status >= 200 && status < 300;
    int64_t now_ns = clock_now_ns();
    if (taken && o->failing)
        log_info("the collector takes spans again", "url=%s", o->url);
    if (!taken && (!o->failing || now_ns - o->said_ns >= SAY_AGAIN)) {
        o->said_ns = now_ns;
        if (code == CURLE_OK)
            log_warn("the collector takes no spans", "url=%s status=%ld", o->url, status);
        else
            log_warn("the collector takes no spans", "url=%s reason=\"%s\"", o->url,
                     *o->why ? o->why : curl_easy_strerror(code));
    }
    o->failing = !taken;
    return taken;
}

/* Sends the trails that were noted since the last time. */
static void tick(void *otlp, bool last) {
    struct otlp *o = otlp;
    struct trail read[READ_MOST];
    int64_t wall_ns = server_trails_wall_ns();
    uint64_t count;
    if (last)
        o->until_ns = clock_now_ns() + NS_PER_S;
    while ((count = trail_follower_read(&o->follower, read, READ_MOST)) > 0) {
        uint64_t spans = 0;
        text_clear(&o->body);
        otlp_begin(&o->body, o->service);
        model_list_lock(o->follower.models);
        for (uint64_t i = 0; i < count; i++) {
            if (!otlp_wanted(&read[i]))
                continue;
            const struct trail_names names = server_trail_names(o->follower.models, &read[i], wall_ns);
            if (spans > 0)
                text_put_char(&o->body, ',');
            spans += otlp_spans_put(&o->body, &read[i], &names, o->salt);
        }
        model_list_unlock(o->follower.models);
        otlp_end(&o->body);
        if (spans > 0)
            counter_add(body_post(o) ? &o->sent : &o->dropped, spans);
    }
    counter_add(&o->dropped, o->follower.lost);
    o->follower.lost = 0;
}

static void otlp_free(struct otlp *o) {
    curl_slist_free_all(o->headers);
    if (o->easy)
        curl_easy_cleanup(o->easy);
    curl_global_cleanup();
    text_free(&o->body);
    trail_follower_free(&o->follower);
    free(o->url);
    free(o);
}

/* Adds "NAME=VALUE,..." to the headers, with blanks around them left out and bytes like %2C decoded. */
static int headers_read(struct otlp *o, const char *text, struct sy_error *err) {
    while (text && *text) {
        size_t length = strcspn(text, ",");
        const char *equals = memchr(text, '=', length);
        if (!equals || equals == text)
            return error_set(err, -EINVAL, "OTEL_EXPORTER_OTLP_HEADERS: expected NAME=VALUE,..., and not '%.*s'",
                             (int)(length < 100 ? length : 100), text);
        int value_bytes;
        char *value = curl_easy_unescape(o->easy, equals + 1, (int)(text + length - equals - 1), &value_bytes);
        char *header = NULL;
        if (!value || asprintf(&header, "%.*s: %s", (int)(equals - text), text, value) < 0)
            header = NULL;
        curl_free(value);
        for (char *c = header; c && *c; c++)
            *c = iscntrl((unsigned char)*c) ? ' ' : *c; /* no header of its own in a value */
        struct curl_slist *headers = header ? curl_slist_append(o->headers, header) : NULL;
        free(header);
        if (!headers)
            return error_set(err, -ENOMEM, "no memory for the headers of spans");
        o->headers = headers;
        text += length + (text[length] == ',');
    }
    return 0;
}

/* Reads the address. */
static int url_read(struct otlp *o, const char *url, struct sy_error *err) {
    const char *host = strstr(url, "://");
    if (!host || (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) || !host[3] || host[3] == '/')
        return error_set(err, -EINVAL, "--otlp: expected http://HOST:PORT or https://HOST:PORT, and not '%.200s'", url);
    const char *path = strchr(host + 3, '/');
    if (asprintf(&o->url, "%s%s", url, !path ? "/v1/traces" : path[1] ? "" : "v1/traces") < 0) {
        o->url = NULL;
        return error_set(err, -ENOMEM, "no memory for the address of the collector");
    }
    return 0;
}

int otlp_start(struct otlp **otlp, struct model_list *models, const char *url, const char *headers, const char *service,
               struct sy_error *err) {
    struct otlp *o = calloc(1, sizeof(*o));
    if (!o)
        return error_set(err, -ENOMEM, "no memory for the spans");
    curl_global_init(CURL_GLOBAL_DEFAULT);
    text_init(&o->body, NULL, 0);
    o->easy = curl_easy_init();
    o->headers = curl_slist_append(NULL, "Content-Type: application/json");
    o->until_ns = TIME_NEVER;
    o->salt = (uint64_t)server_trails_wall_ns() ^ (uint64_t)clock_now_ns() << 20;
    snprintf(o->service, sizeof(o->service), "%s", service);
    int rc = url_read(o, url, err);
    if (rc == 0 && (!o->easy || !o->headers || trail_follower_init(&o->follower, models, false) < 0))
        rc = error_set(err, -ENOMEM, "no memory for the spans");
    if (rc < 0 || (rc = headers_read(o, headers, err)) < 0) {
        otlp_free(o);
        return rc;
    }
    curl_easy_setopt(o->easy, CURLOPT_URL, o->url);
    curl_easy_setopt(o->easy, CURLOPT_HTTPHEADER, o->headers);
    curl_easy_setopt(o->easy, CURLOPT_ERRORBUFFER, o->why);
    curl_easy_setopt(o->easy, CURLOPT_WRITEFUNCTION, answer_drop);
    curl_easy_setopt(o->easy, CURLOPT_NOSIGNAL, 1L);
    rc = ticker_start(&o->ticker, "otlp", EVERY_NS, tick, o, err);
    if (rc < 0) {
        otlp_free(o);
        return rc;
    }
    *otlp = o;
    return 0;
}

void otlp_render(const struct otlp *o, struct text *out) {
    if (!o)
        return;
    metric_heading(out, "symphony_spans_total", "counter",
                   "Spans of requests for the collector, by what became of them.");
    text_printf(out, "symphony_spans_total{result=\"sent\"} %llu\nsymphony_spans_total{result=\"dropped\"} %llu\n",
                (unsigned long long)counter_get(&o->sent), (unsigned long long)counter_get(&o->dropped));
}

void otlp_stop(struct otlp *o) {
    if (!o)
        return;
    ticker_stop(&o->ticker);
    otlp_free(o);
}
