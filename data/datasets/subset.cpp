#include "reprise/data/datasets/subset.h"

#include "reprise/core/error.h"
#include "reprise/core/random.h"
#include "reprise/data/draws.h"

namespace reprise::data {

Subset::Subset(std::shared_ptr<const Dataset> all, std::vector<uint32_t> indices)
    : all_(std::move(all)), indices_(std::move(indices)) {
  for (uint32_t index : indices_)
    check(index < all_->size(), "subset: there is no image ", index, " among ", all_->size());
}

std::pair<Subset, Subset> hold_out(const std::shared_ptr<const Dataset>& all, double fraction,
                                   uint64_t seed) {
  check(fraction > 0 && fraction < 1, "hold_out: needs a fraction in (0, 1), got ", fraction);
  std::vector<uint32_t> kept, held;
  for (int64_t i = 0; i < all->size(); ++i) {
    bool is_held = Draws(seed_for(Use::held_out, seed), uint64_t(i), 0, 1).chance(fraction);
    (is_held ? held : kept).push_back(uint32_t(i));
  }
  check(!kept.empty() && !held.empty(), "hold_out: of ", all->size(), " images ", held.size(),
        " are held out and ", kept.size(), " are left to train on");
  return {Subset(all, std::move(kept)), Subset(all, std::move(held))};
}

}  // namespace reprise::data
