// safetensors: every tensor of a file that opens can be read, written and read again to the same bits.
#include "reprise/io/safetensors.h"

#include <cstring>

#include "reprise/tests/fuzz/fuzz.h"

using namespace reprise;

namespace {

bool same_bytes(const Tensor& a, const Tensor& b) {
  size_t bytes = size_t(a.numel()) * size_of(a.dtype());
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (bytes == 0 || std::memcmp(a.view().data, b.view().data, bytes) == 0);
}

void write_and_read_again(const std::string& path) {
  io::SafetensorsFile file(path);
  std::vector<Tensor> tensors;
  io::NamedViews views;
  for (const io::SafetensorInfo& info : file.tensors()) {
    tensors.push_back(file.read(info.name));
    views.emplace_back(info.name, tensors.back().view());
  }
  std::string copy = fuzz::folder() + "/copy";
  io::write_safetensors(copy, views, file.metadata());
  io::SafetensorsFile again(copy);
  fuzz::require(again.metadata() == file.metadata(), "the metadata changed");
  fuzz::require(again.tensors().size() == tensors.size(), "tensors were lost");
  for (size_t i = 0; i < views.size(); ++i)
    fuzz::require(same_bytes(again.read(views[i].first), tensors[i]), "a tensor changed");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  std::string path = fuzz::write("x.safetensors", fuzz::text_of(data, bytes));
  bool is_whole = fuzz::reads(bytes, [&] {
    io::SafetensorsFile file(path);
    for (const io::SafetensorInfo& info : file.tensors()) file.read(info.name);
  });
  if (is_whole) write_and_read_again(path);
  return 0;
}
