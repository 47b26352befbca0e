// metrics.jsonl: any file can be read and gone on with; the records up to the step stay, those after it go.
#include "reprise/io/run_log.h"

#include "reprise/tests/fuzz/fuzz.h"

using namespace reprise;

namespace {

std::vector<int64_t> steps_up_to(const std::string& path, int64_t last) {
  std::vector<int64_t> steps;
  for (const io::RunRecord& record : io::read_run_log(path))
    if (record.step <= last) steps.push_back(record.step);
  return steps;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  std::string path = fuzz::write("metrics.jsonl", fuzz::text_of(data, bytes));
  std::vector<int64_t> before = steps_up_to(path, 3);
  before.push_back(4);
  bool fine = fuzz::reads(bytes, [&] { io::RunLog::resume(path, 3).write(4, {{"loss", 1}}); });
  fuzz::require(fine, "a damaged log stands in the way");
  fuzz::require(steps_up_to(path, INT64_MAX) == before, "records were lost or came back");
  return 0;
}
