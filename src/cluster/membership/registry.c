/* registry.c - the thread that speaks with etcd. */
#include "cluster/membership/registry.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/thread.h"
#include "core/util/assert.h"
#include "core/util/text.h"

#define ANSWER_BYTES_MAX    (4u << 20)
#define CONNECT_TIMEOUT_MS  200
#define TLS_TIMEOUT_MS      1000 /* the same with the handshake */
#define LOGIN_TIMEOUT_MS    5000 /* etcd hashes the password, which takes a core 0.1 s */
#define QUESTION_TIMEOUT_MS 400
#define TIMEOUT_MS          1000
#define FAREWELL_TIMEOUT_MS 250
#define RETRY_MIN_NS        (100 * NS_PER_MS)
#define RETRY_MAX_NS        (2 * NS_PER_S)

/* The calls to etcd; at most one of each kind at a time. The first five, in this order, are a session. */
enum call_kind {
    CALL_KEEP,
    CALL_LEASE,
    CALL_PUT,
    CALL_LIST,
    CALL_WATCH,
    CALL_QUESTION,
    CALL_REVOKE,
    CALL_LOGIN,
    CALL_KINDS
};

static const char *const paths[CALL_KINDS] = {
    [CALL_KEEP] = "/v3/lease/keepalive", [CALL_LEASE] = "/v3/lease/grant",
    [CALL_PUT] = "/v3/kv/put",           [CALL_LIST] = "/v3/kv/range",
    [CALL_WATCH] = "/v3/watch",          [CALL_QUESTION] = NULL,
    [CALL_REVOKE] = "/v3/lease/revoke",  [CALL_LOGIN] = "/v3/auth/authenticate",
};

struct call {
    struct registry *registry;
    enum call_kind kind;
    CURL *easy;
    bool busy;         /* the call is under way */
    uint32_t endpoint; /* etcd that is called, a number in config.place */
    uint32_t login;    /* number of the login whose token the call has */
    struct curl_slist *headers;
    struct text body, answer;
    struct sy_error why; /* reason why a watch's answer could not be read */
};

struct question {
    struct push_node link;
    bool swap;        /* registry_swap() */
    int64_t revision; /* revision for a swap */
    uint64_t term;    /* term for a swap */
    char *rollouts;   /* text for registry_record(); NULL: a swap, or registry_read() */
};

struct known {
    struct registry_member member;
    bool listed; /* the member is in the last list of all keys */
};

struct registry {
    struct registry_config config;
    pthread_t thread;
    CURLM *multi;
    _Atomic bool closing;
    struct push_list questions; /* questions, user -> thread */
    struct push_list events;    /* events, thread -> user */
    struct push_node *taken;    /* events taken and not yet returned; owned by the user */
    /* owned by the thread from here on */
    struct push_node *waiting; /* questions, the oldest first */
    struct question *question; /* question that is being asked; NULL: none */
    struct call calls[CALL_KINDS];
    /* with config.place.login: */
    bool logged_in;                               /* `token` is believed to be valid */
    uint32_t logins;                              /* number of the last login */
    char token[REGISTRY_TOKEN_MAX + 1];           /* "": etcd asks for none */
    bool asked_again;                             /* the question was asked again after a login */
    uint32_t endpoint;                            /* etcd that is used now, a number in config.place */
    bool up, ever_up;                             /* etcd answers; it has answered before; for the log */
    struct sy_error down[REGISTRY_ENDPOINTS_MAX]; /* last reason that the log has of each address since all went well */
    enum registry_event_kind told;                /* last report of REGISTRY_UP and REGISTRY_DOWN; at first neither */
    enum call_kind next;                          /* next call of the session; CALL_KINDS: the watch is under way */
    int64_t next_ns, keep_ns, retry_ns; /* times of the next call, of the lease's renewal; pause after a failure */
    int64_t lease, revision;            /* number of the lease; revision of the last list of all keys */
    bool leader_listed, self_listed;    /* the last list of all keys had the leader's key, ours */
    struct election_key leader;         /* the leader key as last seen */
    struct known *members;              /* [REGISTRY_MEMBERS_MAX] */
    uint32_t member_count;
};

