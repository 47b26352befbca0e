// When to save again, and what to say.
#include "reprise/train/saver.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "reprise/autograd/grad_mode.h"
#include "reprise/core/memory.h"
#include "reprise/io/file_calls.h"
#include "reprise/train/finite.h"
#include "reprise/train/option_error.h"
#include "reprise/train/phase.h"

namespace reprise::train {
namespace {

constexpr int last_tries = 5;
constexpr int64_t most_steps_between_tries = 64;

// What training does to its tensors from now on, this does not see.
Checkpoint host_copy(const Checkpoint& given) {
  NoGrad guard;
  const MemoryScope scope(MemoryCategory::workspace);
  auto copy = [](const nn::NamedTensors& tensors, const distributed::WholeOf& whole) {
    nn::NamedTensors copies;
    for (const auto& [name, x] : tensors) {
      const Tensor now = whole(x);
      copies.emplace_back(
          name, now.device().is_cpu() && now.is_same(x) ? x.detach().clone() : now.to(Device::cpu()));
    }
    return copies;
  };
  // First, and by reference, as in write_parts.
  nn::NamedTensors parameters, ema;
  auto read = [&](const distributed::WholeOf& whole) {
    parameters = copy(given.parameters, whole);
    ema = copy(given.ema, whole);
  };
  read_on_rank_0(given, std::ref(read));
  Checkpoint checkpoint = given;
  checkpoint.shared = nullptr;
  if (given.rank == 0) checkpoint.parameters = std::move(parameters), checkpoint.ema = std::move(ema);
  const auto itself = [](const Tensor& x) { return x; };
  checkpoint.optimizer = copy(given.optimizer, itself);
  checkpoint.loss_scale = copy(given.loss_scale, itself);
  return checkpoint;
}

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

int64_t Saver::saved_step() {
  settle();
  return saved_step_;
}

bool Saver::wants_another_try(int64_t step) const { return failures_ > 0 && step >= next_try_; }

bool Saver::is_writing() const {
  return writing_ && writing_->written.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

void Saver::try_to_save(const Checkpoint& checkpoint) {
  settle();
  check_finite(checkpoint);
  try {
    if (options_.is_async) return write_behind(checkpoint);
    note_saved(checkpoint.step, save(checkpoint));
  } catch (const Error& error) { note_failure(checkpoint.step, error); }
}

std::string Saver::save(const Checkpoint& checkpoint) const {
  try {
    Save save(options_.run_folder, checkpoint.step, options_.keep, options_.group);
    return save.finish(save.write(checkpoint));
  } catch (const std::bad_alloc&) { throw OutOfMemory("out of memory that no tensor holds"); }
}

void Saver::write_behind(const Checkpoint& checkpoint) {
  Checkpoint copy;
  auto save =
      std::make_unique<Save>(options_.run_folder, checkpoint.step, options_.keep, options_.group,
                             [&] { copy = in_phase(Phase::saving, [&] { return host_copy(checkpoint); }); });
  auto write = [&save = *save, copy = std::move(copy), &calls = io::file_calls()] {
    const io::FileCallsScope scope(calls);
    return in_phase(Phase::saving, [&] { return save.write(copy); });
  };
  std::future<std::string> written = std::async(std::launch::async, std::move(write));
  writing_.emplace(checkpoint.step, std::move(save), std::move(written));
}

void Saver::settle() {
  if (!writing_) return;
  Writing done = std::move(*writing_);
  writing_.reset();
  try {
    note_saved(done.step, done.save->finish(done.written.get()));
  } catch (const Error& error) { note_failure(done.step, error); }
}

void Saver::note_saved(int64_t step, const std::string& complaint) {
  if (failures_ > 0) tell_("step " + std::to_string(step) + " is saved");
  saved_step_ = step;
  failures_ = 0;
  if (!complaint.empty() && complaint != last_complaint_)
    tell_("an old checkpoint cannot be removed: " + complaint);
  last_complaint_ = complaint;
}

// Within a catch. Ranks try a save again together: what not all of them know of is the end of this one.
void Saver::note_failure(int64_t step, const Error& error) {
  if (ends_rank(error)) throw;
  if (failures_ == 0)
    tell_(reprise::detail::join("step ", step, " is not saved, which is tried again: ", error.what()));
  // The growing distance keeps a disk that stays full from taking up the time of training.
  next_try_ = step + std::min(most_steps_between_tries, int64_t(1) << std::min<int64_t>(failures_, 6));
  ++failures_;
}

bool Saver::ends_rank(const Error& error) const {
  return options_.group && !dynamic_cast<const SaveError*>(&error);
}

// Where this one's part was well, the rank at fault ends the run.
void Saver::hear_of_other_rank(const Error& error) const {
  const auto* failed = dynamic_cast<const SaveError*>(&error);
  if (failed && failed->rank() != options_.group->rank()) options_.group->barrier();
}

void Saver::save_last(const Checkpoint& checkpoint) {
  settle();
  check_finite(checkpoint);
  auto wait = std::chrono::duration<double>(options_.retry_seconds);
  for (int left = last_tries - 1;; --left, wait *= 2) {
    try {
      return note_saved(checkpoint.step, save(checkpoint));
    } catch (const Error& error) {
      if (ends_rank(error)) throw;
      if (left == 0) {
        hear_of_other_rank(error);
        detail::throw_as(
            error, reprise::detail::join("train: step ", checkpoint.step, " is not saved, after ", last_tries,
                                         " tries: ", error.what(), "; ", newest()));
      }
      if (failures_++ == 0)
        tell_(reprise::detail::join("step ", checkpoint.step, " is not saved, which is tried ", left,
                                    " times more: ", error.what()));
    }
    std::this_thread::sleep_for(wait);
  }
}

}  // namespace reprise::train
