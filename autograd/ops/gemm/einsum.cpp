// Note [A pair of operands]
// The letters of a pair are of four kinds: of both and kept (batch), of both and not needed any more (summed), of the left
// one and of the right one alone. So the pair is (batch, left, summed) x (batch, summed, right), one batched product.
#include "reprise/autograd/ops/gemm/einsum.h"

#include <algorithm>
#include <string>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"

namespace reprise {
namespace {

constexpr auto op = "einsum";

// Dimensions of "..." are characters behind those of ASCII, the last one the highest.
constexpr int last_of_dots = 255;
using Letters = std::basic_string<unsigned char>;

std::string name_of(unsigned char letter) {
  return letter < 128 ? std::string(1, char(letter))
                      : detail::join("dimension ", letter - last_of_dots - 1, " of \"...\"");
}

bool has(const Letters& letters, unsigned char letter) { return letters.find(letter) != Letters::npos; }

// A tensor whose dimension i is letters[i].
struct Operand {
  Tensor x;
  Letters letters;

  int64_t size(unsigned char letter) const { return x.size(int64_t(letters.find(letter))); }
};

// "...ij" for `dots` dimensions.
Letters letters_of(std::string_view equation, std::string_view part, int dots) {
  Letters letters;
  for (size_t i = 0; i < part.size(); ++i) {
    const char c = part[i];
    if (c == ' ') continue;
    if (part.substr(i, 3) == "...") {
      check(!std::ranges::any_of(letters, [](auto l) { return l >= 128; }) &&
                part.find("...", i + 3) == part.npos,
            op, ": two \"...\" in one operand of \"", equation, "\"");
      for (int d = dots; d > 0; --d) letters.push_back(static_cast<unsigned char>(last_of_dots + 1 - d));
      i += 2;
      continue;
    }
    check((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), op, ": '", c, "' in \"", equation,
          "\" is neither a letter nor a part of \"...\" or \"->\"");
    letters.push_back(static_cast<unsigned char>(c));
  }
  return letters;
}

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; true;) {
    const size_t comma = text.find(',', begin);
    parts.push_back(text.substr(begin, comma - begin));
    if (comma == text.npos) return parts;
    begin = comma + 1;
  }
}

// How many dimensions "..." stands for in an operand.
int dots_of(std::string_view part, const Tensor& x) {
  if (part.find("...") == part.npos) return 0;
  const auto letters = std::ranges::count_if(part, [](char c) { return c != ' ' && c != '.'; });
  return std::max(0, x.rank() - int(letters));
}

// With each letter once: those that come again take a diagonal. What is beside it is left out, whatever its value.
Operand with_diagonals(Operand operand) {
  for (size_t i = 0; i < operand.letters.size(); ++i) {
    const unsigned char letter = operand.letters[i];
    for (size_t j; (j = operand.letters.find(letter, i + 1)) != Letters::npos;) {
      const int64_t n = operand.x.size(int64_t(i)), m = operand.x.size(int64_t(j));
      check(n == m, op, ": '", name_of(letter), "' is ", n, " and ", m, " in one operand of shape ",
            operand.x.shape());
      const Tensor last = movedim(movedim(operand.x, int64_t(i), -1), int64_t(j) - 1, -1);  // (..., n, n)
      const Tensor apart =
          where(eye(n, n, DType::boolean, last.device()), last, scalar(0, last.dtype(), last.device()));
      operand.x = movedim(sum(apart, {-1}).to(last.dtype()), -1, int64_t(i));
      operand.letters.erase(j, 1);
    }
  }
  return operand;
}

// Without the letters for which `goes` holds.
template <class Goes>
Operand summed(Operand operand, const Goes& goes) {
  Dims dims;
  Letters left;
  for (size_t i = 0; i < operand.letters.size(); ++i)
    if (goes(operand.letters[i]))
      dims.push_back(int64_t(i));
    else
      left.push_back(operand.letters[i]);
  if (!dims.empty()) operand.x = sum(operand.x, dims).to(operand.x.dtype());
  operand.letters = left;
  return operand;
}

// In the order of `letters`, which are all that it has.
Tensor arranged(const Operand& operand, const Letters& letters) {
  Dims order;
  for (unsigned char letter : letters) order.push_back(int64_t(operand.letters.find(letter)));
  return permute(operand.x, order);
}

int64_t size_of_both(const Operand& a, const Operand& b, unsigned char letter) {
  return a.size(letter) == 1 ? b.size(letter) : a.size(letter);
}

