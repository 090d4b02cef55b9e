# test.sh - ./run test: builds what the chosen tests need, runs them by one ctest, and says what was run and what was not. To be
# sourced by ../run after setup.sh. POSIX sh.

TESTS_ALL_MINUTES=90 # of ./run test --all on two cores, by the sum of its parts

test_usage() {
    cat <<END
Usage: ./run test [--all] [NAME]...
Runs what must pass before a change is believed (some twenty minutes on two cores, builds included): unit tests under
AddressSanitizer and UndefinedBehaviorSanitizer, those with threads under ThreadSanitizer, too, fuzz targets, simulations, and
end-to-end tests.

  --all    everything, at full length: long tests, soak and chaos, the end-to-end tests under sanitizers, fuzzing for minutes,
           simulations from their fixed seeds ($TESTS_ALL_MINUTES minutes)
  NAME     only tests whose names match one of these regular expressions: e2e/http, asan/unit/core, sim. Where no quick test
           matches, those of --all that do are run.

Environment: SYMPHONY_SEED=N: where drawn histories begin (else a number from the commit); SYMPHONY_LENGTH=P: how many, in per cent
(25; --all: 100); SYMPHONY_FUZZ_SECONDS=S: how long each target is fuzzed by --all (120).
END
}

# All builds' tests as one: ctest's file of a folder that has theirs below it. One run at a time in a tree, held on file
# descriptor 8.
tests_join() {
    mkdir -p build/test
    exec 8>build/test/lock
    flock -n 8 || {
        echo "run: another './run test' is under way in this tree; take another clone for a second one" >&2
        exit 1
    }
    : >build/test/CTestTestfile.cmake
    for preset in $PRESETS; do
        echo "subdirs(\"$PWD/build/$preset\")" >>build/test/CTestTestfile.cmake
    done
}

tests_listed() { # CTEST-OPTION...
    ctest --test-dir build/test -N "$@" | sed -n 's/^ *Test *#[0-9]*: //p'
}

# What the build of the first argument has to make for the tests on standard input.
targets_of() {
    sed -n "s|^$1/||p" | awk -F / '
        $1 == "unit" { print "unit_" $2 "_" $3; next }
        $1 == "sim" || $1 == "fuzz" { sub(/-whole$/, "", $2); print $1 "_" $2; next }
        $1 == "e2e" && $2 != "reproduce" { print "symphony\nsymphony-server\nbench_inside"; next } # e2e/serve runs all three
        { print "all" }' | sort -u
}

# NAME STATUS SECONDS of each test that ended.
results_of() { # LOG
    sed -n 's/^ *[0-9]*\/[0-9]* Test *#[0-9]*: \([^ ]*\) [ .]*\(\**[A-Za-z][A-Za-z ]*[a-z]\)[^0-9]*  *\([0-9.]*\) sec.*/\1|\2|\3/p' "$1"
}

tests_summed_up() { # LOG
    results_of "$1" >build/test/results
    echo
    echo "Ran, by build and kind:"
    awk -F '[/|]' '{ count[$1 "/" $2]++; seconds[$1 "/" $2] += $NF }
        END { for (kind in count) printf "  %-22s %4d tests %8.1f s\n", kind, count[kind], seconds[kind] }' build/test/results | sort
    echo "The slowest ten:"
    sort -t '|' -k 3 -rn build/test/results | head -n 10 | awk -F '|' '{ printf "  %-40s %8.1f s\n", $1, $3 }'
    echo "Left out:"
    grep -vxFf build/test/selected build/test/names | awk -F / '{ count[$1 "/" $2]++ }
        END { for (kind in count) printf "  %-22s %4d tests\n", kind, count[kind] }' | sort
    if [ -z "$all$names" ]; then
        long=$(SYMPHONY_BINARY=build/release/symphony build/venv/bin/python -B -m pytest -q -p no:cacheprovider --collect-only -m long tests/e2e | grep -c ::) || :
        echo "  $long tests marked long of files that were run end to end"
    fi
    awk '{ for (i = 2; i <= NF; i++) if ($i ~ /^skipped,?$/ && $(i - 1) ~ /^[0-9]+$/) count += $(i - 1) }
        END { if (count) print "  " count " tests that were skipped" }' build/test/Testing/Temporary/LastTest.log
    grep '|\*' build/test/results | while IFS='|' read -r name status seconds; do
        echo "$name: ${status#\*\*\*}. Its output: $PWD/build/logs/test.log. Repeat: SYMPHONY_SEED=$SYMPHONY_SEED ./run test ${all:+--all }'^$name\$'"
    done
}

