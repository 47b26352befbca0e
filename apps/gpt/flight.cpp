// What the ranks of a run have recorded of their calls.
#include "reprise/distributed/flight/flight.h"

#include "reprise/apps/gpt/options.h"
#include "reprise/distributed/flight/trace.h"
#include "reprise/io/atomic_file.h"
#include "reprise/train/output.h"

namespace reprise::apps::gpt {

int run_flight(const FlightCommand& command) {
  const std::string folder = command.run + "/flight";
  train::print_text(distributed::compare_records(folder));
  if (command.trace.empty()) return 0;
  io::write_file(command.trace, distributed::trace_of_records(folder));
  train::report("Written: {}\n", command.trace);
  return 0;
}

}  // namespace reprise::apps::gpt
