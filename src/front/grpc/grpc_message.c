/* grpc_message.c - takes one message apart, as a state machine over its bytes. */
#include "front/grpc/grpc_message.h"

#include <string.h>

#include "core/util/protobuf.h"
#include "front/bulk/inflate.h"

#define ALIGNMENT  64
#define FIRST_ROOM ((size_t)64 * 1024)         /* size of the block in which a message begins */
#define HEAD_SLACK ((size_t)6 * GRPC_FEW_RAWS) /* room behind the head, for tags and lengths of further raw inputs */
#define RAW_ROOM   ((size_t)1024 * 1024)       /* first room for a larger raw input; once that is full: all */

void grpc_message_begin(struct grpc_message *m, bool split, size_t bytes_max, struct block_memory memory) {
    m->memory = memory;
    m->bytes_max = bytes_max;
    m->split = split;
    m->state = GRPC_PREFIX;
    m->prefix_bytes = 0;
    m->head = NULL;
    m->head_bytes = m->head_room = 0;
    m->first = m->first_end = m->room = NULL;
    m->raws = m->few_raws;
    m->raw_count = 0;
}

static int no_memory(struct sy_error *err) {
    return error_set(err, 503, "the memory for inputs is exhausted");
}

static void expect_tag(struct grpc_message *m) {
    m->state = m->to_come == 0 ? GRPC_COMPLETE : GRPC_TAG;
    m->varint = 0;
    m->varint_shift = 0;
}

/* The prefix is complete. */
static int prefix_read(struct grpc_message *m, struct sy_error *err) {
    if (m->prefix[0] > 1)
        return error_set(err, 400, "a message's prefix has the flags %u", m->prefix[0]);
    m->compressed = m->prefix[0] == 1;
    m->bytes = m->to_come =
        (size_t)m->prefix[1] << 24 | (size_t)m->prefix[2] << 16 | (size_t)m->prefix[3] << 8 | m->prefix[4];
    if (m->bytes > m->bytes_max)
        return error_set(err, 413, "the message has %zu bytes, more than %zu: " BODY_LIMIT, m->bytes, m->bytes_max);
    size_t first = m->bytes < FIRST_ROOM ? m->bytes : FIRST_ROOM;
    bool split = m->split && !m->compressed;
    /* together with what aligning a few raw inputs takes, a small message has one block */
    size_t block_bytes = first + (split ? HEAD_SLACK + (GRPC_FEW_RAWS + 1) * ALIGNMENT : 0);
    m->first = m->head = m->memory.take(m->memory.context, block_bytes);
    if (!m->head)
        return no_memory(err);
    m->first_end = m->first + block_bytes;
    m->head_room = first;
    if (split || m->bytes == 0) {
        expect_tag(m);
    } else {
        m->state = GRPC_COPY;
        m->left = m->bytes;
    }
    return 0;
}

/* The head has no more room: raw inputs lie behind it, or it is long. It moves to a block of its own. */
static int head_grow(struct grpc_message *m, size_t bytes, struct sy_error *err) {
    size_t most = m->head_bytes + m->to_come + bytes, room = 2 * (m->head_bytes + bytes);
    room = room < m->bytes ? room : m->bytes;
    room = room < most ? room : most;
    char *head = m->memory.take(m->memory.context, room);
    if (!head)
        return no_memory(err);
    memcpy(head, m->head, m->head_bytes);
    if (m->head != m->first || !m->room) {
        if (m->head == m->first)
            m->first = m->first_end = NULL;
        m->memory.give(m->memory.context, m->head);
    }
    m->head = head;
    m->head_room = room;
    return 0;
}

static int head_append(struct grpc_message *m, const uint8_t *data, size_t bytes, struct sy_error *err) {
    if (m->head_room - m->head_bytes < bytes) {
        int status = head_grow(m, bytes, err);
        if (status)
            return status;
    }
    memcpy(m->head + m->head_bytes, data, bytes);
    m->head_bytes += bytes;
    return 0;
}