run_tests() { # [--all] [NAME]...
    all= names=
    for arg; do
        case $arg in
        --all) all=yes ;;
        -h | --help) test_usage && return 0 ;;
        -*) echo "run: test has no option '$arg'; ./run test --help lists what it has" >&2 && exit 2 ;;
        *) names="$names${names:+|}$arg" ;;
        esac
    done
    began_s=$(date +%s)
    [ -z "$all" ] || [ -n "$names" ] ||
        say "all tests at full length take about $TESTS_ALL_MINUTES minutes on two cores$(sed 's/^/; the last time here: /; s/$/ minutes/' build/stamps/tests-all 2>/dev/null)"
    set_up $TEST_PACKAGES $CLIENT_PACKAGES $DEPLOY_PACKAGES
    set_up_perf_analyzer
    set_up_promtool
    set_up_etcd
    set_up_helm
    make_pipelines
    for preset in $PRESETS; do
        configure $preset
        logged "tests-$preset.log" "cmake could not look for the tests of build/$preset" cmake "build/$preset"
    done
    tests_join
    tests_listed >build/test/names # before the tests: a list puts ctest's log of what they said aside
    set -- -R "${names:-.}"
    [ -n "$all" ] || set -- "$@" -L quick
    tests_listed "$@" >build/test/selected
    if [ ! -s build/test/selected ] && [ -z "$all" ]; then
        all=yes
        set -- -R "$names"
        tests_listed "$@" >build/test/selected
    fi
    if [ ! -s build/test/selected ]; then
        echo "run: no test's name matches '$names'; 'ctest --test-dir build/test -N' lists them" >&2
        exit 2
    fi
    set_up_s=$(($(date +%s) - began_s)) times=
    for built in $PRESETS; do
        targets=$(targets_of $built <build/test/selected)
        [ -n "$targets" ] || continue
        build_began_s=$(date +%s)
        build $built $targets
        times="$times, build of $built $(($(date +%s) - build_began_s)) s"
    done
    unlock

    # Other histories for each commit, the same for everybody who has it.
    if [ -z "${SYMPHONY_SEED-}" ]; then
        commit=$(git rev-parse --short=7 HEAD 2>/dev/null | cut -c 1-7) || :
        SYMPHONY_SEED=$((0x${commit:-0} + 1))
    fi
    if [ -n "$all" ]; then
        SYMPHONY_LENGTH=${SYMPHONY_LENGTH-100} SYMPHONY_FUZZ_SECONDS=${SYMPHONY_FUZZ_SECONDS-120} SYMPHONY_TEST_ALL=1
        export SYMPHONY_FUZZ_SECONDS SYMPHONY_TEST_ALL
        timeout_s=3600
    else # models that tests load are measured though the machine is busy
        SYMPHONY_TEST_NICE=${SYMPHONY_TEST_NICE-0}
        export SYMPHONY_TEST_NICE
        timeout_s=1800
    fi
    SYMPHONY_LENGTH=${SYMPHONY_LENGTH-25}
    SYMPHONY_TEST_INSTALLED=1 # a test that lacks what set-up installs fails, and is not skipped
    export SYMPHONY_SEED SYMPHONY_LENGTH SYMPHONY_TEST_INSTALLED
    say "testing: $(wc -l <build/test/selected) tests; drawn histories begin at SYMPHONY_SEED=$SYMPHONY_SEED, $SYMPHONY_LENGTH % of their number"
    tests_began_s=$(date +%s)
    ctest --test-dir build/test -j $((5 * $(nproc))) --output-on-failure --timeout $timeout_s "$@" </dev/null 2>&1 8>&- |
        tee build/logs/test.log | grep -v --line-buffered '^ *Start *[0-9]*: '
    tests_summed_up build/logs/test.log
    echo "Times: set-up $set_up_s s$times, tests $(($(date +%s) - tests_began_s)) s, together $(($(date +%s) - began_s)) s"
    [ -z "$all" ] || [ -n "$names" ] || stamp_write tests-all $((($(date +%s) - began_s) / 60))
    passed=$(grep -c '|Passed|' build/test/results) || :
    echo "$passed passed, $(($(wc -l <build/test/selected) - passed)) failed"
    [ "$passed" -eq "$(wc -l <build/test/selected)" ]
}
