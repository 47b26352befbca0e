// Checkpoints: whole or not there. Every file call made to fail or to be the last in turn, every file
// damaged.
#include "reprise/train/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <set>
#include <utility>

#include "reprise/io/file_calls.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/compare.h"

namespace reprise::train {
namespace {

using testing::same_bits;
using testing::TempFolder;
namespace fs = std::filesystem;

// A checkpoint whose every value tells its step.
/// `all`: with averages and a loss scale.
Checkpoint at_step(int64_t step, bool all = false) {
  auto value = [&](double offset, const Shape& shape) {
    std::vector<float> values(size_t(numel_of(shape)), float(double(step) + offset));
    return Tensor::from(values, shape);
  };
  Checkpoint checkpoint{
      .step = step,
      .random = {uint64_t(step) << 40, ~uint64_t(step)},
      .model = {{"width", "16"}, {"note", "a \"quoted\" word"}},
      .parameters = {{"b", value(0.25, {3, 5})}, {"a", value(0.5, {7})}},
      .optimizer = {{"0.first_moment", value(0.125, {3, 5})}, {"steps", Tensor::from<int64_t>({step}, {1})}}};
  if (!all) return checkpoint;
  checkpoint.ema = {{"b", value(0.75, {3, 5})}, {"a", value(0.875, {7})}};
  checkpoint.loss_scale = {{"scale", value(4, {})}, {"good", Tensor::from<int32_t>({3}, {1})}};
  return checkpoint;
}

void expect_same_tensors(const nn::NamedTensors& got, const nn::NamedTensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want) {
    auto found =
        std::find_if(got.begin(), got.end(), [&, &key = name](auto& entry) { return entry.first == key; });
    ASSERT_NE(found, got.end()) << name;
    EXPECT_TRUE(same_bits(found->second, tensor)) << name;
  }
}

void expect_same(const Checkpoint& got, const Checkpoint& want) {
  EXPECT_EQ(got.step, want.step);
  EXPECT_TRUE(got.random == want.random);
  EXPECT_EQ(got.model, want.model);
  expect_same_tensors(got.parameters, want.parameters);
  expect_same_tensors(got.optimizer, want.optimizer);
  expect_same_tensors(got.ema, want.ema);
  expect_same_tensors(got.loss_scale, want.loss_scale);
}

std::set<std::string> entries(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}
using Names = std::set<std::string>;

TEST(Checkpoint, ComesBackAsItWasSaved) {
  for (bool ema : {false, true}) {
    TempFolder run;
    EXPECT_FALSE(has_checkpoint(run.path()));
    Checkpoint saved = at_step(12, ema);
    save_checkpoint(run.path(), saved, 2);
    EXPECT_TRUE(has_checkpoint(run.path()));
    expect_same(load_checkpoint(run.path(), true), saved);
    expect_same(load_checkpoint(run / "checkpoints/step-00000012", true), saved);
    saved.optimizer.clear(), saved.loss_scale.clear();
    expect_same(load_checkpoint(run.path(), false), saved);
  }
}

TEST(Checkpoint, ASafetensorsFileGivesItsWeights) {
  TempFolder run;
  save_checkpoint(run.path(), at_step(12), 2);
  Checkpoint loaded = load_checkpoint(run / "checkpoints/step-00000012/model.safetensors", true);
  expect_same_tensors(loaded.parameters, at_step(12).parameters);
  EXPECT_TRUE(loaded.model.empty() && loaded.optimizer.empty());
}

TEST(Checkpoint, KeepsTheNewestOnes) {
  TempFolder run;
  for (int64_t step : {1, 5, 99, 100, 12345678}) save_checkpoint(run.path(), at_step(step), 3);
  EXPECT_EQ(entries(run / "checkpoints"),
            (Names{"LATEST", "step-00000099", "step-00000100", "step-12345678"}));
  expect_same(load_checkpoint(run.path(), true), at_step(12345678));
  save_checkpoint(run.path(), at_step(12345679), 1);
  EXPECT_EQ(entries(run / "checkpoints"), (Names{"LATEST", "step-12345679"}));
}

// A crash between making a checkpoint and naming it the newest leaves one of a later step than LATEST's. A
// resumed run then saves earlier steps; rotation must not take those for the oldest.
TEST(Checkpoint, RotationNeverRemovesTheOneJustSaved) {
  for (int keep : {1, 2}) {
    TempFolder run;
    save_checkpoint(run.path(), at_step(5), keep);
    fs::copy(run / "checkpoints/step-00000005", run / "checkpoints/step-00000010");
    for (int64_t step : {7, 8, 9}) {
      save_checkpoint(run.path(), at_step(step), keep);
      expect_same(load_checkpoint(run.path(), true), at_step(step));
    }
    save_checkpoint(run.path(), at_step(10), keep);
    expect_same(load_checkpoint(run.path(), true), at_step(10));
  }
}

// What a user keeps beside the checkpoints is neither deleted nor counted, under whatever name.
TEST(Checkpoint, RotationRemovesOnlyWhatThisProgramMade) {
  TempFolder run;
  std::string folder = run / "checkpoints/";
  save_checkpoint(run.path(), at_step(10), 1);
  Names kept = {
      "step-00000010-best", "step-00000003", "step-4",      "step-00000005-again-1", "step-",
      "step-0000000x",      "step-00000006", "step-backup", ".unfinished-mine",      ".unfinished-step-1"};
  for (const std::string& name : kept) fs::copy(folder + "step-00000010", folder + name);
  for (std::string name : {"step-00000007", "step-00000008"}) {
    save_checkpoint(run.path(), at_step(name[12] - '0'), 1);
    run.write("checkpoints/" + name + "/KEEP", "");
    kept.insert(name);
  }
  fs::create_directory_symlink(folder + "step-00000010-best", folder + "step-00000002");
  kept.insert({"LATEST", "step-00000002"});
  for (int64_t step : {11, 12, 13}) {
    save_checkpoint(run.path(), at_step(step), 2);
    expect_same(load_checkpoint(run.path(), true), at_step(step));
  }
  kept.insert({"step-00000012", "step-00000013"});
  EXPECT_EQ(entries(run / "checkpoints"), kept);
}

TEST(Checkpoint, RotationCountsStepsAsNumbers) {
  TempFolder run;
  for (int64_t step : {99999999, 100000000, 100000001}) {
    save_checkpoint(run.path(), at_step(step), 2);
    expect_same(load_checkpoint(run.path(), true), at_step(step));
  }
  EXPECT_EQ(entries(run / "checkpoints"), (Names{"LATEST", "step-100000000", "step-100000001"}));
}

// A folder of the step to be saved that this program did not make, such as a copy of another step.
TEST(Checkpoint, AForeignFolderOfTheSameNameStays) {
  TempFolder run;
  save_checkpoint(run.path(), at_step(1), 1);
  fs::copy(run / "checkpoints/step-00000001", run / "checkpoints/step-00000002");
  run.write("checkpoints/step-00000003/notes", "mine");
  for (int64_t step : {2, 3}) {
    save_checkpoint(run.path(), at_step(step), 1);
    expect_same(load_checkpoint(run.path(), true), at_step(step));
  }
  EXPECT_EQ(entries(run / "checkpoints"),
            (Names{"LATEST", "step-00000002", "step-00000003", "step-00000003-again"}));
  expect_same_tensors(load_checkpoint(run / "checkpoints/step-00000002/model.safetensors", false).parameters,
                      at_step(1).parameters);
}

TEST(Checkpoint, WhatAnotherProcessIsWritingStays) {
  TempFolder run;
  std::string running = std::to_string(::getppid()), folder = run / "checkpoints/";
  for (const std::string& process : {running, std::string("2147483646")}) {
    run.write("checkpoints/.unfinished-step-00000002." + process + "/model.safetensors", "half");
    run.write("checkpoints/LATEST.tmp." + process + ".0", "half");
  }
  save_checkpoint(run.path(), at_step(3), 2);
  EXPECT_EQ(entries(run / "checkpoints"),
            (Names{"LATEST", "step-00000003", ".unfinished-step-00000002." + running,
                   "LATEST.tmp." + running + ".0"}));
}

// A first save that is killed between the last two of its steps.
TEST(Checkpoint, WithoutLatestTheNewestThatIsThereIsTaken) {
  TempFolder run;
  for (int64_t step : {9, 10}) save_checkpoint(run.path(), at_step(step), 2);
  fs::remove(run / "checkpoints/LATEST");
  EXPECT_TRUE(has_checkpoint(run.path()));
  expect_same(load_checkpoint(run.path(), true), at_step(10));
}

// A training run that saves and rotates just as another program reads: at the first call that opens the
// manifest.
class SavesMeanwhile : public io::FileCalls {
 public:
  explicit SavesMeanwhile(std::function<void()> save) : save_(std::move(save)) {}
  int open(const char* path, int flags, mode_t mode) override {
    if (save_ && std::string(path).ends_with("manifest.json")) std::exchange(save_, nullptr)();
    return io::FileCalls::open(path, flags, mode);
  }

