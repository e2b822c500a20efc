// Downloads and imports in one go.
#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "data/download.h"
#include "tasks/task.h"

namespace lra {
namespace {

struct Wanted {
  Download download;
  std::vector<const Task*> tasks;
};

Wanted find_wanted(const GetRequest& request) {
  Wanted wanted;
  std::vector<std::string> known;
  for (const std::string& name : Registry<Task>::instance().names()) {
    const Task& task = find_task(name);
    const auto download = task.download();
    if (!download) continue;
    for (const std::string& each : {download->name, name}) {
      if (std::find(known.begin(), known.end(), each) == known.end()) known.push_back(each);
    }
    const bool by_name = request.name == download->name;
    if (!by_name && request.name != name) continue;
    const bool listed = std::find(request.tasks.begin(), request.tasks.end(), name) != request.tasks.end();
    if (request.tasks.empty() ? !by_name || download->by_default : listed) wanted.tasks.push_back(&task);
    wanted.download = *download;
  }
  if (wanted.download.name.empty()) {
    fail("data", "nothing to download is called '{}'. {}", request.name, suggestion(request.name, known));
  }
  if (wanted.tasks.empty()) {
    fail("data", "none of the tasks named with --task reads {}.", wanted.download.file);
  }
  return wanted;
}

// The file to import: one that is there, or downloaded now.
fs::path fetch(const fs::path& root, const GetRequest& request, const Download& download) {
  constexpr std::string_view kFile = "file://";
  const bool address = request.from.find("://") != std::string::npos && !request.from.starts_with(kFile);
  if (!request.from.empty() && !address) {
    return request.from.starts_with(kFile) ? request.from.substr(kFile.size()) : request.from;
  }
  const fs::path to = root / ".downloads" / download.file;
  std::error_code code;
  if (request.offline) {
    if (fs::exists(to, code)) return to;
    fail(
        "data",
        "{} is not there, and --offline forbids to fetch it. Bring the file {} from {} to this machine, then "
        "'lra data get {} --from FILE'.",
        to.string(), download.file, download.url, request.name);
  }
  fs::create_directories(to.parent_path(), code);
  if (code) fail("data", "{}: cannot make the folder: {}.", to.parent_path().string(), code.message());
  lra::download({.url = address ? request.from : download.url,
                 .to = to,
                 .sha256 = download.sha256,
                 .md5 = download.md5,
                 .expected_size = download.bytes});
  return to;
}

}  // namespace

std::vector<DataFolder> get_data(const fs::path& root, const GetRequest& request) {
  const Wanted wanted = find_wanted(request);
  const fs::path file = fetch(root, request, wanted.download);
  std::vector<DataFolder> folders;
  for (const Task* task : wanted.tasks) {
    info("{}: importing {}", task->name(), file.string());
    folders.push_back(import_data(*task, root, file, request.make));
  }
  return folders;
}

}  // namespace lra
