// The report: one HTML file that stands alone. No script, no request leaves the page; it reads well on a
// screen, on a phone, in the dark and on paper, and can go into a paper's supplement as it is.
#pragma once
#include <string>
#include <vector>

#include "runs/run_reader.h"

namespace lra {

std::string report_html(const std::vector<RunRecord>& runs);
void write_report(const std::vector<fs::path>& runs, const fs::path& out);

}  // namespace lra