 private:
  std::function<void()> save_;
};

TEST(Checkpoint, WhereTheNewestIsRotatedAwayMeanwhileTheNextIsRead) {
  TempFolder run;
  save_checkpoint(run.path(), at_step(1), 1);
  SavesMeanwhile calls([&] { save_checkpoint(run.path(), at_step(2), 1); });
  io::FileCallsScope scope(calls);
  expect_same(load_checkpoint(run.path(), true), at_step(2));
}

TEST(Checkpoint, AFolderThatHoldsAnotherStepThanItsNameSaysIsAnError) {
  TempFolder run;
  for (int64_t step : {1, 2}) save_checkpoint(run.path(), at_step(step), 2);
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "manifest.json"})
    fs::copy_file(run / "checkpoints/step-00000001/" + file, run / "checkpoints/step-00000002/" + file,
                  fs::copy_options::overwrite_existing);
  testing::expect_error([&] { load_checkpoint(run.path(), true); }, {"step-00000002", "step 1"});
}

// The first checkpoint may not be renamed, and so not removed.
class StubbornFirst : public io::FileCalls {
 public:
  int rename(const char* from, const char* to) override {
    errno = EACCES;
    return std::string(from).ends_with("step-00000001") ? -1 : FileCalls::rename(from, to);
  }
};

