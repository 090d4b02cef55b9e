# Turns data/symphony_model_zoo.csv (model,gpu,alpha_ms,beta_ms,beta_over_alpha,slo_ms) into rows of C for src/profile/zoo.c.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/data/symphony_model_zoo.csv)
file(STRINGS ${CMAKE_SOURCE_DIR}/data/symphony_model_zoo.csv _rows REGEX "^[A-Za-z0-9]+,[A-Za-z0-9]+,[0-9.]+,")
set(_c "")
foreach(_row ${_rows})
  string(REGEX REPLACE "^([^,]+),([^,]+),([^,]+),([^,]+),[^,]+,([^,]+)$" "    {\"\\1\", \"\\2\", \\3, \\4, \\5},\n" _line
         "${_row}")
  string(APPEND _c "${_line}")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/model_zoo.inc CONTENT "${_c}" @ONLY)