/* ---- events ---- */

static struct registry_event *event_new(enum registry_event_kind kind) {
    struct registry_event *event = calloc(1, sizeof(*event));
    CHECK_MEMORY(event); /* else a user that waits for an answer would wait for ever */
    event->kind = kind;
    return event;
}

static void event_send(struct registry *r, struct registry_event *event) {
    push_list_push(&r->events, &event->link);
    doorbell_ring(r->config.bell);
}

static void event_tell(struct registry *r, enum registry_event_kind kind) {
    event_send(r, event_new(kind));
}

static void text_tell(struct registry *r, enum registry_event_kind kind, const char *text, size_t bytes) {
    struct registry_event *event = calloc(1, sizeof(*event) + bytes + 1);
    CHECK_MEMORY(event); /* as event_new() */
    memcpy(event + 1, text, bytes);
    event->kind = kind;
    event->text = (const char *)(event + 1);
    event_send(r, event);
}

static void member_tell(struct registry *r, enum registry_event_kind kind, const struct registry_member *member) {
    struct registry_event *event = event_new(kind);
    event->member = *member;
    event_send(r, event);
}

/* ---- keys ---- */

static struct known *member_find(struct registry *r, uint64_t incarnation) {
    for (uint32_t i = 0; i < r->member_count; i++)
        if (r->members[i].member.incarnation == incarnation)
            return &r->members[i];
    return NULL;
}

static void member_seen(struct registry *r, const struct registry_member *member) {
    struct known *known = member_find(r, member->incarnation);
    if (!known && r->member_count == REGISTRY_MEMBERS_MAX)
        return;
    bool same = known && strcmp(known->member.role, member->role) == 0 &&
                strcmp(known->member.addresses, member->addresses) == 0;
    known = known ? known : &r->members[r->member_count++];
    *known = (struct known){.member = *member, .listed = true};
    if (!same)
        member_tell(r, REGISTRY_MEMBER, member);
}

static void member_forget(struct registry *r, struct known *known) {
    member_tell(r, REGISTRY_MEMBER_GONE, &known->member);
    *known = r->members[--r->member_count];
}

static struct registry_leader leader_of(const struct etcd_pair *pair) {
    struct registry_leader leader = {.key = {.exists = !pair->deleted, .revision = pair->revision}};
    if (leader.key.exists && registry_leader_read(pair->value, pair->value_bytes, &leader) < 0) {
        log_warn("registry", "key=%s reason=\"not a leader's: it will be overwritten\"", pair->key);
        leader = (struct registry_leader){.key = {.exists = true, .revision = pair->revision}};
    }
    return leader;
}

static void leader_tell(struct registry *r, enum registry_event_kind kind, const struct registry_leader *leader) {
    struct registry_event *event = event_new(kind);
    r->leader = leader->key;
    event->leader = *leader;
    event_send(r, event);
}

/* A key of our cluster in a list or a watch. */
static void pair_seen(void *context, const struct etcd_pair *pair) {
    struct registry *r = context;
    char leader_key[ETCD_KEY_MAX], rollouts_key[ETCD_KEY_MAX];
    struct registry_member member;
    etcd_leader_key(leader_key, r->config.place.name);
    etcd_rollouts_key(rollouts_key, r->config.place.name);
    if (strcmp(pair->key, leader_key) == 0) {
        struct registry_leader leader = leader_of(pair);
        r->leader_listed = true;
        leader_tell(r, REGISTRY_LEADER, &leader);
        return;
    }
    if (strcmp(pair->key, rollouts_key) == 0) {
        if (!pair->deleted)
            text_tell(r, REGISTRY_ROLLOUTS, pair->value, pair->value_bytes);
        return;
    }
    uint64_t incarnation = etcd_member_key_read(pair->key, r->config.place.name);
    struct known *known = incarnation ? member_find(r, incarnation) : NULL;
    if (!incarnation)
        return;
    r->self_listed |= incarnation == r->config.self.incarnation;
    if (!pair->deleted && registry_member_read(pair->value, pair->value_bytes, &member) == 0 &&
        member.incarnation == incarnation)
        member_seen(r, &member);
    else if (known)
        member_forget(r, known);
    if (pair->deleted && incarnation == r->config.self.incarnation)
        r->lease = 0; /* it expired while this process was stopped, or was revoked */
}

