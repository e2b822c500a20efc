#include "base/signals.h"

#include <csignal>
#include <cstdlib>
#include <initializer_list>

namespace lra {
namespace {
volatile std::sig_atomic_t seen = 0;
void on_signal(int signal) {
  if (seen) std::_Exit(128 + signal);
  seen = 1;
}
}  // namespace

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

bool interrupted() { return seen != 0; }

}  // namespace lra
