// lra: the Long Range Arena as one program. Verbs are in files of their own (cli/verb.h).
#include <cstdlib>
#include <string_view>
#include <unistd.h>

#include "cli/program.h"

namespace {

// Threads of the OpenMP runtime spin at barriers before they sleep. On a machine that is shared with other
// work that costs a factor of ten and more; spinning a few microseconds only costs nothing measurable on a
// quiet one. The runtime reads its settings when it is loaded, before main, so the verbs that compute start
// once more with the setting made.
void spin_less(int argc, char** argv) {
  if (argc < 2 || std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY")) return;
  const std::string_view verb = argv[1];
  if (verb != "train" && verb != "eval" && verb != "bench") return;
  setenv("GOMP_SPINCOUNT", "2000", 1);
  execv("/proc/self/exe", argv);  // goes on below where that is not possible
}

}  // namespace

int main(int argc, char** argv) {
  spin_less(argc, argv);
  return lra::run_program(argc, argv);
}
