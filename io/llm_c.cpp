#include "reprise/io/llm_c.h"

#include <array>
#include <map>

#include "reprise/core/error.h"
#include "reprise/core/listing.h"
#include "reprise/core/no_compute.h"
#include "reprise/core/quote.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/file.h"

namespace reprise::io {
namespace {

constexpr size_t header_words = 256;
constexpr int64_t padding = 128;  // of the vocabulary
using Words = std::array<int32_t, header_words>;

// What the words of the header are, from the third on.
struct Sizes {
  int64_t context = 0, vocabulary = 0, layers = 0, heads = 0, width = 0, padded = 0;
};

// The kinds in the order of the file: sizes in widths, 0 columns for a vector; then the last norm.
struct Part {
  const char* name;
  int64_t rows, columns;
};
constexpr Part block_parts[] = {
    {"ln_1.weight", 1, 0},      {"ln_1.bias", 1, 0},          {"attn.c_attn.weight", 3, 1},
    {"attn.c_attn.bias", 3, 0}, {"attn.c_proj.weight", 1, 1}, {"attn.c_proj.bias", 1, 0},
    {"ln_2.weight", 1, 0},      {"ln_2.bias", 1, 0},          {"mlp.c_fc.weight", 4, 1},
    {"mlp.c_fc.bias", 4, 0},    {"mlp.c_proj.weight", 1, 4},  {"mlp.c_proj.bias", 1, 0}};
constexpr Part last_parts[] = {{"ln_f.weight", 1, 0}, {"ln_f.bias", 1, 0}};

using NamedShape = std::pair<std::string, Shape>;

Shape shape_of(const Part& part, int64_t width) {
  return part.columns == 0 ? Shape{part.rows * width} : Shape{part.rows * width, part.columns * width};
}

// Every tensor in the order of the file.
std::vector<NamedShape> layout(const Sizes& sizes) {
  std::vector<NamedShape> all = {{"wte.weight", {sizes.vocabulary, sizes.width}},
                                 {"wpe.weight", {sizes.context, sizes.width}}};
  for (const Part& part : block_parts)
    for (int64_t i = 0; i < sizes.layers; ++i)
      all.emplace_back("h." + std::to_string(i) + "." + part.name, shape_of(part, sizes.width));
  for (const Part& part : last_parts) all.emplace_back(part.name, shape_of(part, sizes.width));
  return all;
}

// Elements in the file, in f64: sizes are int32 and may be anything.
double elements(const Sizes& s) {
  const double width = double(s.width), block = 12 * width * width + 13 * width;
  return double(s.padded + s.context + 2) * width + double(s.layers) * block;
}

Sizes sizes_in(const Words& words, const std::string& path) {
  Sizes s{words[2], words[3], words[4], words[5], words[6], words[7]};
  check(s.context > 0 && s.vocabulary > 0 && s.layers > 0 && s.heads > 0 && s.width > 0, "llm.c: ", path,
        ": its header has a context of ", s.context, ", ", s.vocabulary, " tokens, ", s.layers, " layers, ",
        s.heads, " heads, width ", s.width);
  check(s.padded >= s.vocabulary, "llm.c: ", path, ": ", s.vocabulary, " tokens are padded to ", s.padded);
  return s;
}

DType dtype_of(const Words& words, const std::string& path) {
  check(words[0] != llm_c_llama_magic, "llm.c: ", path,
        ": a Llama 3 (20240803): no such model here, there is GPT-2 (20240326)");
  check(words[0] == llm_c_magic, "llm.c: ", path, ": begins with ", words[0], ", not with ", llm_c_magic);
  check(words[1] == 3 || words[1] == 5, "llm.c: ", path, ": version ", words[1], ", not 3 (f32) or 5 (bf16)");
  return words[1] == 3 ? DType::f32 : DType::bf16;
}

}  // namespace

LlmC read_llm_c(const std::string& path) {
  const File file = File::open(path);
  Words words{};
  check(file.size() >= sizeof(words), "llm.c: ", path, ": ", file.size(), " bytes are too few for a header");
  file.read_at(0, words.data(), sizeof(words));
  const DType dtype = dtype_of(words, path);
  const Sizes sizes = sizes_in(words, path);
  const double bytes = double(sizeof(words)) + elements(sizes) * double(size_of(dtype));
  check(bytes == double(file.size()), "llm.c: ", path, ": its header wants ",
        bytes < 1e18 ? std::to_string(uint64_t(bytes)) : "more than 1e18", " bytes, the file has ",
        file.size());
  LlmC model{.heads = sizes.heads};
  uint64_t at = sizeof(words);
  for (const auto& [name, shape] : layout(sizes)) {
    Tensor& tensor = model.tensors.emplace_back(name, Tensor::empty(shape, dtype)).second;
    const size_t count = size_t(tensor.numel()) * size_of(dtype);
    file.read_at(at, tensor.view().data, count);
    at += count;
    if (name == "wte.weight")
      at += uint64_t((sizes.padded - sizes.vocabulary) * sizes.width) * size_of(dtype);
  }
  return model;
}

void write_llm_c(const std::string& path, const LlmC& model) {
  check(!NoCompute::is_on(), "llm.c: ", path, ": within a NoCompute tensors have no values to write");
  std::map<std::string, Tensor> tensors(model.tensors.begin(), model.tensors.end());
  for (const char* name : {"wte.weight", "wpe.weight"})
    check(tensors.contains(name) && tensors[name].rank() == 2, "llm.c: ", path, ": no matrix ", name);
  const Tensor tokens = tensors["wte.weight"];
  Sizes sizes{.context = tensors["wpe.weight"].size(0),
              .vocabulary = tokens.size(0),
              .heads = model.heads,
              .width = tokens.size(1)};
  while (tensors.contains("h." + std::to_string(sizes.layers) + ".ln_1.weight")) ++sizes.layers;
  sizes.padded = (sizes.vocabulary + padding - 1) / padding * padding;
  const DType dtype = tokens.dtype();
  check(dtype == DType::f32 || dtype == DType::bf16, "llm.c: ", path, ": wte.weight is ", dtype,
        ", such files are f32 or bf16");
  const std::vector<NamedShape> order = layout(sizes);
  Listing wrong;
  for (const auto& [name, shape] : order) {
    auto found = tensors.find(name);
    if (found == tensors.end())
      wrong.add("missing: ", name, ' ', shape);
    else if (found->second.shape() != shape || found->second.dtype() != dtype)
      wrong.add(name, " is ", found->second.dtype(), ' ', found->second.shape(), ", wanted ", dtype, ' ',
                shape);
  }
  if (tensors.size() > order.size()) wrong.add(tensors.size() - order.size(), " tensors have no place there");
  check(wrong.empty(), "llm.c: ", path, ": the tensors are not GPT-2's:", wrong.str());

  Words words{llm_c_magic, dtype == DType::f32 ? 3 : 5};
  const int64_t header[] = {sizes.context, sizes.vocabulary, sizes.layers,
                            sizes.heads,   sizes.width,      sizes.padded};
  for (size_t i = 0; i < std::size(header); ++i) words[2 + i] = int32_t(header[i]);
  AtomicFile file(path);
  file.write(words.data(), sizeof(words));
  for (const auto& [name, shape] : order) {
    const TensorView view = tensors.at(name).view();
    check(view.is_contiguous() && view.device.is_cpu(), "llm.c: ", path, ": ", name,
          " is not contiguous on the CPU");
    file.write(view.data, size_t(view.numel()) * size_of(dtype));
    if (name == "wte.weight")
      file.write(std::string(size_t((sizes.padded - sizes.vocabulary) * sizes.width) * size_of(dtype), '\0'));
  }
  file.commit();
}

}  // namespace reprise::io
