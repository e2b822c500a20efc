#pragma once
namespace lra {
const char* program_version();  // "0.1.0"
const char* program_commit();   // "1a2b3c4d5e6f", with "-dirty" where the sources had changes
const char* build_type();       // "Release"
}  // namespace lra