TEST(Checkpoint, WhatCannotBeRemovedIsToldAndIsNoError) {
  TempFolder run;
  save_checkpoint(run.path(), at_step(1), 1);
  StubbornFirst calls;
  io::FileCallsScope scope(calls);
  std::string told = save_checkpoint(run.path(), at_step(2), 1);
  EXPECT_NE(told.find("step-00000001"), std::string::npos) << told;
  EXPECT_NE(told.find("Permission denied"), std::string::npos) << told;
  expect_same(load_checkpoint(run.path(), true), at_step(2));
}

// Writing LATEST fails: the disk is full. The checkpoint that it would name must not take up the room there
// is.
struct NoLatest : io::FileCalls {
  int open(const char* path, int flags, mode_t mode) override {
    errno = ENOSPC;
    return std::string(path).find("LATEST.tmp") != std::string::npos ? -1
                                                                     : FileCalls::open(path, flags, mode);
  }
};

TEST(Checkpoint, OneThatLatestCannotNameIsRemovedAgain) {
  TempFolder run;
  save_checkpoint(run.path(), at_step(1), 1);
  NoLatest calls;
  io::FileCallsScope scope(calls);
  testing::expect_error([&] { save_checkpoint(run.path(), at_step(2), 1); }, {"LATEST", "errno 28"});
  EXPECT_EQ(entries(run / "checkpoints"), (Names{"LATEST", "step-00000001"}));
}

TEST(Checkpoint, AnUnfinishedOneIsIgnoredAndCleanedUp) {
  TempFolder run;
  save_checkpoint(run.path(), at_step(1), 2);
  run.write("checkpoints/.unfinished-step-00000002/model.safetensors", "half");
  expect_same(load_checkpoint(run.path(), true), at_step(1));
  save_checkpoint(run.path(), at_step(3), 2);
  EXPECT_EQ(entries(run / "checkpoints"), (Names{"LATEST", "step-00000001", "step-00000003"}));
}

TEST(Checkpoint, SavingAStepAgainReplacesIt) {
  TempFolder run;
  save_checkpoint(run.path(), at_step(3), 1);
  Checkpoint other = at_step(3, true);
  save_checkpoint(run.path(), other, 1);
  expect_same(load_checkpoint(run.path(), true), other);
  save_checkpoint(run.path(), at_step(4), 1);
  EXPECT_EQ(entries(run / "checkpoints"), (Names{"LATEST", "step-00000004"}));
}

