# Compiler flags for Reprise's own code: warnings are errors, and the sanitizers that REPRISE_SANITIZE asks for.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(reprise_compiler INTERFACE)
# psabi and ignored-attributes speak of vector types, which Reprise passes between inlined functions only.
# contract=fast lets a * b + c be one rounding on every machine that has it; errno is never read after maths.
target_compile_options(reprise_compiler INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-psabi
                                                  -Wno-ignored-attributes -ffp-contract=fast -fno-math-errno
                                                  -fno-trapping-math)
if(PROJECT_IS_TOP_LEVEL)
  target_compile_options(reprise_compiler INTERFACE -Werror)
endif()
if(REPRISE_SANITIZE)
  add_compile_options(-fsanitize=${REPRISE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${REPRISE_SANITIZE})
endif()
