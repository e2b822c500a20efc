#include "base/version.h"

#include "commit.h"

namespace lra {
const char* program_version() { return LRA_VERSION; }
const char* program_commit() { return LRA_COMMIT; }
const char* build_type() { return LRA_BUILD_TYPE; }
}  // namespace lra
