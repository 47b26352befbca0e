#include "reprise/train/optimizer_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"
#include "reprise/io/folder.h"
#include "reprise/io/safetensors.h"
#include "reprise/nn/optim/optimizer.h"
#include "reprise/nn/optim/state_range.h"
#include "reprise/train/option_error.h"

namespace reprise::train {
namespace {

using optim::ElementRange;

constexpr std::string_view suffix = ".safetensors", first_of = "optimizer-00001-of-";

// From 1 on, as the files of published weights are numbered.
std::string file_of(int rank, int ranks) {
  return ranks == 1 ? fmt::format("optimizer{}", suffix)
                    : fmt::format("{}{:05}-of-{:05}{}", "optimizer-", rank + 1, ranks, suffix);
}

using Metadata = std::map<std::string, std::string>;

// All but the number of its own, which is another one in each file.
Metadata origin_in(const io::SafetensorsFile& file) {
  Metadata origin = file.metadata();
  origin.erase("part");
  return origin;
}

// Files of two runs may have come into one folder, or one under another's name. Those from before the metadata was written have none.
void check_metadata(const io::SafetensorsFile& file, const io::SafetensorsFile& first, int rank, int ranks) {
  for (const auto& [key, number] : {std::pair{"part", rank + 1}, std::pair{"ranks", ranks}}) {
    const auto found = file.metadata().find(key);
    check(found == file.metadata().end() || found->second == std::to_string(number), file.path(),
          ": its metadata says ", key, ' ', quote(found->second), ", its name says ", number);
  }
  const Metadata own = origin_in(file), others = origin_in(first);
  for (const auto& [key, value] : own) {
    const auto found = others.find(key);
    check(found != others.end() && found->second == value, file.path(), ": its metadata says ", key, ' ',
          quote(value), ", that of ", first.path(), " says ",
          found == others.end() ? "nothing" : quote(found->second));
  }
  check(own.size() == others.size(), file.path(), ": its metadata says less than that of ", first.path());
}

// Elements of a state in one of the files.
struct Part {
  const io::SafetensorsFile* file;
  std::string name;
  ElementRange range;
  DType dtype;
};

// What the files of all ranks hold. A state that is whole in one file is one part.
class States {
 public:
  States(const std::string& folder, int ranks) : folder_(folder) {
    for (int rank = 0; rank < ranks; ++rank) {
      files_.emplace_back(folder + "/" + file_of(rank, ranks));
      if (ranks > 1) check_metadata(files_.back(), files_.front(), rank, ranks);
      take(files_.back());
    }
    for (const auto& [name, parts] : parts_)
      check(shapes_.contains(name), folder, ": optimizer state ", name,
            " has parts, and no file says its shape");
    for (const auto& [name, shape] : shapes_)
      check_whole(name, about(folder + ": optimizer state " + name, [&] { return numel_of(shape); }));
  }

  nn::NamedTensors read(const std::map<std::string, ElementRange>& own) const {
    nn::NamedTensors state;
    for (const auto& [name, shape] : shapes_) {
      const auto wanted = own.find(name);
      if (wanted == own.end()) {
        state.emplace_back(name, read(name, {0, numel_of(shape)}).reshape(shape));
        continue;
      }
      state.emplace_back(optim::range_name({name, wanted->second.begin}), read(name, wanted->second));
      state.emplace_back(optim::shape_name(name),
                         Tensor::from(std::vector<int64_t>(shape.begin(), shape.end()), {shape.size()}));
    }
    return state;
  }

 private:
  void take(const io::SafetensorsFile& file) {
    for (const io::SafetensorInfo& info : file.tensors()) {
      if (const auto range = optim::range_in(info.name)) {
        check(info.shape.size() == 1, file.path(), ": ", info.name, " has the shape ", info.shape,
              "; elements in a row have one size");
        check(range->begin <= INT64_MAX - info.shape[0], file.path(), ": ", info.name, " begins too late");
        parts_[range->state].push_back(
            {&file, info.name, {range->begin, range->begin + info.shape[0]}, info.dtype});
      } else if (const auto state = optim::shaped_state_in(info.name)) {
        check(info.dtype == DType::i64 && info.shape.size() == 1, file.path(), ": ", info.name,
              " is no list of sizes");
        shapes_[*state] = Shape(file.read(info.name).to_vector<int64_t>());
      } else {
        shapes_[info.name] = info.shape;
        parts_[info.name].push_back({&file, info.name, {0, numel_of(info.shape)}, info.dtype});
      }
    }
  }

