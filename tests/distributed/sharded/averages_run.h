// A run of WideNet whose weights are averaged, on ranks of any kind.
#pragma once

#include <memory>
#include <string>

#include "reprise/distributed/sharded/gather_averages.h"
#include "reprise/distributed/sharded/shared_tensors.h"
#include "reprise/tests/distributed/sharded/wide_net.h"

namespace reprise::testing {

/// On rank 0 the averages after each of three steps; on all of them then what an evaluation with them says.
inline std::string averages_of(distributed::ProcessGroup& group, const ShardedCase& c, int stage,
                               const distributed::BucketOptions& buckets) {
  constexpr int64_t micro_batches = 12;
  ShardedRun run(group, c, stage, buckets);
  std::unique_ptr<optim::Ema> ema;
  {
    const distributed::WholeWeights whole(run.parallel());
    ema = std::make_unique<optim::Ema>(run.net(), 0.75);
  }
  ema->follow_masters(run.optimizer());
  TextStream averages, lines;
  for (int step = 0; step < 3; ++step) {
    run.step(step, micro_batches);
    ema->update();
    const distributed::WholeWeights whole(run.parallel());
    distributed::SharedTensors(run.parallel(), ema.get()).read_on_rank_0([&](const distributed::WholeOf& of) {
      for (const auto& [name, x] : ema->state_dict()) averages << name << ' ' << checksum(of(x)) << '\n';
    });
    const optim::Ema::Scope look(*ema, distributed::whole_averages(run.parallel(), *ema));
    for (const auto& [name, x] : run.net().named_parameters()) lines << checksum(x) << '\n';
  }
  return averages.str() + lines.str() + run.step(3, micro_batches);  // a look has changed nothing
}

}  // namespace reprise::testing