/* A place for a raw input of so many bytes: behind the head if there is room for it, else a block of its own. */
static int raw_begin(struct grpc_message *m, size_t bytes, struct sy_error *err) {
    if (m->raw_count == TENSORS_MAX)
        return error_set(err, 400, "the request has more than %d raw inputs", TENSORS_MAX);
    if (m->raw_count == GRPC_FEW_RAWS) {
        struct grpc_raw *raws = m->memory.take(m->memory.context, TENSORS_MAX * sizeof(*raws));
        if (!raws)
            return no_memory(err);
        memcpy(raws, m->few_raws, sizeof(m->few_raws));
        m->raws = raws;
    }
    struct grpc_raw *raw = &m->raws[m->raw_count++];
    raw->bytes = 0;
    if (m->first && !m->room) { /* from now on the head has only HEAD_SLACK to grow in place */
        m->head_room = m->head_bytes + HEAD_SLACK;
        m->room = m->head + m->head_room;
    }
    char *behind = (char *)(((uintptr_t)m->room + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    if (m->room && behind <= m->first_end && (size_t)(m->first_end - behind) >= bytes) {
        raw->data = behind;
        m->room = behind + bytes;
        m->raw_room = bytes;
    } else {
        m->raw_room = bytes < RAW_ROOM ? bytes : RAW_ROOM;
        raw->data = m->memory.take(m->memory.context, m->raw_room);
    }
    return raw->data ? 0 : no_memory(err);
}

static int raw_append(struct grpc_message *m, const uint8_t *data, size_t bytes, struct sy_error *err) {
    struct grpc_raw *raw = &m->raws[m->raw_count - 1];
    if (m->raw_room - raw->bytes < bytes) {
        char *whole = m->memory.take(m->memory.context, raw->bytes + m->left);
        if (!whole)
            return no_memory(err);
        memcpy(whole, raw->data, raw->bytes);
        m->memory.give(m->memory.context, raw->data);
        raw->data = whole;
        m->raw_room = raw->bytes + m->left;
    }
    memcpy(raw->data + raw->bytes, data, bytes);
    raw->bytes += bytes;
    return 0;
}

static int tag_read(struct grpc_message *m, struct sy_error *err) {
    m->field = m->varint >> 3 < 1u << 29 ? (uint32_t)(m->varint >> 3) : 0;
    switch (m->field == 0 ? -1 : (int)(m->varint & 7)) {
    case PROTOBUF_VARINT:
        m->state = GRPC_VARINT;
        break;
    case PROTOBUF_64BIT:
        m->state = GRPC_COPY;
        m->left = 8;
        break;
    case PROTOBUF_32BIT:
        m->state = GRPC_COPY;
        m->left = 4;
        break;
    case PROTOBUF_BYTES:
        m->state = GRPC_LENGTH;
        break;
    default:
        return protobuf_malformed(err);
    }
    m->varint = 0;
    m->varint_shift = 0;
    return m->to_come == 0 || (m->state == GRPC_COPY && m->left > m->to_come) ? protobuf_malformed(err) : 0;
}

static int length_read(struct grpc_message *m, struct sy_error *err) {
    if (m->varint > m->to_come)
        return protobuf_malformed(err);
    m->left = m->varint;
    int status = m->field == GRPC_RAW_INPUTS_NUMBER ? raw_begin(m, m->left, err) : 0;
    if (m->left == 0)
        expect_tag(m);
    else
        m->state = m->field == GRPC_RAW_INPUTS_NUMBER ? GRPC_RAW : GRPC_COPY;
    return status;
}

/* Takes one byte of a tag, a length or a number. */
static int varint_step(struct grpc_message *m, const uint8_t *byte, struct sy_error *err) {
    int status = head_append(m, byte, 1, err);
    m->to_come--;
    if (status)
        return status;
    if (m->varint_shift > 63)
        return protobuf_malformed(err);
    m->varint |= (uint64_t)(*byte & 0x7f) << m->varint_shift;
    m->varint_shift += 7;
    if (*byte >= 0x80)
        return m->to_come == 0 ? protobuf_malformed(err) : 0;
    if (m->state == GRPC_TAG)
        return tag_read(m, err);
    if (m->state == GRPC_LENGTH)
        return length_read(m, err);
    expect_tag(m);
    return 0;
}

int grpc_message_feed(struct grpc_message *m, const void *data, size_t bytes, size_t *taken, struct sy_error *err) {
    const uint8_t *begin = data, *at = begin, *end = begin + bytes;
    int status = 0;
    while (at < end && status == 0 && m->state != GRPC_COMPLETE) {
        if (m->state == GRPC_PREFIX) {
            m->prefix[m->prefix_bytes++] = *at++;
            if (m->prefix_bytes == GRPC_PREFIX_BYTES)
                status = prefix_read(m, err);
        } else if (m->state == GRPC_COPY || m->state == GRPC_RAW) {
            size_t n = (size_t)(end - at) < m->left ? (size_t)(end - at) : m->left;
            m->to_come -= n;
            status = m->state == GRPC_COPY ? head_append(m, at, n, err) : raw_append(m, at, n, err);
            at += n;
            m->left -= n;
            if (m->left == 0)
                expect_tag(m);
        } else {
            status = varint_step(m, at++, err);
        }
    }
    *taken = (size_t)(at - begin);
    return status;
}
