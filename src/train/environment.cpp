// What env.json says of the machine and the program.
#include <ctime>
#include <sys/utsname.h>

#include <ATen/Parallel.h>
#include <torch/version.h>

#include "base/torch_compat.h"
#include "base/version.h"
#include "train/trainer.h"

namespace lra {

Json environment(const std::string& device, const std::vector<std::string>& command) {
  utsname host = {};
  uname(&host);
  char started[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(started, sizeof(started), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return {{"program", program_version()},
          {"commit", program_commit()},
          {"build", build_type()},
          {"torch", TORCH_VERSION},
          {"compiler", __VERSION__},
          {"device", device},
          {"device_name", device_name(parse_device(device))},
          {"host", host.nodename},
          {"system", fmt::format("{} {}", host.sysname, host.release)},
          {"threads", at::get_num_threads()},
          {"command", command},
          {"started", started}};
}

}  // namespace lra
