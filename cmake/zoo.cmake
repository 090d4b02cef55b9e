# Turns the published tables of data/ into rows of C: model_zoo.inc and zoo_prices.inc for src/core/data/zoo.c,
# query_sizes.inc for src/lab/scenario/query_size.c.

# A table's rows, without its comments and its header.
function(data_rows name rows)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/data/${name})
  file(STRINGS ${CMAKE_SOURCE_DIR}/data/${name} lines REGEX "^[^#]")
  list(POP_FRONT lines)
  set(${rows} "${lines}" PARENT_SCOPE)
endfunction()

# Appends to _zoo a model whose l(b) is given at some batches, and empties the two lists. MS() is a macro of the C code.
macro(zoo_points source model type slo_ms weights_mb load_ms)
  list(LENGTH _batches _count)
  list(JOIN _batches "," _batches)
  list(JOIN _latencies "),MS(" _latencies)
  string(APPEND _zoo "    {\"${model}\", \"${type}\", 0, 0, ${slo_ms}, \"${source}\", ${_count}, "
         "(const uint32_t[]){${_batches}}, (const int64_t[]){MS(${_latencies})}, ${weights_mb}, ${load_ms}},\n")
  set(_batches "")
  set(_latencies "")
endmacro()

# Reads a table with a row for each batch; the rows of a model on a type lie together. The arguments say which columns
# have the model, the type, the batch and the latency, in `unit` milliseconds. The SLO is in _slo_MODEL, if there is
# one.
macro(zoo_table source name model_at type_at batch_at latency_at unit)
  data_rows(${name} _rows)
  set(_last "")
  foreach(_row ${_rows} ",,,,,,,,")
    string(REPLACE "," ";" _row "${_row}")
    list(GET _row ${model_at} _model)
    list(GET _row ${type_at} _type)
    if(_last AND NOT "${_model}@${_type}" STREQUAL "${_last_model}@${_last_type}")
      if(NOT DEFINED _slo_${_last_model})
        set(_slo_${_last_model} 0)
      endif()
      zoo_points(${source} ${_last_model} ${_last_type} ${_slo_${_last_model}} 0 0)
    endif()
    set(_last yes)
    set(_last_model "${_model}")
    set(_last_type "${_type}")
    list(GET _row ${batch_at} _batch)
    list(GET _row ${latency_at} _latency)
    list(APPEND _batches ${_batch})
    list(APPEND _latencies "${_latency}*${unit}")
  endforeach()
  set(_batches "")
  set(_latencies "")
endmacro()

set(_zoo "")
set(_prices "")
set(_batches "")
set(_latencies "")

# Symphony: model,gpu,alpha_ms,beta_ms,beta_over_alpha,slo_ms
data_rows(symphony_model_zoo.csv _rows)
foreach(_row ${_rows})
  string(REGEX REPLACE "^([^,]+),([^,]+),([^,]+),([^,]+),[^,]+,([^,]+)$"
         "    {\"\\1\", \"\\2\", \\3, \\4, \\5, \"symphony\", 0, NULL, NULL, 0, 0},\n" _line "${_row}")
  string(APPEND _zoo "${_line}")
endforeach()

# Clockwork: model,input_kB,output_kB,weights_MB,transfer_ms,b1_ms,b2_ms,b4_ms,b8_ms,b16_ms. Its evaluation's SLO is 100 ms.
data_rows(clockwork_table1_v100.csv _rows)
foreach(_row ${_rows})
  string(REPLACE "," ";" _row "${_row}")
  list(GET _row 0 _model)
  list(GET _row 3 _weights_mb)
  list(GET _row 4 _load_ms)
  list(SUBLIST _row 5 5 _latencies)
  set(_batches 1 2 4 8 16)
  zoo_points(clockwork ${_model} V100 100 ${_weights_mb} ${_load_ms})
endforeach()

# Kairos: kind,name,value,unit, the targets and prices; instance,model,batch,n,exec_mean_ms,exec_p50_ms,exec_p99_ms,
# total_mean_ms,..., where total is the time of a query.
data_rows(kairos_config.csv _rows)
foreach(_row ${_rows})
  string(REPLACE "," ";" _row "${_row}")
  list(GET _row 0 _kind)
  list(GET _row 1 _name)
  list(GET _row 2 _value)
  if(_kind STREQUAL "price")
    string(APPEND _prices "    {\"${_name}\", ${_value}},\n")
  elseif(_kind STREQUAL "qos_p99")
    set(_slo_${_name} ${_value})
  endif()
endforeach()
zoo_table(kairos kairos_latency_profiles.csv 1 0 2 7 1)

# Nexus: model,gpu,batch,latency_mean_us,latency_std_us,memory_bytes, without SLOs; and the paper's worked example:
# model,batch,latency_ms,req_per_s,gpu.
zoo_table(nexus nexus_test_profiles_titanx.csv 0 1 2 3 1e-3)
set(_slo_A 200)
set(_slo_B 250)
set(_slo_C 250)
zoo_table(nexus-example nexus_sosp_table2.csv 0 4 1 2 1)

file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/model_zoo.inc CONTENT "${_zoo}" @ONLY)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/zoo_prices.inc CONTENT "${_prices}" @ONLY)

# Sizes of requests, for src/lab/scenario/query_size.c: system,name,component,probability,distribution,param1,param2,min,max
data_rows(query_size_distributions.csv _rows)
set(_parts "")
foreach(_row ${_rows})
  string(REGEX MATCH "^([^,]+),([^,]+),[^,]+,([^,]+),([^,]+),([^,]*),([^,]*),([0-9]+),([0-9]+)$" _ "${_row}")
  set(_part "${CMAKE_MATCH_3}, ${CMAKE_MATCH_4}, ${CMAKE_MATCH_5}, ${CMAKE_MATCH_6}, ${CMAKE_MATCH_7}, ${CMAKE_MATCH_8}")
  string(REPLACE "(conditional), uniform_int" "0, REDRAW" _part "${_part}")
  string(REPLACE ", , " ", 0, 0" _part "${_part}")
  string(REPLACE "uniform_int" "UNIFORM" _part "${_part}")
  string(REPLACE "lognormal" "LOGNORMAL" _part "${_part}")
  string(REPLACE "normal" "NORMAL" _part "${_part}")
  string(APPEND _parts "    {\"${CMAKE_MATCH_1}\", \"${CMAKE_MATCH_2}\", ${_part}},\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/query_sizes.inc CONTENT "${_parts}" @ONLY)
