# Finds llhttp: LLHTTP_ROOT, then build/llhttp (where ./run puts it on a Debian that has no package of it), then the
# system's. Gives LLHTTP::LLHTTP.
set(_roots ${LLHTTP_ROOT} ${CMAKE_SOURCE_DIR}/build/llhttp)
find_path(LLHTTP_INCLUDE_DIR llhttp.h HINTS ${_roots} PATH_SUFFIXES include)
find_library(LLHTTP_LIBRARY NAMES libllhttp.a llhttp HINTS ${_roots} PATH_SUFFIXES lib lib64)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LLHTTP REQUIRED_VARS LLHTTP_LIBRARY LLHTTP_INCLUDE_DIR)
if(LLHTTP_FOUND AND NOT TARGET LLHTTP::LLHTTP)
  add_library(LLHTTP::LLHTTP UNKNOWN IMPORTED)
  set_target_properties(LLHTTP::LLHTTP PROPERTIES
    IMPORTED_LOCATION ${LLHTTP_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${LLHTTP_INCLUDE_DIR})
endif()
