# Finds the C header and the library of ONNX Runtime: ONNXRUNTIME_ROOT, then build/onnxruntime (where ./run puts them),
# then the system's packages. Gives ONNXRuntime::ONNXRuntime.
set(_roots ${ONNXRUNTIME_ROOT} ${CMAKE_SOURCE_DIR}/build/onnxruntime)
find_path(ONNXRuntime_INCLUDE_DIR onnxruntime_c_api.h
          HINTS ${_roots} PATH_SUFFIXES include include/onnxruntime onnxruntime include/onnxruntime/core/session)
find_library(ONNXRuntime_LIBRARY NAMES onnxruntime libonnxruntime.so.1 HINTS ${_roots} PATH_SUFFIXES lib lib64)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ONNXRuntime REQUIRED_VARS ONNXRuntime_LIBRARY ONNXRuntime_INCLUDE_DIR)
if(ONNXRuntime_FOUND AND NOT TARGET ONNXRuntime::ONNXRuntime)
  add_library(ONNXRuntime::ONNXRuntime SHARED IMPORTED)
  set_target_properties(ONNXRuntime::ONNXRuntime PROPERTIES
    IMPORTED_LOCATION ${ONNXRuntime_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${ONNXRuntime_INCLUDE_DIR})
endif()
