#include "bench/child.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/log.h"
#include "base/signals.h"

extern char** environ;

namespace lra {
namespace {

// Two connected ends. A socket, unlike a pipe, can be written to without a signal when nobody reads.
struct Ends {
  int ours = -1, its = -1;
  Ends() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      fail("bench", "no connection to another process: {}", std::strerror(errno));
    ours = ends[0], its = ends[1];
  }
};

void close_end(int& end) {
  if (end >= 0) close(end);
  end = -1;
}

int wait_for(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

Child::Child(const std::vector<std::string>& command) : name_(command.front()) {
  verbose("{}", fmt::join(command, " "));
  Ends in, out;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.its, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.its, STDOUT_FILENO);
  std::vector<char*> words;
  for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const int error = posix_spawnp(&process_, words.front(), &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close_end(in.its);
  close_end(out.its);
  input_ = in.ours, output_ = out.ours;
  if (error == 0) return;
  close_end(input_);
  close_end(output_);
  fail("bench", "cannot start {}: {}", name_, std::strerror(error));
}

Child::Child(Child&& other) noexcept
    : name_(std::move(other.name_)),
      unread_(std::move(other.unread_)),
      process_(std::exchange(other.process_, -1)),
      input_(std::exchange(other.input_, -1)),
      output_(std::exchange(other.output_, -1)) {}

Child::~Child() {
  if (process_ >= 0) {
    kill(process_, SIGTERM);  // before it finds that nobody listens, and says so
    wait_for(process_);
  }
  close_end(input_);
  close_end(output_);
}

bool Child::read_line(std::string& line) {
  char buffer[4096];
  size_t end;
  while ((end = unread_.find('\n')) == std::string::npos) {
    const ssize_t n = read(output_, buffer, sizeof(buffer));
    if (interrupted()) throw Interrupted("benchmark interrupted");
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    unread_.append(buffer, static_cast<size_t>(n));
  }
  line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return true;
}

bool Child::says(const std::string& line) {
  std::string found;
  while (read_line(found)) {
    if (found == line) return true;
  }
  return false;
}

void Child::tell(const std::string& line) {
  const std::string whole = line + "\n";
  // A process that has ended does not read; that shows in its result.
  [[maybe_unused]] const ssize_t sent = send(input_, whole.data(), whole.size(), MSG_NOSIGNAL);
}

std::optional<Json> Child::result() {
  close_end(input_);
  std::string line, last;
  while (read_line(line)) last = line.empty() ? last : line;
  if (!unread_.empty()) last = unread_;
  const int status = wait_for(std::exchange(process_, -1));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  return parse_json(last, name_);
}

}  // namespace lra