// Call number `doomed` fails with EIO; or, as if the process died there, it and all after it do nothing at
// all.
class Faults : public io::FileCalls {
 public:
  struct Death {};
  Faults(int doomed, bool fatal) : doomed_(doomed), fatal_(fatal) {}
  int open(const char* path, int flags, mode_t mode) override {
    return fails() ? -1 : FileCalls::open(path, flags, mode);
  }
  ssize_t write(int descriptor, const void* data, size_t bytes) override {
    return fails() ? -1 : FileCalls::write(descriptor, data, std::min<size_t>(bytes, 100));
  }
  ssize_t pread(int descriptor, void* data, size_t bytes, off_t offset) override {
    return fails() ? -1 : FileCalls::pread(descriptor, data, bytes, offset);
  }
  int fsync(int descriptor) override { return fails() ? -1 : FileCalls::fsync(descriptor); }
  int close(int descriptor) override {
    int result = FileCalls::close(descriptor);  // also of a dead process; and it runs in destructors
    if (dead_) return result;
    bool failed = calls_++ == doomed_;
    dead_ = failed && fatal_;
    errno = EIO;
    return failed ? -1 : result;
  }
  int rename(const char* from, const char* to) override { return fails() ? -1 : FileCalls::rename(from, to); }
  int unlink(const char* path) override { return dead_ ? -1 : FileCalls::unlink(path); }
  bool reached() const { return calls_ > doomed_; }

 private:
  bool fails() {
    errno = EIO;
    if (dead_) throw Death();
    bool failed = calls_++ == doomed_;
    if (failed && fatal_) {
      dead_ = true;
      throw Death();
    }
    return failed;
  }
  int calls_ = 0, doomed_;
  bool fatal_, dead_ = false;
};

TEST(Checkpoint, AFailureOrDeathAtAnyFileCallLeavesOldOrNewWhole) {
  for (bool fatal : {false, true})
    for (int keep : {1, 2}) {
      for (int doomed = 0;; ++doomed) {
        TempFolder run;
        save_checkpoint(run.path(), at_step(1), keep);
        Faults faults(doomed, fatal);
        bool threw = false;
        try {
          io::FileCallsScope scope(faults);
          save_checkpoint(run.path(), at_step(2, true), keep);
        } catch (const Error& error) {
          threw = true;
          std::string message = error.what();
          EXPECT_NE(message.find(run.path()), std::string::npos) << message;
          EXPECT_NE(message.find("errno 5"), std::string::npos) << message;
        } catch (const Faults::Death&) { threw = true; }
        Checkpoint left = load_checkpoint(run.path(), true);
        expect_same(left, left.step == 1 ? at_step(1) : at_step(2, true));
        if (!threw) { EXPECT_EQ(left.step, 2) << "call " << doomed; }
        // Training goes on and tries again.
        save_checkpoint(run.path(), at_step(3), keep);
        expect_same(load_checkpoint(run.path(), true), at_step(3));
        for (const std::string& name : entries(run / "checkpoints"))
          EXPECT_TRUE(name == "LATEST" || name.starts_with("step-") || name.starts_with("LATEST.tmp."))
              << name;
        if (!faults.reached()) {
          EXPECT_GT(doomed, 20);  // four files of several calls each
          break;
        }
      }
    }
}

// Saving the newest step again: at no moment may LATEST name nothing.
TEST(Checkpoint, DyingWhileTheNewestIsSavedAgainLosesNothing) {
  for (int doomed = 0;; ++doomed) {
    TempFolder run;
    save_checkpoint(run.path(), at_step(2), 1);
    Faults faults(doomed, true);
    try {
      io::FileCallsScope scope(faults);
      save_checkpoint(run.path(), at_step(2, true), 1);
    } catch (const Faults::Death&) {
    } catch (const Error&) {}  // a failed close tells first
    Checkpoint left = load_checkpoint(run.path(), true);
    expect_same(left, at_step(2, !left.ema.empty()));
    if (!faults.reached()) break;
  }
}

