// Runs the real program, for end-to-end tests.
#pragma once
#include <csignal>
#include <cstdio>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "base/file.h"

namespace lra {

struct Outcome {
  int exit_code = -1;
  std::string out, err;
};

// A started program; its output goes to files in `folder`.
class Process {
 public:
  Process(const std::vector<std::string>& arguments, const fs::path& folder)
      : out_(folder / "stdout.txt"), err_(folder / "stderr.txt") {
    pid_ = fork();
    if (pid_ == 0) {
      if (chdir(folder.c_str()) != 0 || !freopen(out_.c_str(), "w", stdout) ||
          !freopen(err_.c_str(), "w", stderr))
        _exit(99);
      std::vector<char*> argv;
      for (const auto& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(98);
    }
  }
  void signal(int number) const { kill(pid_, number); }
  Outcome wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    Outcome o;
    o.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    o.out = read_text(out_);
    o.err = read_text(err_);
    return o;
  }

 private:
  fs::path out_, err_;
  pid_t pid_ = -1;
};

inline Outcome run_lra(const std::vector<std::string>& arguments, const fs::path& folder) {
  std::vector<std::string> all = {LRA_PROGRAM};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return Process(all, folder).wait();
}

}  // namespace lra
