#!/bin/sh
# purity.sh NM SOURCE_DIR OBJECT... - refuses clocks, randomness, threads and atomics in the pure folders, and in the
# cores also memory allocation and input or output. The build runs it on all objects but main()s.
#
#   cores    src/sched/core, src/sched/policy; and of other folders the files that are named below
#   others   src/sched/plan, src/lab/sim, src/lab/scenario
#
# Objects are checked, not text: the calls of a pure object are followed through the other objects of the library, so a
# core that calls a helper that reads the clock is refused, too. Things that leave no symbol behind (cycle counters,
# atomics) are searched for in the sources.
set -eu
core_folders='sched/core sched/policy'
core_files='core/data/alarm core/data/profile core/data/pages core/data/residency core/data/rolling core/data/shared core/data/zoo
    core/data/clock_sync core/data/reason cluster/membership/election front/net/read_queue model/repository/model_life'
other_folders='sched/plan lab/sim lab/scenario'
nm=$1 source_dir=$2
shift 2

status=0
cd "$source_dir"
files=
for path in $core_folders $other_folders; do files="$files src/$path/*.[ch]"; done
for path in $core_files cluster/peer/own_pause; do files="$files src/$path.[ch]"; done
for file in $files; do
    [ -e "$file" ] || continue
    grep -HnE '#include +[<"](core/system/clock\.h|time\.h|sys/time\.h|stdatomic\.h|pthread\.h|threads\.h)[>"]|rdtsc|__atomic_|__sync_|_Atomic|__thread|_Thread_local' \
        "$file" && status=1
done
[ $status = 0 ] || echo "purity: the lines above do not belong in a pure folder (see ARCHITECTURE.md, clock rule)" >&2

cd "$OLDPWD"
"$nm" -A -P "$@" | awk -v cores=" $(echo $core_folders $core_files) " -v others=" $other_folders " '
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
                if (defined_in[name] !~ /src\/core\/util\/assert\.c/)
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
            if (!match(object, "/src/[^/]*/[^/]*/[^/]*[.]c[.]o")) continue # main.c, or generated
            file = substr(object, RSTART + 5, RLENGTH - 9)
            folder = substr(file, 1, match(file, "/[^/]*$") - 1)
            strict = among(folder, cores) || among(file, cores)
            if (!strict && !among(folder, others)) continue
            checked++
            split("", seen)
            follow(object, strict, "src/" file ".c")
        }
        print "purity: " checked + 0 " pure objects checked"
        exit bad
    }' || {
    echo "purity: refused, the chains above end in what a pure folder must not use" >&2
    status=1
}
exit $status
