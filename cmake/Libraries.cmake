# Libraries without which the program still builds, and says at run time what it cannot do: for a machine that has
# neither them nor a network. They are linked statically, so the program needs none of them where it runs.
#
#   lra_optional(NAME PACKAGES … HEADERS … [LIBRARIES …] SOURCES …)
#
# defines LRA_HAVE_NAME for those sources if every header and library is there.  -DLRA_WITHOUT="PNG;CURL" leaves out.
set(LRA_WITHOUT "" CACHE STRING "optional libraries to build without: ARCHIVE, PNG, CURL")

function(lra_optional name)
  cmake_parse_arguments(ARG "" "" "PACKAGES;HEADERS;LIBRARIES;SOURCES" ${ARGN})
  set(missing "")
  foreach(header ${ARG_HEADERS})
    string(MAKE_C_IDENTIFIER "LRA_INCLUDE_${header}" variable)
    find_path(${variable} ${header})
    mark_as_advanced(${variable})
    if(NOT ${variable})
      list(APPEND missing ${header})
    endif()
  endforeach()
  set(libraries "")
  foreach(library ${ARG_LIBRARIES})
    string(MAKE_C_IDENTIFIER "LRA_STATIC_${library}" variable)
    find_library(${variable} ${library})
    mark_as_advanced(${variable})
    if(${variable})
      list(APPEND libraries "${${variable}}")
    else()
      list(APPEND missing ${library})
    endif()
  endforeach()
  if(name IN_LIST LRA_WITHOUT)
    message(STATUS "built without ${name}, as asked")
  elseif(missing)
    list(JOIN missing " " what)
    list(JOIN ARG_PACKAGES " " packages)
    message(STATUS "built without ${name}: ${what} not found (apt-get install ${packages})")
  else()
    get_filename_component(root "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/.." ABSOLUTE)
    list(TRANSFORM ARG_SOURCES PREPEND "${root}/")
    set_property(SOURCE ${ARG_SOURCES} APPEND PROPERTY COMPILE_DEFINITIONS "LRA_HAVE_${name}")
    target_link_libraries(lra_options INTERFACE ${libraries})
  endif()
endfunction()

lra_optional(ARCHIVE
  PACKAGES libarchive-dev zlib1g-dev liblzma-dev libzstd-dev libbz2-dev
  HEADERS archive.h zlib.h lzma.h zstd.h bzlib.h
  LIBRARIES libarchive.a liblzma.a libzstd.a libbz2.a libz.a
  SOURCES src/data/archive.cpp src/data/gunzip.cpp tests/support/pack.cpp)
lra_optional(PNG
  PACKAGES libpng-dev zlib1g-dev
  HEADERS png.h
  LIBRARIES libpng16.a libz.a
  SOURCES src/data/png.cpp)
# libcurl is loaded at run time (src/data/http.cpp); only its header is needed here.
lra_optional(CURL
  PACKAGES libcurl4-openssl-dev
  HEADERS curl/curl.h
  SOURCES src/data/http.cpp)