/* ---- calls ---- */

static size_t answer_take(char *bytes, size_t size, size_t count, void *context);

static int call_start(struct registry *r, enum call_kind kind, const char *path, long timeout_ms) {
    struct call *c = &r->calls[kind];
    const struct registry_place *place = &r->config.place;
    char url[REGISTRY_ADDRESS_MAX + 64], header[REGISTRY_TOKEN_MAX + 32];
    c->endpoint = r->endpoint;
    c->login = r->logins;
    text_clear(&c->answer);
    c->why.text[0] = '\0';
    snprintf(url, sizeof(url), "%s://%s%s", place->tls ? "https" : "http", place->endpoints[c->endpoint], path);
    snprintf(header, sizeof(header), "Authorization: %s", r->token);
    curl_slist_free_all(c->headers);
    c->headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (kind != CALL_LOGIN && *r->token && c->headers && !curl_slist_append(c->headers, header))
        return -ENOMEM;
    if (c->body.failed || !c->headers)
        return -ENOMEM;
    curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers);
    curl_easy_setopt(c->easy, CURLOPT_URL, url);
    curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, c->body.data);
    curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE, (long)c->body.length);
    curl_easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, timeout_ms);
    c->busy = curl_multi_add_handle(r->multi, c->easy) == CURLM_OK;
    return c->busy ? 0 : -EIO;
}

static void call_stop(struct registry *r, enum call_kind kind) {
    struct call *c = &r->calls[kind];
    if (c->busy)
        curl_multi_remove_handle(r->multi, c->easy);
    c->busy = false;
}

static void endpoint_leave(struct registry *r, uint32_t endpoint) {
    if (r->endpoint == endpoint)
        r->endpoint = (endpoint + 1) % r->config.place.endpoint_count;
}

/* ---- the session: lease, member, list, watch ---- */

/* Begins a session, or continues it with its lease. */
static void session_begin(struct registry *r) {
    for (int kind = CALL_KEEP; kind <= CALL_WATCH; kind++)
        call_stop(r, kind);
    r->next = !r->config.self.role[0] ? CALL_LIST : r->lease ? CALL_KEEP : CALL_LEASE;
}

static void question_end(struct registry *r, const struct registry_leader *leader, bool recorded);

static void session_fail(struct registry *r, uint32_t endpoint, const char *why) {
    session_begin(r);
    endpoint_leave(r, endpoint);
    r->retry_ns = r->retry_ns * 2 < RETRY_MAX_NS ? r->retry_ns * 2 : RETRY_MAX_NS;
    r->next_ns = clock_now_ns() + r->retry_ns;
    struct sy_error *last = &r->down[endpoint];
    if (r->told == REGISTRY_DOWN && strcmp(last->text, why) == 0)
        return;
    for (uint32_t i = 0; i < REGISTRY_ENDPOINTS_MAX && r->told != REGISTRY_DOWN; i++)
        r->down[i].text[0] = '\0';
    r->told = REGISTRY_DOWN;
    r->up = false;
    error_set(last, 0, "%s", why);
    log_warn("registry is down", "name=%s endpoint=%s reason=\"%s\"", r->config.place.name,
             r->config.place.endpoints[endpoint], why);
    text_tell(r, REGISTRY_DOWN, why, strlen(why));
}

static int answer_read(const struct call *c, enum etcd_answer_kind kind, struct etcd_answer *answer, etcd_each *each,
                       void *context, struct sy_error *err) {
    return etcd_answer_read(kind, c->answer.data, c->answer.length, answer, each, context, err);
}

