// Offloading for the CPU: a spill file. Writing ends in the system's page cache, and so does reading ahead.
#include <chrono>

#include "reprise/autograd/recompute/offload/offloaded_storage.h"
#include "reprise/autograd/recompute/offload/spill_file.h"
#include "reprise/core/no_compute.h"

namespace reprise::recompute {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class SpilledStorage final : public OffloadedStorage {
 public:
  SpilledStorage(std::shared_ptr<SpillFile> file, SpillFile::Extent extent, bool is_written,
                 MemoryCategory category, std::shared_ptr<OffloadTally> tally)
      : OffloadedStorage(size_t(extent.bytes), category, std::move(tally)),
        file_(std::move(file)),
        extent_(extent),
        is_written_(is_written) {}
  ~SpilledStorage() override { file_->release(extent_); }

 private:
  void begin_read() override { file_->prefetch(extent_); }

  Tensor end_read() override {
    auto start = std::chrono::steady_clock::now();
    Tensor bytes =
        is_written_ ? Tensor::empty({extent_.bytes}, DType::u8) : Tensor::zeros({extent_.bytes}, DType::u8);
    if (is_written_ && !NoCompute::is_on()) file_->read(extent_, bytes.view().data);
    tally().change([&](OffloadStats& stats) {
      stats.seconds_waited += seconds_since(start);
      stats.read_bytes += uint64_t(extent_.bytes);
    });
    return bytes;
  }

  std::shared_ptr<SpillFile> file_;
  SpillFile::Extent extent_;
  const bool is_written_;  // what was put within a NoCompute has no values
};

class SpillBackend final : public OffloadBackend {
 public:
  SpillBackend(std::filesystem::path folder, std::shared_ptr<OffloadTally> tally)
      : file_(std::make_shared<SpillFile>(std::move(folder))), tally_(std::move(tally)) {}

  std::shared_ptr<OffloadedStorage> put(const Tensor& bytes) override {
    auto start = std::chrono::steady_clock::now();
    const bool is_written = !NoCompute::is_on();
    const auto count = size_t(bytes.numel());
    SpillFile::Extent extent = is_written ? file_->write(bytes.view().data, count) : file_->reserve(count);
    tally_->change([&](OffloadStats& stats) { stats.seconds_waited += seconds_since(start); });
    return std::make_shared<SpilledStorage>(file_, extent, is_written, bytes.storage()->category(), tally_);
  }
  void settle(size_t) override {}  // it is written, and nothing here holds it
  size_t reserved_bytes() const override { return size_t(file_->size()); }

 private:
  std::shared_ptr<SpillFile> file_;
  std::shared_ptr<OffloadTally> tally_;
};

}  // namespace

std::shared_ptr<OffloadBackend> make_spill_backend(std::filesystem::path folder,
                                                   std::shared_ptr<OffloadTally> tally) {
  return std::make_shared<SpillBackend>(std::move(folder), std::move(tally));
}

}  // namespace reprise::recompute
