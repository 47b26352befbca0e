// Vit against timm's VisionTransformer: from the same weights and batch the same logits, gradients and trained
// weights; and the same names and shapes. tools/parity_vision.py made the golden files.
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "reprise/autograd/engine.h"
#include "reprise/io/safetensors.h"
#include "reprise/nn/models/vit.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/nn/parity.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/golden.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::nn {
namespace {

using testing::golden_path;
using testing::relative_distance;
using testing::test_device;

// What we promise. PyTorch's own f32 is up to 1.8e-6 from its f64 here.
constexpr double tolerance = 1e-5, f64_tolerance = 1e-11;
constexpr double rope_tolerance =
    1e-6;  // in f64: timm's tables of sines are of f32's sine, ours are rounded to f32
constexpr int64_t width = 8;

struct Case {
  std::string name;  // of its tensors in the golden file
  VitOptions options;
};

std::vector<Case> cases() {
  VitOptions token{.image = 8, .patch = 4, .classes = 5, .width = width, .layers = 2, .heads = 2};
  VitOptions avg = token, registers = token, deit3 = token;
  avg.pool = registers.pool = Pool::avg;
  avg.class_token = registers.qkv_bias = false;
  registers.registers = 3;
  deit3.no_embed_class = true;
  deit3.layer_scale = 0.5;
  VitOptions vit5 = deit3;
  vit5.registers = 3;
  vit5.qkv_bias = false;
  vit5.norm = NormKind::rms;
  vit5.qk_norm = vit5.rope = true;
  return {{"token", token}, {"avg", avg}, {"registers", registers}, {"deit3", deit3}, {"vit5", vit5}};
}

// A model with timm's weights, and its batch.
struct Parity {
  io::SafetensorsFile golden{golden_path("vision_parity.safetensors")};
  std::string name;
  DType dtype;
  Vit model;
  Tensor images, targets;

  Parity(const Case& of, DType type) : name(of.name), dtype(type), model(of.options, test_device()) {
    SCOPED_TRACE(name);
    NamedTensors state;
    for (const auto& [key, parameter] : model.state_dict()) state.emplace_back(key, read(key));
    model.load_state_dict(state);
    model.to(dtype);
    images = golden.read("images").to(dtype).to(test_device());
    targets = golden.read("targets").to(test_device());
  }
  Tensor read(const std::string& key) { return golden.read(name + "/" + key); }

  Tensor backward() {
    Tensor logits = model(images);
    cross_entropy(logits, targets).backward();
    return logits.detach();
  }
  void expect_close(const std::string& key, const Tensor& got) {
    const bool exact = dtype == DType::f64;
    std::vector<double> want = read(exact ? "f64/" + key : key).to_vector<double>();
    const double limit = !exact ? tolerance : model.options().rope ? rope_tolerance : f64_tolerance;
    EXPECT_LE(relative_distance(got.detach().to_vector<double>(), want), limit) << name << ' ' << key;
  }
};

TEST(VitParity, LogitsAndGradientsAreThoseOfTimm) {
  for (DType dtype : {DType::f32, DType::f64})
    for (const Case& of : cases()) {
      Parity parity(of, dtype);
      parity.expect_close("logits", parity.backward());
      for (const auto& [key, parameter] : parity.model.named_parameters())
        parity.expect_close("grad/" + key, parameter.grad());
    }
}

TEST(VitParity, RecomputeLeadsToThemToo) {
  for (Case& of : cases()) {
    of.options.recompute = parse_strategy("full");
    Parity parity(of, DType::f32);
    parity.expect_close("logits", parity.backward());
    for (const auto& [key, parameter] : parity.model.named_parameters())
      parity.expect_close("grad/" + key, parameter.grad());
  }
}

// A key's bias shifts all scores of a query alike, so its gradient is 0 but for rounding, which AdamW scales up
// to whole steps: noise on both sides, and not compared.
TEST(VitParity, TenAdamWStepsLeadToTimmsWeights) {
  for (const Case& of : cases()) {
    Parity parity(of, DType::f32);
    optim::AdamW optimizer(optim::decay_matrices(parity.model, 1e-3, 0.1), {.beta2 = 0.95});
    for (int step = 0; step < 10; ++step) {
      parity.backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    for (const auto& [key, parameter] : parity.model.named_parameters()) {
      std::vector<double> got = parameter.detach().to_vector<double>();
      std::vector<double> want = parity.read("after/" + key).to_vector<double>();
      if (key.ends_with("qkv.bias"))
        for (auto* values : {&got, &want})
          values->erase(values->begin() + width, values->begin() + 2 * width);  // the key's
      EXPECT_LE(relative_distance(got, want), tolerance) << of.name << ' ' << key;
    }
  }
}

// A state dict as timm's models write it.
struct TimmModel {
  int64_t layers = 0, parameters = 0;
  std::vector<std::pair<std::string, Shape>> state;  // of the blocks the first alone
};

std::map<std::string, TimmModel> timm_models() {
  std::map<std::string, TimmModel> models;
  TimmModel* model = nullptr;
  std::ifstream file(golden_path("timm_names.txt"));
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name == "model") {
      words >> name;
      model = &models[name];
      words >> model->layers >> model->parameters;
    } else if (name != "#") {
      std::vector<int64_t> shape;
      for (int64_t size = 0; words >> size;) shape.push_back(size);
      model->state.emplace_back(name, Shape(shape));
    }
  }
  return models;
}

// The model with one block: all are alike, and a large one takes seconds to make.
void expect_loads(const TimmModel& timm, VitOptions options) {
  EXPECT_EQ(options.layers, timm.layers);
  options.layers = 1;
  std::vector<std::pair<std::string, Shape>> state;
  int64_t count = 0;
  for (const auto& [name, tensor] : Vit(options).state_dict()) {
    state.emplace_back(name, tensor.shape());
    count += tensor.numel() * (name.starts_with("blocks.") ? timm.layers : 1);
  }
  EXPECT_EQ(state, timm.state);
  EXPECT_EQ(count, timm.parameters);
}

TEST(StateDict, LoadsInTimm) {
  std::map<std::string, TimmModel> timm = timm_models();
  ASSERT_EQ(timm.size(), 6u);
  for (const char* name : {"tiny", "small", "base", "large"}) {
    SCOPED_TRACE(name);
    expect_loads(timm.at(name), vit_preset(name));
  }
  VitOptions deit3 = vit_preset("small"), registers = deit3;
  deit3.no_embed_class = true;
  deit3.layer_scale = 1e-6;
  expect_loads(timm.at("deit3_small"), deit3);
  registers.registers = 4;
  registers.pool = Pool::avg;
  expect_loads(timm.at("registers"), registers);
}

}  // namespace
}  // namespace reprise::nn