/* A complete answer has come. For a watch that means that it has ended. */
static int session_answer(struct registry *r, struct call *c, struct sy_error *err) {
    struct etcd_answer answer;
    int rc = 0;
    switch (c->kind) {
    case CALL_KEEP:
    case CALL_LEASE:
        rc = answer_read(c, ETCD_LEASE, &answer, NULL, NULL, err);
        if (rc)
            return rc;
        r->lease = answer.ttl_s > 0 ? answer.lease : 0;
        r->keep_ns = clock_now_ns() + r->config.lease_s * NS_PER_S / 3;
        if (r->lease && c->kind == CALL_KEEP)
            r->next = r->next == CALL_KEEP ? CALL_LIST : r->next;
        else if (r->lease)
            r->next = CALL_PUT;
        else
            session_begin(r); /* the lease expired */
        return 0;
    case CALL_PUT:
        rc = answer_read(c, ETCD_DONE, &answer, NULL, NULL, err);
        r->lease = rc ? 0 : r->lease;
        r->next = CALL_LIST;
        return rc;
    case CALL_LIST:
        for (uint32_t i = 0; i < r->member_count; i++)
            r->members[i].listed = false;
        r->leader_listed = r->self_listed = false;
        if (r->told != REGISTRY_UP)
            event_tell(r, REGISTRY_UP);
        r->told = REGISTRY_UP;
        rc = answer_read(c, ETCD_RANGE, &answer, pair_seen, r, err);
        if (rc)
            return rc;
        r->revision = answer.revision;
        for (uint32_t i = r->member_count; i-- > 0;)
            if (!r->members[i].listed)
                member_forget(r, &r->members[i]);
        if (!r->leader_listed)
            leader_tell(r, REGISTRY_LEADER, &(struct registry_leader){.key = {.revision = r->revision}});
        /* Our member is missing only if the registry has lost its data. */
        r->next = r->config.self.role[0] && !r->self_listed ? CALL_LEASE : CALL_WATCH;
        return 0;
    default:
        return error_set(err, -EPIPE, "%s", c->why.text[0] ? c->why.text : "the watch has ended");
    }
}

/* Takes the lines of a watch that goes on. */
static int watch_lines_take(struct registry *r, struct call *c) {
    for (char *end; (end = memchr(c->answer.data, '\n', c->answer.length));) {
        size_t length = (size_t)(end - c->answer.data);
        struct etcd_answer answer = {.created = false};
        if (length && etcd_answer_read(ETCD_WATCH, c->answer.data, length, &answer, pair_seen, r, &c->why) < 0)
            return -EBADMSG;
        if (answer.created) { /* the session is complete */
            r->next = CALL_KINDS;
            r->retry_ns = RETRY_MIN_NS / 2;
            if (!r->up)
                log_info(r->ever_up ? "registry is back" : "registry is up", "name=%s endpoint=%s",
                         r->config.place.name, r->config.place.endpoints[r->calls[CALL_WATCH].endpoint]);
            r->up = r->ever_up = true;
        }
        c->answer.length -= length + 1;
        memmove(c->answer.data, end + 1, c->answer.length);
    }
    return 0;
}

static size_t answer_take(char *bytes, size_t size, size_t count, void *context) {
    struct call *c = context;
    size_t length = size * count;
    if (c->answer.length + length > ANSWER_BYTES_MAX) {
        error_set(&c->why, -EMSGSIZE, "an answer of more than %u bytes", ANSWER_BYTES_MAX);
        return 0;
    }
    text_append(&c->answer, bytes, length);
    if (c->answer.failed)
        error_set(&c->why, -ENOMEM, "out of memory");
    if (c->answer.failed || (c->kind == CALL_WATCH && watch_lines_take(c->registry, c) < 0))
        return 0;
    return length;
}

/* Logs in, if that is due and etcd is not asked already. False: nothing else may be asked before. */
static bool login_step(struct registry *r, int64_t now_ns) {
    struct registry_login login;
    struct sy_error why;
    struct text *body = &r->calls[CALL_LOGIN].body;
    if (!r->config.place.login || r->logged_in)
        return true;
    if (r->calls[CALL_LOGIN].busy || now_ns < r->next_ns)
        return false;
    text_clear(body);
    int rc = registry_login_read(r->config.place.login, &login, &why);
    if (rc == 0)
        etcd_login_write(body, &login);
    memset(&login, 0, sizeof(login));
    if (rc == 0 && call_start(r, CALL_LOGIN, paths[CALL_LOGIN], LOGIN_TIMEOUT_MS) < 0)
        rc = error_set(&why, -ENOMEM, "out of memory");
    if (rc < 0)
        session_fail(r, r->endpoint, why.text);
    return false;
}