std::string bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Checkpoint, ADamagedByteAnywhereIsAnErrorThatNamesTheFile) {
  TempFolder run;
  save_checkpoint(run.path(), at_step(12, true), 2);
  std::string folder = "checkpoints/step-00000012/";
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "ema.safetensors",
                           "loss_scale.safetensors", "manifest.json"}) {
    std::string whole = bytes_of_file(run / (folder + name));
    ASSERT_GT(whole.size(), 50u);
    for (size_t at = 0; at < whole.size(); at += at < 16 || at + 8 > whole.size() ? 1 : 7) {
      std::string damaged = whole;
      damaged[at] = char(damaged[at] ^ 4);
      run.write(folder + name, damaged);
      testing::expect_error([&] { load_checkpoint(run.path(), true); }, {run / folder});
    }
    run.write(folder + name, whole);
  }
  expect_same(load_checkpoint(run.path(), true), at_step(12, true));
}

TEST(Checkpoint, AMissingTruncatedOrLongerFileIsAnErrorThatNamesIt) {
  TempFolder run;
  save_checkpoint(run.path(), at_step(12, true), 2);
  std::string folder = "checkpoints/step-00000012/";
  for (std::string name : {"model.safetensors", "optimizer.safetensors", "ema.safetensors",
                           "loss_scale.safetensors", "manifest.json"}) {
    std::string whole = bytes_of_file(run / (folder + name));
    auto expect_refused = [&] {
      // Without its model file the folder is not recognised as a checkpoint, only as no run.
      std::vector<std::string> parts = {run.path()};
      if (fs::exists(run / (folder + name))) parts = {name};
      for (const std::string& part : parts)
        testing::expect_error([&] { load_checkpoint(run / folder, true); }, {part});
      testing::expect_error([&] { load_checkpoint(run.path(), true); }, {run.path()});
    };
    for (std::string other :
         {std::string(), whole.substr(0, whole.size() / 2), whole.substr(0, whole.size() - 3)}) {
      run.write(folder + name, other);
      expect_refused();
    }
    run.write(folder + name, whole + "x");
    expect_refused();
    fs::remove(run / (folder + name));
    expect_refused();
    run.write(folder + name, whole);
  }
}

TEST(Checkpoint, AFileThatTheManifestDoesNotListIsAnError) {
  TempFolder run;
  save_checkpoint(run.path(), at_step(12), 2);
  std::string folder = "checkpoints/step-00000012/";
  fs::copy_file(run / (folder + "model.safetensors"), run / (folder + "ema.safetensors"));
  testing::expect_error([&] { load_checkpoint(run.path(), true); }, {"ema.safetensors", "manifest"});
  fs::remove(run / (folder + "ema.safetensors"));
  run.write(folder + "manifest.json", "{}\n");
  testing::expect_error([&] { load_checkpoint(run.path(), true); }, {"safetensors", "manifest"});
  run.write(folder + "manifest.json", "{\"../../../secret\": [1, 2]}\n");
  testing::expect_error([&] { load_checkpoint(run.path(), true); }, {"manifest.json", "outside"});
}

TEST(Checkpoint, ADamagedLatestIsAnErrorThatNamesIt) {
  TempFolder run;
  save_checkpoint(run.path(), at_step(12), 2);
  for (const char* text : {"", "step-00000012/../..", "../checkpoints", "something"}) {
    run.write("checkpoints/LATEST", text);
    testing::expect_error([&] { load_checkpoint(run.path(), true); }, {"LATEST"});
  }
  run.write("checkpoints/LATEST", "step-00000013\n");
  testing::expect_error([&] { load_checkpoint(run.path(), true); },
                        {"step-00000013", "there are step-00000012"});
  run.write("checkpoints/LATEST", std::string(5000, 's'));
  testing::expect_error([&] { load_checkpoint(run.path(), true); }, {"LATEST", "too long"});
}

TEST(Checkpoint, WhatIsNotThereIsAnErrorThatNamesIt) {
  TempFolder run;
  testing::expect_error([&] { load_checkpoint(run / "none", true); }, {run / "none"});
  testing::expect_error([&] { load_checkpoint(run.path(), true); }, {run.path(), "LATEST"});
  run.write("file", "x");
  testing::expect_error([&] { save_checkpoint(run / "file", at_step(1), 1); }, {run / "file"});
}

}  // namespace
}  // namespace reprise::train
