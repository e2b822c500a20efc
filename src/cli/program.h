#pragma once
namespace lra {
// Exit codes: 0 done, 1 the user's mistake, 2 ours, 3 a reproduction outside its band, 130 interrupted with
// the checkpoint saved.
int run_program(int argc, char** argv);
}  // namespace lra
