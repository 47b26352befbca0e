// Groups of parameters: what decays, what is frozen, and the rates of timm's layer decay.
#include "reprise/nn/optim/groups.h"

#include <cmath>
#include <map>

#include "reprise/nn/models/gpt.h"
#include "reprise/nn/models/vit.h"
#include "reprise/tests/nn/optim/parameters.h"

namespace reprise::optim {
namespace {

using testing::expect_error;

nn::VitOptions small_vit() {
  return {.image = 8,
          .patch = 4,
          .classes = 5,
          .width = 8,
          .layers = 3,
          .heads = 2,
          .registers = 2,
          .layer_scale = 0.1};
}

// The group of each parameter by its name.
std::map<std::string, ParameterGroup> by_name(const nn::Module& module,
                                              const std::vector<ParameterGroup>& groups) {
  std::map<std::string, ParameterGroup> found;
  for (const auto& [name, parameter] : module.named_parameters())
    for (const ParameterGroup& group : groups)
      for (const Tensor& member : group.parameters)
        if (member.is_same(parameter) && !found.emplace(name, group).second)
          ADD_FAILURE() << name << " is in two groups";
  return found;
}

bool is_matrix(const std::string& name) {
  return name.ends_with(".weight") && name.find("norm") == std::string::npos;
}

TEST(DecayMatrices, DecaysTablesAndMatricesOnly) {
  nn::Gpt model({.vocab_size = 7, .context = 3, .layers = 2, .heads = 1, .width = 2});
  std::vector<ParameterGroup> groups = decay_matrices(model, 0.1, 0.5);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].weight_decay, 0.5);
  EXPECT_EQ(groups[1].weight_decay, 0);
  EXPECT_EQ(groups[0].lr, 0.1);
  EXPECT_EQ(groups[1].lr, 0.1);
  EXPECT_EQ(groups[0].parameters.size(), 2 + 2 * 4u);
  EXPECT_EQ(groups[1].parameters.size(), 2 + 2 * 8u);
  for (const Tensor& matrix : groups[0].parameters) EXPECT_EQ(matrix.rank(), 2);
  for (const Tensor& vector : groups[1].parameters) EXPECT_EQ(vector.rank(), 1);
}

TEST(DecayMatrices, SparesWhatTheModuleNames) {
  nn::Vit model(small_vit());
  EXPECT_EQ(model.no_weight_decay(), (std::vector<std::string>{"cls_token", "reg_token", "pos_embed"}));
  auto groups = by_name(model, decay_matrices(model, 0.1, 0.5));
  EXPECT_EQ(groups.size(), model.named_parameters().size());
  for (const auto& [name, group] : groups) EXPECT_EQ(group.weight_decay, is_matrix(name) ? 0.5 : 0) << name;
}

TEST(DecayMatrices, LeavesOutWhatIsFrozen) {
  nn::Vit model(small_vit());
  model.patch_embed.freeze();
  auto groups = by_name(model, decay_matrices(model, 0.1, 0.5));
  EXPECT_FALSE(groups.contains("patch_embed.proj.weight"));
  EXPECT_TRUE(groups.contains("cls_token"));
  EXPECT_EQ(groups.size() + 2, model.named_parameters().size());
}

std::vector<ParameterGroup> layer_groups(const nn::Vit& model) {
  return layer_decay(model, [&](const std::string& name) { return model.layer_of(name); },
                     {.lr = 0.1, .weight_decay = 0.05, .decay = 0.75});
}

// What timm 1.0.31's param_groups_layer_decay gives for three layers.
TEST(LayerDecay, IsTimms) {
  for (nn::Pool pool : {nn::Pool::token, nn::Pool::avg}) {
    nn::VitOptions options = small_vit();
    options.pool = pool;
    nn::Vit model(options);
    auto groups = by_name(model, layer_groups(model));
    EXPECT_EQ(groups.size(), model.named_parameters().size());
    for (const auto& [name, group] : groups) {
      double want = 0.31640625;  // tokens, positions, stem
      if (name.starts_with("blocks.0.")) want = 0.421875;
      if (name.starts_with("blocks.1.")) want = 0.5625;
      if (name.starts_with("blocks.2.") || name.starts_with("norm.")) want = 0.75;
      if (name.starts_with("head.") || name.starts_with("fc_norm.")) want = 1;
      EXPECT_NEAR(group.lr_scale, want, 1e-15) << name;
      EXPECT_EQ(group.lr, 0.1) << name;
      EXPECT_EQ(group.weight_decay, is_matrix(name) ? 0.05 : 0) << name;
    }
  }
}

TEST(LayerDecay, KeepsItsRatesWhereLayersAreFrozen) {
  nn::Vit model(small_vit());
  model.patch_embed.freeze();
  model.head->freeze();
  auto groups = by_name(model, layer_groups(model));
  EXPECT_FALSE(groups.contains("head.weight"));
  EXPECT_NEAR(groups.at("blocks.2.norm1.weight").lr_scale, 0.75, 1e-15);
  EXPECT_NEAR(groups.at("cls_token").lr_scale, 0.31640625, 1e-15);
}

TEST(LayerDecay, RefusesWhatIsNoDecay) {
  nn::Vit model(small_vit());
  for (double bad : {0.0, 1.1, double(NAN)})
    expect_error([&] { layer_decay(model, [](const std::string&) { return 0; }, {.decay = bad}); },
                 {"layer_decay", "(0, 1]"});
  for (const char* name :
       {"strange.weight", "blocks.x.weight", "blocks.99.norm1.weight", "blocks.-1.norm1.weight"})
    expect_error([&] { model.layer_of(name); }, {"Vit: layer_of: no parameter", name});
}

}  // namespace
}  // namespace reprise::optim
