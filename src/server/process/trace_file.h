/* trace_file.h - writes the traces of requests (front/request/tracing.h) into a file, as Triton does with
 * `--trace-config triton,file=...`: a JSON array of
 *
 *     {"id":1,"model_name":"m","model_version":1,"request_id":"x"},
 * {"id":1,"timestamps":[{"name":"REQUEST_START","ns":...}, ...]}
 *
 * with times of CLOCK_MONOTONIC. The file is a whole array at any time. With a log_frequency of N the traces of each N
 * go to FILE.0, FILE.1 and so on. A thread of its own reads the frontends' rings, so no request waits for the file. */
#pragma once

#include "front/request/tracing.h"
#include "server/threads/model_list.h"

struct trace_file;

/* The list and the settings outlive the file. 0 or -errno with a sentence. */
int trace_file_start(struct trace_file **file, struct model_list *models, struct tracing *tracing,
                     struct sy_error *err);
/* Writes what was noted, and ends; call it when no frontend notes any more. NULL is allowed. */
void trace_file_stop(struct trace_file *file);
