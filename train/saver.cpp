// When to save again, and what to say.
#include "reprise/train/saver.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "reprise/train/finite.h"

namespace reprise::train {
namespace {

constexpr int last_tries = 5;
constexpr int64_t most_steps_between_tries = 64;

}  // namespace

Saver::Saver(SaverOptions options, int64_t saved_step, Tell tell)
    : options_(std::move(options)), saved_step_(saved_step), tell_(std::move(tell)) {}

std::string Saver::newest() const {
  return saved_step_ < 0 ? "nothing is saved"
                         : "the newest checkpoint is of step " + std::to_string(saved_step_);
}

void Saver::check_finite(const Checkpoint& checkpoint) const {
  if (auto bad = first_bad_tensor(checkpoint))
    fail("train: the update before step ", checkpoint.step, " made weights or state that are not finite; ",
         "first bad tensor: ", *bad, "; this step is not saved, ", newest());
}

void Saver::save(const Checkpoint& checkpoint) {
  std::string complaint = save_checkpoint(options_.run_folder, checkpoint, options_.keep);
  if (failures_ > 0) tell_("step " + std::to_string(checkpoint.step) + " is saved");
  saved_step_ = checkpoint.step;
  failures_ = 0;
  if (!complaint.empty() && complaint != last_complaint_)
    tell_("an old checkpoint cannot be removed: " + complaint);
  last_complaint_ = complaint;
}

void Saver::try_to_save(const Checkpoint& checkpoint) {
  check_finite(checkpoint);
  try {
    save(checkpoint);
  } catch (const Error& error) {
    if (failures_ == 0)
      tell_(detail::join("step ", checkpoint.step, " is not saved, which is tried again: ", error.what()));
    // The growing distance keeps a disk that stays full from taking up the time of training.
    next_try_ =
        checkpoint.step + std::min(most_steps_between_tries, int64_t(1) << std::min<int64_t>(failures_, 6));
    ++failures_;
  }
}

void Saver::save_last(const Checkpoint& checkpoint) {
  check_finite(checkpoint);
  auto wait = std::chrono::duration<double>(options_.retry_seconds);
  for (int left = last_tries - 1;; --left, wait *= 2) {
    try {
      return save(checkpoint);
    } catch (const Error& error) {
      check(left > 0, "train: step ", checkpoint.step, " is not saved, after ", last_tries,
            " tries: ", error.what(), "; ", newest());
      if (failures_++ == 0)
        tell_(detail::join("step ", checkpoint.step, " is not saved, which is tried ", left,
                           " times more: ", error.what()));
    }
    std::this_thread::sleep_for(wait);
  }
}

}  // namespace reprise::train