/* Starts calls that are due; returns when the next is due. */
static int64_t session_step(struct registry *r, int64_t now_ns) {
    if (!login_step(r, now_ns))
        return r->calls[CALL_LOGIN].busy ? TIME_NEVER : r->next_ns;
    bool keeping = r->next > CALL_PUT && r->lease;
    if (r->next == CALL_KINDS && r->config.self.role[0] && !r->lease) { /* our member is no longer in etcd */
        session_begin(r);
        r->next_ns = now_ns;
    }
    enum call_kind kind = keeping && now_ns >= r->keep_ns && !r->calls[CALL_KEEP].busy ? CALL_KEEP : r->next;
    if (kind == CALL_KINDS || r->calls[kind].busy)
        return keeping && !r->calls[CALL_KEEP].busy ? r->keep_ns : TIME_NEVER;
    if (now_ns < r->next_ns)
        return r->next_ns;
    struct text *body = &r->calls[kind].body;
    text_clear(body);
    if (kind == CALL_KEEP)
        etcd_lease_id_write(body, r->lease);
    else if (kind == CALL_LEASE)
        etcd_lease_write(body, r->config.lease_s);
    else if (kind == CALL_PUT)
        etcd_member_write(body, r->config.place.name, &r->config.self, r->lease);
    else if (kind == CALL_LIST)
        etcd_list_write(body, r->config.place.name);
    else
        etcd_watch_write(body, r->config.place.name, r->revision + 1);
    if (call_start(r, kind, paths[kind], kind == CALL_WATCH ? 0 : TIMEOUT_MS) < 0)
        session_fail(r, r->endpoint, "out of memory");
    return now_ns;
}

/* ---- questions ---- */

static void question_free(struct question *q) {
    if (q)
        free(q->rollouts);
    free(q);
}

/* `leader`: the answer; NULL: there is none. `recorded`: the rollouts were written. */
static void question_end(struct registry *r, const struct registry_leader *leader, bool recorded) {
    if (r->question->rollouts)
        event_tell(r, recorded ? REGISTRY_RECORDED : REGISTRY_UNRECORDED);
    else if (leader)
        leader_tell(r, REGISTRY_ANSWER, leader);
    else
        event_tell(r, REGISTRY_FAILED);
    question_free(r->question);
    r->question = NULL;
    r->asked_again = false;
}

static void questions_step(struct registry *r) {
    struct push_node **end = &r->waiting;
    while (*end)
        end = &(*end)->next;
    *end = push_list_take(&r->questions);
    bool may = r->logged_in || !r->config.place.login, listed = r->told != REGISTRY_MEMBER; /* or that has failed */
    /* the last login has failed, and the next one is not due */
    bool fails = !may && !r->calls[CALL_LOGIN].busy && clock_now_ns() < r->next_ns;
    while (!r->question && r->waiting && (fails || (may && listed))) {
        struct question *q = r->question = container_of(r->waiting, struct question, link);
        struct text *body = &r->calls[CALL_QUESTION].body;
        char key[ETCD_KEY_MAX];
        r->waiting = r->waiting->next;
        text_clear(body);
        etcd_leader_key(key, r->config.place.name);
        bool leads = r->leader.exists && r->leader.incarnation == r->config.self.incarnation;
        if (fails || (q->rollouts && !leads)) {
            question_end(r, NULL, false);
            continue;
        }
        if (q->rollouts)
            etcd_rollouts_write(body, r->config.place.name, r->leader.revision, q->rollouts);
        else if (q->swap)
            etcd_swap_write(body, r->config.place.name, q->revision, q->term, r->config.self.incarnation,
                            r->config.address);
        else
            etcd_range_write(body, key);
        if (call_start(r, CALL_QUESTION, q->swap || q->rollouts ? "/v3/kv/txn" : "/v3/kv/range", QUESTION_TIMEOUT_MS) <
            0)
            question_end(r, NULL, false);
    }
}