  void check_whole(const std::string& name, int64_t count) {
    std::vector<Part>& parts = parts_[name];
    check(!parts.empty(), folder_, ": optimizer state ", name, " has a shape, and no elements");
    std::ranges::sort(parts, {},
                      [](const Part& part) { return std::pair(part.range.begin, part.range.end); });
    int64_t end = 0;
    for (const Part& part : parts) {
      check(part.range.count() == 0 || part.range.begin == end, part.file->path(), ": ", part.name,
            " begins after ", end, " elements of that state: some are missing, or there twice");
      check(part.dtype == parts[0].dtype, part.file->path(), ": ", part.name, " is ", part.dtype,
            ", other parts of that state are ", parts[0].dtype);
      end += part.range.count();
    }
    check(end == count, folder_, ": optimizer state ", name, " has ", end, " elements in all files, of ",
          count);
  }

  Tensor read(const std::string& name, const ElementRange& wanted) const {
    const std::vector<Part>& parts = parts_.at(name);
    const Tensor elements = Tensor::empty({wanted.count()}, parts[0].dtype);
    check(wanted.end <= parts.back().range.end, folder_, ": optimizer state ", name, " has ",
          parts.back().range.end, " elements, wanted those from ", wanted.begin, " to ", wanted.end);
    for (const auto& [file, part, range, dtype] : parts) {
      const int64_t begin = std::max(range.begin, wanted.begin), end = std::min(range.end, wanted.end);
      if (begin < end)
        file->read_range_into(part, begin - range.begin,
                              elements.slice(0, begin - wanted.begin, end - wanted.begin).view());
    }
    return elements;
  }

  std::string folder_;
  std::deque<io::SafetensorsFile> files_;
  std::map<std::string, std::vector<Part>> parts_;
  std::map<std::string, Shape> shapes_;
};

// How many ranks wrote the state, by the file of the first.
int ranks_of(const std::string& folder) {
  if (io::exists(folder + "/" + file_of(0, 1))) return 1;
  int found = 0;
  for (const std::string& name : io::names_in(folder)) {
    if (!name.starts_with(first_of) || !name.ends_with(suffix)) continue;
    const auto ranks = number_in<int>(std::string_view(name).substr(first_of.size(), 5));
    if (!ranks || name != file_of(0, *ranks)) continue;
    check(found == 0, folder, ": holds the optimizer's state of ", found, " and of ", *ranks, " ranks");
    found = *ranks;
  }
  check(found > 0, folder, ": no ", file_of(0, 1), ", nor ", first_of, "N", suffix);
  return found;
}

}  // namespace

std::string write_optimizer(const std::string& folder, const nn::NamedTensors& state, int rank, int ranks,
                            const Metadata& origin) {
  io::NamedViews views;
  for (const auto& [name, tensor] : state)
    if (rank == 0 || optim::range_in(name)) views.emplace_back(name, tensor);
  const std::string name = file_of(rank, ranks);
  Metadata metadata;
  if (ranks > 1) {
    metadata = origin;
    metadata["part"] = std::to_string(rank + 1);
    metadata["ranks"] = std::to_string(ranks);
  }
  io::write_safetensors(folder + "/" + name, views, metadata);
  return name;
}

nn::NamedTensors read_optimizer(const std::string& folder, const nn::NamedTensors& own) {
  std::map<std::string, ElementRange> ranges;
  for (const auto& [name, tensor] : own)
    if (const auto range = optim::range_in(name))
      ranges[range->state] = {range->begin, range->begin + tensor.numel()};
  return States(folder, ranks_of(folder)).read(ranges);
}

Metadata optimizer_origin(const std::string& folder) {
  const int ranks = ranks_of(folder);
  return ranks == 1 ? Metadata() : origin_in(io::SafetensorsFile(folder + "/" + file_of(0, ranks)));
}

}  // namespace reprise::train
