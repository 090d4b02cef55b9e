#!/bin/sh
# purity.sh NM SOURCE_DIR OBJECT... - refuses clocks, randomness, threads and atomics in the pure folders, and in the
# cores also memory allocation and input or output. The build runs it on the objects of symphony_core.
#
#   cores    src/policy, src/table, src/sched but for its shells (*_thread, model_thread_*, thread_rings, candidate_board,
#            wiring), src/link/clock_sync, src/cluster/election, src/net/read_queue
#   others   src/sim, src/scenario, src/plan, src/pipeline
#
# Objects are checked, not text: the calls of a pure object are followed through the other objects of the library, so a
# core that calls a helper that reads the clock is refused, too. Things that leave no symbol behind (cycle counters,
# atomics) are searched for in the sources.
set -eu
nm=$1 source_dir=$2
shift 2

status=0
cd "$source_dir"
for file in src/sched/*.[ch] src/policy/*.[ch] src/table/*.[ch] src/sim/*.[ch] src/scenario/*.[ch] src/plan/*.[ch] src/pipeline/*.[ch] \
    src/link/clock_sync.[ch] src/cluster/election.[ch] src/net/read_queue.[ch] src/peer/own_pause.h; do
    case $file in *_thread.[ch] | */model_thread_*.[ch] | */wiring.[ch] | */thread_rings.[ch] | */candidate_board.[ch]) continue ;; esac
    [ -e "$file" ] || continue
    grep -HnE '#include +[<"](base/clock\.h|time\.h|sys/time\.h|stdatomic\.h|pthread\.h|threads\.h)[>"]|rdtsc|__atomic_|__sync_|_Atomic|__thread|_Thread_local' \
        "$file" && status=1
done
[ $status = 0 ] || echo "purity: the lines above do not belong in a pure folder (see ARCHITECTURE.md, clock rule)" >&2

cd "$OLDPWD"
"$nm" -A -P "$@" | awk '
    # In a set of names between blanks?
    function among(name, set) { return index(set, " " name " ") > 0 }
    function refused(name, strict) {
        sub(/^_+/, "", name); sub(/_chk$/, "", name); sub(/^isoc[0-9]+_/, "", name)
        if (name ~ /^(pthread|sem|mtx|cnd|thrd|timerfd|timer|epoll)_/ || among(name, always)) return 1
        return strict && among(name, in_cores)
    }
    # Prints every refused name that object calls, itself or through other objects of the library.
    function follow(object, strict, path,    i, n, names, name) {
        if (seen[object]++) return
        n = split(calls[object], names, " ")
        for (i = 1; i <= n; i++) {
            name = names[i]
            if (name in defined_in) {
                if (defined_in[name] !~ /src\/base\/assert\.c/)
                    follow(defined_in[name], strict, path " -> " name)
            } else if (refused(name, strict)) {
                print "purity: " path " -> " name
                bad = 1
            }
        }
    }
    BEGIN {
        always = " clock_gettime clock_getres clock_nanosleep clock time gettimeofday nanosleep usleep sleep rand " \
            "srand rand_r random srandom drand48 lrand48 getrandom getentropy arc4random fork poll select eventfd "
        in_cores = " malloc calloc realloc reallocarray free aligned_alloc posix_memalign memalign strdup strndup " \
            "asprintf mmap munmap open openat read write pread pwrite close fopen fclose fread fwrite fputs fputc " \
            "putc putchar puts printf fprintf vfprintf perror socket send recv sendmsg recvmsg "
    }
    {
        split_at = index($0, ".o: ")    # the path may contain blanks
        object = substr($0, 1, split_at + 1)
        split(substr($0, split_at + 4), symbol, " ")
        if (symbol[2] == "U") calls[object] = calls[object] symbol[1] " "
        else if (symbol[2] ~ /[TDBRVW]/) defined_in[symbol[1]] = object
        objects[object] = 1
    }
    END {
        for (object in objects) {
            strict = object ~ /src\/((sched|policy|table)\/|link\/clock_sync|cluster\/election\.c|net\/read_queue\.c)/ &&
                object !~ /src\/sched\/([a-z0-9_]*_thread|model_thread_[a-z0-9_]*|thread_rings|candidate_board|wiring)\.c/
            if (!strict && object !~ /src\/(sim|scenario|plan|pipeline)\//) continue
            checked++
            split("", seen)
            short = object; sub(/^.*src\//, "src/", short); sub(/\.o(bj)?$/, "", short)
            follow(object, strict, short)
        }
        print "purity: " checked + 0 " pure objects checked"
        exit bad
    }' || {
    echo "purity: refused, the chains above end in what a pure folder must not use" >&2
    status=1
}
exit $status