static void answer_pair(void *context, const struct etcd_pair *pair) {
    *(struct registry_leader *)context = leader_of(pair);
}

static int question_answer(struct registry *r, struct call *c, struct sy_error *err) {
    struct registry_leader leader = {0};
    struct etcd_answer answer;
    enum etcd_answer_kind kind = r->question->swap || r->question->rollouts ? ETCD_SWAP : ETCD_RANGE;
    int rc = answer_read(c, kind, &answer, answer_pair, &leader, err);
    if (rc)
        return rc;
    if (kind == ETCD_SWAP && r->told == REGISTRY_UP) /* a registry that is full still answers reads */
        r->down[c->endpoint].text[0] = '\0';
    if (r->question->rollouts) {
        question_end(r, NULL, answer.succeeded);
        return 0;
    }
    if (answer.succeeded) {
        leader.key = (struct election_key){.exists = true,
                                           .revision = answer.revision,
                                           .term = r->question->term,
                                           .incarnation = r->config.self.incarnation};
        strcpy(leader.address, r->config.address);
    } else if (!leader.key.exists) {
        leader.key.revision = answer.revision;
    }
    question_end(r, &leader, false);
    return 0;
}

/* ---- the thread ---- */

/* The answer to a login. */
static int login_answer(struct registry *r, const struct call *c, struct sy_error *err) {
    struct etcd_answer answer;
    int rc = answer_read(c, ETCD_LOGIN, &answer, NULL, NULL, err);
    strcpy(r->token, answer.token);
    memset(answer.token, 0, sizeof(answer.token));
    r->logged_in = rc == 0;
    r->logins++;
    return rc;
}

/* The token of a call is not valid any more: logs in again, and asks again. The session goes on where it was. */
static void login_again(struct registry *r, struct call *c) {
    if (c->login == r->logins) { /* else that has been done */
        r->logged_in = false;
        *r->token = '\0';
        r->next_ns = clock_now_ns();
    }
    if (c->kind == CALL_WATCH)
        r->next = CALL_LIST;
    if (c->kind != CALL_QUESTION)
        return;
    if (r->asked_again) {
        question_end(r, NULL, false);
        return;
    }
    r->question->link.next = r->waiting;
    r->waiting = &r->question->link;
    r->question = NULL;
    r->asked_again = true;
}

/* The length of an answer's first words, for a line of the log. */
static int text_words(const struct text *answer) {
    size_t length = 0;
    while (length < answer->length && length < 200 && answer->data[length] >= ' ' && answer->data[length] != '"')
        length++;
    return (int)length;
}

static void call_end(struct registry *r, struct call *c, CURLcode code) {
    struct sy_error why;
    long status = 0;
    int rc = 0;
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    call_stop(r, c->kind);
    bool understood = status == 200 || (c->answer.length && c->answer.data[0] == '{');
    if (r->config.place.login && c->kind != CALL_LOGIN && c->kind != CALL_REVOKE && c->answer.length > 0) {
        struct etcd_answer answer;
        answer_read(c, ETCD_DONE, &answer, NULL, NULL, &why);
        if (answer.wants_login) {
            login_again(r, c);
            return;
        }
    }
    if (code != CURLE_OK && registry_certificate_over(&r->config.place))
        rc = error_set(&why, -EIO, "our certificate has expired: --registry-cert %s", r->config.place.cert);
    else if (code == CURLE_PEER_FAILED_VERIFICATION)
        rc = error_set(&why, -EIO, "etcd's certificate has expired, is for another host, or is of another authority");
    else if (code != CURLE_OK)
        rc = error_set(&why, -EIO, "%s",
                       c->why.text[0]          ? c->why.text
                       : c->kind == CALL_WATCH ? "the connection of the watch has ended"
                                               : curl_easy_strerror(code));
    else if (!understood)
        rc = error_set(&why, -EBADMSG, "HTTP status %ld: %.*s", status, text_words(&c->answer), c->answer.data);
    else if (c->kind == CALL_LOGIN)
        rc = login_answer(r, c, &why);
    else if (c->kind == CALL_QUESTION)
        rc = question_answer(r, c, &why);
    else if (c->kind != CALL_REVOKE)
        rc = session_answer(r, c, &why);
    if (!rc)
        return;
    log_debug("registry", "endpoint=%s path=%s reason=\"%s\"", r->config.place.endpoints[c->endpoint],
              c->kind == CALL_QUESTION ? "question" : paths[c->kind], why.text);
    if (c->kind == CALL_QUESTION) {
        if (r->told == REGISTRY_UP && strcmp(r->down[c->endpoint].text, why.text) != 0) {
            log_warn("a question to the registry failed", "name=%s endpoint=%s reason=\"%s\"", r->config.place.name,
                     r->config.place.endpoints[c->endpoint], why.text);
            r->down[c->endpoint] = why;
        }
        endpoint_leave(r, c->endpoint);
        question_end(r, NULL, false);
    } else if (c->kind != CALL_REVOKE) {
        session_fail(r, c->endpoint, why.text);
    }
}

