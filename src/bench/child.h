// Measurements in processes of their own: PyTorch's, and those that leave a process changed.
#pragma once
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/json.h"

namespace lra {

// A command that runs beside this process; whoever drops it ends it. Its stderr is ours. Waiting for it ends
// with an exception when this process is interrupted.
//
//   Child peer({"python3", "peer.py", "--wait"});
//   if (peer.says("ready")) peer.tell("go");
//   const std::optional<Json> measured = peer.result();
class Child {
 public:
  explicit Child(const std::vector<std::string>& command);
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;

  bool says(const std::string& line);  // waits for this line among its output; false if it ended without
  void tell(const std::string& line);
  // Waits for its end. The JSON document in the last line that it wrote to stdout; nothing if it failed,
  // having said why on stderr.
  std::optional<Json> result();

 private:
  bool read_line(std::string& line);

  std::string name_, unread_;
  pid_t process_ = -1;
  int input_ = -1, output_ = -1;  // our ends of its stdin and stdout
};

inline std::optional<Json> run_for_json(const std::vector<std::string>& command) {
  return Child(command).result();
}

}  // namespace lra