// Letters of the left alone, of both and kept, of both and summed.
Operand product(const Operand& a, const Operand& b, const Letters& needed) {
  for (const Tensor& x : {a.x, b.x}) autograd::check_floating(op, x);
  Letters batch, left, middle, right;
  Shape of_batch, of_left, of_middle, of_right;
  for (unsigned char letter : a.letters) {
    if (!has(b.letters, letter)) {
      left.push_back(letter), of_left.push_back(a.size(letter));
    } else if (has(needed, letter)) {
      batch.push_back(letter), of_batch.push_back(size_of_both(a, b, letter));
    } else {
      middle.push_back(letter), of_middle.push_back(size_of_both(a, b, letter));
    }
  }
  for (unsigned char letter : b.letters)
    if (!has(a.letters, letter)) right.push_back(letter), of_right.push_back(b.size(letter));
  auto joined = [](Shape shape, const Shape& more, const Shape& last) {
    for (int64_t size : more) shape.push_back(size);
    for (int64_t size : last) shape.push_back(size);
    return shape;
  };
  const int64_t batches = numel_of(of_batch), rows = numel_of(of_left), inner = numel_of(of_middle),
                columns = numel_of(of_right);
  const Tensor of_a = expand(arranged(a, batch + left + middle), joined(of_batch, of_left, of_middle)),
               of_b = expand(arranged(b, batch + middle + right), joined(of_batch, of_middle, of_right));
  const Tensor y = matmul(reshape(of_a, {batches, rows, inner}), reshape(of_b, {batches, inner, columns}));
  return {reshape(y, joined(of_batch, of_left, of_right)), batch + left + right};
}

// Those of "..." and then the letters that come once in `all`.
Letters implied_result(const Letters& all) {
  Letters result;
  for (int letter = 128; letter <= last_of_dots; ++letter)
    if (has(all, static_cast<unsigned char>(letter))) result.push_back(static_cast<unsigned char>(letter));
  for (unsigned char letter = 0; letter < 128; ++letter)
    if (std::ranges::count(all, letter) == 1) result.push_back(letter);
  return result;
}

// A size of 1 broadcasts in "..." alone.
void check_sizes(const std::vector<Operand>& operands) {
  int64_t sizes[256] = {};
  bool known[256] = {};
  for (const Operand& operand : operands)
    for (unsigned char letter : operand.letters) {
      const int64_t size = operand.size(letter);
      int64_t& common = sizes[letter];
      const bool broadcasts = letter >= 128 && (size == 1 || common == 1);
      check(!known[letter] || common == size || broadcasts, op, ": '", name_of(letter), "' is ", common,
            " and ", size);
      if (!known[letter] || common == 1) common = size;
      known[letter] = true;
    }
}

// After the arrow; `all` letters of the operands.
Letters given_result(std::string_view equation, std::string_view part, int dots, const Letters& all) {
  const Letters result = letters_of(equation, part, dots);
  for (size_t i = 0; i < result.size(); ++i) {
    check(has(all, result[i]), op, ": '", name_of(result[i]), "' of the result is in no operand of \"",
          equation, "\"");
    check(result.find(result[i], i + 1) == Letters::npos, op, ": '", name_of(result[i]),
          "' comes twice in the result of \"", equation, "\"");
  }
  return result;
}

}  // namespace

Tensor einsum(std::string_view equation, const TensorList& given) {
  const size_t arrow = equation.find("->");
  const auto parts = split_at_commas(equation.substr(0, arrow));
  check(parts.size() == given.size(), op, ": \"", equation, "\" has ", parts.size(), " operands, got ",
        given.size());
  std::vector<Operand> operands;
  Letters all;
  int dots = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    autograd::check_given(op, given[i]);
    const int of_this = dots_of(parts[i], given[i]);
    const Letters letters = letters_of(equation, parts[i], of_this);
    check(int(letters.size()) == given[i].rank(), op, ": \"", parts[i], "\" does not fit operand ", i,
          " of shape ", given[i].shape());
    operands.push_back(with_diagonals({given[i], letters}));
    all += letters;
    dots = std::max(dots, of_this);
  }
  check_sizes(operands);
  const Letters result = arrow == equation.npos
                             ? implied_result(all)
                             : given_result(equation, equation.substr(arrow + 2), dots, all);

  Operand y = operands[0];
  for (size_t i = 0; i < operands.size(); ++i) {
    Letters needed = result;  // by what comes after
    for (size_t j = i + 1; j < operands.size(); ++j) needed += operands[j].letters;
    auto is_no_more_in = [&](const Letters& other) {
      return [&](unsigned char letter) { return !has(needed, letter) && !has(other, letter); };
    };
    if (i == 0) {
      y = summed(y, is_no_more_in({}));
      continue;
    }
    const Operand next = summed(operands[i], is_no_more_in(y.letters));
    y = product(summed(y, is_no_more_in(next.letters)), next, needed);
  }
  return arranged(y, result);
}

}  // namespace reprise
