// The parts of the report, in the order of the page. Each takes all runs and gives HTML; a part with nothing
// to say is empty.
#pragma once
#include <string>
#include <vector>

#include "report/html.h"
#include "runs/run_reader.h"

namespace lra {

using RunRecords = std::vector<RunRecord>;

Html results_section(const RunRecords& runs);  // a table for each protocol
Html curves_section(const RunRecords& runs);   // a figure for each protocol and task
Html groups_section(const RunRecords& runs);   // accuracy by group, where the task has groups
Html runs_section(const RunRecords& runs);     // environment, command and configuration of each run

// Runs whose numbers may stand beside each other: one protocol, one task, one version and variant of it.
struct RunGroup {
  std::string title;  // "listops", with version and variant where they say something
  std::string protocol;
  std::vector<const RunRecord*> runs;
  std::vector<std::string> labels;  // of the runs: the shortest that tells them apart
};
std::vector<RunGroup> comparable_runs(const RunRecords& runs);

// Protocols in the order of the page; what each of them fixes.
std::vector<std::string> report_protocols(const RunRecords& runs);
std::string protocol_title(const std::string& protocol);
std::string protocol_text(const std::string& protocol);

std::string run_anchor(const RunRecords& runs, const RunRecord& run);  // id of the run's part of the page

}  // namespace lra
