# The fuzz targets of tests/fuzz (see fuzz.h there), where there is a clang++ with libFuzzer: built with everything else,
# and each a CTest entry `fuzz/NAME` that runs for LRA_FUZZ_SECONDS, one on each core.
set(LRA_FUZZ_SECONDS 30 CACHE STRING "how long a fuzz target runs in CTest")
find_program(LRA_CLANGXX NAMES clang++ clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14)

if(LRA_CLANGXX AND NOT DEFINED LRA_FUZZER_WORKS)
  set(probe "${PROJECT_BINARY_DIR}/fuzz_probe.cpp")
  file(WRITE "${probe}" "extern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }\n")
  execute_process(COMMAND "${LRA_CLANGXX}" -fsanitize=fuzzer,address,undefined "${probe}" -o "${probe}.out"
    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(failed)
    set(LRA_FUZZER_WORKS OFF CACHE INTERNAL "")
  else()
    set(LRA_FUZZER_WORKS ON CACHE INTERNAL "")
  endif()
endif()
if(NOT LRA_FUZZER_WORKS)
  message(STATUS "the fuzz targets are not built: no clang++ with libFuzzer (apt-get install clang libclang-rt-14-dev)")
  return()
endif()

set(fuzz_build "${PROJECT_BINARY_DIR}/fuzz")
add_custom_target(lra_fuzz ALL
  COMMAND ${CMAKE_COMMAND} -S "${PROJECT_SOURCE_DIR}/tests/fuzz" -B "${fuzz_build}" -G "${CMAKE_GENERATOR}" -Wno-dev
          --log-level=WARNING -DCMAKE_CXX_COMPILER=${LRA_CLANGXX} -DCMAKE_BUILD_TYPE=None "-DLRA_WITHOUT=${LRA_WITHOUT}"
  COMMAND ${CMAKE_COMMAND} --build "${fuzz_build}"
  USES_TERMINAL VERBATIM COMMENT "fuzz targets")
file(GLOB fuzz_targets CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/*.cpp")
foreach(target ${fuzz_targets})
  get_filename_component(name "${target}" NAME_WE)
  add_test(NAME "fuzz/${name}" COMMAND "${PROJECT_SOURCE_DIR}/scripts/fuzz.sh" "${fuzz_build}" ${LRA_FUZZ_SECONDS} ${name})
  set_tests_properties("fuzz/${name}" PROPERTIES LABELS slow)
endforeach()