/* Transfers bytes, and ends calls that are finished. */
static void calls_step(struct registry *r) {
    int left;
    curl_multi_perform(r->multi, &left);
    for (CURLMsg *message; (message = curl_multi_info_read(r->multi, &left));) {
        struct call *c;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&c);
        if (message->msg == CURLMSG_DONE && c->busy)
            call_end(r, c, message->data.result);
    }
}

/* Revokes our lease, so that the others need not wait for its end. */
static void farewell(struct registry *r) {
    int64_t until_ns = clock_now_ns() + FAREWELL_TIMEOUT_MS * NS_PER_MS;
    if (!r->lease || r->told == REGISTRY_DOWN)
        return;
    etcd_lease_id_write(&r->calls[CALL_REVOKE].body, r->lease);
    call_start(r, CALL_REVOKE, paths[CALL_REVOKE], FAREWELL_TIMEOUT_MS);
    session_begin(r);
    while (r->calls[CALL_REVOKE].busy && clock_now_ns() < until_ns) {
        calls_step(r);
        if (r->calls[CALL_REVOKE].busy)
            curl_multi_poll(r->multi, NULL, 0, 10, NULL);
    }
}

static void *registry_main(void *context) {
    struct registry *r = context;
    thread_begin("registry", 0, THREAD_PROMPT);
    while (!atomic_load_explicit(&r->closing, memory_order_acquire)) { /* with registry_close() */
        calls_step(r);
        questions_step(r);
        int64_t now_ns = clock_now_ns(), due_ns = session_step(r, now_ns);
        int64_t wait_ms = due_ns < now_ns + NS_PER_S ? (due_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS : 1000;
        curl_multi_poll(r->multi, NULL, 0, wait_ms > 0 ? (int)wait_ms : 0, NULL);
    }
    farewell(r);
    return NULL;
}

/* ---- the user's side ---- */

static void question_ask(struct registry *r, struct question question) {
    struct question *q = malloc(sizeof(*q));
    CHECK_MEMORY(q); /* as for events */
    *q = question;
    push_list_push(&r->questions, &q->link);
    curl_multi_wakeup(r->multi);
}

void registry_read(struct registry *r) {
    question_ask(r, (struct question){.swap = false});
}

void registry_swap(struct registry *r, int64_t revision, uint64_t term) {
    question_ask(r, (struct question){.swap = true, .revision = revision, .term = term});
}

void registry_record(struct registry *r, const char *rollouts) {
    char *copy = strdup(rollouts);
    CHECK(copy != NULL); /* as for events */
    question_ask(r, (struct question){.rollouts = copy});
}

bool registry_pending(const struct registry *r) {
    return r->taken || push_list_any(&r->events);
}

struct registry_event *registry_event_next(struct registry *r) {
    struct push_node *node = r->taken ? r->taken : push_list_take(&r->events);
    r->taken = node ? node->next : NULL;
    return node ? container_of(node, struct registry_event, link) : NULL;
}

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void curl_begin(void) {
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static int call_init(struct registry *r, enum call_kind kind) {
    struct call *c = &r->calls[kind];
    *c = (struct call){.registry = r, .kind = kind, .easy = curl_easy_init()};
    text_init(&c->body, NULL, 0);
    text_init(&c->answer, NULL, 0);
    if (!c->easy || !text_reserve(&c->answer, 1) || !text_reserve(&c->body, 1))
        return -ENOMEM;
    curl_easy_setopt(c->easy, CURLOPT_PRIVATE, c);
    curl_easy_setopt(c->easy, CURLOPT_POST, 1L);
    const struct registry_place *place = &r->config.place;
    if (place->ca)
        curl_easy_setopt(c->easy, CURLOPT_CAINFO, place->ca);
    if (place->cert) {
        curl_easy_setopt(c->easy, CURLOPT_SSLCERT, place->cert);
        curl_easy_setopt(c->easy, CURLOPT_SSLKEY, place->key);
    }
    curl_easy_setopt(c->easy, CURLOPT_SSL_SESSIONID_CACHE, 0L); /* new connections show what is in the files now */
    curl_easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c->easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(c->easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(c->easy, CURLOPT_TCP_KEEPIDLE, 1L);
    curl_easy_setopt(c->easy, CURLOPT_TCP_KEEPINTVL, 1L);
    curl_easy_setopt(c->easy, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)(r->config.place.tls ? TLS_TIMEOUT_MS : CONNECT_TIMEOUT_MS));
    curl_easy_setopt(c->easy, CURLOPT_HTTP_VERSION,
                     (long)CURL_HTTP_VERSION_1_1); /* a watch has a connection of its own */
    curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, answer_take);
    curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
    return 0;
}

static void registry_free(struct registry *r) {
    for (int kind = 0; kind < CALL_KINDS; kind++) {
        call_stop(r, kind);
        curl_easy_cleanup(r->calls[kind].easy);
        curl_slist_free_all(r->calls[kind].headers);
        text_free(&r->calls[kind].body);
        text_free(&r->calls[kind].answer);
    }
    curl_multi_cleanup(r->multi);
    memset(r->token, 0, sizeof(r->token));
    question_free(r->question);
    for (struct registry_event *event; (event = registry_event_next(r));)
        free(event);
    for (struct push_node *list = r->waiting, *next; list; list = next) {
        next = list->next;
        question_free(container_of(list, struct question, link));
    }
    for (struct push_node *list = push_list_take(&r->questions), *next; list; list = next) {
        next = list->next;
        question_free(container_of(list, struct question, link));
    }
    free(r->members);
    free(r);
}

int registry_open(const struct registry_config *config, struct registry **registry, struct sy_error *err) {
    if (config->self.role[0] && !registry_member_valid(&config->self))
        return error_set(err, -EINVAL, "a member with the role '%s' and the addresses '%s' cannot be registered",
                         config->self.role, config->self.addresses);
    if (!registry_address_valid(config->address))
        return error_set(err, -EINVAL, "'%s' cannot be registered as an address", config->address);
    pthread_once(&curl_once, curl_begin);
    struct registry *r = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, -ENOMEM, "out of memory");
    r->config = *config;
    r->config.lease_s = config->lease_s ? config->lease_s : REGISTRY_LEASE_S;
    r->told = REGISTRY_MEMBER;
    r->retry_ns = RETRY_MIN_NS / 2;
    r->members = calloc(REGISTRY_MEMBERS_MAX, sizeof(*r->members));
    r->multi = curl_multi_init();
    int rc = r->members && r->multi ? 0 : -ENOMEM;
    for (int kind = 0; !rc && kind < CALL_KINDS; kind++)
        rc = call_init(r, kind);
    if (!rc) {
        session_begin(r);
        rc = -pthread_create(&r->thread, NULL, registry_main, r);
    }
    if (rc) {
        registry_free(r);
        return error_set(err, rc, "cannot start the registry's thread: %s", strerror(-rc));
    }
    *registry = r;
    return 0;
}

void registry_close(struct registry *r) {
    atomic_store_explicit(&r->closing, true, memory_order_release); /* with registry_main() */
    curl_multi_wakeup(r->multi);
    pthread_join(r->thread, NULL);
    registry_free(r);
}
