/* fair_queue.c - virtual times of clients and of their jobs. */
#include "front/bulk/fair_queue.h"

void fair_queue_init(struct fair_queue *q, uint32_t begun_max, size_t bytes_max) {
    *q = (struct fair_queue){.begun_max = begun_max, .bytes_max = bytes_max};
    list_init(&q->active);
    for (uint32_t i = 0; i < FAIR_CLIENTS; i++) {
        list_init(&q->clients[i].link);
        list_init(&q->clients[i].fresh);
        list_init(&q->clients[i].begun);
    }
}

void fair_queue_add(struct fair_queue *q, struct fair_job *job, uint32_t client, size_t bytes) {
    struct fair_client *c = &q->clients[client];
    *job = (struct fair_job){.client = client, .bytes = bytes, .time = c->jobs_time};
    if (c->jobs++ == 0) {
        q->active_count++;
        list_append(&q->active, &c->link);
        c->time = c->time > q->time ? c->time : q->time; /* a client keeps what it took beyond its part */
    }
    list_init(&job->link);
    list_append(&c->fresh, &job->link);
}

/* The client's first job that may begin. */
static struct fair_job *client_fresh(const struct fair_queue *q, const struct fair_client *c) {
    if (q->begun_jobs < q->begun_max && c->begun_jobs < q->begun_max - q->begun_jobs)
        list_for_each (it, &c->fresh) {
            struct fair_job *job = list_entry(it, struct fair_job, link);
            if (q->begun_jobs == 0 || q->begun_bytes + job->bytes <= q->bytes_max)
                return job;
        }
    return NULL;
}

/* The job whose slice is next: of the client with the least time, of its jobs the one with the least. */
static struct fair_job *next(const struct fair_queue *q, bool fresh) {
    struct fair_job *least = NULL;
    list_for_each (it, &q->active) {
        const struct fair_client *c = list_entry(it, struct fair_client, link);
        struct fair_job *first = fresh ? client_fresh(q, c) : NULL;
        struct fair_job *begun = list_empty(&c->begun) ? NULL : list_entry(c->begun.next, struct fair_job, link);
        struct fair_job *job = !first || (begun && begun->time <= first->time) ? begun : first;
        if (job && (!least || c->time < q->clients[least->client].time))
            least = job;
    }
    return least;
}

struct fair_job *fair_queue_next(struct fair_queue *q, bool fresh) {
    struct fair_job *job = next(q, fresh);
    if (!job)
        return NULL;
    list_remove(&job->link);
    if (!job->begun) {
        q->clients[job->client].begun_jobs++;
        q->begun_jobs++;
        q->begun_bytes += job->bytes;
    }
    job->begun = true;
    return job;
}

void fair_queue_charge(struct fair_queue *q, struct fair_job *job, int64_t cost) {
    struct fair_client *c = &q->clients[job->client];
    job->time += cost;
    c->jobs_time += cost / c->jobs;
    c->time += cost;
    q->time += cost / q->active_count;
}

bool fair_queue_yields(const struct fair_queue *q, const struct fair_job *job, bool fresh) {
    const struct fair_job *other = next(q, fresh);
    if (!other)
        return false;
    return other->client == job->client ? other->time < job->time
                                        : q->clients[other->client].time < q->clients[job->client].time;
}

void fair_queue_wait(struct fair_queue *q, struct fair_job *job) {
    struct list_node *head = &q->clients[job->client].begun, *at = head;
    while (at->prev != head && list_entry(at->prev, struct fair_job, link)->time > job->time)
        at = at->prev;
    list_insert_before(at, &job->link);
}

void fair_queue_end(struct fair_queue *q, struct fair_job *job) {
    struct fair_client *c = &q->clients[job->client];
    if (--c->jobs == 0) {
        q->active_count--;
        list_remove(&c->link);
    }
    c->begun_jobs--;
    q->begun_jobs--;
    q->begun_bytes -= job->bytes;
}
