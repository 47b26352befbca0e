// reprise-vit pack.
#include "reprise/data/datasets/pack.h"

#include <filesystem>

#include "reprise/apps/common/images.h"
#include "reprise/apps/vit/options.h"
#include "reprise/core/bytes.h"
#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/train/interrupt.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"

namespace reprise::apps::vit {
namespace {

namespace fs = std::filesystem;

// A folder that gets its name once all is in it; if that does not come about, nothing of it stays.
class UnfinishedFolder {
 public:
  explicit UnfinishedFolder(std::string path) : path_(std::move(path)) {
    while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
    for (const std::string& taken : {path_, unfinished()})
      check(!io::exists_or_links(taken), "--out ", path_, ": ", taken, " is there already");
    io::make_folders_durable(unfinished());
  }
  ~UnfinishedFolder() {
    std::error_code ignored;
    fs::remove_all(unfinished(), ignored);
  }
  UnfinishedFolder(const UnfinishedFolder&) = delete;

  std::string add(const std::string& name) const {
    std::string folder = unfinished() + "/" + name;
    io::make_folders_durable(folder);
    return folder;
  }
  void finish() const {
    std::error_code error;
    fs::rename(unfinished(), path_, error);
    check(!error, "--out ", path_, ": ", error.message());
    io::sync_folder(fs::absolute(path_).parent_path());
  }

 private:
  std::string unfinished() const { return path_ + ".unfinished"; }
  std::string path_;
};

}  // namespace

int run_pack(const PackCommand& c) {
  train::InterruptScope interrupts(train::InterruptScope::Begin::undoing);
  const ImageData images = open_images(c.data);
  data::PackOptions options = c.pack;
  options.apply_exif = c.exif == "apply";
  options.skip_bad = c.bad_images == "skip";
  const UnfinishedFolder out(c.out);
  try {
    for (auto [name, part] : {std::pair<const char*, const data::Dataset*>{"train", images.train.get()},
                              {"val", images.validation.get()},
                              {"test", images.test.get()}}) {
      if (!part) continue;
      const data::Packed packed =
          data::pack(*part, out.add(name), options, [](int64_t) { train::stop_if_interrupted(); });
      train::print("{}/{}: {} images in {} shard{}, {}\n", train::for_output(c.out), name, packed.images,
                   packed.shards, packed.shards == 1 ? "" : "s", format_bytes(packed.bytes));
      for (const std::string& reason : packed.bad_images)
        train::warn("left out: {}\n", train::for_output(reason));
    }
  } catch (const train::Interrupted&) { return train::interrupted_exit_code; }
  out.finish();
  return 0;
}

}  // namespace reprise::apps::vit
