// SIGINT and SIGTERM ask long work to save and stop; a second one ends the process at once.
#pragma once
namespace lra {
void catch_interrupts();
bool interrupted();
}  // namespace lra
