// The kernel as torch's operators: tensors in and out, and autograd. Schemas and shapes are op.py's.
//
// In C++ because a call through Python costs more than a small attention.
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "problem.h"

namespace dwindle {
namespace {

using at::Tensor;
using Given = std::optional<Tensor>;
using Numbers = at::ArrayRef<double>;
using Six = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

Type type_of(const Tensor& x) {
  switch (x.scalar_type()) {
    case at::kFloat: return Type::float32;
    case at::kDouble: return Type::float64;
    case at::kBFloat16: return Type::bfloat16;
    case at::kHalf: return Type::float16;
    default: TORCH_CHECK(false, "the CPU kernel has no code for ", x.scalar_type());
  }
}

// Of coverage, bias and log-sum-exp.
at::TensorOptions state(const Tensor& query) {
  return query.options().dtype(query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

// The kernel wants the last dimension dense; the others may lie anyhow.
Tensor dense_rows(const Tensor& x) { return x.stride(-1) == 1 || x.size(-1) == 1 ? x : x.contiguous(); }

void set_strides(const Tensor& x, Index* to) { std::copy_n(x.strides().data(), 3, to); }

// Strides of a tensor as it is repeated: 0 along dimensions of size 1.
void set_repeated(const Tensor& x, Index* to) {
  for (Index i = 0; i < x.dim(); ++i) to[i] = x.size(i) == 1 ? 0 : x.stride(i);
}

void* pointer(const Tensor& x) { return x.defined() && x.numel() ? x.data_ptr() : nullptr; }

Curve curve(bool used, double s, double p, const double* terms) { return {!used ? NONE : p ? POWER : LOG, s, p, terms}; }

constexpr int RULE = 8;  // numbers of a rule before its polynomials: op.py

// Which places are special: dense along positions and rows.
struct Places {
  Given is_protected, source, felt;
  Places(const Given& is_protected, const Given& source, const Given& felt)
      : is_protected(is_protected), source(dense(source)), felt(dense(felt)) {}
  static Given dense(const Given& x) { return x ? Given(x->contiguous()) : x; }
};

// What both passes share. It holds pointers only: the caller keeps the tensors.
Problem problem(const Tensor& query, const Tensor& key, const Tensor& value, const Given& bias, const Given& mask,
                const Places& places, const Given& seed, Numbers rule, double scale, double softcap, double dropout,
                Index blocks) {
  TORCH_CHECK(rule.size() == RULE + 2 * TERMS, "a rule is ", RULE + 2 * TERMS, " numbers, not ", rule.size());
  TORCH_CHECK(blocks > 0, "there is at least one block of rows, not ", blocks);
  Problem p{};
  p.type = type_of(query);
  p.B = query.size(0), p.H = query.size(1), p.Hk = key.size(1);
  p.T = query.size(2), p.S = key.size(2), p.D = key.size(3), p.Dv = value.size(3);
  p.rows = (p.T + blocks - 1) / blocks, p.threads = at::get_num_threads();
  p.q = query.data_ptr(), p.k = key.data_ptr(), p.v = value.data_ptr();
  set_strides(query, p.q_stride), set_strides(key, p.k_stride), set_strides(value, p.v_stride);
  if (bias) p.bias = bias->data_ptr(), set_repeated(*bias, p.bias_stride);
  if (mask) p.mask = (const std::uint8_t*)mask->data_ptr(), set_repeated(*mask, p.mask_stride);
  p.P = places.source ? places.source->size(1) : p.S;
  auto bytes = [](const Given& x) { return x ? (const std::uint8_t*)x->data_ptr() : nullptr; };
  p.is_protected = bytes(places.is_protected), p.source = bytes(places.source), p.felt = bytes(places.felt);
  if (p.is_protected) set_repeated(*places.is_protected, p.protected_stride);
  if (p.source) p.source_stride = places.source->size(0) == 1 ? 0 : p.P;
  if (p.felt) p.felt_stride = places.felt->size(0) == 1 ? 0 : p.T;
  p.scale = scale, p.softcap = softcap, p.dropout = dropout;
  p.seed = seed ? *seed->data_ptr<Index>() : 0;
  p.mode = Mode(int(rule[0])), p.detach_gate = rule[5] != 0;
  p.renormalise = rule[6] != 0 && p.mode != PLAIN, p.share_heads = rule[7] != 0;
  p.least_mass = std::sqrt(p.type == Type::float64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min());
  p.g1 = curve(p.mode != PLAIN, rule[1], rule[2], rule.data() + RULE);
  p.g2 = curve(p.mode == DYDIM, rule[3], rule[4], rule.data() + RULE + TERMS);
  return p;
}

// Without the dispatcher, which takes as long as a small product.
Tensor empty(at::IntArrayRef shape, const at::TensorOptions& options) { return at::detail::empty_cpu(shape, options); }

Tensor copied_or_zero(const Given& x, at::IntArrayRef shape, const at::TensorOptions& options) {
  const Tensor copy = empty(shape, options);
  if (x) copy.copy_(*x);
  else std::memset(copy.data_ptr(), 0, copy.nbytes());
  return copy;
}

Six attention(const Tensor& query_, const Tensor& key_, const Tensor& value_, const Given& bias, const Given& mask,
              const Given& is_protected, const Given& source, const Given& felt, const Given& total, const Given& peak,
              const Given& seed, Numbers rule, double scale, double softcap, double dropout, Index blocks, bool save) {
  const Tensor query = dense_rows(query_), key = dense_rows(key_), value = dense_rows(value_);
  const Places places(is_protected, source, felt);
  Problem p = problem(query, key, value, bias, mask, places, seed, rule, scale, softcap, dropout, blocks);
  const at::TensorOptions options = state(query);
  const Tensor out = empty({p.B, p.H, p.T, p.Dv}, query.options());
  const Tensor after = copied_or_zero(total, {p.B, p.coverages(), p.P}, options);
  const Tensor top = copied_or_zero(peak, {p.B, p.coverages(), p.P}, options);
  Tensor norms, totals, peaks;
  if (save) {
    norms = empty({p.B, p.H, p.T, p.norm_size()}, options);
    totals = empty({p.B, p.coverages(), blocks - 1, p.P}, options);
    peaks = empty({p.B, p.coverages(), blocks - 1, p.P}, options);
  } else {
    norms = empty({0}, options), totals = empty({0}, options), peaks = empty({0}, options);
  }
  p.out = out.data_ptr(), p.total = after.data_ptr(), p.peak = top.data_ptr();
  p.norms = pointer(norms), p.totals = pointer(totals), p.peaks = pointer(peaks);
  forward(p);
  return {out, after, top, norms, totals, peaks};
}

Tensor attention_step(const Tensor& query_, const Tensor& key_, const Tensor& value_, const Given& bias,
                      const Given& mask, const Given& is_protected, const Given& source, const Given& felt,
                      Tensor& total, Tensor& peak, const Given& seed, Numbers rule, double scale, double softcap,
                      double dropout, Index blocks) {
  const Tensor query = dense_rows(query_), key = dense_rows(key_), value = dense_rows(value_);
  const Places places(is_protected, source, felt);
  Problem p = problem(query, key, value, bias, mask, places, seed, rule, scale, softcap, dropout, blocks);
  const Tensor out = empty({p.B, p.H, p.T, p.Dv}, query.options());
  p.out = out.data_ptr(), p.total = total.data_ptr(), p.peak = peak.data_ptr();
  forward(p);
  for (Tensor* x : {&total, &peak}) x->unsafeGetTensorImpl()->bump_version();  // autograd may have kept them
  return out;
}

Six attention_backward(const Tensor& grad_, const Given& grad_total, const Given& grad_peak, const Tensor& query_,
                       const Tensor& key_, const Tensor& value_, const Given& bias, const Given& mask,
                       const Given& is_protected, const Given& source, const Given& felt, const Given& total,
                       const Given& peak, const Given& seed, const Given& context, const Tensor& norms,
                       const Tensor& totals, const Tensor& peaks, Numbers rule, double scale, double softcap,
                       double dropout, bool bias_too, bool coverage_too) {
  const Tensor query = dense_rows(query_), key = dense_rows(key_), value = dense_rows(value_), grad = dense_rows(grad_);
  const Places places(is_protected, source, felt);
  Problem p = problem(query, key, value, bias, mask, places, seed, rule, scale, softcap, dropout, totals.size(2) + 1);
  TORCH_CHECK(context || !p.renormalise, "the gradient of renormalised rows needs their context");
  if (context) p.out = context->data_ptr();
  p.dout = grad.data_ptr(), set_strides(grad, p.dout_stride);
  const Tensor before = total ? total->contiguous() : Tensor(), top = peak ? peak->contiguous() : Tensor();
  p.total = pointer(before), p.peak = pointer(top), p.norms = norms.data_ptr();
  p.totals = pointer(totals), p.peaks = pointer(peaks);
  const at::TensorOptions options = state(query);
  const Tensor dq = empty(query.sizes(), query.options());
  const Tensor dk = empty(key.sizes(), query.options()), dv = empty(value.sizes(), query.options());
  p.dq = dq.data_ptr(), p.dk = dk.data_ptr(), p.dv = dv.data_ptr();
  Tensor dbias, dtotal, dpeak;
  if (bias_too) {
    dbias = copied_or_zero(std::nullopt, bias->sizes(), options);
    p.dbias = dbias.data_ptr(), set_repeated(dbias, p.dbias_stride);
  } else {
    dbias = empty({0}, options);
  }
  if (coverage_too) {
    dtotal = copied_or_zero(grad_total, {p.B, p.coverages(), p.P}, options);
    dpeak = copied_or_zero(grad_peak, {p.B, p.coverages(), p.P}, options);
    p.dtotal = dtotal.data_ptr(), p.dpeak = dpeak.data_ptr();
  } else {
    dtotal = empty({0}, options), dpeak = empty({0}, options);
  }
  backward(p);
  return {dq, dk, dv, dbias, dtotal, dpeak};
}

// Autograd. The operators are called through the dispatcher, so that compilers can record them; sizes may be symbolic.
using Attention = Six(const Tensor&, const Tensor&, const Tensor&, const Given&, const Given&, const Given&,
                      const Given&, const Given&, const Given&, const Given&, const Given&, Numbers, double, double,
                      double, c10::SymInt, bool);
const auto& below_autograd() {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("dwindle::attention", "").typed<Attention>();
  return op;
}

bool wants_gradient(const Given& x) { return x && x->requires_grad(); }

struct Differentiable : torch::autograd::Function<Differentiable> {
  using Context = torch::autograd::AutogradContext;
  using List = torch::autograd::variable_list;

  static List forward(Context* ctx, const Tensor& query, const Tensor& key, const Tensor& value, const Given& bias,
                      const Given& mask, const Given& is_protected, const Given& source, const Given& felt,
                      const Given& total, const Given& peak, const Given& seed, Numbers rule, double scale,
                      double softcap, double dropout, c10::SymInt blocks) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [out, after, top, norms, totals, peaks] = below_autograd().call(
        query, key, value, bias, mask, is_protected, source, felt, total, peak, seed, rule, scale, softcap, dropout,
        std::move(blocks), true);
    auto or_none = [](const Given& x) { return x ? *x : Tensor(); };
    const bool renormalise = rule[6] != 0;
    ctx->save_for_backward({query, key, value, or_none(bias), or_none(mask), or_none(is_protected), or_none(source),
                            or_none(felt), or_none(total), or_none(peak), or_none(seed), renormalise ? out : Tensor(),
                            norms, totals, peaks});
    ctx->saved_data["rule"] = rule.vec();
    ctx->saved_data["settings"] = std::vector<double>{scale, softcap, dropout};
    ctx->saved_data["wants"] = std::vector<int64_t>{wants_gradient(bias), wants_gradient(total) || wants_gradient(peak)};
    ctx->mark_non_differentiable({norms, totals, peaks});
    ctx->set_materialize_grads(false);
    return {out, after, top, norms, totals, peaks};
  }

  static List backward(Context* ctx, List grads) {
    const List saved = ctx->get_saved_variables();
    const auto given = [&](int i) { return saved[i].defined() ? Given(saved[i]) : std::nullopt; };
    const auto later = [&](int i) { return grads[i].defined() ? Given(grads[i]) : std::nullopt; };
    const std::vector<double> rule = ctx->saved_data["rule"].toDoubleVector();
    const std::vector<double> settings = ctx->saved_data["settings"].toDoubleVector();
    const std::vector<int64_t> wants = ctx->saved_data["wants"].toIntVector();
    const bool through = wants[1] || grads[1].defined() || grads[2].defined();
    Tensor grad = grads[0];
    if (!grad.defined()) {  // only the coverage was used
      at::SymDimVector shape(saved[0].sym_sizes());
      shape[3] = saved[2].sym_size(3);
      grad = saved[0].new_zeros_symint(shape);
    }
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("dwindle::attention_backward", "")
                               .typed<decltype(attention_backward)>();
    auto [dq, dk, dv, dbias, dtotal, dpeak] = op.call(
        grad, later(1), later(2), saved[0], saved[1], saved[2], given(3), given(4), given(5), given(6), given(7),
        given(8), given(9), given(10), given(11), saved[12], saved[13], saved[14], rule, settings[0], settings[1],
        settings[2], wants[0], through);
    const Tensor none;
    return {dq, dk, dv, wants[0] ? dbias : none, none, none, none, none, wants[1] ? dtotal : none,
            wants[1] ? dpeak : none, none, none, none, none, none, none};
  }
};

Six differentiable(const Tensor& query, const Tensor& key, const Tensor& value, const Given& bias, const Given& mask,
                   const Given& is_protected, const Given& source, const Given& felt, const Given& total,
                   const Given& peak, const Given& seed, Numbers rule, double scale, double softcap, double dropout,
                   c10::SymInt blocks, bool save) {
  const bool record = at::GradMode::is_enabled() &&
                      (query.requires_grad() || key.requires_grad() || value.requires_grad() || wants_gradient(bias) ||
                       wants_gradient(total) || wants_gradient(peak));
  TORCH_CHECK(save || !record, "dwindle::attention gives gradients with save=True only");
  if (!record) {
    at::AutoDispatchBelowADInplaceOrView below;
    return below_autograd().call(query, key, value, bias, mask, is_protected, source, felt, total, peak, seed, rule,
                                 scale, softcap, dropout, std::move(blocks), save);
  }
  auto all = Differentiable::apply(query, key, value, bias, mask, is_protected, source, felt, total, peak, seed, rule,
                                   scale, softcap, dropout, std::move(blocks));
  return {all[0], all[1], all[2], all[3], all[4], all[5]};
}

}  // namespace

TORCH_LIBRARY_IMPL(dwindle, CPU, m) {
  m.impl("attention", attention);
  m.impl("attention_step", attention_step);
  m.impl("attention_backward", attention_backward);
}

TORCH_LIBRARY_IMPL(dwindle, Autograd, m) {
  m.impl("attention", differentiable);
  m.impl("attention_step", torch::autograd::autogradNotImplementedFallback());
  m.impl("attention_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace dwindle
