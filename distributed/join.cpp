// Joining the world that the launcher's variables describe.
#include "reprise/distributed/environment.h"
#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/distributed/hub/token.h"
#include "reprise/distributed/process_group.h"
#include "reprise/distributed/wait_notices.h"

namespace reprise::distributed {

std::unique_ptr<ProcessGroup> ProcessGroup::join(const GroupOptions& options) {
  check_times(options);  // before others meet a rank that would refuse them then
  const Environment environment = read_environment(process_variables());
  if (environment.ranks == 1) return alone(options);
  if (options.device.is_cuda())
    check_no_tls(
        options.tls,
        "NCCL, which moves what lies on GPUs, does not encrypt it; use a private network or WireGuard");
  try {
    auto world = over(connect_gloo(environment, {.timeout = options.timeout,
                                                 .peer_timeout = options.peer_timeout,
                                                 .token = take_token(options.token_file),
                                                 .bind = options.bind,
                                                 .tls = options.tls,
                                                 .tell = options.tell ? options.tell : tell_standard_error}),
                      options);
    if (options.device.is_cuda()) world->barrier();  // throws where the ranks' GPUs have not met
    return world;
  } catch (const TransportError& error) {
    throw DistributedError(error.failure(), {"join", 0, "world", ""}, 0);
  }
}

}  // namespace reprise::distributed
