#include "report/sections.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

namespace lra {
namespace {

struct ProtocolInfo {
  const char *name, *text;
};
constexpr std::array<ProtocolInfo, 6> kProtocols = {{
    {"lra", "Sizes and schedule of the Long Range Arena paper's appendix; no augmentation, no extra data."},
    {"lra-code", "Sizes and schedule of the configurations released with the Long Range Arena."},
    {"scratch", "Techniques and sizes of “You Can Train from Scratch”."},
    {"pretrain", "Denoising self-pretraining on the task's own data, then fine-tuning."},
    {"open", "Free choice of sizes, schedule and data; comparable only where the configurations say so."},
    {"tiny",
     "A small model on small data for minutes on a CPU: it shows that everything works. These numbers are "
     "not "
     "comparable with published ones, nor with those of any other protocol."},
}};

size_t protocol_order(const std::string& name) {
  for (size_t i = 0; i < kProtocols.size(); ++i) {
    if (name == kProtocols[i].name) return i;
  }
  return kProtocols.size();
}

using Label = std::string (*)(const RunRecord&);

bool all_different(const std::vector<const RunRecord*>& runs, Label label) {
  std::set<std::string> seen;
  for (const RunRecord* run : runs) seen.insert(label(*run));
  return seen.size() == runs.size();
}

std::vector<std::string> shortest_labels(const std::vector<const RunRecord*>& runs) {
  constexpr Label kCandidates[] = {
      [](const RunRecord& r) { return r.model.empty() ? r.name : r.model; },
      [](const RunRecord& r) { return r.model + " s" + r.seed; },
      [](const RunRecord& r) { return r.name; },
      [](const RunRecord& r) { return r.folder.string(); },
  };
  Label chosen = kCandidates[3];
  for (const Label candidate : kCandidates) {
    if (!all_different(runs, candidate)) continue;
    chosen = candidate;
    break;
  }
  std::vector<std::string> labels;
  for (const RunRecord* run : runs) labels.push_back(chosen(*run));
  return labels;
}

using GroupKey = std::tuple<size_t, std::string, std::string, std::string, std::string>;

// An unfinished run does not know the version of its task yet; it belongs to a finished one of the same data.
GroupKey group_key(const RunRecord& run, const RunRecords& runs) {
  std::string version = run.task_version;
  for (const RunRecord& other : runs) {
    if (run.result || !version.empty() || !other.result) continue;
    const bool same =
        other.protocol == run.protocol && other.task == run.task && other.variant == run.variant;
    if (same) version = other.task_version;
  }
  return {protocol_order(run.protocol), run.protocol, run.task, version, run.variant};
}

}  // namespace

std::vector<RunGroup> comparable_runs(const RunRecords& runs) {
  std::map<GroupKey, std::vector<const RunRecord*>> sorted;
  for (const RunRecord& run : runs) sorted[group_key(run, runs)].push_back(&run);
  std::vector<RunGroup> groups;
  for (auto& [key, members] : sorted) {
    std::stable_sort(members.begin(), members.end(), [](const RunRecord* a, const RunRecord* b) {
      return std::tie(a->model, a->seed) < std::tie(b->model, b->seed);
    });
    const auto& [order, protocol, task, version, variant] = key;
    std::string title = task.empty() ? "unknown task" : task;
    if (!variant.empty() && variant != "default") title += ", variant " + variant;
    if (!version.empty()) title += ", version " + version;
    groups.push_back({title, protocol, members, shortest_labels(members)});
  }
  return groups;
}

std::vector<std::string> report_protocols(const RunRecords& runs) {
  std::vector<std::string> names;
  for (const RunGroup& group : comparable_runs(runs)) {
    if (names.empty() || names.back() != group.protocol) names.push_back(group.protocol);
  }
  return names;
}

std::string protocol_title(const std::string& protocol) {
  return protocol.empty() ? "Protocol not known" : "Protocol " + protocol;
}

std::string protocol_text(const std::string& protocol) {
  const size_t at = protocol_order(protocol);
  return at < kProtocols.size() ? kProtocols[at].text : "";
}

std::string run_anchor(const RunRecords& runs, const RunRecord& run) {
  return fmt::format("run-{}", &run - runs.data() + 1);
}

}  // namespace lra
