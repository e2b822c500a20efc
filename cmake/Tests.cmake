# One test program for everything (one link), one CTest entry for each test file: the suites of a file are read out of it,
# so a new tests/ROOM/NAME_test.cpp is picked up by itself.
#
# Labels: `gpu` for NAME_gpu_test.cpp, `slow` for files with the line `// label: slow`, `fast` for all others.
function(lra_add_tests target)
  foreach(file ${ARGN})
    file(STRINGS "${file}" lines REGEX "^(TEST|TEST_F|TEST_P|INSTANTIATE_TEST_SUITE_P)\\(")
    set(suites "")
    foreach(line ${lines})
      string(REGEX REPLACE "^(TEST|TEST_F|TEST_P)\\(([A-Za-z0-9_]+),.*" "\\2" suite "${line}")
      if(line MATCHES "^TEST_P\\(" OR line MATCHES "^INSTANTIATE")
        string(REGEX REPLACE "^[A-Z_]+\\(([A-Za-z0-9_]+), *([A-Za-z0-9_]+).*" "\\1;\\2" pair "${line}")
        if(line MATCHES "^TEST_P\\(")
          list(GET pair 0 suite)
          set(suite "*/${suite}")
        else()
          continue()
        endif()
      endif()
      list(APPEND suites "${suite}.*")
    endforeach()
    list(REMOVE_DUPLICATES suites)
    list(JOIN suites ":" filter)
    file(RELATIVE_PATH name "${PROJECT_SOURCE_DIR}" "${file}")
    string(REGEX REPLACE "^(tests|src)/" "" name "${name}")
    string(REGEX REPLACE "_test\\.cpp$" "" name "${name}")
    add_test(NAME "${name}" COMMAND ${target} "--gtest_filter=${filter}")
    file(STRINGS "${file}" slow REGEX "^// label: slow")
    if(name MATCHES "_gpu$")
      set(label gpu)
      # Skipped is a file of which nothing ran; the pattern reaches to the end, where failures would be listed.
      set_tests_properties("${name}" PROPERTIES
        SKIP_REGULAR_EXPRESSION "PASSED  . 0 tests.\n(.  SKIPPED .[^\n]*\n)+$")
    elseif(slow)
      set(label slow)
    else()
      set(label fast)
    endif()
    # The environment is what the program sets for itself (src/cli/main.cpp). An entry has all cores: it takes them
    # itself, and some of what it tests depends on time.
    set_tests_properties("${name}" PROPERTIES LABELS ${label} ENVIRONMENT "GOMP_SPINCOUNT=2000" RUN_SERIAL ON)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  endforeach()
endfunction()
